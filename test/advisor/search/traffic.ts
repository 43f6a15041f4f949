/** Synthetic traffic with known distributions. */
import { type Timelines, TimelinesBuilder, type TimelinesSource } from "../../../src/advisor/replay/timelines.ts";
import { type Random, randomFrom } from "../../random.ts";

export const startMs = Date.UTC(2026, 0, 5);

/** Adds the times of a key's requests, in milliseconds since the start. */
type Arrivals = (random: Random, key: number, addAt: (atMs: number) => void) => void;

export interface TrafficShape {
  readonly keys: number;
  readonly periodMs: number;
  readonly arrivals: Arrivals;
}

export function timelinesFrom(
  { keys, periodMs, arrivals }: TrafficShape,
  seed: number,
  source: Partial<TimelinesSource> = {},
): Timelines {
  const random = randomFrom(seed);
  const builder = new TimelinesBuilder();
  for (let key = 0; key < keys; key++) {
    arrivals(random, key, (atMs) => {
      const whole = startMs + Math.min(periodMs - 1, Math.floor(atMs));
      builder.add(`key-${key}`, { atMs: whole, cost: 1, outcome: "unknown" });
    });
  }
  return builder.finish({
    fromMs: startMs,
    toMs: startMs + periodMs,
    oneKeyIn: 1,
    requests: null,
    lostArrivals: 0,
    otherLimitsArrivals: 0,
    ...source,
  });
}

/** Requests that are independent of each other. */
export function poissonArrivals(
  random: Random,
  { perSecond, periodMs }: { readonly perSecond: number; readonly periodMs: number },
  addAt: (atMs: number) => void,
): void {
  const gap = (): number => (-Math.log(1 - random()) * 1_000) / perSecond;
  for (let atMs = gap(); atMs < periodMs; atMs += gap()) addAt(atMs);
}
