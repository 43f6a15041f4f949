/** How much more or less than its limit a key is let have, by who decides and in how many isolates: simulated. */
import { type Random, randomFrom } from "../random.ts";
import { mostIn } from "./admitted.ts";
import { policyWith } from "./schedule.ts";
import { Isolate, ObjectOf, startMs, World } from "./world.ts";

export const shape = {
  limit: 1_000,
  windowMs: 10_000,
  windows: 6,
  /** Three times what the limit lets in. */
  requestsPerSecond: 300,
  /** One way. */
  mostDelayMs: 40,
} as const;

export interface Measured {
  readonly consistency: string;
  readonly isolates: number;
  /** The most in any window, and all of it, each as a share of what is right, less 1. */
  readonly over: number;
  readonly under: number;
  /** Calls of the object for each thousand requests. */
  readonly calls: number;
}

export async function measured(consistency: string, count: number, seed = 1): Promise<Measured> {
  const { limit, windowMs, windows, requestsPerSecond, mostDelayMs } = shape;
  const world = new World();
  const random = randomFrom(seed);
  const object = new ObjectOf(world, randomFrom(seed + 1), { mostDelayMs, lost: 0, unanswered: 0 });
  const limits = { limit, window: `${windowMs}ms`, strategy: "sliding-log" };
  const policy = policyWith({ limits, consistency });
  const isolates = Array.from(
    { length: count },
    (_, index) => new Isolate(world, object, policy, index, 0),
  );
  const untilMs = startMs + windows * windowMs;
  let requests = 0;
  const next = (): void => {
    requests++;
    void isolates[Math.floor(random() * count)]?.ask(1);
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

/** Of requests that come at random: whole milliseconds, some of them none. */
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

export const admissionRow = ({ consistency, isolates, over, under, calls }: Measured): string[] => [
  `\`"${consistency}"\``,
  String(isolates),
  percent(over),
  percent(under),
  String(Math.round(calls)),
];

export async function measureAdmission(): Promise<Measured[]> {
  const all: Measured[] = [];
  for (const consistency of ["strict", "leased", "eventual"]) {
    for (const isolates of [1, 10, 100]) {
      // oxlint-disable-next-line no-await-in-loop
      all.push(await measured(consistency, isolates));
    }
  }
  return all;
}
