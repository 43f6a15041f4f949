/** The sentences above the lanes, which explain why a limit allows more requests than its number. */
import { expect, test } from "vitest";
import { headlineOf } from "../../../src/console/playground/lanes/lane-text.ts";
import { runOf, runsOf, scenarioOf } from "./runs.ts";

const headline = (query: string): string | null => headlineOf(runsOf(scenarioOf(query)));

const edgeBurst = "traffic=bursts&size=200&within=2s&first=59s&every=5m&length=130s";

test("a burst at the edge of a fixed window is explained by its two windows, and compared with its bound and the sliding log", () => {
  expect(headline(`limit=100/1m+fixed-window+align=clock&${edgeBurst}`)).toBe(
    "Fixed window: 200 requests passed within 2 s, twice the limit of 100 per minute: 100 at the end of one window and 100 at the start of the next. Its bound is 2L = 200. Sliding log: at most 100 in any minute.",
  );
});

test("when traffic stays within a fixed window's limit, the sentence still names the window's bound", () => {
  expect(headline(`limit=100/minute+fixed-window&${edgeBurst}`)).toBe(
    "Fixed window: at most 100 in any minute. Its bound is 2L = 200, which this traffic does not reach.",
  );
});

test("a burst that lasts a millisecond is not rounded up to a second", () => {
  expect(headline("limit=10/1m+fixed-window+align=clock&traffic=times&at=59.999x10,60x10")).toMatch(
    /^Fixed window: 20 requests passed within 1 ms, twice the limit of 10 per minute: 10 at/,
  );
});

test("the sentence names units instead of requests when requests cost more than one unit", () => {
  expect(headline("limit=10/1m+fixed-window+align=clock&traffic=times&at=59@7,60@9")).toMatch(
    /^Fixed window: 16 units passed within 1 s, 6 above the limit of 10 per minute: 7 at/,
  );
});

test("the limits as written come before another strategy that allows more requests", () => {
  expect(headline(`limit=100/minute+sliding-log&${edgeBurst}`)).toMatch(/^Sliding log: at most 100 in any minute\. /);
  expect(headline("limit=10/1m+sliding-log&traffic=times&at=0x10,30x5")).toMatch(
    /^Sliding log: at most 10 in any minute\. Token bucket: 15 requests passed within 30 s, 5 above/,
  );
});

test("the sentence about a queue says that accepted requests waited in it, and not that they passed", () => {
  expect(headline("limit=10/1m+leaky-bucket&traffic=times&at=0x10,30x5")).toBe(
    "Leaky bucket: at most 15 accepted in any minute. 14 requests waited in its queue, for up to 54 s. Sliding log: at most 10 in any minute.",
  );
  expect(headline(`limit=100/minute&${edgeBurst}`)).not.toContain("Leaky bucket");
});

test("the bound of a bucket is stated as burst plus limit, even when it happens to be a multiple of the limit", () => {
  expect(headline("limit=10/1m+token-bucket+burst=30&traffic=times&at=0x30,30x9")).toContain(
    "Its bound is burst + L = 40.",
  );
  expect(headline("limit=10/1m+token-bucket&traffic=times&at=0x10,30x5")).toContain("Its bound is 2L = 20.");
});

test("strategies that allow the same number of requests share one sentence", () => {
  expect(headline("limit=10/1m&traffic=times&at=0,1,2")).toBe("Every strategy: at most 3 in any minute.");
});

test("only for a single fixed window does the sentence split its worst burst by windows", () => {
  const unitsOf = (limits: string): readonly number[] => {
    const run = runOf(scenarioOf(`${limits}&traffic=times&at=30x4,59x2,60x3,61x5`));
    const [burst] = run.summary.worstBursts;
    if (burst === undefined || burst === null) throw new Error("expected a burst");
    return burst.unitsByWindow;
  };
  expect(unitsOf("limit=6/1m+fixed-window+align=clock")).toEqual([6, 6]);
  expect(unitsOf("limit=6/1m+fixed-window")).toEqual([6]);
  expect(unitsOf("limit=6/1m+sliding-log")).toEqual([]);
  expect(unitsOf("limit=6/1m+fixed-window+align=clock&limit=50/1h+fixed-window")).toEqual([]);
});
