/**
 * `npm run bench -- cost`: prints the cost of a million decisions on Cloudflare for each shape of traffic. Every run
 * prints the same.
 */
import { costHeader, costRow } from "./cost-table.ts";
import { measureCosts } from "./cost-replay.ts";
import { readOptions } from "./options.ts";
import { prices, readIn } from "./prices.ts";
import { markdownTable, rough, whole } from "./table.ts";

readOptions("cost", {});

const costs = await measureCosts();

const priceRows = Object.values(prices).map(({ unit, dollars, per, included, source }) => [
  unit,
  `$${rough(dollars)} per ${whole(per)}`,
  included,
  source,
]);

console.log(`For a million decisions, extrapolated from ${costs.map(({ bill }) => whole(bill.decisions)).join(", ")}.

objects add: the cost of the objects alone: rows, calls, alarms, and seconds of active objects
with the Worker: the same, and a request and 1 ms of CPU for each decision

${markdownTable(costHeader, costs.map(costRow))}

Assumptions: each call keeps its object active for 1 ms. A key put, a key deleted and an alarm set are a row each; deleteAll
is none, as far as Cloudflare's documentation says. In shards the rows of keys are deleted one by one. The storage of idle
keys is left out: a few minutes of some kilobytes.

Prices beyond the quantities included each month, as published in ${readIn}:

${markdownTable(["for", "price", "included per month", "source"], priceRows)}`);
