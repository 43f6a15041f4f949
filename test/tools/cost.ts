/**
 * `npm run bench -- cost`: prints the cost of a million decisions on Cloudflare for each shape of traffic, and the prices.
 * Every run prints the same. `--write` writes both and a plot into the page.
 */
import { costDocs, costPage } from "./cost-page.ts";
import { measureCosts } from "./cost-replay.ts";
import { costTable, priceTable } from "./cost-table.ts";
import { writeGenerated } from "./generated.ts";
import { readOptions, writeOption } from "./options.ts";

const { write } = readOptions("cost", { write: writeOption(costPage) });

const costs = await measureCosts();
if (write) writeGenerated(costDocs(costs));
else console.log(`${costTable(costs)}\n\n${priceTable()}`);
