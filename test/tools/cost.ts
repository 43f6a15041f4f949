/**
 * `npm run bench -- cost`: prints the cost of a million decisions on Cloudflare for each shape of traffic, what the
 * control plane adds, and the prices.
 * Every run prints the same. `--write` writes both and a plot into the page.
 */
import { beatsTable, measureBeats } from "./control-plane/beats-cost.ts";
import { busyKeyDollars, costDocs, costPage } from "./cost-page.ts";
import { measureCosts } from "./cost-replay.ts";
import { costTable, priceTable } from "./cost-table.ts";
import { writeGenerated } from "./generated.ts";
import { readOptions, writeOption } from "./options.ts";

const { write } = readOptions("cost", { write: writeOption(costPage) });

const costs = await measureCosts();
const beats = await measureBeats();
if (write) writeGenerated(costDocs(costs, beats));
else {
  const tables = [costTable(costs), beatsTable(beats, busyKeyDollars(costs)), priceTable()];
  console.log(tables.join("\n\n"));
}
