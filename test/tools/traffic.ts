/** Traffic for the accuracy table: arrival times of requests with cost 1, the same in every run. */
import { type Random, randomFrom } from "../random.ts";

export interface Shape {
  /** The limit against which the traffic is generated. */
  readonly limit: number;
  readonly windowMs: number;
  /** The number of requests of each kind of traffic. */
  readonly requests: number;
}

/** For each key, the times of its requests in order. */
export type KeyArrivals = readonly (readonly number[])[];

/** A whole multiple of every window in use. */
const startMs = 1_800_000_000_000;
/** The ratio of sent requests to the requests that the limit allows. */
const demand = 1.2;

export const kinds: Readonly<Record<string, (shape: Shape) => KeyArrivals>> = {
  uniform,
  bursty,
  boundary,
  Zipf: zipf,
};

const below = (random: Random, end: number): number => Math.floor(random() * end);

/** Ten keys, each with evenly spaced requests slightly above the limit. */
function uniform({ limit, windowMs, requests }: Shape): KeyArrivals {
  const random = randomFrom(1);
  const each = Math.ceil(requests / 10);
  const spanMs = (each / (demand * limit)) * windowMs;
  return Array.from({ length: 10 }, () =>
    Array.from({ length: each }, () => startMs + below(random, spanMs)).toSorted((a, b) => a - b),
  );
}

/**
 * Ten keys with bursts of up to the limit and pauses of up to nearly a window. The mean rate equals that of `uniform`.
 */
function bursty({ limit, windowMs, requests }: Shape): KeyArrivals {
  const random = randomFrom(2);
  const each = Math.ceil(requests / 10);
  return Array.from({ length: 10 }, () => {
    const arrivals: number[] = [];
    let nowMs = startMs;
    while (arrivals.length < each) {
      nowMs += below(random, windowMs / demand);
      const burst = 1 + below(random, limit);
      for (let request = 0; request < burst; request++) {
        nowMs += below(random, 10);
        arrivals.push(nowMs);
      }
    }
    return arrivals.slice(0, each);
  });
}

/** Five keys, each with repeated attacks on a window boundary. */
function boundary(shape: Shape): KeyArrivals {
  const random = randomFrom(3);
  const each = Math.ceil(shape.requests / attacks.length);
  return attacks.map((attack) => {
    const arrivals: number[] = [];
    for (let window = 1; arrivals.length < each; window += 5) {
      const clockMs = startMs + window * shape.windowMs;
      arrivals.push(...attack(shape, clockMs, clockMs + below(random, shape.windowMs)));
    }
    return arrivals.slice(0, each);
  });
}

/**
 * @param clockMs the start of a clock-aligned window
 * @param anyMs an instant inside of this window
 */
type Attack = (shape: Shape, clockMs: number, anyMs: number) => number[];

const burst = (length: number, atMs: number): number[] => Array.from({ length }, () => atMs);

/** Twice the limit, evenly distributed over one window. */
const steady = ({ limit, windowMs }: Shape, fromMs: number): number[] =>
  Array.from({ length: 2 * limit }, (_, request) => fromMs + Math.floor((request * windowMs) / (2 * limit)));

/** Each attack takes less than three windows. A pause of two windows follows, in which every strategy recovers. */
const attacks: readonly Attack[] = [
  // Attacks the end of a clock-aligned window and the beginning of the next.
  ({ limit }, clockMs) => [...burst(limit, clockMs - 1), ...burst(limit, clockMs)],
  // Attacks the same boundary of a window that a request has opened.
  ({ limit, windowMs }, _, anyMs) => [anyMs, ...burst(limit, anyMs + windowMs - 1), ...burst(limit, anyMs + windowMs)],
  // Attacks the end of a full window, and then sends the requests that a strategy with an estimated count admits after
  // it.
  (shape, clockMs) => [...burst(shape.limit, clockMs - 1), ...steady(shape, clockMs)],
  (shape, _, anyMs) => [
    anyMs,
    ...burst(shape.limit, anyMs + shape.windowMs - 1),
    ...steady(shape, anyMs + shape.windowMs),
  ],
  // Attacks the end of the first of 60 buckets, and the instant at which a strategy may forget this bucket too early.
  ({ limit, windowMs }, clockMs) => [...burst(limit, clockMs + windowMs / 60 - 1), ...burst(limit, clockMs + windowMs)],
];

/** A thousand keys. The n-th key has 1/n of the rate of the first key, which exceeds its limit several times. */
function zipf({ limit, windowMs, requests }: Shape): KeyArrivals {
  const random = randomFrom(4);
  const totals: number[] = [];
  for (let rank = 1; rank <= 1_000; rank++) totals.push((totals.at(-1) ?? 0) + 1 / rank);
  const spanMs = (requests / (50 * limit)) * windowMs;
  const arrivals: number[][] = totals.map(() => []);
  for (let request = 0; request < requests; request++) {
    const drawn = random() * (totals.at(-1) ?? 0);
    const key = totals.findIndex((total) => drawn < total);
    arrivals[key]?.push(startMs + Math.floor((request * spanMs) / requests));
  }
  return arrivals;
}
