/** The path of a sparkline. */
import { expect, it } from "vitest";
import { sparklinePath } from "../../../../src/console/app/parts/sparkline.tsx";

it("the line has a step for each value, from the bottom for 0 to the top for the largest value", () => {
  expect(sparklinePath([0, 5, 10])).toBe("M0 23H32V12H64V1H96");
});

it("the line has a gap where nothing is known", () => {
  expect(sparklinePath([2, null, 2, 0])).toBe("M0 1H24M48 1H72V23H96");
});

it("without a count above 0, the line lies at the bottom", () => {
  expect(sparklinePath([0, 0])).toBe("M0 23H48V23H96");
  expect(sparklinePath([])).toBe("");
});
