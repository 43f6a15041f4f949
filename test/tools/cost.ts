/**
 * `npm run cost`: prints the cost of a million decisions on Cloudflare for each shape of traffic. Every run prints the
 * same.
 */
import { parseCommandLine } from "../../src/local/command.ts";
import { costHeader, costRow } from "./cost-table.ts";
import { measureCosts } from "./cost-replay.ts";
import { prices, readIn } from "./prices.ts";
import { markdownTable, rough, whole } from "./table.ts";

parseCommandLine({});

const costs = await measureCosts();

const priceRows = Object.values(prices).map(({ unit, dollars, per, included, source }) => [
  unit,
  `$${rough(dollars)} per ${whole(per)}`,
  included,
  source,
]);

console.log(`For a million decisions, extrapolated from ${costs.map(({ bill }) => whole(bill.decisions)).join(", ")}.

objects add: what the limiter costs beside a Worker that is there anyway: rows, calls, alarms, and seconds of active objects
with the Worker: a request and 1 ms of CPU for each decision as well

${markdownTable(costHeader, costs.map(costRow))}

Assumed: each call keeps its object active for 1 ms. A key put, a key deleted and an alarm set are a row each; deleteAll is
none, as far as Cloudflare's documentation says. In shards every key's row is deleted by itself. Storage of idle keys is
left out: a few minutes of some kilobytes.

Prices past what a month includes, read ${readIn}:

${markdownTable(["for", "price", "included per month", "source"], priceRows)}`);
