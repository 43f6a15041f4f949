/** The statistics of an isolate: what they count, and that each count reaches the control plane once. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KeySealer } from "../../../src/control/isolate/key-sealer.ts";
import { IsolateStatistics, type StatisticsOptions } from "../../../src/control/isolate/statistics.ts";
import { outcomeNames, type StatisticsBatch } from "../../../src/control/protocol.ts";
import { TestClock } from "../../fakes/isolate.ts";
import { forAllCounted } from "../../for-all.ts";
import { randomFrom } from "../../random.ts";
import { decisionOf, denied } from "../decisions.ts";
import { partitionKeys, zipfFrom } from "../key-streams.ts";

const plain = { parts: [{ kind: "ip" }], values: ["203.0.113.7"] } as const;
const label = "ip=203.0.113.7";

const sealer = new KeySealer("the secret");

function statisticsWith(options: Partial<StatisticsOptions> = {}) {
  const clock = new TestClock();
  const statistics = new IsolateStatistics({
    sealer: null,
    alertedPolicies: new Set(),
    clock,
    ...options,
  });
  return { clock, statistics };
}

const keyOf = (partitionKey: string, cost = 1) => ({ partitionKey, cost });

const allow = (to: IsolateStatistics, key = "k", policy = "p", cost = 1): void =>
  to.record(policy, "allowed", keyOf(key, cost), decisionOf({}), null);

const deny = (to: IsolateStatistics, key = "k", policy = "p"): void =>
  to.record(policy, "denied", keyOf(key), denied, null);

const countsOf = (batches: readonly StatisticsBatch[], policy = "p") =>
  batches.flatMap((batch) => batch.policies[policy] ?? []);

describe("the counts of a policy", () => {
  it("a batch has the counts of each outcome, and leaves out zeros", async () => {
    const { statistics } = statisticsWith();
    for (const [index, name] of outcomeNames.entries()) {
      for (let times = 0; times <= index; times++) statistics.count("p", name);
    }
    statistics.count("q", "banned");
    const batches = await statistics.batches();
    expect(batches[0]?.policies["q"]?.outcomes).toEqual({ banned: 1 });
    expect(countsOf(batches)[0]?.outcomes).toEqual(
      Object.fromEntries(outcomeNames.map((name, index) => [name, index + 1])),
    );
  });

  it("an allowed decision counts its key among the spenders, and a denied one among the denied keys", async () => {
    const { statistics } = statisticsWith();
    allow(statistics, "a", "p", 5);
    allow(statistics, "b", "p", 0);
    deny(statistics, "c");
    statistics.record("p", "dry-run-denied", keyOf("d"), denied, null);
    statistics.record("p", "fallback-local", keyOf("e", 2), decisionOf({}), null);
    statistics.record("p", "fallback-local", keyOf("f"), denied, null);
    statistics.record("p", "banned", keyOf("g"), denied, null);
    statistics.record("p", "blocked", keyOf("h"), null, null);
    const [counts] = countsOf(await statistics.batches());
    expect(counts?.topSpenders).toEqual([
      { key: "a", count: 5, error: 0 },
      { key: "e", count: 2, error: 0 },
    ]);
    expect(counts?.topDenied.map(({ key }) => key)).toEqual(["c", "d", "f", "g", "h"]);
  });

  it("a batch lists what settlements gave back, and adds to the spenders what settlements charged in addition", async () => {
    const { statistics } = statisticsWith();
    const charge = { policy: "p", cost: 5, spentAtMs: 0, settledAtMs: 1 };
    for (const [key, actualCost] of Object.entries({ a: 2, b: 9, c: 5 })) {
      allow(statistics, key, "p", 5);
      statistics.settled(key, [{ ...charge, actualCost }]);
    }
    const [counts] = countsOf(await statistics.batches());
    expect(counts?.topSpenders.map(({ count }) => count)).toEqual([9, 5, 5]);
    expect(counts?.topRefunded).toEqual([{ key: "a", count: 3, error: 0 }]);
  });

  it("exempt keys, and keys without a decision of an object, are listed neither as spenders nor as denied", async () => {
    const { statistics } = statisticsWith();
    statistics.record("p", "exempt", keyOf("a"), decisionOf({}), null);
    statistics.record("p", "fallback-open", keyOf("b"), null, null);
    statistics.record("p", "fallback-closed", keyOf("c"), null, null);
    const [counts] = countsOf(await statistics.batches());
    expect(counts).toMatchObject({ topSpenders: [], topDenied: [] });
    expect(counts?.outcomes).toEqual({ exempt: 1, "fallback-open": 1, "fallback-closed": 1 });
  });

  it.each([
    [21, 0],
    [20, 0],
    [19, 1],
    [0, 1],
  ])("a decision that leaves %d %% of a limit is counted as near the limit %d times", async (remaining, times) => {
    const { statistics } = statisticsWith();
    const decision = decisionOf({ name: "a", remaining: 100 }, { name: "b", remaining });
    statistics.record("p", "allowed", keyOf("k"), decision, null);
    // These outcomes are not decided by limits.
    for (const outcome of ["exempt", "banned", "blocked"] as const) {
      statistics.record("p", outcome, keyOf("k"), decisionOf({ remaining: 0 }), null);
    }
    expect(countsOf(await statistics.batches())[0]?.nearLimit).toBe(times);
  });

  it("a batch has the latencies of calls, and the number of failures of the origin", async () => {
    const { statistics } = statisticsWith();
    statistics.answered(["p", "q"], 5);
    statistics.answered(["p"], 2);
    statistics.originFailed();
    statistics.originFailed();
    const [batch] = await statistics.batches();
    expect(batch?.originFailures).toBe(2);
    expect(batch?.policies["p"]).toMatchObject({
      latency: [
        [1, 1],
        [4, 1],
      ],
      latencySumMs: 7,
    });
    expect(batch?.policies["q"]).toMatchObject({ latencySumMs: 5 });
  });

  it("a list has at most 20 keys, and an upper bound on the count of any key that it leaves out", async () => {
    const { statistics } = statisticsWith();
    for (let number = 0; number < 30; number++) {
      for (let times = 0; times <= number; times++) deny(statistics, `k${number}`);
    }
    const [counts] = countsOf(await statistics.batches());
    expect(counts?.topDenied).toHaveLength(20);
    expect(counts?.topDenied[0]).toEqual({ key: "k29", count: 30, error: 0 });
    expect(counts?.mostOtherDenied).toBe(10);
    expect(counts?.mostOtherSpent).toBeUndefined();
  });

  it("all lists of a batch have at most 256 keys together", async () => {
    const { statistics } = statisticsWith();
    for (let policy = 0; policy < 100; policy++) {
      for (let key = 0; key < 20; key++) deny(statistics, `k${key}`, `p${policy}`);
    }
    const [batch] = await statistics.batches();
    const keys = Object.values(batch?.policies ?? {}).flatMap(({ topDenied }) => topDenied);
    expect(keys.length).toBeGreaterThan(100);
    expect(keys.length).toBeLessThanOrEqual(256);
  });
});

describe("batches", () => {
  it("a beat carries no batch when nothing was counted", async () => {
    const { statistics } = statisticsWith();
    expect(await statistics.batches()).toEqual([]);
  });

  it("a batch is sent again, with its age, until it is stored", async () => {
    const { clock, statistics } = statisticsWith();
    allow(statistics);
    const [first] = await statistics.batches();
    expect(first).toMatchObject({ seq: 1, agoMs: 0 });
    await clock.pass(5_000);
    deny(statistics);
    const again = await statistics.batches();
    expect(again.map(({ seq, agoMs }) => [seq, agoMs])).toEqual([
      [1, 5_000],
      [2, 0],
    ]);
    expect(again[0]?.policies).toEqual(first?.policies);
    statistics.stored(1);
    expect((await statistics.batches()).map(({ seq }) => seq)).toEqual([2]);
    statistics.stored(2);
    expect(await statistics.batches()).toEqual([]);
  });

  it("a late reply that confirms an earlier batch does not discard later batches", async () => {
    const { statistics } = statisticsWith();
    allow(statistics);
    await statistics.batches();
    allow(statistics);
    await statistics.batches();
    statistics.stored(2);
    allow(statistics);
    await statistics.batches();
    statistics.stored(1);
    expect((await statistics.batches()).map(({ seq }) => seq)).toEqual([3]);
  });

  it("while the control plane is silent for hours, 12 batches wait and no count is lost", async () => {
    const { statistics } = statisticsWith();
    let most = 0;
    for (let beat = 0; beat < 1_000; beat++) {
      allow(statistics, `k${beat % 3}`);
      // oxlint-disable-next-line no-await-in-loop
      most = Math.max(most, (await statistics.batches()).length);
    }
    expect(most).toBe(12);
    statistics.stored(12);
    const rest = await statistics.batches();
    expect(rest.map(({ seq }) => seq)).toEqual([13]);
    expect(countsOf(rest)[0]?.outcomes.allowed).toBe(988);
  });

  it("batches that wait take at most 64 KB, even with many keys", async () => {
    const { statistics } = statisticsWith();
    const keys = partitionKeys(500);
    let length = 0;
    for (let beat = 0; beat < 20; beat++) {
      for (let policy = 0; policy < 20; policy++) {
        for (const key of keys) deny(statistics, key, `p${policy}`);
      }
      // oxlint-disable-next-line no-await-in-loop
      const batches = await statistics.batches();
      length = JSON.stringify(batches).length;
    }
    expect(length).toBeGreaterThan(32_000);
    expect(length).toBeLessThan(100_000);
  });

  it("each decision is counted once, whichever beats are lost, late or repeated", async () => {
    let decisions = 0;
    let repeated = 0;
    const steps = fc.array(fc.constantFrom("allow", "deny", "beat", "lost call", "lost reply"), {
      maxLength: 200,
      size: "max",
    });
    await forAllCounted([steps], async (all) => {
      const { statistics } = statisticsWith();
      const stored = new Map<number, StatisticsBatch>();
      const made = { allowed: 0, denied: 0 };
      const beat = async (isReceived: boolean, isAnswered: boolean): Promise<void> => {
        const batches = await statistics.batches();
        if (!isReceived) return;
        for (const batch of batches) {
          if (stored.has(batch.seq)) repeated++;
          else stored.set(batch.seq, batch);
        }
        if (isAnswered) statistics.stored(Math.max(0, ...stored.keys()));
      };
      for (const step of all) {
        if (step === "allow") allow(statistics, `k${made.allowed++ % 7}`);
        else if (step === "deny") deny(statistics, `k${made.denied++ % 7}`);
        // oxlint-disable-next-line no-await-in-loop
        else await beat(step !== "lost call", step === "beat");
      }
      // The second beat carries the counts that did not fit into the batches that had waited.
      await beat(true, true);
      await beat(true, true);
      const counts = countsOf([...stored.values()]);
      const sum = (of: (counts: StatisticsBatch["policies"][string]) => number): number =>
        counts.reduce((total, each) => total + of(each), 0);
      expect(sum(({ outcomes }) => outcomes.allowed ?? 0)).toBe(made.allowed);
      expect(sum(({ outcomes }) => outcomes.denied ?? 0)).toBe(made.denied);
      const listed = (keys: readonly { count: number }[]): number => keys.reduce((sums, { count }) => sums + count, 0);
      expect(sum(({ topSpenders }) => listed(topSpenders))).toBe(made.allowed);
      expect(sum(({ topDenied }) => listed(topDenied))).toBe(made.denied);
      decisions += made.allowed + made.denied;
    })();
    expect(decisions).toBeGreaterThan(1_000);
    expect(repeated).toBeGreaterThan(100);
  });
});

describe("plain keys", () => {
  it("without REVEAL, no plain key leaves the isolate", async () => {
    const { statistics } = statisticsWith();
    statistics.setTailed(true);
    statistics.record("p", "denied", keyOf("k"), denied, plain);
    const sent = JSON.stringify([await statistics.batches(), await statistics.tail()]);
    expect(sent).not.toContain("sealed");
    expect(sent).not.toContain("203.0.113.7");
  });

  it("with REVEAL, the keys of lists and of sampled denials are sent sealed", async () => {
    const { statistics } = statisticsWith({ sealer });
    statistics.setTailed(true);
    statistics.record("p", "denied", keyOf("k"), denied, plain);
    const [counts] = countsOf(await statistics.batches());
    const [entry] = await statistics.tail();
    expect(await sealer.open("p", "k", counts?.topDenied[0]?.sealed ?? "")).toBe(label);
    expect(await sealer.open("p", "k", entry?.sealed ?? "")).toBe(label);
    expect(JSON.stringify([counts, entry])).not.toContain("203.0.113.7");
  });

  it("a batch has at most 20 sealed keys, and the next batches have the remaining ones", async () => {
    const { statistics } = statisticsWith({ sealer });
    const sealedKeys = new Set<string>();
    const perBatch: number[] = [];
    for (let beat = 0; beat < 5; beat++) {
      for (let policy = 0; policy < 3; policy++) {
        for (let key = 0; key < 18; key++) {
          statistics.record(`p${policy}`, "denied", keyOf(`k${key}`), denied, plain);
        }
      }
      // oxlint-disable-next-line no-await-in-loop
      const [batch] = await statistics.batches();
      const sealed = Object.entries(batch?.policies ?? {}).flatMap(([policy, { topDenied }]) =>
        topDenied.filter((each) => each.sealed !== undefined).map(({ key }) => `${policy} ${key}`),
      );
      perBatch.push(sealed.length);
      for (const each of sealed) sealedKeys.add(each);
      statistics.stored(beat + 1);
    }
    expect(perBatch).toEqual([20, 20, 14, 0, 0]);
    expect(sealedKeys.size).toBe(54);
  });

  it("a key is sealed once an hour", async () => {
    const { clock, statistics } = statisticsWith({ sealer });
    const isSealed = async (): Promise<boolean> => {
      statistics.record("p", "denied", keyOf("k"), denied, plain);
      const batch = (await statistics.batches()).at(-1);
      return batch?.policies["p"]?.topDenied[0]?.sealed !== undefined;
    };
    expect(await isSealed()).toBe(true);
    await clock.pass(3_599_999);
    expect(await isSealed()).toBe(false);
    await clock.pass(1);
    expect(await isSealed()).toBe(true);
  });

  it("a key that replaces another key in the list is never sent with the plain text of the replaced key", async () => {
    const { statistics } = statisticsWith({ sealer });
    const keys = partitionKeys(2_000);
    const draw = zipfFrom(randomFrom(7), keys);
    let checked = 0;
    for (let beat = 1; beat <= 10; beat++) {
      for (let number = 0; number < 3_000; number++) {
        const key = draw();
        const own = { parts: plain.parts, values: [key.slice(0, 9)] };
        statistics.record("p", "denied", keyOf(key), denied, own);
      }
      // oxlint-disable-next-line no-await-in-loop
      const counts = countsOf(await statistics.batches()).at(-1);
      for (const { key, sealed } of counts?.topDenied ?? []) {
        if (sealed === undefined) continue;
        // oxlint-disable-next-line no-await-in-loop
        expect(await sealer.open("p", key, sealed)).toBe(`ip=${key.slice(0, 9)}`);
        checked++;
      }
      statistics.stored(beat);
    }
    expect(checked).toBeGreaterThan(15);
  });
});

describe("the tail and alerts", () => {
  it("denials are sampled only while a tail is open", async () => {
    const { clock, statistics } = statisticsWith();
    deny(statistics);
    expect(await statistics.tail()).toEqual([]);
    statistics.setTailed(true);
    statistics.locate({ colo: "FRA" });
    statistics.locate({ colo: "AMS" });
    deny(statistics);
    allow(statistics);
    statistics.record("p", "blocked", keyOf("b", 3), null, null);
    statistics.setTailed(true);
    await clock.pass(700);
    expect(await statistics.tail()).toEqual([
      {
        policy: "p",
        outcome: "denied",
        violated: ["p"],
        retryAfterMs: 30_000,
        cost: 1,
        colo: "FRA",
        key: "k",
        agoMs: 700,
      },
      {
        policy: "p",
        outcome: "blocked",
        violated: [],
        retryAfterMs: null,
        cost: 3,
        colo: "FRA",
        key: "b",
        agoMs: 700,
      },
    ]);
    deny(statistics);
    statistics.setTailed(false);
    expect(await statistics.tail()).toEqual([]);
  });

  it("only keys of the configured policies cause alerts, and only by decisions of their limits", () => {
    const { statistics } = statisticsWith({ alertedPolicies: new Set(["p"]) });
    deny(statistics, "k", "q");
    statistics.record("p", "banned", keyOf("b"), denied, null);
    deny(statistics, "k", "p");
    expect(statistics.alerts()).toEqual([{ policy: "p", key: "k", limit: "p", percent: 100 }]);
    expect(statistics.alerts()).toEqual([]);
  });
});
