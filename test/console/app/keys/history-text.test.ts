/** The history on the page of a key without a browser: its span, its steps, and the sentences about it. */
import { describe, expect, it } from "vitest";
import type { KeyHistory } from "../../../../src/admin/wire.ts";
import {
  basisText,
  fittingSpan,
  historyOf,
  historySpans,
  historyPeriod,
  totalText,
} from "../../../../src/console/app/keys/history-text.ts";
import { shortInstantText } from "../../../../src/console/app/parts/text.ts";
import { startMs } from "../audit-entries.ts";

const minuteMs = 60_000;
const at = (minutes: number): string => new Date(startMs + minutes * minuteMs).toISOString();

/** The answer at `startMs`. The points are given by their minutes before it. */
const history = (ages: readonly number[], fields: Partial<KeyHistory> = {}): KeyHistory => ({
  policy: "api",
  id: "k",
  from: at(-1_440),
  to: at(0),
  stepMs: minuteMs,
  sample: { from: at(-1_440), coverage: 1 },
  recordings: [],
  recording: null,
  points: ages.map((age) => ({ at: at(-age), outcomes: { allowed: 3, denied: 1 } })),
  ...fields,
});

const [quarter, hour, day] = historySpans as readonly [
  (typeof historySpans)[0],
  (typeof historySpans)[0],
  (typeof historySpans)[0],
];

describe("the history of a key", () => {
  it.each([
    [[], "15m"],
    [[8, 2], "15m"],
    [[16, 2], "1h"],
    [[61], "24h"],
  ])("for requests that are %j minutes old, the plot begins with the span %s", (ages, name) => {
    expect(fittingSpan(history(ages)).name).toBe(name);
  });

  it("the totals and the plot have the requests of the span only", () => {
    const value = history([700, 50, 47, 3]);
    expect(historySpans.map((span) => historyOf(value, span).totals)).toEqual([
      { denied: 1, requests: 4 },
      { denied: 3, requests: 12 },
      { denied: 4, requests: 16 },
    ]);
    const { data } = historyOf(value, quarter);
    expect([data.times.length, data.stepMs]).toEqual([15, minuteMs]);
    expect(data.series.map(({ line, values }) => [line, values[12], values[13]])).toEqual([
      ["allowed", 3, 0],
      ["denied", 1, 0],
    ]);
    const [allowed] = historyOf(value, day).data.series;
    // Both requests of the last hour before the pause are in steps of 5 minutes.
    expect(allowed?.values.filter((count) => count !== 0)).toEqual([3, 6, 3]);
  });

  it("the plot of a longer span begins with the first request, and has steps of a minute in the first two hours", () => {
    const { data } = historyOf(history([90, 3]), day);
    expect([data.fromMs, data.stepMs]).toEqual([startMs - 90 * minuteMs, minuteMs]);
    expect(historyOf(history([3]), day).data.fromMs).toBe(startMs - 15 * minuteMs);
    expect(historyOf(history([700]), day).data.stepMs).toBe(5 * minuteMs);
  });

  it("steps before the first sample have no value", () => {
    const { data } = historyOf(history([5], { sample: { from: at(-6), coverage: 1 } }), quarter);
    expect(data.series[0]?.values).toEqual([...Array.from({ length: 9 }, () => null), 0, 3, 0, 0, 0, 0]);
  });

  it("the totals name the span, or the first request if the key has none before", () => {
    const young = history([5]);
    const period = historyPeriod(young, hour);
    expect(period).toBe(`since ${shortInstantText(at(-5), startMs)}`);
    expect(historyPeriod(history([61, 5]), hour)).toBe("in the last hour");
    expect(totalText(historyOf(young, hour).totals, period)).toBe(
      `4 requests ${period}, of which 1 (25 %) were denied.`,
    );
    expect(totalText({ denied: 0, requests: 1 }, "in the last hour")).toBe(
      "1 request in the last hour, of which none was denied.",
    );
    expect(totalText({ denied: 0, requests: 0 }, "in the last hour")).toBe("No request in the last hour.");
  });

  it("a sentence says whether all requests are known, and since when a recorded key is recorded", () => {
    expect(basisText(history([]))).toBe("All its requests are known, because the key is in the sample of traffic.");
    expect(basisText(history([], { sample: { from: at(-60), coverage: 0.9 } }))).toMatch(/^90 % of its requests are/);
    const recording = { from: at(-10), until: at(50) };
    const recorded = { sample: null, recordings: [recording], recording };
    expect(basisText(history([], recorded))).toBe(
      `All its requests since ${shortInstantText(at(-10), startMs)} are known, when its recording began.`,
    );
    expect(basisText(history([], { ...recorded, recording: null }))).toMatch(
      /while it was recorded are known, last until/,
    );
    expect(basisText(history([], { sample: null }))).toMatch(/^Requests of this key are not recorded/);
  });
});
