import { describe, expect, it } from "vitest";
import { arrivalFaults } from "./after.ts";
import type { OriginReport } from "./origin.ts";

const course = { letIn: [1, 2], denied: [3], lost: 1 };
const arrivals: OriginReport = {
  ids: [1, 2],
  changed: [],
  count: 2,
  mostInFlight: { somebody: 3 },
};

const faultsOf = (change: Partial<OriginReport>, spent = 2): string[] =>
  arrivalFaults(course, { ...arrivals, ...change }, spent);

describe("the requests that reached the origin", () => {
  it("no fault is found when every allowed request reached the origin and charged a unit", () => {
    expect(faultsOf({})).toEqual([]);
  });

  it("the origin may receive fewer requests than were charged, but only by the number of disconnected clients", () => {
    expect(faultsOf({}, 3)).toEqual([]);
    expect(faultsOf({}, 4)).toHaveLength(1);
  });

  it.for<[string, Partial<OriginReport>]>([
    ["more requests reached the origin than were charged", { count: 3 }],
    ["a denied request reached the origin", { ids: [1, 2, 3], count: 2 }],
    ["a request reached the origin twice", { ids: [1, 2, 2] }],
    ["an allowed request did not reach the origin", { ids: [1] }],
    ["a request reached the origin with another method", { changed: [2] }],
    ["more requests were in flight than there are slots", { mostInFlight: { somebody: 4 } }],
  ])("a fault is found if %s", ([, change]) => {
    expect(faultsOf(change)).toHaveLength(1);
  });
});
