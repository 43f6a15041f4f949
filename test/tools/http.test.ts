/** The statistics and tables of the HTTP benchmark, and the page that shows the recorded run. */
import { describe, expect, it } from "vitest";
import { outdated } from "./generated.ts";
import { measuredOf } from "./http/autocannon.ts";
import { type Contestant, contestants } from "./http/contestants.ts";
import { faultOf, type MeasuredResponses } from "./http/load.ts";
import { httpDocs, recordedRun } from "./http/docs.ts";
import { peersText } from "./http/peers.ts";
import { runOf, type Setting } from "./http/record.ts";
import { quantile, ratioOf, spreadOf } from "./http/statistics.ts";
import { figuresTable, targetsTable } from "./http/tables.ts";
import { judge, targets } from "./http/targets.ts";
import type { ContestantOutcome } from "./http/turns.ts";
import { parseWrk } from "./http/wrk.ts";
import { cellsOf } from "./table.ts";

const last = recordedRun();

describe("the statistics of the HTTP benchmark", () => {
  it("the median of an even number of values is the mean of the two in the middle", () => {
    expect(spreadOf([3, 1, 2])).toEqual({ median: 2, least: 1, most: 3 });
    expect(spreadOf([10, 1, 2, 3])).toEqual({ median: 2.5, least: 1, most: 10 });
    expect(spreadOf([7])).toEqual({ median: 7, least: 7, most: 7 });
  });

  it("the ratio of two contestants is computed within each round", () => {
    // A machine that is slow in one round is slow for both contestants.
    expect(ratioOf([100, 50, 90], [200, 100, 100])).toEqual({ median: 0.5, least: 0.5, most: 0.9 });
  });

  it("a quantile is the value that the given share of values does not exceed", () => {
    const values = Array.from({ length: 200 }, (_, index) => 200 - index);
    expect([quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1)]).toEqual([
      100, 198, 200,
    ]);
    expect(quantile([4], 0.99)).toBe(4);
  });
});

describe("the report of a load generator", () => {
  it("wrk's figures are read from the line that its script adds to the report", () => {
    const report = `Running 1s test @ http://127.0.0.1:8080/
  1 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    17.37ms    7.05ms  46.14ms   71.15%
    Req/Sec     1.85k   222.50     2.13k    70.00%
  1845 requests in 1.00s, 371.16KB read
  Non-2xx or 3xx responses: 1844
Requests/sec:   1842.29
Transfer/sec:    370.62KB
measured {"requests":1845,"microseconds":1001471,"p50":16201,"p99":38450,"errors":2,"statuses":{"429":1844,"200":1}}
`;
    expect(parseWrk(report)).toEqual({
      requests: 1_845,
      seconds: 1.001471,
      statuses: { 200: 1, 429: 1_844 },
      errors: 2,
      p50Ms: 16.201,
      p99Ms: 38.45,
    });
    expect(() => parseWrk("unable to connect to 127.0.0.1:1 Connection refused\n")).toThrow(
      "Connection refused",
    );
  });

  it("autocannon's figures are its own counts, and latencies that the benchmark measures itself", () => {
    const result = {
      errors: 1,
      duration: 2.02,
      statusCodeStats: { "200": { count: 3 }, "503": { count: 1 } },
    };
    expect(measuredOf(result, [0.4, 0.1, 0.3, 0.2])).toEqual({
      requests: 4,
      seconds: 2.02,
      statuses: { 200: 3, 503: 1 },
      errors: 1,
      p50Ms: 0.2,
      p99Ms: 0.4,
    });
  });

  it("a turn is void when a response has an unexpected status or is missing", () => {
    const flood: MeasuredResponses = {
      requests: 3,
      seconds: 1,
      statuses: { 429: 2, 200: 1 },
      errors: 0,
      p50Ms: 1,
      p99Ms: 1,
    };
    expect(faultOf(flood, 429, 0)).toBe("responses with other statuses than 429: 1 of 200");
    expect(faultOf(flood, 429, 1)).toBeUndefined();
    expect(faultOf({ ...flood, errors: 2 }, 429, 1)).toBe("2 requests without an answer");
    expect(faultOf({ ...flood, requests: 0, statuses: {} }, 429, 0)).toBe("no answers");
  });
});

/** The outcome of a contestant with these rates, one for each round. */
function outcomeOf(id: string, perSecond: readonly number[], fault?: string): ContestantOutcome {
  const contestant = contestants.find((of) => of.id === id);
  if (contestant === undefined) throw new Error(`${id} is no contestant`);
  const measured = (requests: number): MeasuredResponses => ({
    requests,
    seconds: 1,
    statuses: {},
    errors: 0,
    p50Ms: 1_000 / requests,
    p99Ms: 5_000 / requests,
  });
  const turns = perSecond.map((requests) => ({
    loaded: measured(requests),
    alone: measured(requests / 2),
  }));
  return { contestant, turns, isSkipped: false, ...(fault !== undefined && { fault }) };
}

const setting: Setting = {
  measuredOn: "2026-11-21",
  command: "npm run bench -- http",
  machine: { ...last.machine, redis: null },
  settings: { rounds: 3, seconds: 1, connections: 32, isQuick: false },
};

const outcomes: readonly ContestantOutcome[] = [
  outcomeOf("plain", [1_000, 2_000, 3_000]),
  outcomeOf("noop", [500, 1_000, 1_500]),
  outcomeOf("check", [250, 980, 1_470]),
  outcomeOf("check-denied", [900, 1_600, 3_000]),
  outcomeOf("store", [], "responses with other statuses than 200: 1 of 500"),
  { ...outcomeOf("check-leased", [], "unknown"), isSkipped: true },
];

describe("a recorded run", () => {
  const run = runOf(setting, outcomes);

  it("a recorded run has medians, and ratios to the least-work Workers in the same round", () => {
    expect(run.figures.find(({ id }) => id === "check")).toMatchObject({
      perSecond: { median: 980, least: 250, most: 1_470 },
      ofPlain: { median: 0.49, least: 0.25, most: 0.49 },
      ofNoop: { median: 0.98, least: 0.5, most: 0.98 },
      loaded: { p50Ms: { median: 1.02 } },
      alone: { p50Ms: { median: 2.041 } },
    });
  });

  it("a recorded run lists void and skipped contestants without figures", () => {
    expect(run.void).toMatchObject([{ id: "store" }]);
    expect(run.skipped).toMatchObject([{ id: "check-leased", why: "unknown" }]);
    expect(run.figures.map(({ id }) => id)).toEqual(["plain", "noop", "check", "check-denied"]);
    expect(cellsOf(figuresTable(run))).toEqual(
      expect.arrayContaining([
        ["leased", "not measured", "", "", "", ""],
        ["hono-rate-limiter", "void", "", "", "", ""],
        ["strict", "980 (250 – 1,470)", "0.49", "0.98", "2.04 / 10.20", "1.02 / 5.10"],
      ]),
    );
  });

  it("a target is met or missed, or not judged if it was not measured", () => {
    const verdicts = new Map(judge(outcomes).map((verdict) => [verdict.title, verdict.isMet]));
    expect(verdicts.get("strict, one key, allowed ÷ no-op object call")).toBe(true);
    expect(verdicts.get("denied, /check ÷ JSON response")).toBe(true);
    expect(verdicts.get("/check ÷ no-op object call, p50 of one connection")).toBe(true);
    expect(verdicts.get("strict, one key, allowed ÷ hono-rate-limiter")).toBeNull();
    const slower = outcomes.map((of) =>
      of.contestant.id === "check" ? outcomeOf("check", [400, 800, 1_200]) : of,
    );
    expect(judge(slower).map(({ isMet }) => isMet)).toContain(false);
    expect(cellsOf(targetsTable(run))).toContainEqual([
      "strict, one key, allowed ÷ no-op object call",
      "at least 0.95",
      "0.98 (0.50 – 0.98)",
      "met",
    ]);
  });
});

describe("the contestants of the HTTP benchmark", () => {
  it("every contestant has a unique name", () => {
    const namesOf = (name: (of: Contestant) => string): Set<string> =>
      new Set(contestants.map(name));
    expect(namesOf(({ id }) => id).size).toBe(contestants.length);
    expect(namesOf(({ group, title }) => `${group}: ${title}`).size).toBe(contestants.length);
  });

  it("every target names contestants that exist", () => {
    const ids = new Set(contestants.map(({ id }) => id));
    for (const { of, to } of targets) expect([ids.has(of), ids.has(to)]).toEqual([true, true]);
  });
});

describe("the recorded run of the HTTP benchmark", () => {
  it("the tables and plots of the results page show the recorded run", () => {
    expect(outdated(httpDocs(last))).toEqual([]);
  });

  it("the text about other rate limiters states which side is faster", () => {
    const slowed = last.figures.map((of) =>
      of.id === "check" ? { ...of, perSecond: { median: 509, least: 509, most: 509 } } : of,
    );
    expect(peersText(last)).toMatch(
      /^Headgate's strict `\/check` serves [\d.]+ times as many requests per second as `hono-rate-limiter`/,
    );
    expect(peersText({ ...last, figures: slowed })).toMatch(
      /^Headgate's strict `\/check` serves 0\.50 times as many requests per second as `hono-rate-limiter` and/,
    );
  });

  it("the recorded run covers all contestants and targets, and none is void", () => {
    const { figures, skipped, settings } = last;
    const nameOf = ({ id, group, title }: { id: string; group: string; title: string }): string =>
      `${id}: ${group}, ${title}`;
    expect([...figures, ...skipped].map(nameOf).toSorted()).toEqual(
      contestants.map(nameOf).toSorted(),
    );
    expect(last.targets.map(({ title, bound }) => [title, bound])).toEqual(
      targets.map(({ title, bound }) => [title, bound]),
    );
    expect(last.void).toEqual([]);
    expect(settings.isQuick).toBe(false);
  });
});
