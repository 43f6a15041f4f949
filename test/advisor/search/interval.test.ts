import { describe, expect, it } from "vitest";
import { deniedKeyShare, deniedShare, worstBurst } from "../../../src/advisor/search/interval.ts";
import { replayAll } from "../../../src/advisor/replay/replay.ts";
import type { Timelines } from "../../../src/advisor/replay/timelines.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { randomFrom } from "../../random.ts";
import { poissonArrivals, timelinesFrom } from "./traffic.ts";

const counts = (keys: number, denied: number, of = 10) => ({
  requests: new Uint32Array(keys).fill(of),
  denied: Uint32Array.from({ length: keys }, (_, key) => (key < denied ? of : 0)),
});
const complete = { oneKeyIn: 1, allRequests: null };

describe("the share of denied requests", () => {
  it("without denials, the upper end of the interval assumes that four average keys are denied entirely", () => {
    const { value, low, high } = deniedShare(counts(1_000, 0), complete);
    expect([value, low]).toEqual([0, 0]);
    expect(high).toBeCloseTo(4 / 1_000, 3);
  });

  it("without denials, a key that only a stricter limit denies lowers the upper end of the interval", () => {
    const unseen = { requests: 10, denied: 2 };
    const { high } = deniedShare(counts(1_000, 0), { ...complete, unseen });
    expect(high).toBeCloseTo(8 / 10_000, 4);
  });

  it("when all requests of the sample are denied, the lower end of the interval allows for keys that are not denied", () => {
    const { value, low, high } = deniedShare(counts(100, 100), complete);
    expect([value, high]).toEqual([1, 1]);
    expect(low).toBeGreaterThan(0.93);
    expect(low).toBeLessThan(0.98);
  });

  it("four times as many keys halve the width of the interval", () => {
    const [few, many] = [600, 2_400].map((keys) => {
      const { low, high } = deniedShare(counts(keys, keys / 4), complete);
      return high - low;
    });
    expect((few ?? 0) / (many ?? 1)).toBeGreaterThan(1.8);
    expect((few ?? 0) / (many ?? 1)).toBeLessThan(2.3);
  });

  it("the interval assumes that requests outside the sampled keys may all be denied, or none of them", () => {
    const sampled = { oneKeyIn: 64, allRequests: 2 * 64 * 10_000 };
    const { value, low, high, highOfSuchKeys } = deniedShare(counts(1_000, 100), sampled);
    expect(value).toBeCloseTo(0.1, 9);
    expect(low).toBeLessThan(0.05);
    expect(high).toBeGreaterThan(0.55);
    expect(high).toBeLessThan(0.65);
    expect(highOfSuchKeys).toBeLessThan(0.15);
  });

  it("the interval of complete timelines assumes that unrecorded arrivals may all be denied", () => {
    const { high, highOfSuchKeys } = deniedShare(counts(1_000, 0), {
      oneKeyIn: 1,
      allRequests: 12_600,
      lostArrivals: 2_500,
    });
    expect(high).toBeGreaterThan(0.2);
    expect(high).toBeLessThan(0.22);
    expect(highOfSuchKeys).toBeGreaterThan(0.2);
  });

  it("a sample of half of all keys gives a narrower interval than the same number of keys from a larger deployment", () => {
    const width = (oneKeyIn: number): number => {
      const { low, highOfSuchKeys } = deniedShare(counts(1_000, 250), {
        oneKeyIn,
        allRequests: null,
      });
      return highOfSuchKeys - low;
    };
    expect(width(2) / width(64)).toBeGreaterThan(0.65);
    expect(width(2) / width(64)).toBeLessThan(0.78);
  });

  it("equal counts and seeds give equal intervals, and a different seed gives nearly the same interval", () => {
    const own = deniedShare(counts(500, 20), { ...complete, seed: 1 });
    expect(deniedShare(counts(500, 20), { ...complete, seed: 1 })).toEqual(own);
    const other = deniedShare(counts(500, 20), { ...complete, seed: 2 });
    expect(other.high / own.high).toBeGreaterThan(0.9);
    expect(other.high / own.high).toBeLessThan(1.1);
  });

  it("without any request, the share of denials is unknown", () => {
    expect(deniedShare(counts(0, 0), complete)).toMatchObject({ value: 0, low: 0, high: 1 });
    expect(deniedKeyShare(0, 0, { oneKeyIn: 1 })).toEqual({ value: 0, low: 0, high: 1 });
  });
});

describe("the worst burst at the origin", () => {
  const periodMs = 600_000;
  const perKey = 0.2;
  const limits = parseLimits("3/second");

  const seconds = (timelines: Timelines) => {
    const [result] = replayAll(timelines, [limits]);
    if (result === undefined) throw new Error("expected a result");
    return result.admittedPerSecond;
  };
  const population = (keys: number, seed: number): Timelines =>
    timelinesFrom(
      {
        keys,
        periodMs,
        arrivals: (random, _, addAt) => poissonArrivals(random, { perSecond: perKey, periodMs }, addAt),
      },
      seed,
    );

  it("for complete timelines, the peak is the count of their busiest second", () => {
    const timelines = population(100, 1);
    const perSecond = seconds(timelines);
    const { value, low, high } = worstBurst(timelines, perSecond, 6);
    expect(value).toBe(Math.max(...perSecond.counts));
    expect(low).toBeLessThan(value);
    expect(high).toBeGreaterThan(value);
  });

  it("the peak of a sample is scaled up, and its interval holds the true peak in at least 93 of 100 runs", () => {
    const all = population(2_000, 2);
    const truth = Math.max(...seconds(all).counts);
    const ratios: number[] = [];
    let covered = 0;
    for (let seed = 1; seed <= 100; seed++) {
      const random = randomFrom(seed);
      const sample = sampleOf(all, 8, random);
      const { value, low, high } = worstBurst(sample, seconds(sample), 6);
      if (low <= truth && truth <= high) covered++;
      ratios.push(value / truth);
      expect(high / low).toBeLessThan(4);
    }
    expect(covered).toBeGreaterThanOrEqual(93);
    const sorted = ratios.toSorted((a, b) => a - b);
    expect(sorted[50]).toBeGreaterThan(0.8);
    expect(sorted[50]).toBeLessThan(1.25);
  });
});

/** Samples one key in `oneKeyIn` of the timelines. */
function sampleOf(all: Timelines, oneKeyIn: number, random: () => number): Timelines {
  const kept = [...all.keys.keys()].filter(() => random() < 1 / oneKeyIn);
  const rows = kept.map((key) => all.atMs.subarray(all.firstRow[key], all.firstRow[key + 1]));
  const firstRow = new Uint32Array(kept.length + 1);
  for (const [index, own] of rows.entries()) firstRow[index + 1] = (firstRow[index] ?? 0) + own.length;
  const count = firstRow[kept.length] ?? 0;
  const atMs = new Float64Array(count);
  for (const [index, own] of rows.entries()) atMs.set(own, firstRow[index]);
  return {
    keys: kept.map((key) => all.keys[key] ?? ""),
    firstRow,
    atMs,
    cost: new Float64Array(count).fill(1),
    outcome: new Uint8Array(count),
    reservations: new Map(),
    source: { ...all.source, oneKeyIn, requests: all.atMs.length },
  };
}
