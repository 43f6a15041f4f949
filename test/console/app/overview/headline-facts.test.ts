/** The facts in the first sentences of the overview. */
import { describe, expect, it } from "vitest";
import type { StatisticsView } from "../../../../src/admin/wire.ts";
import { factsOf, mostDeniedKey, shownKey, wordsOf } from "../../../../src/console/app/overview/headline-facts.ts";
import { instantText } from "../../../../src/console/app/parts/text.ts";
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
      firstAtMs: null,
      denyingSinceMs: null,
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

  const hour = { words: "in the last hour", stepMs: minuteMs, range: null };
  const all = { toMs: nowMs, countedFromMs: startMs, unknownUntilMs: null };

  it("when the requests of the beginning are unknown, the sentence says since when they are known", () => {
    expect(wordsOf(all, hour, startMs, nowMs)).toBe("in the last hour");
    expect(wordsOf({ ...all, unknownUntilMs: startMs + 10 * minuteMs }, hour, startMs, nowMs)).toBe(
      `since ${clockOf(10)}`,
    );
  });

  it("when traffic began within the span, the sentence names its first minute and not the start of the span", () => {
    const firstAtMs = startMs + 12 * minuteMs;
    expect(wordsOf(all, hour, firstAtMs, nowMs)).toBe(`since ${clockOf(12)}`);
    const range = { fromMs: startMs, toMs: nowMs };
    expect(wordsOf(all, { ...hour, range }, firstAtMs, nowMs)).toBe(`from ${clockOf(12)} to ${instantText(nowMs)}`);
    const counts = [{ policy: null, at: instant(12), deniedAt: instant(20) }];
    const login = { policy: "login", at: instant(12), deniedAt: instant(20) };
    expect(factsOf(traffic({ firstCounts: [...counts, login] }), null)).toMatchObject({
      firstAtMs,
      denyingSinceMs: startMs + 20 * minuteMs,
    });
    const fromStart = { policy: "login", at: instant(12), deniedAt: instant(12) };
    expect(factsOf(traffic({ firstCounts: [...counts, fromStart] }), null).denyingSinceMs).toBeNull();
  });

  it("live traffic begins with a whole minute, which the sentence names", () => {
    const live = { words: "in the last 5 minutes", stepMs: null, range: null };
    expect(wordsOf(all, live, startMs, nowMs)).toBe(`since ${clockOf(0)}`);
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
