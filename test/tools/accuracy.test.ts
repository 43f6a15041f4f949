/** The accuracy page shows the computed figures, and every strategy keeps its bound. */
import { describe, expect, it } from "vitest";
import { strategies } from "../../src/strategies/index.ts";
import { accuracyDocs } from "./accuracy-docs.ts";
import { outdated } from "./generated.ts";
import { measurePeers } from "./peers/exactness.ts";
import { type Accuracy, measureAccuracy, shape, type Tally } from "./accuracy-replay.ts";
import { kinds } from "./traffic.ts";

const measured = measureAccuracy();
const peers = await measurePeers(measured);

const tallies = (title: string): Tally[] => {
  const found = measured.find(({ form }) => form.title === title);
  if (found === undefined) throw new Error(`${title} is not measured`);
  return [...found.tallies.values()];
};

/** The most units that are admitted in any window, relative to the limit. */
const mostOf = (all: readonly Tally[]): number => Math.max(...all.map((tally) => tally.most)) / shape.limit;

const titlesOf = (isMeant: (accuracy: Accuracy) => boolean): string[] =>
  measured.filter(isMeant).map(({ form }) => form.title);

describe("the accuracy table", () => {
  it("the accuracy table has a row for every strategy", () => {
    const named = new Set(measured.map(({ form }) => form.strategy));
    expect(named).toEqual(new Set(strategies.keys()));
  });

  it("the tables and the plot of the accuracy page, and the table of the comparison page, equal the computed ones", () => {
    expect(outdated(accuracyDocs(measured, peers))).toEqual([]);
  });

  it("the accuracy table is equal in every run", () => {
    expect(measureAccuracy(1_000)).toEqual(measureAccuracy(1_000));
  });

  it("every form of a strategy decides the requested number of requests, and fixed windows over-admit in each kind of traffic", () => {
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

describe("the replay of a strategy", () => {
  it.each(["sliding-log", "concurrency"])("%s makes the same decisions as the exact log", (title) => {
    for (const { over, under, most } of tallies(title)) {
      expect({ over, under, most }).toEqual({ over: 0, under: 0, most: shape.limit });
    }
  });

  it('sliding-buckets never over-admit with edge = "keep", and admit at most twice the limit with edge = "drop"', () => {
    expect(mostOf(tallies("sliding-buckets keep"))).toBe(1);
    expect(mostOf(tallies("sliding-buckets drop"))).toBe(2);
  });

  it("fixed windows admit twice the limit across a window boundary", () => {
    expect(mostOf(tallies("fixed-window clock"))).toBe(2);
    // When the next window opens, the request that opened the previous window is exactly one window old, so that a span
    // of one window no longer contains it.
    expect(mostOf(tallies("fixed-window first-request"))).toBe(2 - 1 / shape.limit);
  });

  it("no strategy admits more than its capacity plus the limit in one window", () => {
    const isWithin = (title: string): boolean => mostOf(tallies(title)) <= 2;
    const isQueue = (title: string): boolean => title === "leaky-bucket queue";
    const others = titlesOf(({ form }) => !isQueue(form.title));
    expect(others.filter((title) => !isWithin(title))).toEqual([]);
    expect(mostOf(tallies("leaky-bucket queue"))).toBeLessThanOrEqual(2 + 1 / shape.limit);
  });

  it("a leaky-bucket queue releases at most the limit in any window", () => {
    const leaving = tallies("leaky-bucket queue").map((tally) => tally.mostLeaving);
    expect(Math.max(...leaving)).toBe(shape.limit);
  });

  it("a policing leaky bucket makes the same decisions as a continuous token bucket", () => {
    const tallyCounts = (title: string): object[] =>
      tallies(title).map(({ over, under, most }) => ({ over, under, most }));
    expect(tallyCounts("leaky-bucket police")).toEqual(tallyCounts("token-bucket continuous"));
  });
});
