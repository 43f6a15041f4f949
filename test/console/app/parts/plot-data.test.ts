/** The value of a plot that the cursor shows, and the groups of marks on the plot's time axis. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { groupMarks, indexAt, markSize, type PlotMark, rangeAt } from "../../../../src/console/app/parts/plot-data.ts";
import { forAll } from "../../../for-all.ts";

it("the time that a value covers is its step, and for a rate at least the last ten seconds", () => {
  expect(rangeAt({ times: [0, 60_000], stepMs: 60_000 }, 1)).toEqual({ fromMs: 60_000, toMs: 120_000 });
  const rates = { times: [60_000, 120_000, 122_000], stepMs: null };
  expect(rangeAt(rates, 0)).toEqual({ fromMs: 50_000, toMs: 60_000 });
  expect(rangeAt(rates, 1)).toEqual({ fromMs: 60_000, toMs: 120_000 });
  expect(rangeAt(rates, 2)).toEqual({ fromMs: 112_000, toMs: 122_000 });
});

describe("the value at an instant", () => {
  it("the cursor in the first half of a long step shows the rate of this step, not of the previous one", () => {
    const rates = { times: [60_000, 120_000, 122_000], stepMs: null };
    expect(indexAt(rates, 67_000)).toBe(1);
    expect(indexAt(rates, 119_000)).toBe(1);
    expect(indexAt(rates, 120_000)).toBe(1);
    expect(indexAt(rates, 120_001)).toBe(2);
  });

  it("in a plot of counts, the cursor in the second half of a step shows this step, not the next one", () => {
    const counts = { times: [0, 60_000, 120_000], stepMs: 60_000 };
    expect(indexAt(counts, 59_000)).toBe(0);
    expect(indexAt(counts, 60_000)).toBe(1);
    expect(indexAt(counts, 179_000)).toBe(2);
  });

  it("the cursor before the first value or after the last one shows the nearest value", () => {
    const rates = { times: [60_000, 62_000], stepMs: null };
    expect(indexAt(rates, 0)).toBe(0);
    expect(indexAt(rates, 99_000)).toBe(1);
    expect(indexAt({ times: [60_000, 120_000], stepMs: 60_000 }, 0)).toBe(0);
    expect(indexAt({ times: [], stepMs: null }, 0)).toBe(null);
  });
});

const axis = { fromMs: 1_000, toMs: 2_000 };

/** The labels have 18 and 7 characters. */
const mark = (atMs: number): PlotMark => ({
  atMs,
  label: "Blocked by someone",
  shortLabel: "Blocked",
  text: "",
  href: "",
});

const widthOf = (text: string): number => 7.5 * text.length;

const groupsOf = (marks: readonly PlotMark[], width: number): ReturnType<typeof groupMarks> =>
  groupMarks(marks, axis, width, widthOf);

const atMsOf = (marks: readonly PlotMark[], width: number): number[][] =>
  groupsOf(marks, width).map((group) => group.marks.map(({ atMs }) => atMs));

describe("groups of marks", () => {
  it(
    "the groups of marks contain each mark of the axis once, in order of time, and do not overlap",
    forAll([fc.array(fc.integer({ min: 0, max: 3_000 })), fc.integer({ min: 1, max: 2_000 })], (times, width) => {
      const groups = groupsOf(times.map(mark), width);
      const expected = times
        .filter((atMs) => atMs >= axis.fromMs && atMs <= axis.toMs)
        .toSorted((one, other) => one - other);
      expect(groups.flatMap(({ marks }) => marks.map(({ atMs }) => atMs))).toEqual(expected);
      const lefts = groups.map(({ left }) => left);
      const distances = lefts.slice(1).map((left, index) => left - (lefts[index] ?? 0));
      expect(Math.min(markSize, ...distances)).toBe(markSize);
      expect(Math.max(0, ...lefts)).toBeLessThanOrEqual(width);
    }),
  );

  it("a wide axis separates marks that a narrow axis groups", () => {
    expect(atMsOf([mark(1_500), mark(1_520)], 300)).toEqual([[1_500, 1_520]]);
    expect(atMsOf([mark(1_500), mark(1_520)], 1_200)).toEqual([[1_500], [1_520]]);
  });

  it(
    "labels of marks lie on the axis, and cover neither each other nor a mark",
    forAll([fc.array(fc.integer({ min: 1_000, max: 2_000 })), fc.integer({ min: 150, max: 2_000 })], (times, width) => {
      const groups = groupsOf(times.map(mark), width);
      const labels = groups.flatMap(({ label }) => (label === null ? [] : [label]));
      const ranges = [0, 1].map((row) => [
        ...labels.filter((label) => label.row === row).map(({ left, width: own }) => [left, left + own] as const),
        ...(row === 0 ? groups.map(({ left }) => [left - markSize / 2, left + markSize / 2] as const) : []),
      ]);
      for (const row of ranges) {
        const sorted = row.toSorted(([one], [other]) => one - other);
        const overlaps = sorted.filter(([left], index) => left < (sorted[index - 1]?.[1] ?? left));
        expect(overlaps).toEqual([]);
      }
      for (const { left, width: own } of labels) {
        expect(left).toBeGreaterThanOrEqual(0);
        expect(left + own).toBeLessThanOrEqual(width);
      }
    }),
  );

  const textsOf = (times: readonly number[], width: number): (string | undefined)[] =>
    groupsOf(times.map(mark), width).map(({ label }) => label?.text);

  it(
    "the mark of each label is nearer to it than any other mark",
    forAll([fc.array(fc.integer({ min: 1_000, max: 2_000 })), fc.integer({ min: 150, max: 2_000 })], (times, width) => {
      const groups = groupsOf(times.map(mark), width);
      for (const [own, { label }] of groups.entries()) {
        if (label === null) continue;
        const distances = groups.map(({ left }) => Math.max(label.left - left, left - label.left - label.width));
        const others = distances.filter((_, index) => index !== own);
        expect(distances[own]).toBeLessThan(17);
        expect(Math.min(markSize, ...others)).toBeGreaterThan(markSize - 1);
      }
    }),
  );

  it("marks that are far from each other have labels on a wide axis and on a narrow one", () => {
    const full = "Blocked by someone";
    expect(textsOf([1_010, 1_990], 1_000)).toEqual([full, full]);
    expect(textsOf([1_000, 1_200], 1_000)).toEqual([full, full]);
    expect(textsOf([1_100, 1_800], 220)).toEqual(["Blocked", "Blocked"]);
  });

  it("a label that would lie next to the mark of another change is omitted", () => {
    expect(textsOf([1_940, 1_990], 1_000)).toEqual(["Blocked by someone", undefined]);
    expect(textsOf([1_500, 1_530, 1_560], 1_000)).toEqual(["Blocked by someone", undefined, "Blocked by someone"]);
  });

  it("the label of a group of marks names the newest mark and the number of the others, or is omitted", () => {
    expect(textsOf([1_500, 1_501, 1_502], 1_000)).toEqual(["Blocked by someone, and 2 more"]);
    expect(textsOf([1_500, 1_501, 1_502], 200)).toEqual(["Blocked +2"]);
    expect(textsOf([1_500, 1_501, 1_502], 100)).toEqual([undefined]);
  });
});
