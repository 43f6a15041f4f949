/**
 * `npm run bench -- disconnects`: measures how long clients wait while other clients disconnect in the middle of their
 * requests, with joined calls and with separate calls. Both take turns in one workerd process, in an alternating order.
 * Objects are 4 ms away. Exits with 1 when a request was answered without a decision of its objects. Options: --rounds
 * <number>, --disconnects <number> in each turn.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Calls, flood, startFlooded } from "./disconnects/flood.ts";
import { pairedRatio, quantile, spreadOf } from "./http/statistics.ts";
import { positiveInteger, readOptions } from "./options.ts";
import type { Workerd } from "./workerd.ts";

const values = readOptions("disconnects", {
  rounds: { type: "string", value: "number", default: "5", about: "Rounds. Medians are printed." },
  disconnects: {
    type: "string",
    value: "number",
    default: "5000",
    about: "Disconnects of a turn.",
  },
});
const rounds = positiveInteger("rounds", values.rounds, 1_000);
const disconnects = positiveInteger("disconnects", values.disconnects);

const namedWaits = ["p50", "p99", "max"] as const;

interface Turn extends Readonly<Record<(typeof namedWaits)[number], number>> {
  readonly requests: number;
}

const turns: Readonly<Record<Calls, Turn[]>> = { joined: [], separate: [] };

const folder = mkdtempSync(join(tmpdir(), "headgate-disconnects-"));
try {
  const workerd = await startFlooded(folder);
  try {
    // The first requests compile the code, and are not measured.
    for (const calls of ["joined", "separate"] as const) {
      // oxlint-disable-next-line no-await-in-loop
      await flood(workerd, { calls, name: `${calls}-warm`, disconnects: 100, seed: 0 });
    }
    for (let round = 0; round < rounds; round++) {
      // oxlint-disable-next-line no-await-in-loop
      await playRound(workerd, round);
    }
  } finally {
    await workerd.close();
  }
} finally {
  rmSync(folder, { recursive: true });
}
for (const calls of ["joined", "separate"] as const) report(calls);
reportRatios();

async function playRound(workerd: Workerd, round: number): Promise<void> {
  const order = ["joined", "separate"] as const;
  for (const calls of round % 2 === 0 ? order : order.toReversed()) {
    const settings = { calls, name: `${calls}-${round}`, disconnects, seed: round };
    // oxlint-disable-next-line no-await-in-loop
    const { statuses, waitsMs } = await flood(workerd, settings);
    const undecided = statuses.filter((status) => status !== 200 && status !== 429).length;
    if (undecided > 0) {
      console.log(`${calls}: ${undecided} requests without a decision of their objects`);
      process.exitCode = 1;
    }
    turns[calls].push({
      requests: waitsMs.length,
      p50: quantile(waitsMs, 0.5),
      p99: quantile(waitsMs, 0.99),
      max: Math.max(...waitsMs),
    });
  }
}

function report(calls: Calls): void {
  const all = turns[calls];
  const waits = namedWaits.map((name) => {
    const { median, lower, upper } = spreadOf(all.map((turn) => turn[name]));
    return `${name} ${median.toFixed(0)} ms (${lower.toFixed(0)} to ${upper.toFixed(0)})`;
  });
  const requests = all.reduce((sum, turn) => sum + turn.requests, 0);
  console.log(`${calls.padEnd(8)}  ${requests} requests in ${rounds} turns: ${waits.join(", ")}`);
}

/** Compares turns that follow each other. */
function reportRatios(): void {
  const ratios = namedWaits.map((name) => {
    const pairs = turns.joined.map((turn, round) => [turn[name], turns.separate[round]?.[name] ?? Number.NaN] as const);
    const { median, lower, upper } = pairedRatio(pairs);
    return `${name} ${median.toFixed(2)} (${lower.toFixed(2)} to ${upper.toFixed(2)})`;
  });
  console.log(`joined ÷ separate: ${ratios.join(", ")}`);
}
