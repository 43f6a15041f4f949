/**
 * `npm run bench -- scale`: prints the tables of the page about capacity, which are the same in every run. `--write`
 * writes them into the page. With --rate, --keys or --isolates, prints a table for the given traffic instead.
 */
import { writeGenerated } from "./generated.ts";
import { positiveInteger, readOptions, writeOption } from "./options.ts";
import { ownTable, scaleDocs, scalePage, scaleTables } from "./scale-page.ts";
import { replays } from "./scale-replay.ts";
import { isolatesFor } from "./scale-traffic.ts";
import { markdownTable, whole } from "./table.ts";

const { write, ...traffic } = readOptions("scale", {
  rate: { type: "string", value: "number", about: "Requests per second. (default: 1000)" },
  keys: { type: "string", value: "number", about: "Keys, by Zipf's law. (default: 1000000)" },
  isolates: {
    type: "string",
    value: "number",
    about: "Isolates. (default: one per 1000 requests per second, at least 100)",
  },
  write: writeOption(scalePage),
});

if (Object.keys(traffic).length > 0) {
  const rate = positiveInteger("rate", traffic.rate ?? "1000");
  const keys = positiveInteger("keys", traffic.keys ?? "1000000");
  const isolates = positiveInteger("isolates", traffic.isolates ?? String(isolatesFor(rate)));
  const { header, rows } = ownTable(rate, keys, isolates);
  console.log(`${whole(rate)} requests per second, ${whole(keys)} keys by Zipf's law, ${whole(isolates)} isolates; for a million decisions:

${markdownTable(header, rows)}

† more than the 1,000 calls per second that one object can take`);
} else {
  const replayed = await replays();
  if (write) writeGenerated(scaleDocs(replayed));
  else console.log(scaleTables(replayed).join("\n\n"));
}
