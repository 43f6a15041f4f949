/** The distributions of traffic for which the coverage of the intervals is measured. */
import { poissonArrivals, type TrafficShape } from "./traffic.ts";

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const periodMs = 30 * minuteMs;
const requestsPerKey = 30;

/** Traffic of a given number of keys, and limits that deny some of its requests. */
export interface Distribution {
  readonly limits: string;
  shapeOf(keys: number): TrafficShape;
}

const perSecondOf = (requests: number, spanMs = periodMs): number => (requests * 1_000) / spanMs;

export const distributions = {
  uniform: {
    limits: "1/minute",
    shapeOf: (keys) => ({
      keys,
      periodMs,
      arrivals: (random, _, addAt) => {
        const gapMs = periodMs / (requestsPerKey * (0.5 + random()));
        for (let atMs = gapMs * random(); atMs < periodMs; atMs += gapMs) addAt(atMs);
      },
    }),
  },
  poisson: {
    limits: "4/minute",
    shapeOf: (keys) => ({
      keys,
      periodMs,
      arrivals: (random, _, addAt) =>
        poissonArrivals(random, { perSecond: perSecondOf(requestsPerKey), periodMs }, addAt),
    }),
  },
  bursts: {
    limits: "20/minute",
    shapeOf: (keys) => ({
      keys,
      periodMs,
      arrivals: (random, _, addAt) => {
        poissonArrivals(random, { perSecond: perSecondOf(requestsPerKey / 2), periodMs }, addAt);
        for (let minute = 0; minute < 30; minute++) {
          if (random() >= 0.01) continue;
          const burst = 10 + 40 * random();
          for (let n = 0; n < burst; n++) addAt(minute * minuteMs + 2_000 * random());
        }
      },
    }),
  },
  zipf: {
    limits: "10/minute",
    shapeOf: (keys) => {
      let harmonic = 0;
      for (let rank = 1; rank <= keys; rank++) harmonic += 1 / rank;
      return {
        keys,
        periodMs,
        arrivals: (random, key, addAt) => {
          const requests = (requestsPerKey * keys) / ((key + 1) * harmonic);
          poissonArrivals(random, { perSecond: perSecondOf(requests), periodMs }, addAt);
        },
      };
    },
  },
  "daily cycle": {
    limits: "5/hour",
    shapeOf: (keys) => ({
      keys,
      periodMs: 24 * hourMs,
      arrivals: (random, _, addAt) => {
        const perSecond = 2 * perSecondOf(requestsPerKey, 24 * hourMs);
        poissonArrivals(random, { perSecond, periodMs: 24 * hourMs }, (atMs) => {
          const rate = (1 + Math.sin((2 * Math.PI * atMs) / (24 * hourMs))) / 2;
          if (random() < rate) addAt(atMs);
        });
      },
    }),
  },
  "one attacker": {
    limits: "8/minute",
    shapeOf: (keys) => ({
      keys,
      periodMs,
      arrivals: (random, key, addAt) => {
        // The attacker sends one fifth of all requests.
        const requests = key === 0 ? (requestsPerKey * keys) / 4 : requestsPerKey;
        poissonArrivals(random, { perSecond: perSecondOf(requests), periodMs }, addAt);
      },
    }),
  },
} satisfies Record<string, Distribution>;

export type DistributionName = keyof typeof distributions;
