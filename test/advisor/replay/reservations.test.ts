import { expect, it } from "vitest";
import { replayAll, replayProblem } from "../../../src/advisor/replay/replay.ts";
import type { ArrivalReservation } from "../../../src/advisor/replay/timelines.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { startMs } from "../../strategies/meters.ts";
import { type TestArrival, timelinesOf } from "./timelines-of.ts";

const ttlMs = 60_000;

const reservedAt = (
  atMs: number,
  runsMs: number | null,
  { settledCost = 1, ...other }: Partial<TestArrival & ArrivalReservation> = {},
): TestArrival => ({
  key: "a",
  atMs: startMs + atMs,
  outcome: "allowed",
  reservation: {
    ttlMs,
    settledAtMs: runsMs === null ? null : startMs + atMs + runsMs,
    settledCost,
  },
  ...other,
});

function replayed(arrivals: readonly TestArrival[], text: string, strategy: string) {
  const limits = parseLimits(text, { strategy });
  const [result] = replayAll(timelinesOf(arrivals), [limits], { keepsDecisions: true });
  if (result === undefined) throw new Error("expected one result");
  return { ...result, allowed: [...(result.allowed ?? [])] };
}

it("a slot becomes free when its request ends, and the replay reports the largest number of slots held at once", () => {
  const list = [reservedAt(0, 500), reservedAt(100, 500), reservedAt(200, 100), reservedAt(500, 1)];
  const { allowed, mostAdmitted, longestDeniedMs } = replayed(list, "2/30s", "concurrency");
  expect(allowed).toEqual([1, 1, 0, 1]);
  expect(mostAdmitted).toEqual([{ limit: "default", windowMs: 30_000, units: 2, key: 0 }]);
  expect(longestDeniedMs).toBe(300);
});

it("a request that outlasts the lease of its slot renews the slot, and a request that is never settled does not", () => {
  const list = [reservedAt(0, 100_000), reservedAt(50_000, 1), reservedAt(100_000, 1)];
  expect(replayed(list, "1/30s", "concurrency").allowed).toEqual([1, 0, 1]);
  const unsettled = [reservedAt(0, null), reservedAt(29_999, 1), reservedAt(30_000, 1)];
  expect(replayed(unsettled, "1/30s", "concurrency").allowed).toEqual([1, 0, 1]);
});

it("a settlement below the reserved cost refunds the difference, and the actual costs are reported", () => {
  const list = [
    reservedAt(0, 10, { cost: 5, settledCost: 2 }),
    reservedAt(5, 10, { cost: 3, settledCost: 3 }),
    reservedAt(10, 10, { cost: 3, settledCost: 3 }),
  ];
  const { allowed, mostAdmitted } = replayed(list, "5/minute", "sliding-log");
  expect(allowed).toEqual([1, 0, 1]);
  expect(mostAdmitted[0]).toMatchObject({ units: 5 });
});

it("a settlement above the reserved cost leaves a debt", () => {
  const list = [reservedAt(0, 10, { settledCost: 4 }), reservedAt(20, 10), reservedAt(30, 10)];
  expect(replayed(list, "5/minute", "fixed-window").allowed).toEqual([1, 1, 0]);
});

it("a request that was denied in the recording is assumed to have the key's median duration and cost", () => {
  const denied = { outcome: "denied" as const };
  const others = [100, 300, 9_000].map((runsMs, index) => reservedAt(100_000 * index, runsMs));
  const list = [...others, reservedAt(300_000, null, denied), reservedAt(300_299, 300), reservedAt(300_300, 300)];
  expect(replayed(list, "1/30s", "concurrency").allowed).toEqual([1, 1, 1, 1, 0, 1]);
  // The key has no settlement of its own, so the replay takes the median of all keys, whose cost is mostly 0.
  const countOfOthers = [0, 0, 1].map((settledCost, index) => reservedAt(index, 5, { settledCost }));
  const countOfKey = [0, 10, 20].map((atMs) => reservedAt(atMs, null, { ...denied, key: "b" }));
  expect(replayed([...countOfOthers, ...countOfKey], "1/minute", "sliding-log").allowed).toEqual([1, 0, 0, 1, 1, 1]);
});

it("a set of limits with slots is refused when no arrival has a duration, as in a log", () => {
  const log = timelinesOf([{ key: "a", atMs: startMs }]);
  const slots = parseLimits("1/30s; 5/minute", { strategy: "concurrency" });
  const message =
    /^the limit "default.1-per-30s" has the strategy "concurrency", which needs to know how long each request runs/;
  expect(replayProblem(log, slots)).toMatch(message);
  expect(() => replayAll(log, [slots])).toThrow(message);
  expect(replayProblem(log, parseLimits("5/minute"))).toBeNull();
  expect(replayProblem(timelinesOf([reservedAt(0, 1)]), slots)).toBeNull();
});

it("clients that honor Retry-After try again when a slot may be free, and give up after 10 retries", () => {
  const list = [reservedAt(0, 3_500), reservedAt(1, 2_000), reservedAt(2, null, { cost: 2 })];
  const limits = parseLimits("1/30s", { strategy: "concurrency" });
  const [result] = replayAll(timelinesOf(list), [limits], { retry: "obey" });
  // The second request is allowed at 4,001 ms. The third is never allowed.
  expect(result).toMatchObject({
    denied: 2,
    retries: { sent: 4, denied: 3, abandoned: 1, longestWaitMs: 4_000 },
  });
  const busy = [reservedAt(0, 25_000), reservedAt(1, 1)];
  const [gaveUp] = replayAll(timelinesOf(busy), [limits], { retry: "obey" });
  expect(gaveUp?.retries).toEqual({ sent: 10, denied: 10, abandoned: 1, longestWaitMs: 0 });
});

it("a key sends at most 100,000 retries in a replay", () => {
  const list = Array.from({ length: 20_000 }, (_, index) => ({
    key: "a",
    atMs: startMs + index,
  }));
  const limits = parseLimits("1/hour; 1/day", { strategy: "fixed-window" });
  const [hourly] = replayAll(timelinesOf(list), [limits.slice(0, 1)], { retry: "obey" });
  expect(hourly?.retries?.sent).toBe(100_000);
  expect(hourly?.retries?.abandoned).toBeGreaterThan(10_000);
});

it.each([0, -1, 0.5, Number.NaN, 1])("a plot interval of %d ms is refused as invalid", (stepMs) => {
  const list = [
    { key: "a", atMs: startMs },
    { key: "a", atMs: startMs + 200_000 },
  ];
  expect(() => replayAll(timelinesOf(list), [], { stepMs })).toThrow(/^stepMs must be an integer/);
});
