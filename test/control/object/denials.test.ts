/** The log of denials in the control plane: when it is written, how much of it is kept, and how it is searched. */
import { describe, expect, it } from "vitest";
import type { DenialBatch, DenialEntry, DenialsQuery, LoggedDenials } from "../../../src/control/denial-calls.ts";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import type { StatisticsBatch } from "../../../src/control/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { batch, beat, counts, loggedDenial } from "./batches.ts";

const startMs = Date.UTC(2026, 10, 22, 10);
const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

interface StoreOptions {
  readonly storage?: MemorySql;
  readonly nowMs?: number;
  readonly mostDenials?: number | null;
}

function storeOf({ storage = new MemorySql(), nowMs = startMs, mostDenials = 10_000 }: StoreOptions = {}) {
  return { storage, store: new StatisticsStore(storage, nowMs, { mostDenials }) };
}

let made = 0;

const entry = (changes: Partial<DenialEntry> = {}): DenialEntry => loggedDenial(`instance-${made++}`, changes);

const logged = (seq: number, entries: readonly DenialEntry[], lost: DenialBatch["lost"] = {}): StatisticsBatch => ({
  ...batch(seq, 1),
  denials: { entries, lost },
});

const everything: DenialsQuery = { fromMs: 0, toMs: Number.MAX_SAFE_INTEGER, limit: 200 };

const read = (store: StatisticsStore, nowMs: number, query: Partial<DenialsQuery> = {}): LoggedDenials =>
  store.denials({ ...everything, ...query }, nowMs);

const instancesIn = ({ items }: LoggedDenials): string[] => items.map(({ instance }) => instance);

const rows = (storage: MemorySql): number => storage.sql.exec("SELECT id FROM denials").toArray().length;

/** Records batches of 48 entries, one a second. Returns the time after the last one. */
function recordMany(store: StatisticsStore, count: number): number {
  for (let seq = 1; seq <= count; seq++) {
    const entries = Array.from({ length: 48 }, () => entry());
    store.record(beat([logged(seq, entries)]), startMs + seq * 1_000);
  }
  return startMs + count * 1_000;
}

describe("new denials", () => {
  it("a query returns new denials before they are written, with the times of the isolate's clock", () => {
    const { store } = storeOf();
    store.record(beat([logged(1, [entry({ instance: "a", count: 3, agoMs: 2_000, lastAgoMs: 500 })])]), startMs);
    expect(read(store, startMs).items).toEqual([
      {
        seq: 1,
        instance: "a",
        policy: "api",
        key: "key",
        outcome: "denied",
        reason: "limit",
        limits: [{ name: "api", used: 5, capacity: 5, windowMs: 60_000 }],
        retryAfterMs: 23_000,
        bannedForMs: 0,
        cost: 1,
        colo: "FRA",
        count: 3,
        atMs: startMs - 2_000,
        lastAtMs: startMs - 500,
      },
    ]);
  });

  it("new denials are written in the row of the statistics, without further rows", () => {
    const { store, storage } = storeOf();
    store.record(beat([batch(1, 1)]), startMs);
    storage.rowsWritten = 0;
    for (const [index, afterMs] of [5, 10, 15, 20, 25, 30].entries()) {
      store.record(beat([logged(index + 2, [entry()])]), startMs + afterMs * 1_000);
    }
    expect(storage.rowsWritten).toBe(1);
  });

  it("acknowledged denials survive a crash, and denials that are sent again are logged once", () => {
    const { store, storage } = storeOf();
    const first = logged(1, [entry({ instance: "a" })]);
    const second = logged(2, [entry({ instance: "b" })]);
    expect(store.record(beat([first]), startMs)).toBe(1);
    expect(store.record(beat([second]), startMs + 5_000)).toBe(1);
    const { store: next } = storeOf({ storage, nowMs: startMs + 6_000 });
    expect(instancesIn(read(next, startMs + 6_000))).toEqual(["a"]);
    next.record(beat([first, second]), startMs + 10_000);
    next.record(beat([second]), startMs + 11_000);
    expect(instancesIn(read(next, startMs + 11_000))).toEqual(["b", "a"]);
  });

  it("stored denials in an unknown form are ignored, and the others are kept", () => {
    const { store, storage } = storeOf();
    store.record(beat([logged(1, [entry({ instance: "a" })])]), startMs);
    const [row] = storage.sql.exec<{ body: string }>("SELECT body FROM statistics").toArray();
    const state = JSON.parse(row?.body ?? "") as { denials: { open: unknown[] } };
    state.denials.open.push(7, ["other", 7, ["x"]]);
    storage.sql.exec("UPDATE statistics SET body = ?", JSON.stringify(state));
    expect(instancesIn(read(storeOf({ storage }).store, startMs))).toEqual(["a"]);
    storage.sql.exec("UPDATE statistics SET body = ?", '{"denials":7}');
    expect(read(storeOf({ storage }).store, startMs).items).toEqual([]);
  });
});

describe("the bounds of the log", () => {
  it("about 450 entries of a policy are one row, and six hours of few entries are one row", () => {
    const { store, storage } = storeOf();
    const nowMs = recordMany(store, 11);
    expect(rows(storage)).toBe(1);
    expect(read(store, nowMs).items).toHaveLength(200);
    store.record(beat([logged(12, [entry()])]), nowMs + 1_000);
    store.record(beat([batch(13, 1)]), nowMs + 6 * hourMs + 2_000);
    expect(rows(storage)).toBe(2);
  });

  it("a policy keeps at most DENIALS entries, and the denials of dropped ones are counted", () => {
    const { store } = storeOf({ mostDenials: 2_000 });
    const nowMs = recordMany(store, 60);
    let kept = 0;
    let cursor: string | null = "";
    while (cursor !== null) {
      const page: LoggedDenials = read(store, nowMs, cursor === "" ? {} : { cursor });
      kept += page.items.length;
      ({ cursor } = page);
    }
    const { dropped, completeSinceMs } = read(store, nowMs);
    expect(kept).toBeLessThanOrEqual(2_000);
    expect(kept).toBeGreaterThanOrEqual(1_000);
    expect(kept + dropped).toBe(60 * 48);
    expect(completeSinceMs).toBeGreaterThan(startMs);
    expect(completeSinceMs).toBeLessThan(nowMs);
  });

  it("denials that an isolate had no room for are counted, and end the time for which the log is complete", () => {
    const { store } = storeOf();
    store.record(beat([logged(1, [entry()])]), startMs);
    expect(read(store, startMs + 1_000)).toMatchObject({ dropped: 0, completeSinceMs: startMs });
    store.record(beat([logged(2, [entry()], { api: 7 })]), startMs + 5_000);
    expect(read(store, startMs + 6_000)).toMatchObject({ dropped: 7, completeSinceMs: startMs + 5_000 });
    expect(read(store, startMs + 6_000, { policy: "login" })).toMatchObject({ dropped: 0, completeSinceMs: startMs });
  });

  it("the log is complete since its first denial, also when an isolate logged it before the control plane ran", () => {
    const { store, storage } = storeOf();
    expect(read(store, startMs).completeSinceMs).toBe(startMs);
    store.record(beat([logged(1, [entry({ agoMs: 20_000, lastAgoMs: 1_000 })])]), startMs);
    const nowMs = startMs + 5_000;
    expect(read(store, nowMs).completeSinceMs).toBe(startMs - 20_000);
    expect(read(storeOf({ storage, nowMs }).store, nowMs).completeSinceMs).toBe(startMs - 20_000);
  });

  it("denials are deleted after a day, with the counts of dropped ones", () => {
    const { store, storage } = storeOf();
    const nowMs = recordMany(store, 10);
    expect(rows(storage)).toBe(1);
    store.record(beat([logged(11, [], { api: 7 })]), nowMs + 1_000);
    store.run(nowMs + dayMs + 2 * hourMs);
    expect(rows(storage)).toBe(0);
    expect(read(store, nowMs + dayMs + 2 * hourMs)).toMatchObject({ items: [], dropped: 0 });
  });

  it("nothing is logged while DENIALS is off", () => {
    const { store } = storeOf({ mostDenials: null });
    store.record(beat([logged(1, [entry()])]), startMs);
    expect(read(store, startMs)).toMatchObject({ items: [], isOn: false });
  });
});

describe("queries of the log", () => {
  it("pages have every denial once, the newest first, across rows and open entries", () => {
    const { store } = storeOf();
    const nowMs = recordMany(store, 25);
    const found: string[] = [];
    let cursor: string | undefined;
    do {
      const page = read(store, nowMs, { limit: 170, ...(cursor !== undefined && { cursor }) });
      found.push(...instancesIn(page));
      cursor = page.cursor ?? undefined;
    } while (cursor !== undefined);
    expect(new Set(found).size).toBe(25 * 48);
    expect(found).toHaveLength(25 * 48);
  });

  it("a query finds the denials of keys, of an instance, of a policy and of a period", () => {
    const { store } = storeOf();
    const entries = [
      entry({ instance: "a", key: "one" }),
      entry({ instance: "b", key: "other", agoMs: 60_000, lastAgoMs: 60_000 }),
      entry({ instance: "c", key: "one", policy: "login", agoMs: 120_000, lastAgoMs: 90_000 }),
    ];
    store.record(beat([logged(1, entries)]), startMs);
    const found = (query: Partial<DenialsQuery>): string[] => instancesIn(read(store, startMs, query));
    expect(found({})).toEqual(["a", "b", "c"]);
    expect(found({ instance: "b" })).toEqual(["b"]);
    expect(found({ policy: "login" })).toEqual(["c"]);
    expect(found({ keys: [{ policy: "api", key: "one" }] })).toEqual(["a"]);
    expect(
      found({
        keys: [
          { policy: "api", key: "one" },
          { policy: "login", key: "one" },
        ],
      }),
    ).toEqual(["a", "c"]);
    expect(found({ fromMs: startMs - 70_000 })).toEqual(["a", "b"]);
    expect(found({ toMs: startMs - 60_000 })).toEqual(["c"]);
  });

  it("a query finds a denial by its instance in a row that is written", () => {
    const { store } = storeOf();
    store.record(beat([logged(1, [entry({ instance: "sought" })])]), startMs);
    for (let seq = 2; seq <= 13; seq++) {
      store.record(
        beat([
          logged(
            seq,
            Array.from({ length: 48 }, () => entry()),
          ),
        ]),
        startMs + seq * 1_000,
      );
    }
    expect(instancesIn(read(store, startMs + hourMs, { instance: "sought" }))).toEqual(["sought"]);
    expect(instancesIn(read(store, startMs + hourMs, { instance: "unknown" }))).toEqual([]);
  });

  it("the sealed key of a logged denial can be revealed", () => {
    const { store } = storeOf();
    store.record(beat([logged(1, [entry({ key: "one", sealed: "v1.sealed" })])]), startMs);
    expect(store.sealedKeys("api", ["one"], startMs)).toEqual(["v1.sealed"]);
  });
});

describe("the most denied keys of a period", () => {
  const keysOf = (store: StatisticsStore, fromMs: number, toMs: number, nowMs = toMs) =>
    store.deniedKeys({ policy: "api", fromMs, toMs, limit: 2, steps: 3 }, nowMs);

  it("have their denials by step, and the denials of all keys include those that are not listed", () => {
    const { store } = storeOf();
    const at = (second: number, key: string | null, count: number) =>
      store.record(beat([logged(second + 1, [entry({ key, count })])]), startMs + second * 1_000);
    at(0, "a", 2);
    at(1, "b", 4);
    at(2, "a", 3);
    at(2.5, "c", 1);
    at(2.9, null, 1);
    at(3, "b", 9);
    expect(keysOf(store, startMs, startMs + 3_000)).toEqual({
      denials: 11,
      isComplete: true,
      keys: [
        { key: "a", count: 5, steps: [2, 0, 3] },
        { key: "b", count: 4, steps: [0, 4, 0] },
      ],
    });
  });

  it("leave out decisions by onError, and are incomplete if the period has a loss", () => {
    const { store } = storeOf();
    store.record(beat([logged(1, [entry({ outcome: "fallback-closed" })], { api: 1 })]), startMs);
    expect(keysOf(store, startMs, startMs + 3_000)).toEqual({ denials: 0, isComplete: false, keys: [] });
    expect(keysOf(store, startMs + 1, startMs + 3_000).isComplete).toBe(true);
  });

  it("are complete before the log began only if the policy denied nothing then", () => {
    const storage = new MemorySql();
    const { store: withoutLog } = storeOf({ storage, mostDenials: null });
    withoutLog.record(beat([{ ...batch(1, 1), policies: { api: counts({ outcomes: { denied: 1 } }) } }]), startMs);
    withoutLog.run(startMs + 300_000);
    const beganMs = startMs + 600_000;
    const { store } = storeOf({ storage, nowMs: beganMs });
    expect(keysOf(store, startMs, beganMs + 3_000).isComplete).toBe(false);
    expect(keysOf(store, startMs + 60_000, beganMs + 3_000).isComplete).toBe(true);
    expect(
      store.deniedKeys({ policy: "q", fromMs: startMs, toMs: beganMs, limit: 2, steps: 3 }, beganMs).isComplete,
    ).toBe(true);
  });
});
