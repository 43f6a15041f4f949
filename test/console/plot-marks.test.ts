/** The groups of marks on the time axis of a plot. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { groupMarks, markSize, type PlotMark } from "../../src/console/parts/plot-marks.ts";
import { forAll } from "../for-all.ts";

const axis = { fromMs: 1_000, toMs: 2_000 };

const mark = (atMs: number): PlotMark => ({ atMs, label: `at ${atMs}`, text: "", href: "" });

const atMsOf = (marks: readonly PlotMark[], width: number): number[][] =>
  groupMarks(marks, axis, width).map((group) => group.marks.map(({ atMs }) => atMs));

describe("groups of marks", () => {
  it(
    "have each mark of the axis once, in the order of time, and do not overlap",
    forAll(
      [fc.array(fc.integer({ min: 0, max: 3_000 })), fc.integer({ min: 1, max: 2_000 })],
      (times, width) => {
        const groups = groupMarks(times.map(mark), axis, width);
        const expected = times
          .filter((atMs) => atMs >= axis.fromMs && atMs <= axis.toMs)
          .toSorted((one, other) => one - other);
        expect(groups.flatMap(({ marks }) => marks.map(({ atMs }) => atMs))).toEqual(expected);
        const lefts = groups.map(({ left }) => left);
        const distances = lefts.slice(1).map((left, index) => left - (lefts[index] ?? 0));
        expect(Math.min(markSize, ...distances)).toBe(markSize);
        expect(Math.max(0, ...lefts)).toBeLessThanOrEqual(width);
      },
    ),
  );

  it("a wide axis separates marks that a narrow axis groups", () => {
    expect(atMsOf([mark(1_500), mark(1_520)], 300)).toEqual([[1_500, 1_520]]);
    expect(atMsOf([mark(1_500), mark(1_520)], 1_200)).toEqual([[1_500], [1_520]]);
  });

  it("a label is where it covers neither another mark nor the end of the axis", () => {
    const sides = groupMarks([1_010, 1_100, 1_130, 1_600, 1_990].map(mark), axis, 1_000);
    expect(sides.map(({ labelSide }) => labelSide)).toEqual([null, null, "right", "right", "left"]);
    expect(groupMarks([mark(1_900)], axis, 200).map(({ labelSide }) => labelSide)).toEqual([
      "left",
    ]);
    expect(groupMarks([mark(1_500)], axis, 200).map(({ labelSide }) => labelSide)).toEqual([null]);
  });
});
