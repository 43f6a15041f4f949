import { describe, expect, it } from "vitest";
import { arrivalFaults } from "./after.ts";
import type { OriginReport } from "./origin.ts";

const course = { letIn: [1, 2], refused: [3], lost: 1 };
const arrivals: OriginReport = {
  ids: [1, 2],
  changed: [],
  count: 2,
  mostInFlight: { somebody: 3 },
};

const faultsOf = (change: Partial<OriginReport>, spent = 2): string[] =>
  arrivalFaults(course, { ...arrivals, ...change }, spent);

describe("what has reached the origin", () => {
  it("is all that was let in, and a unit was spent for each", () => {
    expect(faultsOf({})).toEqual([]);
  });

  it("may be less than was spent, by those that have gone away", () => {
    expect(faultsOf({}, 3)).toEqual([]);
    expect(faultsOf({}, 4)).toHaveLength(1);
  });

  it.for<[string, Partial<OriginReport>]>([
    ["more than was spent", { count: 3 }],
    ["what was refused", { ids: [1, 2, 3], count: 2 }],
    ["a request twice", { ids: [1, 2, 2] }],
    ["less than was let in", { ids: [1] }],
    ["a request of another method", { changed: [2] }],
    ["more at once than there are slots", { mostInFlight: { somebody: 4 } }],
  ])("must not be %s", ([, change]) => {
    expect(faultsOf(change)).toHaveLength(1);
  });
});
