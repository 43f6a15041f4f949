/**
 * Kinds of traffic, each defined by the number of requests per key. A limit allows a number of requests per key in the
 * whole period, so that the denials follow from these numbers without a replay and the true share is known.
 */
import type { Random } from "../../random.ts";

export interface KeySizes {
  /** Draws the number of requests of one key, when the log has `keys` keys. */
  draw(random: Random, key: number, keys: number): number;
  /** The limit whose intervals are measured. */
  readonly limit: number;
  /** The share of requests beyond a limit. Absent where many simulated keys estimate this share. */
  readonly shareBeyond?: (limit: number) => number;
}

const normal = (random: Random): number => Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());

function poisson(mean: number, random: Random): number {
  if (mean > 50) return Math.max(0, Math.round(mean + Math.sqrt(mean) * normal(random)));
  let count = 0;
  for (let left = random() - Math.exp(-mean), part = Math.exp(-mean); left > 0; left -= part) {
    count++;
    part *= mean / count;
    if (count > 500) break;
  }
  return count;
}

/** The probability that a standard normal number is at most `z` (Abramowitz and Stegun 7.1.26). */
function normalBelow(z: number): number {
  const x = Math.abs(z) / Math.SQRT2;
  const t = 1 / (1 + 0.3275911 * x);
  const series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));
  const tail = 0.5 * series * Math.exp(-x * x);
  return z > 0 ? 1 - tail : tail;
}

/** Distributions of requests per key with a known mean and a known share of requests beyond a limit. */
interface Exact extends KeySizes {
  readonly mean: number;
  draw(random: Random): number;
  readonly shareBeyond: (limit: number) => number;
}

const lognormal = (sigma: number, median: number, limit: number): Exact => ({
  limit,
  mean: median * Math.exp(sigma ** 2 / 2),
  draw: (random) => Math.round(median * Math.exp(sigma * normal(random))),
  shareBeyond: (most) => {
    const z = Math.log(most / median) / sigma;
    const mean = median * Math.exp(sigma ** 2 / 2);
    return normalBelow(sigma - z) - (most / mean) * normalBelow(-z);
  },
});

const pareto = (alpha: number, limit: number, least = 5): Exact => ({
  limit,
  mean: (least * alpha) / (alpha - 1),
  draw: (random) => Math.round(least * (1 - random()) ** (-1 / alpha)),
  shareBeyond: (most) => (least / most) ** (alpha - 1) / alpha,
});

/** Traffic with a fixed number of large keys in each 1,000 keys. */
const withLarge =
  (isLarge: (key: number) => boolean, large: (random: Random) => number, others: number) =>
  (random: Random, key: number): number =>
    isLarge(key) ? large(random) : poisson(others, random);

/** The share of keys that send more than one request, for traffic in which most keys send one request. */
const minorityShare = 0.03;

/** A few keys carry the traffic, and all other keys send one request. */
const minority = (large: Exact): KeySizes => ({
  limit: large.limit,
  draw: (random) => (random() < minorityShare ? large.draw(random) : 1),
  shareBeyond: (most) => large.shareBeyond(most) / (1 + (1 / minorityShare - 1) / large.mean),
});

const geometric = (mean: number, limit: number): Exact => ({
  limit,
  mean: 1 / (1 - Math.exp(-1 / mean)),
  draw: (random) => 1 + Math.floor(-mean * Math.log(1 - random())),
  shareBeyond: (most) => Math.exp(-most / mean),
});

/**
 * Each key is large by chance, so that the number of large keys varies between logs, and small logs often have none.
 */
const byChance = (share: number, large: (random: Random) => number, others: number, limit: number): KeySizes => ({
  limit,
  draw: (random) => (random() < share ? large(random) : poisson(others, random)),
});

export const keySizes: Readonly<Record<string, KeySizes>> = {
  uniform: { limit: 40, draw: (random) => Math.round(30 * (0.5 + random())) },
  Poisson: { limit: 34, draw: (random) => poisson(30, random) },
  bursts: {
    limit: 40,
    draw: (random) => {
      let requests = poisson(15, random);
      for (let minute = 0; minute < 30; minute++) {
        if (random() < 0.01) requests += Math.floor(10 + 40 * random());
      }
      return requests;
    },
  },
  geometric: geometric(20, 60),
  "97 % send one request": {
    limit: 25,
    draw: (random) => (random() < 0.97 ? 1 : poisson(30, random)),
  },
  "97 % send one, 3 % geometric": minority(geometric(100, 300)),
  "97 % send one, 3 % lognormal, σ = 1.5": minority(lognormal(1.5, 15, 200)),
  "97 % send one, 3 % Pareto, α = 1.5": minority(pareto(1.5, 200, 10)),
  "daily cycle": {
    limit: 20,
    draw: (random) => poisson(30 * (1 + Math.sin(2 * Math.PI * random()) / 2), random),
  },
  "Zipf: few keys send most": {
    limit: 100,
    draw: (random, key, keys) => poisson((4 * keys) / (1 + (key % 1_000)), random),
  },
  "lognormal, σ = 1.5": lognormal(1.5, 10, 200),
  "lognormal, σ = 2": lognormal(2, 5, 200),
  "lognormal, σ = 2.5": lognormal(2.5, 3, 300),
  "Pareto, α = 1.2": pareto(1.2, 200),
  "Pareto, α = 1.5": pareto(1.5, 100),
  "Pareto, α = 2": pareto(2, 50),
  "NAT: 5 addresses of 1,000 send most": {
    limit: 100,
    draw: withLarge(
      (key) => key % 200 === 0,
      (random) => poisson(1_000 + 4_000 * random(), random),
      10,
    ),
  },
  "scrapers: 3 keys of 1,000 send 10 %": {
    limit: 60,
    draw: withLarge(
      (key) => key % 333 === 1,
      (random) => poisson(1_000, random),
      27,
    ),
  },
  "scrapers: 3 keys of 1,000 send 50 %": {
    limit: 60,
    draw: withLarge(
      (key) => key % 333 === 1,
      (random) => poisson(9_000, random),
      27,
    ),
  },
  "NAT: 1 address in 200, by chance": byChance(1 / 200, (random) => poisson(1_000 + 4_000 * random(), random), 10, 100),
  "scrapers: 3 in 1,000 by chance send 10 %": byChance(3 / 1_000, (random) => poisson(1_000, random), 27, 60),
  "scrapers: 3 in 1,000 by chance send 50 %": byChance(3 / 1_000, (random) => poisson(9_000, random), 27, 60),
  "one attacker sends a fifth": {
    limit: 60,
    draw: withLarge(
      (key) => key % 1_000 === 0,
      (random) => poisson(7_500, random),
      30,
    ),
  },
};
