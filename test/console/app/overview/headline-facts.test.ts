/** The facts in the first sentences of the overview. */
import { describe, expect, it } from "vitest";
import type { StatisticsView } from "../../../../src/admin/wire.ts";
import {
  arrivedSteps,
  countedPeriod,
  denyingTimeOf,
  factsOf,
  mostDeniedKey,
  shownKey,
} from "../../../../src/console/app/overview/headline-facts.ts";
import { trafficOf } from "../../../../src/console/app/overview/traffic.ts";
import { minuteMs, point, startMs, statisticsOf } from "../statistics.ts";

const nowMs = startMs + 60 * minuteMs;
const instant = (minute: number): string => new Date(startMs + minute * minuteMs).toISOString();

const points = [
  point(startMs, "login", { outcomes: { allowed: 63, denied: 30, banned: 7 } }),
  point(startMs, "api", { outcomes: { allowed: 190, denied: 10 } }),
  point(startMs, "search", { outcomes: { allowed: 5, "dry-run-denied": 95 } }),
];

const traffic = (others: Partial<StatisticsView> = {}) =>
  trafficOf({
    ...statisticsOf([startMs, nowMs], points),
    requests: [{ at: instant(0), decided: 250, denied: 45 }],
    ...others,
  });

const clockOf = (minute: number): string =>
  new Intl.DateTimeFormat("en-GB", { timeStyle: "short" }).format(new Date(instant(minute)));

describe("the first sentences", () => {
  it("they state the denied requests, the policy that denied most, and the dry run that would have", () => {
    expect(factsOf(traffic(), null)).toEqual({
      requests: { denied: 45, decisions: 250 },
      denying: { policy: "login", count: 37, decisions: 100 },
      dryRun: { policy: "search", count: 95, decisions: 100 },
    });
  });

  it("with a chosen policy, they state its requests alone", () => {
    expect(factsOf(traffic(), "api")).toMatchObject({
      requests: { denied: 10, decisions: 200 },
      denying: { policy: "api", count: 10 },
      dryRun: null,
    });
    expect(factsOf(traffic(), "search")).toMatchObject({ denying: null, dryRun: { policy: "search" } });
  });

  it("unknown requests are no zero, and the policies are still named", () => {
    const unknown = { requests: [{ at: instant(0), decided: null, denied: null }] };
    expect(factsOf(traffic(unknown), null)).toMatchObject({ requests: null, denying: { policy: "login" } });
    expect(factsOf(traffic(unknown), "login").requests).toEqual({ denied: 37, decisions: 100 });
  });

  it("the policy that denied the largest number is named, also when another one denied a larger share", () => {
    const shares = [
      point(startMs, "rare", { outcomes: { denied: 9, allowed: 1 } }),
      point(startMs, "busy", { outcomes: { denied: 10, allowed: 990 } }),
    ];
    const { denying } = factsOf(trafficOf(statisticsOf([startMs, nowMs], shares)), null);
    expect(denying).toEqual({ policy: "busy", count: 10, decisions: 1_000 });
  });

  const shownAt = (minute: number, others: Partial<StatisticsView> = {}) => ({
    span: { stepMs: minuteMs },
    traffic: traffic(others),
    endMs: startMs + minute * minuteMs,
  });

  it("the period of the numbers begins when requests are known, and live numbers state it with seconds", () => {
    expect(countedPeriod(shownAt(59), null, nowMs)).toBe(`from ${clockOf(0)} to ${clockOf(59)}`);
    const unknown = { requests: [{ at: instant(9), decided: null, denied: null }] };
    expect(countedPeriod(shownAt(59, unknown), null, nowMs)).toBe(`from ${clockOf(10)} to ${clockOf(59)}`);
    expect(countedPeriod(shownAt(59, unknown), "login", nowMs)).toBe(`from ${clockOf(0)} to ${clockOf(59)}`);
    const live = { ...shownAt(5.5), span: { stepMs: null } };
    expect(countedPeriod(live, null, nowMs)).toBe(`from ${clockOf(0)}:00 to ${clockOf(5)}:30`);
  });

  const timeWith = (others: Partial<StatisticsView>, endMs = nowMs) =>
    denyingTimeOf(traffic(others), "login", endMs, nowMs);
  const run = (since: number, last: number) => ({
    denialRuns: [{ policy: "login", since: instant(since), last: instant(last) }],
  });

  it("denials last since their first one, which may be before the span, or until their last one", () => {
    expect(timeWith(run(-300, 59))).toEqual({ sinceMs: startMs - 300 * minuteMs });
    expect(timeWith(run(20, 55))).toEqual({ sinceMs: startMs + 20 * minuteMs });
    expect(timeWith(run(20, 54))).toEqual({ lastMs: startMs + 54 * minuteMs });
    // The denials of an earlier span, whose run is not the latest.
    expect(timeWith(run(40, 59), startMs + 30 * minuteMs)).toBeNull();
  });

  it("without runs, the first denial within the span is stated, unless it may be earlier", () => {
    const firsts = (minute: number) => ({
      firstCounts: [{ policy: "login", at: instant(0), deniedAt: instant(minute) }],
    });
    expect(timeWith(firsts(20))).toEqual({ sinceMs: startMs + 20 * minuteMs });
    expect(timeWith(firsts(0))).toBe("longer than shown");
  });

  it("a line over time ends where counts may not have arrived, unless it has no others", () => {
    const minutes = { fromMs: startMs, toMs: startMs + 5 * minuteMs };
    const endMs = startMs + 4.5 * minuteMs;
    expect(arrivedSteps([1, 0, 3, 4, 0], minutes, endMs)).toEqual([1, 0, 3, 4, null]);
    expect(arrivedSteps([1, 0, 3, 4, 2], minutes, endMs - minuteMs)).toEqual([1, 0, 3, null, null]);
    expect(arrivedSteps([0, 0, 0, 0, 2], minutes, endMs)).toEqual([0, 0, 0, 0, 2]);
  });

  it("a key of one part is shown without the name of the part", () => {
    expect(shownKey("ip=203.0.113.7", { key: ["ip"] })).toBe("203.0.113.7");
    expect(shownKey("3f2a9c1e…", { key: ["ip"] })).toBe("3f2a9c1e…");
    expect(shownKey("ip=203.0.113.7, header:x-user=a", { key: ["ip", "header:x-user"] })).toBe(
      "ip=203.0.113.7, header:x-user=a",
    );
  });

  it("the most denied key has its share of the denials of the policy, if the log has all of them", () => {
    const keys = [
      { id: "a", count: 6, steps: [] },
      { id: "b", count: 4, steps: [] },
    ];
    const period = { from: instant(0), to: instant(60), denials: 20, isComplete: true, keys };
    const login = { policy: "login", count: 20 };
    const top = { policy: "login", by: "denied", from: instant(0), keys: [] } as const;
    expect(mostDeniedKey({ ...top, period }, login)).toEqual({ id: "a", share: "30 %" });
    expect(mostDeniedKey({ ...top, period }, { policy: "api", count: 20 })).toBeNull();
    expect(mostDeniedKey({ ...top, period: { ...period, keys: [] } }, login)).toBeNull();
    // An earlier version answers without the period.
    expect(mostDeniedKey(top, login)).toBeNull();
    const incomplete = { ...top, period: { ...period, isComplete: false, denials: 11 } };
    expect(mostDeniedKey(incomplete, login)).toBeNull();
    expect(mostDeniedKey(incomplete, { ...login, count: 11 })).toEqual({ id: "a", share: "At least 55 %" });
  });
});
