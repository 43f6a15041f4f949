/** Sampled traffic in the control plane: when it is written, how much of it is kept, and for how long. */
import { afterEach, describe, expect, it, vi } from "vitest";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import type { SampleBatch } from "../../../src/control/protocol.ts";
import type { SampleIndex } from "../../../src/control/statistics-calls.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { randomFrom } from "../../random.ts";
import { partitionKeys } from "../key-streams.ts";
import { batch, beat, counts } from "./batches.ts";
import { all, arrival, eventsOf, sampleBatch, sampledBatch, storedCosts } from "./sample-batches.ts";

afterEach(() => vi.restoreAllMocks());

const startMs = Date.UTC(2026, 10, 22, 10);
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
const keys = partitionKeys(1_000);
const [one = "", other = ""] = keys;

function storeOf(storage = new MemorySql(), nowMs = startMs) {
  return { storage, store: new StatisticsStore(storage, nowMs) };
}

const chunkRows = (storage: MemorySql): number => storage.sql.exec("SELECT id FROM samples").toArray().length;

const storedBytes = (storage: MemorySql): number =>
  storage.sql
    .exec<{ bytes: number }>("SELECT coalesce(sum(length(body)), 0) AS bytes FROM samples")
    .toArray()
    .reduce((sum, { bytes }) => sum + bytes, 0);

const lostIn = ({ chunks, open }: SampleIndex): number => [...chunks, ...open].reduce((sum, { lost }) => sum + lost, 0);

const arrivalsIn = ({ chunks, open }: SampleIndex): number =>
  [...chunks, ...open].reduce((sum, { arrivals }) => sum + arrivals, 0);

/** A batch of 1,000 arrivals of 1,000 keys, which takes about 36 KB. */
const largeBatch = (atMs: number): SampleBatch =>
  sampleBatch(Object.fromEntries(keys.map((key) => [key, [arrival(atMs)]])));

describe("new samples", () => {
  it("queries return new samples before they are written", () => {
    const { store } = storeOf();
    store.record(beat([batch(1, 1)]), startMs);
    store.record(beat([sampledBatch(2, sampleBatch({ [one]: [arrival(startMs)] }))]), startMs + 1_000);
    expect(eventsOf(store, store.samples(all()))).toEqual(new Map([[one, [arrival(startMs)]]]));
    expect(store.samples(all()).storedAtMs).toBe(startMs + 1_000);
  });

  it("new samples are written in the rows of the statistics, without further rows", () => {
    const { store, storage } = storeOf();
    store.record(beat([batch(1, 1)]), startMs);
    storage.rowsWritten = 0;
    for (const [index, afterMs] of [5, 10, 15, 20, 25, 30].entries()) {
      const atMs = startMs + afterMs * 1_000;
      const call = beat([sampledBatch(index + 2, sampleBatch({ [one]: [arrival(atMs)] }))]);
      store.record(call, atMs);
    }
    expect(storage.rowsWritten).toBe(1);
  });

  it("acknowledged samples survive a crash, and samples that are sent again are stored once", () => {
    const { store, storage } = storeOf();
    const first = sampledBatch(1, sampleBatch({ [one]: [arrival(startMs, { cost: 1 })] }));
    const second = sampledBatch(2, sampleBatch({ [one]: [arrival(startMs, { cost: 2 })] }));
    expect(store.record(beat([first]), startMs)).toBe(1);
    expect(store.record(beat([second]), startMs + 5_000)).toBe(1);
    const { store: next } = storeOf(storage, startMs + 6_000);
    expect(storedCosts(next)).toEqual([1]);
    next.record(beat([first, second]), startMs + 10_000);
    next.record(beat([second]), startMs + 11_000);
    expect(storedCosts(next)).toEqual([1, 2]);
  });

  it("stored samples in an unknown form are ignored, and the others are kept", () => {
    const { store, storage } = storeOf();
    store.record(beat([sampledBatch(1, sampleBatch({ [one]: [arrival(startMs)] }))]), startMs);
    const [row] = storage.sql.exec<{ body: string }>("SELECT body FROM statistics").toArray();
    const state = JSON.parse(row?.body ?? "") as { samples: { open: unknown[] } };
    state.samples.open.push(7, ["api"], ["api", 64, "a", 0, 0, 0]);
    storage.sql.exec("UPDATE statistics SET body = ?", JSON.stringify(state));
    const { store: next } = storeOf(storage);
    expect(storedCosts(next)).toEqual([1]);
    storage.sql.exec("UPDATE statistics SET body = ?", '{"samples":7}');
    const { store: empty } = storeOf(storage);
    expect(empty.samples(all())).toMatchObject({ chunks: [], open: [], storedAtMs: null });
  });
});

describe("chunks", () => {
  it("samples become a chunk after an hour: one row with the merged samples of all batches", () => {
    const { store, storage } = storeOf();
    let nowMs = startMs;
    for (let seq = 1; nowMs <= startMs + hourMs; seq++, nowMs += 20_000) {
      const events = { [one]: [arrival(nowMs)], [other]: [arrival(nowMs, { outcome: "denied" })] };
      store.record(beat([sampledBatch(seq, sampleBatch(events, { lost: 1 }))]), nowMs);
    }
    const { chunks, open } = store.samples(all());
    expect(open).toEqual([]);
    expect(chunks).toHaveLength(1);
    expect(chunks[0]).toMatchObject({
      oneKeyIn: 64,
      fromMs: startMs,
      toMs: startMs + hourMs,
      arrivals: 2 * 181,
      lost: 181,
    });
    expect(chunks[0]?.bytes).toBeLessThan(2 * 32 + 181 * (3 + 4) + 20);
    expect(chunkRows(storage)).toBe(1);
    const events = eventsOf(store, store.samples(all()));
    expect(events.get(one)?.map(({ atMs }) => atMs)).toEqual(
      Array.from({ length: 181 }, (_, index) => startMs + index * 20_000),
    );
  });

  it("samples become a chunk when they take 64 KB, and the beat is acknowledged at once", () => {
    const { store, storage } = storeOf();
    store.record(beat([batch(1, 1)]), startMs);
    store.record(beat([sampledBatch(2, largeBatch(startMs))]), startMs + 1_000);
    expect(chunkRows(storage)).toBe(0);
    expect(store.record(beat([sampledBatch(3, largeBatch(startMs))]), startMs + 2_000)).toBe(3);
    expect(chunkRows(storage)).toBe(1);
    expect(store.samples(all())).toMatchObject({ chunks: [{ arrivals: 2_000 }], open: [] });
  });

  it("the open samples of many policies take at most 256 KB: the largest become a chunk first", () => {
    const { store, storage } = storeOf();
    for (let policy = 0; policy < 20; policy++) {
      const samples = { [`policy-${policy}`]: largeBatch(startMs) };
      const nowMs = startMs + policy * 1_000;
      store.record(beat([{ ...batch(policy + 1, 1), samples }]), nowMs);
    }
    store.write(startMs + 30_000);
    expect(chunkRows(storage)).toBeGreaterThanOrEqual(12);
    const [row] = storage.sql.exec<{ length: number }>("SELECT sum(length(body)) AS length FROM statistics").toArray();
    expect(row?.length).toBeLessThan(400_000);
    for (let policy = 0; policy < 20; policy++) {
      expect(storedCosts(store, `policy-${policy}`)).toHaveLength(1_000);
    }
  });

  it("the open samples take at most 256 KB even when each beat has samples of many policies", () => {
    const { store, storage } = storeOf();
    for (let seq = 1; seq <= 60; seq++) {
      const nowMs = startMs + seq * 1_000;
      const samples = Object.fromEntries(
        Array.from({ length: 100 }, (_, index) => {
          const own = keys.slice(10 * index, 10 * index + 10);
          const events = Object.fromEntries(own.map((key) => [key, [arrival(nowMs)]]));
          return [`policy-${index}`, sampleBatch(events)];
        }),
      );
      store.record(beat([{ ...batch(seq, 1), samples }]), nowMs);
    }
    store.write(startMs + 60_000);
    const [row] = storage.sql.exec<{ length: number }>("SELECT sum(length(body)) AS length FROM statistics").toArray();
    expect(row?.length).toBeLessThan(400_000);
    expect(storedCosts(store, "policy-99")).toHaveLength(600);
  });

  it("samples with two sampling rates are stored separately, so that each chunk has one rate", () => {
    const { store } = storeOf();
    for (const [index, oneKeyIn] of [64, 32, 64, 32].entries()) {
      const sampled = sampleBatch({ [one]: [arrival(startMs, { cost: index })] }, { oneKeyIn });
      store.record(beat([sampledBatch(index + 1, sampled)]), startMs + index);
    }
    store.write(startMs + hourMs + 10);
    const { chunks } = store.samples(all());
    expect(chunks.map(({ oneKeyIn, arrivals }) => [oneKeyIn, arrivals])).toEqual([
      [64, 2],
      [32, 2],
    ]);
  });

  it("a batch that cannot be read is reported, and its arrivals are counted as lost", () => {
    const error = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const { store } = storeOf();
    const good = sampleBatch({ [one]: [arrival(startMs)] });
    for (const [index, events] of ["!", "AAAA", good.events].entries()) {
      const sampled = { ...good, events, arrivals: index === 2 ? 1 : 5 };
      store.record(beat([sampledBatch(index + 1, sampled)]), startMs);
    }
    store.write(startMs + hourMs);
    expect(store.samples(all()).chunks).toMatchObject([{ arrivals: 1, lost: 10 }]);
    expect(error.mock.calls.map(([text]) => String(text))).toEqual([
      expect.stringContaining("the samples are damaged"),
      expect.stringContaining("version 0"),
    ]);
  });

  it("a chunk that could not be written is written at the next beat, and nothing is dropped twice", () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const { store, storage } = storeOf();
    store.record(beat([batch(1, 1)]), startMs);
    storage.before = (query) => {
      if (query.startsWith("INSERT OR REPLACE INTO statistics")) throw new Error("full");
    };
    store.record(beat([sampledBatch(2, largeBatch(startMs))]), startMs + 1_000);
    expect(store.record(beat([sampledBatch(3, largeBatch(startMs))]), startMs + 2_000)).toBe(1);
    expect(chunkRows(storage)).toBe(0);
    expect(arrivalsIn(store.samples(all()))).toBe(2_000);
    storage.before = () => undefined;
    expect(store.record(beat([batch(4, 1)]), startMs + 3_000)).toBe(4);
    expect(store.samples(all())).toMatchObject({ chunks: [{ arrivals: 2_000 }], open: [] });
  });
});

describe("the bound of 8 MB", () => {
  /** Random costs, so that the chunk cannot be compressed. */
  const random = randomFrom(1);
  const largeChunk = (atMs: number): SampleBatch => {
    const cost = (): number => Math.floor(random() * 2 ** 50);
    const own = Array.from({ length: 7_500 }, () => arrival(atMs, { cost: cost() }));
    return sampleBatch({ [one]: own }, { lost: 10 });
  };
  const inAll = (index: SampleIndex): number => arrivalsIn(index) + lostIn(index) + index.dropped;

  function filled(chunks: number) {
    const { store, storage } = storeOf();
    let nowMs = startMs;
    for (let seq = 1; seq <= chunks; seq++, nowMs += minuteMs) {
      store.record(beat([sampledBatch(seq, largeChunk(nowMs))]), nowMs);
    }
    return { store, storage, nowMs };
  }

  it("a policy keeps at most 8 MB: the oldest chunks are dropped, and their arrivals are counted", () => {
    const count = 150;
    const { store, storage, nowMs } = filled(count);
    expect(storedBytes(storage)).toBeLessThan(8_000_000);
    expect(storedBytes(storage)).toBeGreaterThan(7_500_000);
    const index = store.samples(all());
    const { chunks, dropped } = index;
    expect(chunks.length).toBeLessThan(count);
    expect(inAll(index)).toBe(count * 7_510);
    const firstMs = chunks[0]?.fromMs ?? 0;
    expect(firstMs).toBeGreaterThan(startMs + 15 * minuteMs);
    expect(store.samples({ policy: "api", fromMs: firstMs, toMs: nowMs }).dropped).toBe(0);
    const { store: next } = storeOf(storage, nowMs);
    expect(next.samples(all()).dropped).toBe(dropped);
  });

  it("dropped arrivals are counted once when the storage fails", () => {
    vi.spyOn(console, "error").mockImplementation(() => undefined);
    const { store, storage, nowMs } = filled(120);
    const before = store.samples(all());
    storage.before = (query) => {
      if (query.startsWith("INSERT OR REPLACE INTO statistics")) throw new Error("full");
    };
    store.record(beat([sampledBatch(121, largeChunk(nowMs))]), nowMs);
    store.record(beat([batch(122, 1)]), nowMs + 1);
    storage.before = () => undefined;
    store.record(beat([batch(123, 1)]), nowMs + 2);
    const after = store.samples(all());
    expect(after.dropped).toBeGreaterThan(before.dropped);
    expect(inAll(after)).toBe(inAll(before) + 7_510);
  });

  it("when one policy drops chunks, the samples of other policies are kept", () => {
    const { store } = storeOf();
    const samples = { login: sampleBatch({ [one]: [arrival(startMs)] }) };
    store.record(beat([{ ...batch(1, 1), samples }]), startMs);
    const large = largeChunk(startMs);
    for (let seq = 2; seq < 125; seq++) {
      store.record(beat([sampledBatch(seq, large)]), startMs + seq);
    }
    expect(store.samples(all()).dropped).toBeGreaterThan(0);
    expect(storedCosts(store, "login")).toEqual([1]);
  });
});

describe("24 hours", () => {
  /** Runs the alarm until it is no longer due. */
  function runAlarms(store: StatisticsStore, untilMs: number): void {
    for (let dueMs = store.dueAtMs(); dueMs !== null && dueMs <= untilMs; dueMs = store.dueAtMs()) {
      store.run(dueMs);
    }
  }

  it("the alarm writes the last samples of a policy without further traffic, and deletes them after a day", () => {
    const { store, storage } = storeOf();
    store.record(beat([sampledBatch(1, sampleBatch({ [one]: [arrival(startMs)] }))]), startMs);
    runAlarms(store, startMs + dayMs - 1);
    expect(chunkRows(storage)).toBe(1);
    runAlarms(store, startMs + 26 * hourMs);
    expect(chunkRows(storage)).toBe(0);
    expect(store.samples(all())).toMatchObject({ chunks: [], open: [], storedAtMs: null });
    const [row] = storage.sql.exec<{ body: string }>("SELECT body FROM statistics").toArray();
    expect(row?.body).toContain('"samples":{"open":[],"storedAtMs":{},"dropped":[]}');
  });

  it("a policy with steady traffic keeps the chunks of a day", () => {
    const { store, storage } = storeOf();
    const lastMs = startMs + 30 * hourMs;
    for (let [seq, nowMs] = [1, startMs]; nowMs < lastMs; seq++, nowMs += 10 * minuteMs) {
      store.record(beat([sampledBatch(seq, sampleBatch({ [one]: [arrival(nowMs)] }))]), nowMs);
      runAlarms(store, nowMs);
    }
    expect(chunkRows(storage)).toBeGreaterThanOrEqual(20);
    expect(chunkRows(storage)).toBeLessThanOrEqual(26);
    const { chunks } = store.samples({ policy: "api", fromMs: lastMs - dayMs, toMs: lastMs });
    const times = eventsOf(store, store.samples(all())).get(one) ?? [];
    expect(chunks[0]?.fromMs).toBeLessThanOrEqual(lastMs - dayMs + 10 * minuteMs);
    expect(times.length).toBeGreaterThanOrEqual(24 * 6);
  });

  it("samples from a clock that was a week ahead are deleted after the clock was set back", () => {
    const { store, storage } = storeOf();
    const aheadMs = startMs + 7 * dayMs;
    store.record(beat([sampledBatch(1, sampleBatch({ [one]: [arrival(aheadMs)] }))]), aheadMs);
    store.record(beat([sampledBatch(2, sampleBatch({ [one]: [arrival(startMs)] }))]), startMs);
    expect(chunkRows(storage)).toBe(1);
    store.run(startMs + 2 * hourMs);
    expect(store.samples(all())).toMatchObject({
      chunks: [{ fromMs: startMs, toMs: startMs }],
      open: [],
      storedAtMs: startMs,
    });
  });
});

describe("the index of a period", () => {
  it("the index lists the chunks that overlap the period", () => {
    const { store } = storeOf();
    for (const hour of [0, 2, 4]) {
      const atMs = startMs + hour * hourMs;
      const sampled = sampleBatch({ [one]: [arrival(atMs), arrival(atMs + minuteMs)] });
      store.record(beat([sampledBatch(hour + 1, sampled)]), atMs);
      store.write(atMs + hourMs);
    }
    const startsIn = (fromMs: number, toMs: number): number[] =>
      store
        .samples({ policy: "api", fromMs: startMs + fromMs, toMs: startMs + toMs })
        .chunks.map((chunk) => (chunk.fromMs - startMs) / hourMs);
    expect(startsIn(0, 5 * hourMs)).toEqual([0, 2, 4]);
    expect(startsIn(minuteMs, 4 * hourMs)).toEqual([0, 2]);
    expect(startsIn(minuteMs + 1, 4 * hourMs + 1)).toEqual([2, 4]);
  });

  it("the request count of a period has the decisions by limits in its minutes, without exempt and blocked requests", () => {
    const { store } = storeOf();
    const outcomes = { allowed: 5, denied: 4, "fallback-open": 3, exempt: 2, blocked: 1 };
    let nowMs = startMs;
    for (let seq = 1; nowMs < startMs + 3 * hourMs; seq++, nowMs += minuteMs) {
      const policies = { api: counts({ outcomes }), other: counts({ outcomes }) };
      store.record(beat([{ ...batch(seq, 0), policies }]), nowMs);
    }
    const requests = (fromMs: number, toMs: number): number =>
      store.samples({ policy: "api", fromMs: startMs + fromMs, toMs: startMs + toMs }).requests;
    expect(requests(0, 3 * hourMs)).toBe(180 * 12);
    expect(requests(30 * minuteMs, 150 * minuteMs)).toBe(120 * 12);
    expect(requests(61 * minuteMs, 63 * minuteMs)).toBe(2 * 12);
    expect(requests(61 * minuteMs + 1, 61 * minuteMs + 2)).toBe(12);
    expect(requests(-dayMs, 0)).toBe(0);
  });

  it("the request count begins in the minute of the first samples that are kept", () => {
    const { store } = storeOf();
    for (let seq = 1; seq <= 90; seq++) {
      const nowMs = startMs + (seq - 1) * minuteMs;
      const sampled = sampledBatch(seq, sampleBatch({ [one]: [arrival(nowMs)] }));
      store.record(beat([seq <= 60 ? batch(seq, 1) : sampled]), nowMs);
    }
    const requests = (fromMs: number, toMs: number): number =>
      store.samples({ policy: "api", fromMs: startMs + fromMs, toMs: startMs + toMs }).requests;
    expect(requests(-dayMs, 2 * hourMs)).toBe(30);
    expect(requests(70 * minuteMs, 2 * hourMs)).toBe(20);
    expect(requests(0, 30 * minuteMs)).toBe(0);
  });
});
