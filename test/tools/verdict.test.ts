import { describe, expect, it } from "vitest";
import { judge, type MeasuredLoad } from "./verdict.ts";

const exact: MeasuredLoad = {
  limit: 3,
  windowMs: 1000,
  elapsedMs: 4500,
  remainingCounts: [5, 5, 5],
  served: 15,
  denied: 1000,
  errors: 0,
};

const faultsOf = (change: Partial<MeasuredLoad>): number => judge({ ...exact, ...change }).faults.length;

describe("the verdict on a load test", () => {
  it("a load test passes when every window admits each unit of the limit exactly once", () => {
    expect(judge(exact)).toEqual({ windows: 5, allowed: 15, faults: [] });
  });

  it.for<[string, Partial<MeasuredLoad>]>([
    ["one request too many was admitted", { remainingCounts: [6, 5, 5], served: 16 }],
    ["one request too few was admitted", { remainingCounts: [4, 5, 5], served: 14 }],
    ["more windows opened than fit into the time", { remainingCounts: [6, 6, 6], served: 18 }],
    ["a response reported more remaining than the limit", { remainingCounts: [5, 5, 5, 1], served: 16 }],
    ["a denied request reached the origin", { served: 16 }],
    ["the load never reached the limit", { denied: 0 }],
    ["a request failed", { errors: 1 }],
    ["no request was admitted", { remainingCounts: [], served: 0 }],
  ])("a load test fails when %s", ([, change]) => {
    expect(faultsOf(change)).toBeGreaterThan(0);
  });
});
