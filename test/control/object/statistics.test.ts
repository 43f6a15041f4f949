/** When statistics are written, what queries return, and how long the counts are kept. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import type { StatisticsQuery } from "../../../src/control/statistics-calls.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { dollarsFor, prices } from "../../tools/prices.ts";
import { batch, beat, counts } from "./batches.ts";

afterEach(() => vi.restoreAllMocks());

const startMs = Date.UTC(2026, 10, 22, 10);
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

function storeOf(storage = new MemorySql(), nowMs = startMs) {
  return { storage, store: new StatisticsStore(storage, nowMs) };
}

const allowedAt = (
  store: StatisticsStore,
  query: Partial<StatisticsQuery>,
  nowMs: number,
): [atMs: number, allowed: number | undefined][] =>
  store
    .statistics({ fromMs: startMs, toMs: nowMs + 1, stepMs: minuteMs, ...query }, nowMs)
    .points.map(({ atMs, outcomes }) => [atMs - startMs, outcomes.allowed]);

describe("the answer to a beat", () => {
  it("the first beat is acknowledged at once", () => {
    expect(storeOf().store.record(beat([batch(1, 5)]), startMs)).toBe(1);
  });

  it("batches are acknowledged only when they are stored, within 30 s", () => {
    const { store, storage } = storeOf();
    store.record(beat([batch(1, 5)]), startMs);
    for (const [seq, afterMs] of [5, 10, 15, 20, 25].entries()) {
      const call = beat([batch(seq + 2, 1)]);
      expect(store.record(call, startMs + afterMs * 1_000)).toBe(1);
    }
    storage.rowsWritten = 0;
    expect(store.record(beat([batch(7, 1)]), startMs + 30_000)).toBe(7);
    expect(storage.rowsWritten).toBe(1);
  });

  it("while statistics are being read, a query returns every count up to the last second, for any number of keys", async () => {
    let nowMs = startMs;
    const isolate = new IsolateStatistics({
      sealer: null,
      alertedPolicies: new Set(),
      clock: { now: () => nowMs },
    });
    const { store } = storeOf();
    let decisions = 0;
    for (let second = 0; second < 90; second++, nowMs += 1_000) {
      for (let key = 0; key < 300; key++) {
        const decided = { partitionKey: `key ${key}`, cost: 1 };
        isolate.record(`policy ${key % 30}`, "denied", decided, null, null);
        decisions++;
      }
      // oxlint-disable-next-line no-await-in-loop -- each beat follows the answer to the previous one
      const batches = await isolate.batches();
      isolate.stored(store.record(beat(batches), nowMs, true));
      const query = { fromMs: startMs, toMs: nowMs + 1, stepMs: minuteMs };
      const { points } = store.statistics(query, nowMs);
      const counted = points.reduce((sum, { outcomes }) => sum + (outcomes.denied ?? 0), 0);
      expect(counted, `second ${second}`).toBe(decisions);
    }
  });

  it("a beat is acknowledged at once after a pause in which the object may have hibernated", () => {
    const { store } = storeOf();
    store.record(beat([batch(1, 5)]), startMs);
    expect(store.record(beat([batch(2, 5)]), startMs + 8_000)).toBe(1);
    expect(store.record(beat([batch(2, 5), batch(3, 1)]), startMs + 16_001)).toBe(3);
  });

  it("batches may arrive in any order, and are acknowledged up to the first that is missing or not stored", () => {
    const { store } = storeOf();
    store.record(beat([batch(2, 5)]), startMs);
    expect(store.record(beat([batch(1, 5)]), startMs + 1_000)).toBe(0);
    expect(store.record(beat([batch(3, 5)]), startMs + 31_000)).toBe(3);
    expect(store.totals(startMs + 31_000).of("api").outcomes).toEqual({ allowed: 15 });
  });

  it("no batch is acknowledged while the storage fails, and each is counted once when the storage works again", () => {
    const { store, storage } = storeOf();
    const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
    storage.before = () => {
      throw new Error("the storage is full");
    };
    expect(store.record(beat([batch(1, 5)]), startMs)).toBe(0);
    expect(error).toHaveBeenCalledWith(expect.stringContaining("control-plane-failed"));
    storage.before = () => undefined;
    expect(store.record(beat([batch(1, 5)]), startMs + 9_000)).toBe(1);
    expect(store.totals(startMs + 9_000).of("api").outcomes).toEqual({ allowed: 5 });
  });

  it("an object that has lost its memory counts unstored batches when isolates send them again", () => {
    const { store, storage } = storeOf();
    store.record(beat([batch(1, 5)]), startMs);
    store.record(beat([batch(2, 7)]), startMs + 5_000);
    const { store: next } = storeOf(storage, startMs + 20_000);
    expect(next.totals(startMs + 20_000).of("api").outcomes).toEqual({ allowed: 5 });
    expect(next.record(beat([batch(1, 5), batch(2, 7)]), startMs + 20_000)).toBe(2);
    expect(next.totals(startMs + 20_000).of("api").outcomes).toEqual({ allowed: 12 });
  });
});

describe("isolates that were forgotten", () => {
  const isolates = (count: number, prefix: string): string[] =>
    Array.from({ length: count }, (_, index) => `${prefix}-${index}`);

  function crowded() {
    const { store } = storeOf();
    store.record(beat([batch(1, 5)], { isolate: "idle" }), startMs);
    for (const isolate of isolates(300, "other")) {
      store.record(beat([batch(1, 1)], { isolate }), startMs + 601_000);
    }
    return store;
  }

  it("a batch that may have been counted before the object forgot its isolate is not counted again", () => {
    const store = crowded();
    const nowMs = startMs + 620_000;
    expect(store.record(beat([batch(1, 5, 620_000)], { isolate: "idle" }), nowMs)).toBe(1);
    expect(store.totals(nowMs).of("api").outcomes).toEqual({ allowed: 305 });
  });

  it("a later batch of a forgotten isolate is counted", () => {
    const store = crowded();
    const nowMs = startMs + 620_000;
    store.record(beat([batch(2, 7, 300_000)], { isolate: "idle" }), nowMs);
    expect(store.totals(nowMs).of("api").outcomes).toEqual({ allowed: 312 });
  });

  it("an idle isolate is remembered for a day", () => {
    const { store, storage } = storeOf();
    store.record(beat([batch(1, 5)]), startMs);
    const nowMs = startMs + 20 * hourMs;
    const { store: next } = storeOf(storage, nowMs);
    next.record(beat([batch(1, 5, 20 * hourMs)]), nowMs);
    expect(next.totals(nowMs).of("api").outcomes).toEqual({ allowed: 5 });
  });
});

describe("the minute of a batch", () => {
  it("until a minute has been over for a minute, it includes the batches that isolates closed in it", () => {
    const { store } = storeOf();
    const nowMs = startMs + 2 * minuteMs - 1;
    store.record(beat([batch(1, 5, minuteMs), batch(2, 7, minuteMs - 1)]), nowMs);
    expect(allowedAt(store, {}, nowMs)).toEqual([
      [0, 5],
      [minuteMs, 7],
    ]);
  });

  it("a batch counts in the current minute when the minute in which it was closed is finished", () => {
    const { store } = storeOf();
    const nowMs = startMs + 2 * minuteMs;
    store.record(beat([batch(1, 5, 2 * minuteMs)]), nowMs);
    expect(allowedAt(store, {}, nowMs)).toEqual([[2 * minuteMs, 5]]);
  });

  it("a finished minute keeps its counts when the clock steps back", () => {
    const { store } = storeOf();
    store.record(beat([batch(1, 5)]), startMs);
    store.record(beat([batch(2, 1)]), startMs + 3 * minuteMs);
    store.record(beat([batch(3, 2)]), startMs + 1_000);
    store.record(beat([batch(4, 3)]), startMs + 6 * minuteMs);
    expect(allowedAt(store, {}, startMs + 6 * minuteMs)).toEqual([
      [0, 7],
      [3 * minuteMs, 1],
      [6 * minuteMs, 3],
    ]);
  });
});

/** Sends beats with 50 decisions each. Returns the time of the last beat. */
function beats(store: StatisticsStore, everyMs: number, forMs: number, fromMs = startMs): number {
  let [seq, nowMs] = [0, fromMs];
  let stored = 0;
  const isolate = `from-${fromMs}`;
  for (; nowMs < fromMs + forMs; nowMs += everyMs) {
    seq++;
    const batches = Array.from({ length: seq - stored }, (_, index) =>
      batch(stored + 1 + index, 50, (seq - stored - 1 - index) * everyMs),
    );
    stored = store.record(beat(batches, { isolate }), nowMs);
  }
  return nowMs - everyMs;
}

describe("the cost", () => {
  const monthMs = 730 * hourMs;

  /** The share of beats, rows and hourly alarms in the bill of one isolate. */
  function share(everyMs: number) {
    const { store, storage } = storeOf();
    // Skips the first hour, in which no earlier rows exist.
    const lastMs = beats(store, everyMs, hourMs);
    storage.rowsWritten = 0;
    beats(store, everyMs, 4 * hourMs, lastMs + everyMs);
    store.run(lastMs + 4 * hourMs);
    const alarms = monthMs / hourMs;
    const rows = (storage.rowsWritten / (4 * hourMs)) * monthMs + 2 * alarms;
    const calls = monthMs / everyMs + alarms;
    const decisions = (10 * monthMs) / 1_000;
    const decisionDollars = dollarsFor(decisions, prices.workerRequests) + dollarsFor(decisions, prices.objectRequests);
    const dollars = dollarsFor(rows, prices.rowsWritten) + dollarsFor(calls, prices.objectRequests);
    return { rows, share: dollars / decisionDollars };
  }

  it("beats and rows of an isolate with 10 decisions a second are less than 2 % of the bill", () => {
    const { rows, share: added } = share(5_000);
    expect(rows).toBeLessThan(135_000);
    expect(added).toBeLessThan(0.02);
  });

  it("beats and rows are less than 1.3 % of the bill when beats carry only counts, every 30 s", () => {
    expect(share(30_000).share).toBeLessThan(0.013);
  });
});

describe("queries", () => {
  it("a query returns a point for each step with decisions, and none for other steps", () => {
    const { store } = storeOf();
    const lastMs = beats(store, 5_000, 3 * minuteMs);
    beats(store, 5_000, minuteMs, startMs + 10 * minuteMs);
    expect(allowedAt(store, {}, lastMs + hourMs)).toEqual([
      [0, 600],
      [minuteMs, 600],
      [2 * minuteMs, 600],
      [10 * minuteMs, 600],
    ]);
    expect(allowedAt(store, { stepMs: 5 * minuteMs }, lastMs + hourMs)).toEqual([
      [0, 1_800],
      [10 * minuteMs, 600],
    ]);
    expect(allowedAt(store, { policy: "other" }, lastMs + hourMs)).toEqual([]);
  });

  it("a query rounds its step up to whole minutes, and its span to whole steps", () => {
    const { store } = storeOf();
    const answer = store.statistics(
      { fromMs: startMs + 70_000, toMs: startMs + 130_000, stepMs: 61_000 },
      startMs + hourMs,
    );
    expect(answer).toEqual({
      fromMs: startMs,
      toMs: startMs + 4 * minuteMs,
      stepMs: 2 * minuteMs,
      points: [],
      originFailures: [],
      requests: [],
      denialRuns: [],
      firstCounts: [],
    });
  });

  it("a query before the last day has steps of hours, whose sums equal those of the minutes", () => {
    const { store } = storeOf();
    const lastMs = beats(store, 20_000, 30 * hourMs + 10 * minuteMs);
    const hours = allowedAt(store, { stepMs: minuteMs }, lastMs);
    expect(hours.slice(0, -1)).toEqual(Array.from({ length: 30 }, (_, hour) => [hour * hourMs, 180 * 50]));
    expect(hours.at(-1)).toEqual([30 * hourMs, 30 * 50]);
    const fromMs = lastMs - 5 * hourMs;
    const minutes = allowedAt(store, { fromMs }, lastMs);
    expect(minutes.every(([, allowed]) => allowed === 150)).toBe(true);
    expect(minutes).toHaveLength(5 * 60 + 1);
  });

  it("an hour is counted exactly once even if the object was idle when the hour ended", () => {
    const { storage, store } = storeOf();
    store.write(beats(store, 5_000, 10 * minuteMs));
    const { store: next } = storeOf(storage, startMs + 5 * hourMs);
    const lastMs = beats(next, 5_000, 10 * minuteMs, startMs + 5 * hourMs);
    expect(allowedAt(next, { stepMs: hourMs }, lastMs)).toEqual([
      [0, 6_000],
      [5 * hourMs, 6_000],
    ]);
  });

  it("a query has the origin failures of each step", () => {
    const { store } = storeOf();
    store.record(beat([{ ...batch(1, 0), originFailures: 3 }]), startMs);
    const { originFailures } = store.statistics({ fromMs: startMs, toMs: startMs + 1, stepMs: 1 }, startMs);
    expect(originFailures).toEqual([{ atMs: startMs, count: 3 }]);
  });
});

describe("retention", () => {
  const rowsIn = (storage: MemorySql, table: string): number =>
    storage.sql.exec(`SELECT * FROM ${table}`).toArray().length;

  it("minutes are kept for a day, and then overwritten by newer minutes", () => {
    const { store, storage } = storeOf();
    beats(store, 20_000, 26 * hourMs);
    expect(rowsIn(storage, "minutes")).toBe(24 * 60);
    expect(rowsIn(storage, "hours")).toBe(25);
  });

  it("without traffic, minutes are deleted after a day and hours after 90 days", () => {
    const { store, storage } = storeOf();
    beats(store, 20_000, 2 * hourMs);
    const dues: number[] = [];
    const minutesLeft: number[] = [];
    for (let due = store.dueAtMs(); due !== null; due = store.dueAtMs()) {
      if (dues.length > 3_000) throw new Error("the alarm never ends");
      dues.push(due);
      store.run(due);
      if (due > startMs + dayMs + 2 * hourMs) minutesLeft.push(rowsIn(storage, "minutes"));
    }
    expect(new Set(minutesLeft)).toEqual(new Set([0]));
    expect(rowsIn(storage, "hours")).toBe(0);
    expect(dues.at(-1)).toBeLessThan(startMs + 91 * dayMs);
    // One alarm each hour on the first day, and later one for each hour whose retention ends.
    expect(dues.length).toBeLessThan(40);
    expect(store.totals(startMs + 91 * dayMs).of("api").outcomes).toEqual({ allowed: 18_000 });
  });

  it("statistics need no alarm before the first beat", () => {
    expect(storeOf().store.dueAtMs()).toBeNull();
  });
});

describe("the open state", () => {
  it("an open state that is too large for one row is stored in several rows and read back", () => {
    const { store, storage } = storeOf();
    const policies = Object.fromEntries(
      Array.from({ length: 30 }, (_, policy) => {
        const topDenied = Array.from({ length: 1_024 }, (__, key) => ({
          key: `${policy}-${key}`.padEnd(43, "x"),
          count: 2_000 - key,
          error: 0,
        }));
        return [`policy-${policy}`, counts({ topDenied })];
      }),
    );
    store.record(beat([{ ...batch(1, 0), policies }]), startMs);
    const rows = storage.sql.exec<{ body: string }>("SELECT body FROM statistics").toArray();
    expect(rows.length).toBeGreaterThan(1);
    expect(Math.max(...rows.map(({ body }) => body.length))).toBeLessThan(2_000_000 / 3);
    const { store: next } = storeOf(storage);
    const query = { policy: "policy-29", by: "denied", limit: 1 } as const;
    expect(next.top(query, startMs)).toEqual([{ key: "29-0".padEnd(43, "x"), count: 2_000, error: 0 }]);
  });

  it("the open state starts empty when its stored row has an unknown form", () => {
    const { store, storage } = storeOf();
    store.record(beat([batch(1, 5)]), startMs);
    for (const body of ["", "[]", "{", '{"minutes":[7,["a",1]],"totals":[],"top":1}']) {
      storage.sql.exec("UPDATE statistics SET body = ?", body);
      const { store: next } = storeOf(storage);
      expect(next.totals(startMs).policies).toEqual([]);
    }
  });
});
