/** The facts in the first sentences of the overview. */
import { describe, expect, it } from "vitest";
import type { StatisticsView } from "../../../../src/admin/wire.ts";
import { endsNow, factsOf, shownKey, wordsOf } from "../../../../src/console/app/overview/headline-facts.ts";
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

const runOf = (since: number, last: number) => ({
  denialRuns: [{ policy: "login", since: instant(since), last: instant(last) }],
});
const clockOf = (minute: number): string =>
  new Intl.DateTimeFormat("en-GB", { timeStyle: "short" }).format(new Date(instant(minute)));

describe("the first sentences", () => {
  it("they state the denied requests, the policy that denied most, and the dry run that would have", () => {
    expect(factsOf(traffic(), null, nowMs)).toEqual({
      requests: { denied: 45, decisions: 250 },
      denying: { policy: "login", count: 37, decisions: 100 },
      run: null,
      dryRun: { policy: "search", count: 95, decisions: 100 },
    });
  });

  it("with a chosen policy, they state its requests alone", () => {
    expect(factsOf(traffic(), "api", nowMs)).toMatchObject({
      requests: { denied: 10, decisions: 200 },
      denying: { policy: "api", count: 10 },
      dryRun: null,
    });
    expect(factsOf(traffic(), "search", nowMs)).toMatchObject({ denying: null, dryRun: { policy: "search" } });
  });

  it("unknown requests are no zero, and the policies are still named", () => {
    const unknown = { requests: [{ at: instant(0), decided: null, denied: null }] };
    expect(factsOf(traffic(unknown), null, nowMs)).toMatchObject({ requests: null, denying: { policy: "login" } });
    expect(factsOf(traffic(unknown), "login", nowMs).requests).toEqual({ denied: 37, decisions: 100 });
  });

  it("a run of denials is stated by its start while it lasts, and by both ends after a pause of five minutes", () => {
    expect(factsOf(traffic(runOf(20, 55)), null, nowMs).run).toBe(`since ${clockOf(20)}`);
    expect(factsOf(traffic(runOf(20, 54)), null, nowMs).run).toBe(`from ${clockOf(20)} to ${clockOf(54)}`);
    expect(factsOf(traffic(runOf(20, 20)), null, nowMs).run).toBe(`at ${clockOf(20)}`);
  });

  it("a run of another day has its date", () => {
    expect(factsOf(traffic(runOf(-1_440, 58)), null, nowMs).run).toMatch(/^since 21 Nov, /);
  });

  it("a run outside of the shown span is left out", () => {
    expect(factsOf(traffic(runOf(-30, -20)), null, nowMs).run).toBeNull();
    expect(factsOf(traffic(runOf(61, 62)), null, nowMs + 5 * minuteMs).run).toBeNull();
  });

  it("when the requests of the beginning are unknown, the sentence says since when they are known", () => {
    const words = "in the last hour";
    expect(wordsOf({ unknownUntilMs: null, toMs: nowMs }, words, nowMs)).toBe(words);
    const since = { unknownUntilMs: startMs + 10 * minuteMs, toMs: nowMs };
    expect(wordsOf(since, words, nowMs)).toBe(`since ${clockOf(10)}`);
  });

  it("a key of one part is shown without the name of the part", () => {
    expect(shownKey("ip=203.0.113.7", { key: ["ip"] })).toBe("203.0.113.7");
    expect(shownKey("3f2a9c1e…", { key: ["ip"] })).toBe("3f2a9c1e…");
    expect(shownKey("ip=203.0.113.7, header:x-user=a", { key: ["ip", "header:x-user"] })).toBe(
      "ip=203.0.113.7, header:x-user=a",
    );
  });

  it("the most denied key is stated only for spans that end within the last hour", () => {
    expect(endsNow(null, nowMs)).toBe(true);
    expect(endsNow({ fromMs: 0, toMs: nowMs - 59 * minuteMs }, nowMs)).toBe(true);
    expect(endsNow({ fromMs: 0, toMs: nowMs - 60 * minuteMs }, nowMs)).toBe(false);
  });
});
