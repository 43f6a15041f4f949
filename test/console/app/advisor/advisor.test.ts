/**
 * The models of the Advisor view: texts, goals with fields, the slider, points of the plot, and the selection in the
 * URL.
 */
import { describe, expect, it } from "vitest";
import { goalForms, valuesOf, writtenGoal } from "../../../../src/console/app/advisor/goal-picker.tsx";
import { readGoal } from "../../../../src/console/app/advisor/goal-reader.ts";
import {
  areOld,
  chosenIn,
  countEstimateText,
  defaultGoal,
  goalLine,
  nearestPoint,
  nearestStep,
  plotSummary,
  pointsOf,
  queryOf,
  samplesText,
  shareEstimateText,
  shareText,
  stepsAround,
  unitsIn,
  withLimit,
} from "../../../../src/console/app/advisor/candidates.ts";
import { knownSamples, startMs } from "../replay/known-samples.ts";
import { advice, candidate, exactly } from "./candidates.ts";

describe("texts of the advisor", () => {
  it.for([
    [0, "0 %"],
    [0.00043, "0.043 %"],
    [0.001, "0.1 %"],
    [0.0999, "10 %"],
    [0.1234, "12 %"],
    [1, "100 %"],
    [0.000_000_1, "< 0.001 %"],
  ] as const)("a share of %d is written as %s", ([share, text]) => {
    expect(shareText(share)).toBe(text);
  });

  it("an estimate is shown with its interval, unless the estimate is exact", () => {
    expect(shareEstimateText({ value: 0.00043, low: 0.0002, high: 0.001 })).toBe("0.043 % (0.02 to 0.1 %)");
    expect(shareEstimateText(exactly(0.5))).toBe("50 %");
    expect(shareEstimateText({ value: 0.1, low: 0, high: 1 })).toBe("10 % (sample too small for a range)");
    expect(countEstimateText({ value: 1240.4, low: 980, high: 1_600 })).toBe("1,240 (980 to 1,600)");
    expect(countEstimateText(exactly(7))).toBe("7");
  });

  it("the line about samples states the number of keys, their share of all keys, the age, and the recorded share if requests are missing", () => {
    expect(samplesText(knownSamples(), startMs)).toBe(
      "Based on 41 of about 2,600 keys (1 in 64) with 12,345 requests in 1 d, until 2 min ago. Only 99.8 % of the requests of these keys were recorded.",
    );
    const { source } = knownSamples();
    const all = knownSamples({
      keys: 1,
      arrivals: 1,
      coverage: 1,
      source: { ...source, oneKeyIn: 1, fromMs: source.toMs - 250_000 },
    });
    expect(samplesText(all, startMs - 90_000)).toBe(
      "Based on 1 key with 1 request in 4 min 10 s, until less than a minute ago.",
    );
  });

  it("a recorded share just below 100 % is not rounded up", () => {
    expect(samplesText(knownSamples({ coverage: 0.999_99 }), startMs)).toContain("Only 99.9 % of the requests");
  });

  it("samples count as old when the newest is more than a quarter of an hour old", () => {
    expect(areOld(knownSamples(), startMs + 600_000)).toBe(false);
    expect(areOld(knownSamples(), startMs + 1_000_000)).toBe(true);
    expect(areOld(knownSamples({ storedAtMs: null }), startMs + 1e9)).toBe(false);
  });
});

describe("goals with fields", () => {
  it.for(goalForms)("the default fields of the kind $kind are a valid goal of this kind", (form) => {
    const read = readGoal(writtenGoal(form, form.defaults));
    expect(read).toMatchObject({ goal: { kind: form.kind } });
  });

  it.for([
    "deny at most 0.05 % of requests",
    "deny at most 1 key in 3",
    "deny at most 40 % of keys",
    "never let one key exceed 20 requests in 10 seconds",
    "never let one key exceed 1,000 requests in a day",
    "protect the origin at 1,500 requests per second",
  ])("reading the goal “%s” into fields gives the same goal", (text) => {
    const read = readGoal(text);
    if ("problem" in read) throw new Error(read.problem);
    const form = goalForms.find(({ kind }) => kind === read.goal.kind);
    if (form === undefined) throw new Error("expected a form");
    expect(readGoal(writtenGoal(form, valuesOf(read.goal)))).toEqual(read);
  });

  it("the default goal counts keys, as the traffic of the demo needs", () => {
    expect(readGoal(defaultGoal)).toMatchObject({ goal: { kind: "denied-keys", mostShare: 0.01 }, text: defaultGoal });
  });

  it("a text that is not a goal is refused with the accepted forms", () => {
    expect(readGoal("make it fast")).toEqual({
      problem: expect.stringMatching(/deny at most 0\.1 % of requests.*got "make it fast"$/s),
    });
  });
});

describe("the slider", () => {
  it("the slider ranges from about a tenth to about ten times the limit in round steps, and includes the limit", () => {
    const steps = stepsAround(137);
    expect(steps[0]).toBe(15);
    expect(steps.at(-1)).toBe(1_200);
    expect(steps).toContain(137);
    expect(steps).toEqual(steps.toSorted((one, other) => one - other));
    expect(stepsAround(1)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it("the slider shows a limit between two steps at the nearer step", () => {
    expect(nearestStep([10, 20, 50], 24)).toBe(1);
    expect(nearestStep([10, 20, 50], 9_000)).toBe(2);
  });

  it("the slider changes the first limit of a candidate, and its burst in proportion", () => {
    const [log] = candidate().limits;
    const bucket = advice().candidates[1]?.limits ?? [];
    expect(withLimit(bucket, 90)).toEqual([{ ...bucket[0], limit: 90, burst: 30 }]);
    expect(withLimit(bucket, 1)).toMatchObject([{ limit: 1, burst: 1 }]);
    expect(log === undefined || withLimit([log, ...bucket], 7)).toEqual([{ ...log, limit: 7 }, ...bucket]);
  });
});

describe("the plot of candidates", () => {
  const none = { inEffect: null, changed: null, selected: null };

  it("the plot has a point for each candidate, for the limits in effect, and for the limit of the slider", () => {
    const moved = candidate({ worstBurst: exactly(99) });
    const shown = { inEffect: candidate(), changed: moved, selected: 0 };
    const points = pointsOf(advice(), shown);
    expect(points.map(({ mark, candidate: index, isSelected }) => [mark, index, isSelected])).toEqual([
      ["sliding-log", 0, false],
      ["token-bucket", 1, false],
      ["other", null, false],
      ["sliding-log", null, true],
    ]);
    expect(points[2]?.label).toBe("In effect now: 120 per minute, sliding-log");
  });

  it("the plot's summary names the number of candidates and the recommended one", () => {
    expect(plotSummary(pointsOf(advice(), none))).toBe(
      "2 candidates; recommended: 60 per minute, token-bucket, burst 20. The table below has their numbers.",
    );
  });

  it("the plot shows the bound of a goal on the axis that the goal limits", () => {
    expect(goalLine({ kind: "denied-requests", mostShare: 0.01 })).toEqual({
      axis: "share",
      at: 0.01,
    });
    expect(goalLine({ kind: "origin-rate", mostPerSecond: 500 })).toEqual({
      axis: "burst",
      at: 500,
    });
    expect(goalLine({ kind: "key-rate", most: 20, windowMs: 1_000 })).toBe(null);
  });

  it("a tap selects the nearest point of the plot within a finger's width", () => {
    const places = [
      { left: 100, top: 100 },
      { left: 110, top: 100 },
    ];
    expect(nearestPoint(places, { left: 106, top: 100 })).toBe(1);
    expect(nearestPoint(places, { left: 100, top: 125 })).toBe(null);
  });
});

describe("the selected candidate in the URL", () => {
  const query = (fields: object): URLSearchParams => new URLSearchParams(Object.entries(fields));

  it("the recommended candidate is selected unless the URL names another candidate, and none without a recommendation", () => {
    expect(chosenIn(advice(), query({}))).toBe(1);
    expect(queryOf(candidate())).toEqual({ candidate: "sliding-log 120/60000", limit: undefined });
    expect(chosenIn(advice(), query({ candidate: "sliding-log 120/60000" }))).toBe(0);
    expect(chosenIn(advice(), query({ candidate: "sliding-log 120/1" }))).toBe(1);
    const wait = { kind: "wait", forMs: null, reason: "" } as const;
    expect(chosenIn(advice({ recommendation: wait }), query({}))).toBe(null);
  });

  it("when newer samples change the limit of the selected candidate, the one with the same strategy and window is selected", () => {
    const [log] = candidate().limits;
    const stricter = candidate({ limits: log === undefined ? [] : [{ ...log, limit: 60 }] });
    const candidates = [stricter, candidate()];
    const chosen = (name: string) => chosenIn(advice({ candidates }), query({ candidate: name }));
    expect(chosen("sliding-log 120/60000")).toBe(1);
    expect(chosen("sliding-log 90/60000")).toBe(0);
  });

  it("the URL contains a limit only after the slider has moved", () => {
    expect(queryOf(candidate(), 120)["limit"]).toBeUndefined();
    expect(queryOf(candidate(), 90)["limit"]).toBe(90);
  });

  it("the shown limit is that of the URL, or the candidate's own if the URL has an invalid number", () => {
    expect(unitsIn(candidate(), query({ limit: 90 }))).toBe(90);
    for (const limit of ["0", "-5", "1.5", "many", ""]) {
      expect(unitsIn(candidate(), query({ limit }))).toBe(120);
    }
  });
});
