/** What the README's table of accuracy says is what comes out, and what the strategies promise is in it. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { strategies } from "../../src/strategies/index.ts";
import { accuracyHeader, accuracyRow } from "./accuracy-table.ts";
import { type Accuracy, measureAccuracy, shape, type Tally } from "./replay.ts";
import { cellsOf } from "./table.ts";
import { kinds } from "./traffic.ts";

const measured = measureAccuracy();

const tallies = (title: string): Tally[] => {
  const found = measured.find(({ form }) => form.title === title);
  if (found === undefined) throw new Error(`${title} is not measured`);
  return [...found.tallies.values()];
};

/** Relative to the limit. */
const mostOf = (all: readonly Tally[]): number =>
  Math.max(...all.map((tally) => tally.most)) / shape.limit;

const titlesOf = (isMeant: (accuracy: Accuracy) => boolean): string[] =>
  measured.filter(isMeant).map(({ form }) => form.title);

describe("the table of accuracy", () => {
  it("has every strategy", () => {
    const named = new Set(measured.map(({ form }) => form.strategy));
    expect(named).toEqual(new Set(strategies.keys()));
  });

  it("is in the README as it is measured, but for the speed", () => {
    const [, section = ""] = readFileSync("README.md", "utf8").split(/^#+ Accuracy$/m);
    const shown = cellsOf(section).map((row) => row.slice(0, -1));
    expect(shown).toEqual([accuracyHeader, ...measured.map(accuracyRow)]);
  });

  it("comes out the same each time", () => {
    expect(measureAccuracy(1_000)).toEqual(measureAccuracy(1_000));
  });

  it("is of as many requests as were asked for, some of them admitted and some denied", () => {
    for (const kind of Object.keys(kinds)) {
      const requests = measured.map((accuracy) => accuracy.tallies.get(kind)?.requests);
      expect(new Set(requests)).toEqual(new Set([shape.requests]));
    }
    for (const tally of tallies("fixed-window first-request")) {
      expect(tally.over).toBeGreaterThan(0);
      expect(tally.most).toBeGreaterThanOrEqual(shape.limit);
    }
  });
});

describe("by what is measured", () => {
  it.each(["sliding-log", "concurrency"])("%s is exact", (title) => {
    for (const { over, under, most } of tallies(title)) {
      expect({ over, under, most }).toEqual({ over: 0, under: 0, most: shape.limit });
    }
  });

  it("sliding-buckets never over-admit unless they forget early, and then not beyond twice the limit", () => {
    expect(mostOf(tallies("sliding-buckets keep"))).toBe(1);
    expect(mostOf(tallies("sliding-buckets drop"))).toBe(2);
  });

  it("fixed windows let in twice the limit across an edge", () => {
    expect(mostOf(tallies("fixed-window clock"))).toBe(2);
    // The request that opened the window is a whole window old when the next is open.
    expect(mostOf(tallies("fixed-window first-request"))).toBe(2 - 1 / shape.limit);
  });

  it("no strategy lets in more than its capacity and a limit", () => {
    const isWithin = (title: string): boolean => mostOf(tallies(title)) <= 2;
    const isQueue = (title: string): boolean => title === "leaky-bucket queue";
    const others = titlesOf(({ form }) => !isQueue(form.title));
    expect(others.filter((title) => !isWithin(title))).toEqual([]);
    expect(mostOf(tallies("leaky-bucket queue"))).toBeLessThanOrEqual(2 + 1 / shape.limit);
  });

  it("a queue sends on no more than the limit in any window", () => {
    const leaving = tallies("leaky-bucket queue").map((tally) => tally.mostLeaving);
    expect(Math.max(...leaving)).toBe(shape.limit);
  });

  it("a policing leaky bucket decides as a continuous token bucket does", () => {
    const counted = (title: string): object[] =>
      tallies(title).map(({ over, under, most }) => ({ over, under, most }));
    expect(counted("leaky-bucket police")).toEqual(counted("token-bucket continuous"));
  });
});
