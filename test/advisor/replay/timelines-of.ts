/** Timelines of a few arrivals, for tests. */
import {
  type ArrivalOutcome,
  type ArrivalReservation,
  type Timelines,
  TimelinesBuilder,
  type TimelinesSource,
} from "../../../src/advisor/replay/timelines.ts";

export interface TestArrival {
  readonly key: string;
  readonly atMs: number;
  readonly cost?: number;
  readonly outcome?: ArrivalOutcome;
  readonly reservation?: ArrivalReservation;
}

export const sourceOf = (arrivals: readonly { readonly atMs: number }[]): TimelinesSource => {
  const times = arrivals.map(({ atMs }) => atMs);
  return {
    fromMs: Math.min(...times),
    toMs: Math.max(...times),
    oneKeyIn: 1,
    requests: arrivals.length,
    lostArrivals: 0,
    otherLimitsArrivals: 0,
  };
};

export function timelinesOf(arrivals: readonly TestArrival[]): Timelines {
  const builder = new TimelinesBuilder();
  for (const { key, cost = 1, outcome = "unknown", ...arrival } of arrivals) {
    builder.add(key, { ...arrival, cost, outcome });
  }
  return builder.finish(sourceOf(arrivals));
}
