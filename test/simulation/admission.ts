/** Simulates how much a key is over- and under-admitted, by consistency and number of isolates. */
import { type Random, randomFrom } from "../random.ts";
import { mostIn } from "./admitted.ts";
import { policyWith } from "./schedule.ts";
import { SimulatedIsolate, SimulatedObject, startMs, World } from "./world.ts";

export const shape = {
  limit: 1_000,
  windowMs: 10_000,
  windows: 6,
  /** Three times the limit. */
  requestsPerSecond: 300,
  /** The longest delay of one direction. */
  maximumDelayMs: 40,
} as const;

export interface Measurement {
  readonly consistency: string;
  readonly isolates: number;
  /** The excess of the fullest window over the limit, as a share of the limit. */
  readonly over: number;
  /** The share of the admissible units that was not admitted. */
  readonly under: number;
  /** Calls of the object per 1,000 requests. */
  readonly calls: number;
}

export async function measure(consistency: string, count: number, seed = 1): Promise<Measurement> {
  const { limit, windowMs, windows, requestsPerSecond, maximumDelayMs } = shape;
  const world = new World();
  const random = randomFrom(seed);
  const object = new SimulatedObject(world, randomFrom(seed + 1), {
    maximumDelayMs,
    lost: 0,
    unanswered: 0,
  });
  const limits = { limit, window: `${windowMs}ms`, strategy: "sliding-log" };
  const policy = policyWith({ limits, consistency });
  const isolates = Array.from(
    { length: count },
    (_, index) => new SimulatedIsolate(world, object, policy, index, 0),
  );
  const untilMs = startMs + windows * windowMs;
  let requests = 0;
  const next = (): void => {
    requests++;
    void isolates[Math.floor(random() * count)]?.request(1);
    const atMs = world.nowMs + waitMs(random, requestsPerSecond);
    if (atMs < untilMs) world.at(atMs, next);
  };
  world.at(startMs, next);
  await world.runUntil(untilMs);
  const admitted = [object, ...isolates]
    .flatMap((each) => each.admitted)
    .toSorted((a, b) => a.atMs - b.atMs);
  const units = admitted.reduce((sum, each) => sum + each.units, 0);
  return {
    consistency,
    isolates: count,
    over: Math.max(0, mostIn(windowMs, admitted) / limit - 1),
    under: Math.max(0, 1 - units / (limit * windows)),
    calls: (1_000 * object.calls) / requests,
  };
}

/** The random time until the next request, in whole milliseconds; often 0. */
const waitMs = (random: Random, perSecond: number): number =>
  Math.floor((-Math.log(1 - random()) * 1_000) / perSecond + random());

export const admissionHeader = [
  "`consistency`",
  "isolates",
  "over-admitted, in the worst window",
  "under-admitted, over all",
  "calls for 1,000 requests",
];

const percent = (share: number): string => `${(100 * share).toFixed(1)} %`;

export const admissionRow = ({
  consistency,
  isolates,
  over,
  under,
  calls,
}: Measurement): string[] => [
  `\`"${consistency}"\``,
  String(isolates),
  percent(over),
  percent(under),
  String(Math.round(calls)),
];

export async function measureAdmission(): Promise<Measurement[]> {
  const all: Measurement[] = [];
  for (const consistency of ["strict", "leased", "eventual"]) {
    for (const isolates of [1, 10, 100]) {
      // oxlint-disable-next-line no-await-in-loop
      all.push(await measure(consistency, isolates));
    }
  }
  return all;
}
