/**
 * `npm run bench -- replay`: replays a million arrivals of 10,000 keys under 27 sets of limits. Prints the medians of
 * several rounds, once with keys skipped that cannot be denied and once without skipping. Exits with 1 when the median
 * of the processor time is more than 10 s. A replay uses one core, and other programs on the machine hardly change this
 * figure. Options: --rounds <number>.
 */
import { replay, replayAll } from "../../src/advisor/replay/replay.ts";
import { type Timelines, TimelinesBuilder } from "../../src/advisor/replay/timelines.ts";
import { type Limit, parseLimits } from "../../src/strategies/index.ts";
import { randomFrom } from "../random.ts";
import { positiveInteger, readOptions } from "./options.ts";
import { markdownTable, percent, whole } from "./table.ts";

const values = readOptions("replay", {
  rounds: {
    type: "string",
    value: "number",
    default: "5",
    about: "Rounds. The median is printed.",
  },
});
const rounds = positiveInteger("rounds", values.rounds, 100);

const arrivals = 1_000_000;
const keys = 10_000;
const startMs = Date.UTC(2026, 0, 1);
const dayMs = 86_400_000;
const mostMs = 10_000;

/** For each window: every strategy that needs no durations, with limits that deny from few to most requests. */
const windows = [
  { window: "second", few: 1, many: 4 },
  { window: "minute", few: 2, many: 20 },
  { window: "hour", few: 10, many: 300 },
] as const;

const limitSets: readonly (readonly Limit[])[] = windows.flatMap(({ window, few, many }) => [
  parseLimits(`${few}/${window}`, { strategy: "fixed-window" }),
  parseLimits(`${many}/${window}`, { strategy: "fixed-window" }),
  parseLimits(`${few}/${window}`, { strategy: "sliding-log" }),
  parseLimits(`${many}/${window}`, { strategy: "sliding-log" }),
  parseLimits(`${few}/${window}`),
  parseLimits(`${many}/${window}; 1000/day`),
  parseLimits({ limit: few, window: `1 ${window}`, strategy: "token-bucket", burst: many }),
  parseLimits(`${few}/${window}`, { strategy: "sliding-buckets" }),
  parseLimits(`${few}/${window}; 50/day`, { strategy: "leaky-bucket" }),
]);

interface Round {
  readonly wallMs: number;
  readonly cpuMs: number;
  readonly longestStepMs: number;
}

/**
 * Key n sends 1/n as many requests as the first key, at random instants of a day. Half of the arrivals are in bursts.
 */
function zipfTimelines(): Timelines {
  const random = randomFrom(1);
  const builder = new TimelinesBuilder();
  const total = Math.log(keys + 1);
  while (builder.arrivals < arrivals) {
    const key = `key ${Math.floor(Math.exp(random() * total))}`;
    let atMs = startMs + Math.floor(random() * dayMs);
    const burst = random() < 0.8 ? 1 : 5;
    for (let count = 0; count < burst && builder.arrivals < arrivals; count++) {
      builder.add(key, { atMs, cost: 1, outcome: "unknown" });
      atMs += Math.floor(random() * 300);
    }
  }
  const source = { fromMs: startMs, toMs: startMs + dayMs, oneKeyIn: 1, requests: arrivals };
  return builder.finish({ ...source, lostArrivals: 0, otherLimitsArrivals: 0 });
}

function measureRound(timelines: Timelines, decidesEveryKey: boolean): Round {
  // A copy, so that no results of the previous round are cached.
  const steps = replay({ ...timelines }, limitSets, { decidesEveryKey });
  const [startedAtMs, startedCpu] = [performance.now(), process.cpuUsage()];
  let [stepAtMs, longestStepMs] = [startedAtMs, 0];
  for (;;) {
    const { done } = steps.next();
    const nowMs = performance.now();
    longestStepMs = Math.max(longestStepMs, nowMs - stepAtMs);
    stepAtMs = nowMs;
    if (done === true) break;
  }
  const { user, system } = process.cpuUsage(startedCpu);
  return { wallMs: stepAtMs - startedAtMs, cpuMs: (user + system) / 1_000, longestStepMs };
}

const medianOf = (list: readonly Round[], figure: keyof Round): number =>
  list.map((round) => round[figure]).toSorted((a, b) => a - b)[list.length >> 1] ?? Number.NaN;

const timelines = zipfTimelines();
const variants = [
  ["skipped when they cannot be denied", false],
  ["all decided", true],
] as const;
const measured = variants.map(() => [] as Round[]);
for (let round = 0; round < rounds; round++) {
  for (const [index, [, decidesEveryKey]] of variants.entries()) {
    measured[index]?.push(measureRound(timelines, decidesEveryKey));
  }
}
const decisions = arrivals * limitSets.length;
const shares = replayAll(timelines, limitSets).map(({ denied }) => percent(denied, arrivals));
console.log(
  `${whole(arrivals)} arrivals of ${whole(timelines.keys.length)} keys under ${limitSets.length} sets of limits`,
);
console.log(`denied, in percent: ${shares.join(", ")}\n`);
console.log(
  markdownTable(
    ["keys", "seconds", "seconds of processor time", "ns per arrival and set", "longest step, ms"],
    variants.map(([title], index) => {
      const list = measured[index] ?? [];
      return [
        title,
        (medianOf(list, "wallMs") / 1_000).toFixed(1),
        (medianOf(list, "cpuMs") / 1_000).toFixed(1),
        whole((medianOf(list, "cpuMs") * 1e6) / decisions),
        whole(medianOf(list, "longestStepMs")),
      ];
    }),
  ),
);
if (medianOf(measured[0] ?? [], "cpuMs") > mostMs) {
  console.error(`the replay took more than ${mostMs / 1_000} s of processor time`);
  process.exitCode = 1;
}
