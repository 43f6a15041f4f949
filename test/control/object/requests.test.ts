/** Requests in the statistics of the control plane, beside isolates and rows of a version that does not count them. */
import { expect, it } from "vitest";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import type { StatisticsBatch } from "../../../src/control/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { batch, beat, counts } from "./batches.ts";

const startMs = Date.UTC(2026, 10, 22, 10);
const minuteMs = 60_000;
const hourMs = 60 * minuteMs;

/** A batch of a version that counts requests. */
const counted = (seq: number, requests: number, denied = 0): StatisticsBatch => ({
  seq,
  agoMs: 0,
  policies: { api: counts({ outcomes: { allowed: requests - denied, denied }, deniedRequests: denied }) },
  originFailures: 0,
  requests,
});

const requestsOf = (store: StatisticsStore, stepMs: number, nowMs: number) =>
  (store.statistics({ fromMs: startMs, toMs: nowMs + 1, stepMs }, nowMs).requests ?? []).map(
    ({ atMs, decided, denied }) => [(atMs - startMs) / minuteMs, decided, denied],
  );

it("requests are unknown in a step in which an isolate of an earlier version has sent counts, and in no other", () => {
  const store = new StatisticsStore(new MemorySql(), startMs);
  store.record(beat([counted(1, 10, 2)]), startMs);
  store.record(beat([batch(1, 5)], { isolate: "earlier" }), startMs + minuteMs);
  store.record(beat([counted(2, 7)]), startMs + minuteMs);
  store.record(beat([counted(3, 3, 1)]), startMs + 2 * minuteMs);
  const nowMs = startMs + 2 * minuteMs;
  expect(requestsOf(store, minuteMs, nowMs)).toEqual([
    [0, 10, 2],
    [1, null, null],
    [2, 3, 1],
  ]);
  expect(requestsOf(store, hourMs, nowMs)).toEqual([[0, null, null]]);
});

it("requests stay unknown when their minute becomes a row, and when the row is read by a new object", () => {
  const storage = new MemorySql();
  const store = new StatisticsStore(storage, startMs);
  store.record(beat([batch(1, 5)]), startMs);
  store.record(beat([counted(2, 4)]), startMs + minuteMs);
  store.run(startMs + hourMs);
  const revived = new StatisticsStore(storage, startMs + hourMs);
  expect(requestsOf(revived, minuteMs, startMs + hourMs)).toEqual([
    [0, null, null],
    [1, 4, 0],
  ]);
});

it("a batch that has only failures of the origin makes no request unknown", () => {
  const store = new StatisticsStore(new MemorySql(), startMs);
  store.record(beat([{ seq: 1, agoMs: 0, policies: {}, originFailures: 3 }]), startMs);
  expect(requestsOf(store, minuteMs, startMs)).toEqual([]);
});

it("the totals count the requests that are known, also beside isolates of an earlier version", () => {
  const store = new StatisticsStore(new MemorySql(), startMs);
  store.record(beat([batch(1, 5), counted(2, 10, 2)]), startMs);
  store.write(startMs);
  const { requests, deniedRequests } = store.totals(startMs);
  expect({ requests, deniedRequests }).toEqual({ requests: 10, deniedRequests: 2 });
});
