/**
 * `npm run bench -- cost`: prints the cost of a million decisions on Cloudflare for each shape of traffic, the cost of
 * the control plane, the prices, and the cost of other limiters. Every run prints the same. `--write` writes these
 * tables and a plot into the pages.
 */
import { beatsTable, measureBeats } from "./control-plane/beats-cost.ts";
import { busyKeyDollars, costDocs, costPage } from "./cost-page.ts";
import { measureCosts } from "./cost-replay.ts";
import { costTable, priceTable } from "./cost-table.ts";
import { writeGenerated } from "./generated.ts";
import { measurePeerCosts, peerCostTable } from "./peers/costs.ts";
import { comparisonPage } from "./peers/page.ts";
import { readOptions, writeOption } from "./options.ts";

const { write } = readOptions("cost", { write: writeOption(`${costPage} and ${comparisonPage}`) });

const costs = await measureCosts();
const beats = await measureBeats();
const peers = await measurePeerCosts();
if (write) writeGenerated(costDocs(costs, beats, peers));
else {
  const tables = [
    costTable(costs),
    beatsTable(beats, busyKeyDollars(costs)),
    priceTable(),
    peerCostTable(costs, peers),
  ];
  console.log(tables.join("\n\n"));
}
