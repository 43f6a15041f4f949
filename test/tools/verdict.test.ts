import { describe, expect, it } from "vitest";
import { judge, type MeasuredLoad } from "./verdict.ts";

const exact: MeasuredLoad = {
  limit: 3,
  windowMs: 1000,
  elapsedMs: 4500,
  told: [5, 5, 5],
  served: 15,
  refused: 1000,
  errors: 0,
};

const faultsOf = (change: Partial<MeasuredLoad>): number =>
  judge({ ...exact, ...change }).faults.length;

describe("the verdict on a load test", () => {
  it("a load test passes when every window admits each unit of the limit once", () => {
    expect(judge(exact)).toEqual({ windows: 5, allowed: 15, faults: [] });
  });

  it.for<[string, Partial<MeasuredLoad>]>([
    ["one too many was let in", { told: [6, 5, 5], served: 16 }],
    ["one too few was let in", { told: [4, 5, 5], served: 14 }],
    ["windows were shorter than they should be", { told: [6, 6, 6], served: 18 }],
    ["more was said to remain than there is", { told: [5, 5, 5, 1], served: 16 }],
    ["a refused request reached the origin", { served: 16 }],
    ["the load never reached the limit", { refused: 0 }],
    ["a request failed", { errors: 1 }],
    ["nothing was let in", { told: [], served: 0 }],
  ])("a load test fails when %s", ([, change]) => {
    expect(faultsOf(change)).toBeGreaterThan(0);
  });
});
