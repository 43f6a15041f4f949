/**
 * `npm run bench -- accuracy`: compares every strategy, and other rate limiters, with an exact sliding log. Only the
 * decisions per second differ between runs. With `--write`, updates the pages instead.
 */
import { createMeter } from "../../src/strategies/index.ts";
import { accuracyDocs, accuracyPage } from "./accuracy-docs.ts";
import { accuracyHeader, accuracyRow, kindsHeader, kindsRow } from "./accuracy-table.ts";
import { type Form, limitsOf } from "./forms.ts";
import { writeGenerated } from "./generated.ts";
import { readOptions, writeOption } from "./options.ts";
import { exactnessTable, measurePeers } from "./peers/exactness.ts";
import { comparisonPage } from "./peers/page.ts";
import { measureAccuracy, shape } from "./accuracy-replay.ts";
import { markdownTable, rough, whole } from "./table.ts";
import { kinds } from "./traffic.ts";

const values = readOptions("accuracy", {
  write: writeOption(`${accuracyPage} and ${comparisonPage}`),
});

const traffic = Object.values(kinds).map((arrivalsOf) => arrivalsOf(shape));

const measured = measureAccuracy();
const peers = await measurePeers(measured);
if (values.write) writeGenerated(accuracyDocs(measured, peers));
else print();

function print(): void {
  const rows = measured.map((accuracy) => [...accuracyRow(accuracy), rough(decisionsPerSecond(accuracy.form))]);
  console.log(`${whole(shape.requests)} requests of each kind of traffic, against a limit of ${shape.limit} per ${shape.windowMs / 1_000} s.

The decisions are compared with those of a sliding log that receives the same requests.
over: allowed, although the log denied it; the log counts only what it has allowed itself
under: denied, although the log allowed it
most in a window: the most that one key was allowed in any span as long as the window, relative to the limit

${markdownTable([...accuracyHeader, "decisions/s"], rows)}

${markdownTable(kindsHeader, measured.map(kindsRow))}

${exactnessTable(peers)}`);
}

/** Runs all traffic twice and measures the second run, for which the code is already compiled. */
function decisionsPerSecond(form: Form): number {
  decideAll(form);
  const startedAtMs = performance.now();
  const decisions = decideAll(form);
  return (1_000 * decisions) / (performance.now() - startedAtMs);
}

function decideAll(form: Form): number {
  const limits = limitsOf(form, shape.limit, shape.windowMs);
  let decisions = 0;
  for (const instants of traffic.flat()) {
    const meter = createMeter(limits);
    for (const atMs of instants) meter.consume(1, atMs);
    decisions += instants.length;
  }
  return decisions;
}
