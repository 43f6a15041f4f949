/**
 * Simulates by how much the admissions of a key exceed or fall short of its limit, by consistency and number of
 * isolates.
 */
import { type Random, randomFrom } from "../random.ts";
import { whole } from "../tools/table.ts";
import { mostIn } from "./admitted.ts";
import { policyWith } from "./schedule.ts";
import { SimulatedIsolate, SimulatedObject, startMs, World } from "./world.ts";

/** The traffic and the network that all settings have in common. */
export const shape = {
  /** The traffic of each setting: three times what its limit allows. */
  requestsPerSecond: 300,
  /** The longest delay of a message in one direction. */
  maximumDelayMs: 40,
} as const;

export interface AdmissionSetting {
  readonly consistency: "strict" | "leased" | "eventual";
  readonly syncEvery?: string;
  readonly limit: number;
  readonly windowMs: number;
  /** The length of the run, in windows. */
  readonly windows: number;
  /** The numbers of isolates that share the traffic evenly. */
  readonly isolateCounts: readonly number[];
}

const tenSeconds = { limit: 1_000, windowMs: 10_000, windows: 4 } as const;
const minute = { limit: 6_000, windowMs: 60_000, windows: 2 } as const;
const eventual = { consistency: "eventual", syncEvery: "1s" } as const;

const admissionSettings: readonly AdmissionSetting[] = [
  { consistency: "strict", ...tenSeconds, isolateCounts: [1, 10, 100] },
  { consistency: "leased", ...tenSeconds, isolateCounts: [1, 10, 100] },
  { ...eventual, ...tenSeconds, isolateCounts: [1, 10, 100, 1_000] },
  { ...eventual, syncEvery: "100ms", ...tenSeconds, isolateCounts: [10] },
  { ...eventual, ...minute, isolateCounts: [10] },
];

export interface Measurement {
  readonly setting: AdmissionSetting;
  readonly isolates: number;
  /** The excess of the fullest window over the limit, as a share of the limit. */
  readonly over: number;
  /** The share of the units that the limit allows but that were not admitted. */
  readonly under: number;
  /** Calls to the object per 1,000 requests. */
  readonly calls: number;
}

export async function measure(setting: AdmissionSetting, count: number, seed = 1): Promise<Measurement> {
  const { consistency, syncEvery, limit, windowMs, windows } = setting;
  const { requestsPerSecond, maximumDelayMs } = shape;
  const world = new World();
  const random = randomFrom(seed);
  const object = new SimulatedObject(world, randomFrom(seed + 1), {
    maximumDelayMs,
    lost: 0,
    unanswered: 0,
  });
  const limits = { limit, window: `${windowMs}ms`, strategy: "sliding-log" };
  const policy = policyWith({
    limits,
    consistency,
    ...(syncEvery !== undefined && { syncEvery }),
  });
  const isolates = Array.from({ length: count }, (_, index) => new SimulatedIsolate(world, object, policy, index, 0));
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
  const admitted = [object, ...isolates].flatMap((each) => each.admitted).toSorted((a, b) => a.atMs - b.atMs);
  const units = admitted.reduce((sum, each) => sum + each.units, 0);
  return {
    setting,
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
  "`syncEvery`",
  "limit",
  "isolates",
  "over-admitted",
  "under-admitted",
  "calls",
];

export const percentText = (share: number): string => `${(100 * share).toFixed(1)} %`;

export const limitText = ({ limit, windowMs }: AdmissionSetting): string => `${whole(limit)} per ${windowMs / 1_000} s`;

export const admissionRow = ({ setting, isolates, over, under, calls }: Measurement): string[] => [
  `\`"${setting.consistency}"\``,
  setting.syncEvery === undefined ? "" : `\`"${setting.syncEvery}"\``,
  limitText(setting),
  whole(isolates),
  percentText(over),
  percentText(under),
  whole(calls),
];

export async function measureAdmission(): Promise<Measurement[]> {
  const all: Measurement[] = [];
  for (const setting of admissionSettings) {
    for (const isolates of setting.isolateCounts) {
      // oxlint-disable-next-line no-await-in-loop
      all.push(await measure(setting, isolates));
    }
  }
  return all;
}
