/** Logs in whole seconds, compared with the true times of the same requests. */
import { describe, expect, it } from "vitest";
import type { Candidate } from "../../../src/advisor/search/goal.ts";
import { measureLimits } from "../../../src/advisor/search/trial.ts";
import { LogTimelines } from "../../../src/advisor/log/read-log.ts";
import { createLineReader, usualKeyOf } from "../../../src/advisor/log/line-reader.ts";
import { replayAll } from "../../../src/advisor/replay/replay.ts";
import type { Timelines } from "../../../src/advisor/replay/timelines.ts";
import { trafficNotes } from "../../../src/advisor/replay/recording.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { poissonArrivals, timelinesFrom, type TrafficShape } from "./traffic.ts";

const periodMs = 200_000;
const keys = 120;

const shapes: Readonly<Record<string, TrafficShape["arrivals"]>> = {
  "independent requests": (random, _, addAt) => poissonArrivals(random, { perSecond: 0.4 + random(), periodMs }, addAt),
  "pages with files": (random, _, addAt) => {
    for (let page = 0; page < 8; page++) {
      const atMs = random() * (periodMs - 1_000);
      for (let file = 0; file < 4 + 5 * random(); file++) addAt(atMs + 400 * random());
    }
  },
  "bursts around the change of a second": (random, _, addAt) => {
    for (let burst = 0; burst < 5; burst++) {
      const atMs = 1_000 * Math.floor(random() * 190);
      for (let n = 0; n < 8; n++) addAt(atMs + 850 + 300 * random());
    }
  },
  "even intervals": (random, _, addAt) => {
    const gapMs = 150 + 200 * random();
    for (let atMs = random() * gapMs; atMs < 60_000; atMs += gapMs) addAt(atMs);
  },
};

const limits = ["sliding-log", "fixed-window", "sliding-window-counter", "token-bucket"].flatMap((strategy) => [
  [{ limit: 6, window: "1s", strategy }],
  [{ limit: 12, window: "10s", strategy }],
]);

/** The log of the same requests in whole seconds. */
function loggedInSeconds({ keys: names, firstRow, atMs }: Timelines): Timelines {
  const log = new LogTimelines(createLineReader({ time: null, keyOf: usualKeyOf, cost: null }));
  log.startLog("access.log");
  const lines = names.flatMap((key, index) =>
    Array.from(atMs.subarray(firstRow[index], firstRow[index + 1]), (at) => ({
      time: Math.floor(at / 1_000),
      key,
    })),
  );
  for (const line of lines.toSorted((a, b) => a.time - b.time)) log.addLine(JSON.stringify(line));
  return log.finish();
}

function measuredFor(timelines: Timelines, set: (typeof limits)[number]): Omit<Candidate, "written"> {
  const goal = { kind: "denied-keys", mostShare: 0.01 } as const;
  const steps = measureLimits(timelines, goal, parseLimits(set));
  let step = steps.next();
  while (step.done !== true) step = steps.next();
  return step.value;
}

describe("a log in whole seconds", () => {
  it.each(Object.entries(shapes))(
    "%s: the intervals contain the shares that the true times give, for windows of 1 s and 10 s",
    (_name, arrivals) => {
      const exact = timelinesFrom({ keys, periodMs, arrivals }, 22);
      const logged = loggedInSeconds(exact);
      let compared = 0;
      for (const set of limits) {
        const [truth] = replayAll(exact, [parseLimits(set)]);
        if (truth === undefined) throw new Error("expected a result");
        const { deniedShare, deniedKeyShare } = measuredFor(logged, set);
        for (const [share, estimate] of [
          [truth.denied / truth.requests, deniedShare],
          [truth.deniedKeys / truth.keys, deniedKeyShare],
        ] as const) {
          expect(estimate.low).toBeLessThanOrEqual(share);
          expect(estimate.high).toBeGreaterThanOrEqual(share);
          compared++;
        }
      }
      expect(compared).toBe(2 * limits.length);
    },
  );

  it("only limits with windows below a minute depend on the exact times, and equal logs give equal results", () => {
    const arrivals = shapes["pages with files"] ?? (() => {});
    const exact = timelinesFrom({ keys, periodMs, arrivals }, 23);
    const [first, again] = [loggedInSeconds(exact), loggedInSeconds(exact)];
    expect(again).toEqual(first);
    const secondsOf = ({ atMs }: Timelines) => atMs.map((each) => Math.floor(each / 1_000)).toSorted();
    expect(secondsOf(first)).toEqual(secondsOf(exact));
    const width = (timelines: Timelines, window: string): number => {
      const set = [{ limit: 8, window, strategy: "sliding-log" }];
      const { low, high } = measuredFor(timelines, set).deniedKeyShare;
      return high - low;
    };
    const inMilliseconds = { ...first, source: { ...first.source, hasWholeSeconds: false } };
    expect(width(first, "1s")).toBeGreaterThan(1.5 * width(inMilliseconds, "1s"));
    expect(width(first, "60s")).toBe(width(inMilliseconds, "60s"));
  });

  it("a log in whole seconds gets a note, and a log in milliseconds or with few lines does not", () => {
    const arrivals = shapes["even intervals"] ?? (() => {});
    const exact = timelinesFrom({ keys: 2, periodMs, arrivals }, 24);
    expect(trafficNotes(loggedInSeconds(exact)).join()).toContain("The times are whole seconds");
    expect(trafficNotes(exact)).toEqual([]);
    const few = { ...exact, firstRow: Uint32Array.of(0, 2, 4) };
    expect(loggedInSeconds(few).source.hasWholeSeconds).toBe(undefined);
  });
});
