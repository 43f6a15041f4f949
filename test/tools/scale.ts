/**
 * `npm run bench -- scale`: updates the tables of `scale.md`. With --rate, prints the table for that traffic instead.
 * Options: --rate <requests a second>, --keys <number>, --isolates <number>.
 */
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { positiveInteger, readOptions } from "./options.ts";
import { ownTable, pagePath, pageWith, tables } from "./scale-page.ts";
import { replays } from "./scale-replay.ts";
import { isolatesFor } from "./scale-traffic.ts";
import { markdownTable } from "./table.ts";

const values = readOptions("scale", {
  rate: { type: "string" },
  keys: { type: "string" },
  isolates: { type: "string" },
});

if (Object.keys(values).length === 0) {
  writeFileSync(pagePath, pageWith(readFileSync(pagePath, "utf8"), tables(await replays())));
  execFileSync("oxfmt", [pagePath]);
} else {
  const rate = positiveInteger("rate", values.rate ?? "1000");
  const keys = positiveInteger("keys", values.keys ?? "1000000");
  const isolates = positiveInteger("isolates", values.isolates ?? String(isolatesFor(rate)));
  const { header, rows } = ownTable(rate, keys, isolates);
  console.log(`${rate} requests a second, ${keys} keys by Zipf's law, ${isolates} isolates; for a million decisions:

${markdownTable(header, rows)}`);
}
