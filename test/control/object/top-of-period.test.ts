/** The most denied keys in the answers of the statistics: they are of the same period as the counts, and have the same sums. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import { denialsIn } from "../../../src/control/object/statistics-rows.ts";
import type { Statistics } from "../../../src/control/statistics-calls.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { forAll } from "../../for-all.ts";
import { batch, beat, counts } from "./batches.ts";

const startMs = Date.UTC(2026, 10, 22, 10);
const minuteMs = 60_000;

const storeAt = (nowMs: number) => new StatisticsStore(new MemorySql(), nowMs, { mostDenials: 1_000 });

const read = (store: StatisticsStore, nowMs: number, fromMs = nowMs - 5 * minuteMs): Statistics =>
  store.statistics({ fromMs, toMs: nowMs + 1, stepMs: minuteMs, top: { limit: 10, steps: 30 } }, nowMs);

const deniedBy = ({ points }: Statistics, policy: string): number =>
  points.filter((point) => point.policy === policy).reduce((sum, point) => sum + denialsIn(point), 0);

/** An isolate whose clock is ahead of the control plane's. */
class Isolate {
  nowMs = startMs;
  readonly #statistics = new IsolateStatistics({
    sealer: null,
    alertedPolicies: new Set(),
    logsDenials: true,
    clock: { now: () => this.nowMs },
  });

  deny(policy: string, partitionKey: string): void {
    const key = { partitionKey, cost: 1 };
    this.#statistics.startMinute(this.nowMs);
    this.#statistics.record(policy, "denied", key, null, null);
    this.#statistics.logDenial({ policy, outcome: "denied", reason: "limit", key, decision: null, plain: null }, null);
  }

  async report(store: StatisticsStore, nowMs: number): Promise<void> {
    const batches = await this.#statistics.batches();
    this.#statistics.stored(store.record(beat(batches), nowMs, true));
  }
}

const step = fc.record({
  afterMs: fc.integer({ min: 1, max: 9_000 }),
  policy: fc.constantFrom("api", "login"),
  key: fc.constantFrom("a", "b", "c"),
  isReported: fc.boolean(),
});

describe("the top keys of an answer", () => {
  it(
    "have exactly the denials of their policy at any time of a minute, also when the clock of an isolate is wrong",
    forAll([fc.array(step, { maxLength: 60 }), fc.integer({ min: -4_000, max: 4_000 })], async (steps, aheadMs) => {
      const isolate = new Isolate();
      let nowMs = startMs;
      const store = storeAt(nowMs - 10 * minuteMs);
      for (const { afterMs, policy, key, isReported } of steps) {
        nowMs += afterMs;
        isolate.nowMs = nowMs + aheadMs;
        isolate.deny(policy, key);
        // oxlint-disable-next-line no-await-in-loop -- reports arrive one after the other
        if (isReported || nowMs % 7 === 0) await isolate.report(store, nowMs);
      }
      await isolate.report(store, nowMs);
      for (const readMs of [nowMs, nowMs + minuteMs]) {
        const answer = read(store, readMs);
        const denied = Math.max(deniedBy(answer, "api"), deniedBy(answer, "login"));
        const { policy = "", period } = answer.top ?? {};
        expect(deniedBy(answer, policy)).toBe(denied);
        expect(period?.denials ?? 0).toBe(denied);
        expect((period?.keys ?? []).reduce((sum, { count }) => sum + count, 0)).toBe(denied);
      }
    }),
  );

  it("are those of the policy that denied most; without denials, of the policy whose dry run would have; or of a chosen one", () => {
    const store = storeAt(startMs);
    const policies = {
      dry: counts({ outcomes: { "dry-run-denied": 3 } }),
      api: counts({ outcomes: { allowed: 9 } }),
    };
    expect(read(store, startMs).top).toBeNull();
    store.record(beat([{ ...batch(1, 0), policies }]), startMs);
    expect(read(store, startMs).top?.policy).toBe("dry");
    const denied = { api: counts({ outcomes: { denied: 1 } }), login: counts({ outcomes: { banned: 2 } }) };
    store.record(beat([{ ...batch(2, 0), policies: denied }]), startMs);
    expect(read(store, startMs).top?.policy).toBe("login");
    const query = { fromMs: startMs, toMs: startMs + 1, stepMs: minuteMs };
    expect(store.statistics({ ...query, top: { limit: 1, steps: 1, policy: "api" } }, startMs).top).toMatchObject({
      policy: "api",
      fromMs: startMs,
    });
    expect(store.statistics(query, startMs)).not.toHaveProperty("top");
  });

  it("stay the same when the log moves entries to rows, and forget deleted rows", () => {
    const store = storeAt(startMs);
    const entry = { instance: "i", policy: "api", key: "a", outcome: "denied", reason: "limit", limits: [] } as const;
    const facts = { retryAfterMs: null, bannedForMs: 0, cost: 1, colo: "", count: 2, agoMs: 0, lastAgoMs: 0 };
    const denials = { entries: Array.from({ length: 48 }, () => ({ ...entry, ...facts })), lost: {} };
    const record = (seq: number): void => {
      const nowMs = startMs + seq * 1_000;
      const policies = { api: counts({ outcomes: { denied: 96 } }) };
      store.record(beat([{ ...batch(seq, 0), policies, denials }]), nowMs, true);
      expect(read(store, nowMs).top?.period.denials).toBe(deniedBy(read(store, nowMs), "api"));
    };
    for (let seq = 1; seq <= 12; seq++) record(seq);
    store.run(startMs + 25 * 60 * minuteMs);
    expect(read(store, startMs + 25 * 60 * minuteMs, startMs).top?.period.denials ?? 0).toBe(0);
  });
});

it("an answer states the first minutes in which a policy, and requests of all policies, have counts and denials", () => {
  const store = storeAt(startMs);
  const at = (minute: number, outcomes: Parameters<typeof counts>[0]) =>
    store.record(
      beat([{ ...batch(minute + 1, 0), policies: { api: counts(outcomes) }, requests: 1 }]),
      startMs + minute * minuteMs,
    );
  at(2, { outcomes: { allowed: 1 } });
  at(3, { outcomes: { denied: 1 }, deniedRequests: 1 });
  at(4, { outcomes: { denied: 1 }, deniedRequests: 1 });
  const nowMs = startMs + 4 * minuteMs;
  const firsts = { atMs: startMs + 2 * minuteMs, deniedAtMs: startMs + 3 * minuteMs };
  expect(read(store, nowMs).firstCounts).toEqual([
    { policy: null, ...firsts },
    { policy: "api", ...firsts },
  ]);
});
