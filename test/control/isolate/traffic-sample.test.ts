/** The traffic sample of an isolate: which keys it contains, what it records about them, and its bounds. */
import { describe, expect, it } from "vitest";
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import {
  isSampledKey,
  mostSampledEvents,
  RecordedKeys,
  TrafficSample,
} from "../../../src/control/isolate/traffic-sample.ts";
import { fromBase64Url } from "../../../src/control/base64url.ts";
import type { SampleBatch, StatisticsBatch } from "../../../src/control/protocol.ts";
import { decodeSamples, type SampledArrival } from "../../../src/control/sample-codec.ts";
import { hmacWith } from "../../../src/policy/partition-key.ts";

const sampleOf = (oneKeyIn: number, ...policies: string[]) =>
  new TrafficSample({ oneKeyIn, policies: new Set(["p", ...policies]) });

const hmac = hmacWith("the secret of the keys");

const keysOf = (count: number): Promise<string[]> =>
  Promise.all(Array.from({ length: count }, (_, number) => hmac(`key ${number}`)));

const arrivalAt = (atMs: number, changes: Partial<SampledArrival> = {}): SampledArrival => ({
  kind: "arrival",
  atMs,
  cost: 1,
  outcome: "allowed",
  ttlMs: 0,
  hasOtherLimits: false,
  ...changes,
});

const eventsOf = (batch: SampleBatch | undefined) =>
  decodeSamples(fromBase64Url(batch?.events ?? "") ?? new Uint8Array());

describe("the keys of a sample", () => {
  it.for([1, 2, 16, 64])("a sample of 1/%d has about that share of 20,000 keys", async (n) => {
    const keys = await keysOf(20_000);
    const sampled = keys.filter((key) => sampleOf(n).includes(key)).length;
    const expected = keys.length / n;
    // The tolerance is five standard deviations.
    expect(Math.abs(sampled - expected)).toBeLessThanOrEqual(5 * Math.sqrt(expected * (1 - 1 / n)));
  });

  it.each([
    ["AAAA", 4_096, true],
    ["AA__", 4_096, true],
    ["AA_-", 4_096, true],
    ["ABAA", 4_096, false],
    ["BAAA", 4_096, false],
    ["_AAA", 4_096, false],
    ["D___", 16, true],
    ["EAAA", 16, false],
    ["____", 1, true],
  ])("a key that begins with %s is in a sample of one key in %i: %s", (prefix, oneKeyIn, expected) => {
    expect(isSampledKey(prefix.padEnd(43, "_"), oneKeyIn)).toBe(expected);
  });

  it("every isolate samples the same keys, and a larger sample contains all keys of a smaller one", async () => {
    const keys = await keysOf(5_000);
    const of = (n: number): string[] => keys.filter((key) => sampleOf(n).includes(key));
    expect(of(16)).toEqual(of(16));
    expect(of(16).length).toBeGreaterThan(of(64).length);
    expect(of(64).every((key) => sampleOf(16).includes(key))).toBe(true);
  });
});

describe("a batch of samples", () => {
  it("a batch has the arrivals and settlements of each policy and key, and the next one does not repeat them", async () => {
    const [one = "", other = ""] = await keysOf(2);
    const sample = sampleOf(1, "q");
    sample.add("p", one, arrivalAt(1_000));
    sample.add("p", one, arrivalAt(1_000, { outcome: "denied", cost: 5 }));
    sample.add("p", other, arrivalAt(1_001, { ttlMs: 60_000, hasOtherLimits: true }));
    sample.add("q", one, arrivalAt(1_002, { outcome: "fallback-open" }));
    const times = { spentAtMs: 1_001, settledAtMs: 1_500 };
    sample.settled(other, [{ policy: "p", cost: 1, actualCost: 3, ...times }]);
    const { batches = {}, events } = sample.drain() ?? {};
    expect(events).toBe(5);
    expect(batches["p"]).toMatchObject({ oneKeyIn: 1, arrivals: 3, lost: 0 });
    expect(batches["q"]).toMatchObject({ oneKeyIn: 1, arrivals: 1, lost: 0 });
    expect([...eventsOf(batches["p"])]).toEqual([
      [one, [arrivalAt(1_000), arrivalAt(1_000, { outcome: "denied", cost: 5 })]],
      [
        other,
        [
          arrivalAt(1_001, { ttlMs: 60_000, hasOtherLimits: true }),
          { kind: "settlement", atMs: 1_500, spentAtMs: 1_001, cost: 1, actualCost: 3 },
        ],
      ],
    ]);
    expect(eventsOf(batches["q"]).get(one)).toEqual([arrivalAt(1_002, { outcome: "fallback-open" })]);
    expect(sample.drain()).toBe(null);
  });

  it("a batch has at most 1,000 events of all policies together, and counts further events as lost", async () => {
    const [key = ""] = await keysOf(1);
    const sample = sampleOf(1, "q");
    for (let each = 0; each < mostSampledEvents + 30; each++) {
      sample.add(each % 3 === 0 ? "q" : "p", key, arrivalAt(each));
    }
    const { p, q } = sample.drain()?.batches ?? {};
    expect(mostSampledEvents).toBe(1_000);
    expect((p?.arrivals ?? 0) + (q?.arrivals ?? 0)).toBe(1_000);
    expect([p?.lost, q?.lost]).toEqual([20, 10]);
    expect(eventsOf(p).get(key)).toHaveLength(p?.arrivals ?? 0);
    sample.add("p", key, arrivalAt(2_000));
    expect(sample.drain()?.batches["p"]).toMatchObject({ arrivals: 1, lost: 0 });
  });

  it("a policy whose events were all lost reports how many were lost", async () => {
    const [key = ""] = await keysOf(1);
    const sample = sampleOf(1, "q");
    for (let each = 0; each < mostSampledEvents; each++) sample.add("p", key, arrivalAt(each));
    sample.add("q", key, arrivalAt(1));
    const { q } = sample.drain()?.batches ?? {};
    expect(q).toMatchObject({ events: "", arrivals: 0, lost: 1 });
  });

  it("policies that are not in the configuration, such as ad hoc limits, have no samples", async () => {
    const [key = ""] = await keysOf(1);
    const sample = sampleOf(1);
    sample.add("adhoc", key, arrivalAt(1));
    const times = { spentAtMs: 1, settledAtMs: 2 };
    sample.settled(key, [{ policy: "adhoc", cost: 1, actualCost: 1, ...times }]);
    expect(sample.drain()).toBe(null);
  });
});

describe("samples in the batches of an isolate", () => {
  const statisticsOf = () =>
    new IsolateStatistics({
      sealer: null,
      alertedPolicies: new Set(),
      sample: { oneKeyIn: 1, policies: new Set(["p"]) },
    });

  async function record(statistics: IsolateStatistics, count: number): Promise<void> {
    const [key = ""] = await keysOf(1);
    for (let each = 0; each < count; each++) statistics.traffic?.add("p", key, arrivalAt(each));
  }

  const arrivalsOf = ({ samples }: StatisticsBatch): number | undefined => samples?.["p"]?.arrivals;

  it("samples wait with their batch, and are sent again with it until it is stored", async () => {
    const statistics = statisticsOf();
    await record(statistics, 3);
    const [first] = await statistics.batches();
    await record(statistics, 2);
    const again = await statistics.batches();
    expect(again.map(arrivalsOf)).toEqual([3, 2]);
    expect(again[0]?.samples).toEqual(first?.samples);
    statistics.stored(1);
    expect((await statistics.batches()).map(arrivalsOf)).toEqual([2]);
    statistics.stored(2);
    expect(await statistics.batches()).toEqual([]);
  });

  it("a batch without sampled traffic has no samples", async () => {
    const statistics = statisticsOf();
    statistics.count("p", "allowed");
    expect((await statistics.batches())[0]).not.toHaveProperty("samples");
  });

  it("at most 4,000 events wait for their beats; then the open batch fills, and further events are lost", async () => {
    const statistics = statisticsOf();
    for (let batch = 0; batch < 7; batch++) {
      await record(statistics, 900);
      await statistics.batches();
    }
    const waiting = await statistics.batches();
    expect(waiting.map(arrivalsOf)).toEqual([900, 900, 900, 900, 900]);
    statistics.stored(5);
    const [last] = await statistics.batches();
    expect(last?.samples?.["p"]).toMatchObject({ arrivals: 1_000, lost: 800 });
  });
});

describe("recorded keys", () => {
  const list = { version: 7, keys: [{ policy: "p", key: "k", forMs: 1_000 }] };
  const countOf = (recorded: RecordedKeys, key: string, nowMs: number): void =>
    recorded.count("p", key, "denied", () => nowMs);

  it("only recorded keys are counted, until their time ends", () => {
    const recorded = new RecordedKeys();
    recorded.adopt(list, 0);
    countOf(recorded, "k", 0);
    countOf(recorded, "k", 999);
    countOf(recorded, "k", 1_000);
    countOf(recorded, "other", 0);
    expect(recorded.drain()).toEqual({ p: { k: { denied: 2 } } });
    expect(recorded.drain()).toBeNull();
  });

  it("a new list keeps the counts of keys that are still on it", () => {
    const recorded = new RecordedKeys();
    recorded.adopt(list, 0);
    countOf(recorded, "k", 0);
    recorded.adopt({ version: 8, keys: [...list.keys, { policy: "p", key: "l", forMs: 1_000 }] }, 0);
    countOf(recorded, "l", 0);
    expect(recorded.version).toBe(8);
    expect(recorded.drain()).toEqual({ p: { k: { denied: 1 }, l: { denied: 1 } } });
    recorded.adopt({ version: 9, keys: [] }, 0);
    countOf(recorded, "k", 0);
    expect(recorded.drain()).toBeNull();
  });
});
