/**
 * `npm run bench -- start-up`: measures the processor time that workerd needs to evaluate Headgate's bundle, to read
 * its configuration and to answer the first request. Headgate and an empty Worker start in turns, each in a new
 * process. Prints the medians of the rounds. Options: --rounds <number>.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { exitWithError } from "../../src/cli/command.ts";
import { spreadOf } from "./http/statistics.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { bundle } from "./workerd-process.ts";
import { startWorkerd } from "./workerd.ts";

const values = readOptions("start-up", {
  rounds: {
    type: "string",
    value: "number",
    default: "9",
    about: "Rounds. The median is printed.",
  },
});
const rounds = positiveInteger("rounds", values.rounds, 1000);

const empty = `import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
export class RateLimiter extends DurableObject {}
export class Headgate extends WorkerEntrypoint {}
export default { fetch: () => new Response() };
`;

const folder = mkdtempSync(join(tmpdir(), "headgate-start-up-"));
try {
  const bundles = { empty: join(folder, "empty"), headgate: join(folder, "headgate") };
  mkdirSync(bundles.empty);
  writeFileSync(join(bundles.empty, "index.js"), empty);
  bundle(bundles.headgate);
  const empties: number[] = [];
  const added: number[] = [];
  for (let round = 0; round < rounds; round++) {
    // Runs them one after the other, so that each has the machine to itself.
    // oxlint-disable no-await-in-loop
    const emptyMs = await startMs(bundles.empty);
    empties.push(emptyMs);
    added.push((await startMs(bundles.headgate)) - emptyMs);
    // oxlint-enable no-await-in-loop
  }
  const text = (ms: readonly number[]): string =>
    `${spreadOf(ms).median.toFixed(1)} ms (${Math.min(...ms).toFixed(1)} – ${Math.max(...ms).toFixed(1)})`;
  console.log(`processor time until the first request is answered, median of ${rounds} rounds (least – most)
workerd with an empty Worker  ${text(empties)}
added by Headgate             ${text(added)}   (limit of the platform: 1,000 ms)`);
} finally {
  rmSync(folder, { recursive: true });
}

/** The processor time of a new process until it has answered its first request. */
async function startMs(bundledIn: string): Promise<number> {
  const run = mkdtempSync(join(folder, "run-"));
  const workerd = await startWorkerd(run, { LIMITS: "100/minute" }, { bundledIn });
  try {
    return workerd.cpuMs() ?? exitWithError("expected a system with /proc, as Linux has");
  } finally {
    await workerd.close();
  }
}
