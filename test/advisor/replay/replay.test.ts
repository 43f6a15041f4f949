import { expect, it } from "vitest";
import { replay, replayAll } from "../../../src/advisor/replay/replay.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { type TestArrival, timelinesOf } from "./timelines-of.ts";

const startMs = Date.UTC(2026, 0, 1);
const fixed = (text: string) => parseLimits(text, { strategy: "fixed-window" });
const arrivals = (key: string, ...timesMs: number[]): TestArrival[] =>
  timesMs.map((atMs) => ({ key, atMs: startMs + atMs }));

it("a replay counts the denied requests and keys, and how long each key was denied", () => {
  const timelines = timelinesOf([...arrivals("a", 0, 1_000, 2_000, 70_000), ...arrivals("b", 0, 61_000)]);
  const [result] = replayAll(timelines, [fixed("1/minute")], { keepsDecisions: true });
  expect(result).toMatchObject({ requests: 6, denied: 2, keys: 2, deniedKeys: 1 });
  expect([...(result?.deniedOfKey ?? [])]).toEqual([2, 0]);
  // The key is denied from 1 s until the end of its window, before the request at 70 s is allowed.
  expect(result?.longestDeniedMs).toBe(59_000);
  expect([...(result?.allowed ?? [])]).toEqual([1, 0, 0, 1, 1, 1]);
  expect(result?.mostAdmitted).toEqual([{ limit: "default", windowMs: 60_000, units: 1, key: 0 }]);
  const { startsMs, counts } = result?.admittedPerSecond ?? {};
  expect([...(startsMs ?? [])].map((ms) => ms - startMs)).toEqual([0, 1_000, 2_000, 61_000, 70_000]);
  expect([...(counts ?? [])]).toEqual([2, 0, 0, 1, 1]);
});

it("a caller cancels a replay by no longer iterating over it", () => {
  const timelines = timelinesOf(arrivals("a", ...Array.from({ length: 1_000 }, (_, index) => index)));
  const steps = replay(
    timelines,
    Array.from({ length: 1_000 }, () => fixed("1/minute")),
  );
  expect(steps.next().value).toBeLessThan(0.5);
  expect(steps.return([]).value).toEqual([]);
  expect(steps.next().done).toBe(true);
});

it("requests that a queue delays reach the origin when they leave it", () => {
  const timelines = timelinesOf(arrivals("a", ...Array.from({ length: 50 }, (_, index) => index)));
  const queue = parseLimits("10/second", { strategy: "leaky-bucket" }).map((limit) => ({
    ...limit,
    burst: 100,
  }));
  for (const retry of ["none", "obey"] as const) {
    const [result] = replayAll(timelines, [queue], { retry });
    expect(result?.denied).toBe(0);
    // The queue releases one request every 100 ms, although all of them arrived within 50 ms.
    expect([...(result?.admittedPerSecond.counts ?? [])]).toEqual([10, 10, 10, 10, 10]);
  }
});
