/** The minutes of counts: isolates report them later than they make them. */
import { describe, expect, it } from "vitest";
import { IsolateStatistics } from "../../../src/control/isolate/statistics.ts";
import { StatisticsStore } from "../../../src/control/object/statistics.ts";
import type { StatisticsBatch } from "../../../src/control/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { batch, beat } from "./batches.ts";

const startMs = Date.UTC(2026, 10, 22, 10);
const secondMs = 1_000;
const minuteMs = 60_000;

const minutesOf = (store: StatisticsStore, nowMs: number) =>
  store
    .statistics({ fromMs: startMs - 60 * minuteMs, toMs: nowMs + 1, stepMs: minuteMs }, nowMs)
    .points.map(({ atMs, outcomes }) => [(atMs - startMs) / minuteMs, outcomes.allowed]);

/** One decision each second, and a beat each `beatSeconds`, first after `firstSeconds`. */
async function decideEachSecond(seconds: number, firstSeconds: number, beatSeconds: number) {
  let nowMs = startMs;
  const isolate = new IsolateStatistics({ sealer: null, alertedPolicies: new Set(), clock: { now: () => nowMs } });
  const store = new StatisticsStore(new MemorySql(), startMs);
  for (let second = 0; second < seconds; second++, nowMs += secondMs) {
    isolate.startMinute(nowMs);
    isolate.count("api", "allowed");
    isolate.countRequest(null);
    if (second % beatSeconds !== firstSeconds) continue;
    // oxlint-disable-next-line no-await-in-loop -- each beat follows the answer to the previous one
    isolate.stored(store.record(beat(await isolate.batches()), nowMs));
  }
  return { isolate, store, nowMs };
}

describe("counts that a beat takes to the control plane later", () => {
  it("are stored in the minute in which the isolate made them, although one beat has counts of two minutes", async () => {
    const { store, nowMs } = await decideEachSecond(4 * 60, 6, 30);
    expect(minutesOf(store, nowMs)).toEqual([
      [0, 60],
      [1, 60],
      [2, 60],
      [3, 37],
    ]);
  });

  it("are all reported, also when more minutes pass without a beat than are kept apart", async () => {
    const { isolate, store, nowMs } = await decideEachSecond(10 * 60, 599, 600);
    const counted = minutesOf(store, nowMs).reduce((sum, [, allowed = 0]) => sum + allowed, 0);
    expect(counted).toBe(600);
    expect(await isolate.batches()).toEqual([]);
  });

  it("are in one batch for each minute, so that a beat of one minute has one batch", async () => {
    const { isolate } = await decideEachSecond(90, 600, 601);
    const batches = await isolate.batches();
    expect(batches.map(({ countedInMs, policies }) => [countedInMs, policies["api"]?.outcomes.allowed])).toEqual([
      [startMs, 60],
      [startMs + minuteMs, 30],
    ]);
  });
});

describe("the minute that a batch names", () => {
  const recorded = (others: Partial<StatisticsBatch>, nowMs = startMs + 30 * secondMs) => {
    const store = new StatisticsStore(new MemorySql(), startMs - 60 * minuteMs);
    store.record(beat([{ ...batch(1, 5), ...others }]), nowMs);
    return minutesOf(store, nowMs);
  };

  it("is the minute of its counts while that minute is open", () => {
    expect(recorded({ countedInMs: startMs - minuteMs })).toEqual([[-1, 5]]);
    expect(recorded({ countedInMs: startMs - minuteMs + 1 })).toEqual([[-1, 5]]);
  });

  it("has no effect in the future, in the far past, or if it is no number", () => {
    for (const countedInMs of [startMs + minuteMs, startMs - 2 * minuteMs, 0, -1, Number.NaN, Infinity]) {
      expect(recorded({ countedInMs })).toEqual([[0, 5]]);
    }
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a damaged batch
    expect(recorded({ countedInMs: "10:00" as never })).toEqual([[0, 5]]);
  });

  it("is absent from isolates of earlier versions, whose counts are those of the minute in which the batch was closed", () => {
    expect(recorded({ agoMs: 40 * secondMs })).toEqual([[-1, 5]]);
    expect(recorded({ agoMs: 4 * minuteMs })).toEqual([[0, 5]]);
  });
});
