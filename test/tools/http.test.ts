/** The statistics and tables of the HTTP benchmark, and the page that shows the recorded run. */
import { describe, expect, it } from "vitest";
import { outdated } from "./generated.ts";
import { measuredOf } from "./http/autocannon.ts";
import { type Contestant, contestantOf, contestants, requestOf } from "./http/contestants.ts";
import { callsPerThousand, difference } from "./http/counts.ts";
import { cpuMsOf, cpuUsPerRequest, ticksOf } from "./http/cpu.ts";
import { httpDocs, recordedRun } from "./http/docs.ts";
import { goals } from "./http/goals.ts";
import { faultOf, idIn, idMark, type LoadName, type MeasuredResponses } from "./http/load.ts";
import { allMatches, goalMatches, participants } from "./http/matches.ts";
import { runOf, type Setting } from "./http/record.ts";
import { goalsText, peersText } from "./http/sentences.ts";
import { pairedRatio, quantile, spreadOf } from "./http/statistics.ts";
import { figuresTable, goalsTable } from "./http/tables.ts";
import { type ContestOutcome, type MatchOutcome, type MeasuredTurn } from "./http/turns.ts";
import { judge } from "./http/verdicts.ts";
import { parseWrk } from "./http/wrk.ts";
import { cellsOf } from "./table.ts";

const last = recordedRun();

describe("the statistics of the HTTP benchmark", () => {
  it("medians and quartiles are interpolated between two values", () => {
    expect(spreadOf([5, 1, 3, 2, 4])).toEqual({ median: 3, lower: 2, upper: 4 });
    expect(spreadOf([10, 1, 2, 3])).toEqual({ median: 2.5, lower: 1.75, upper: 4.75 });
    expect(spreadOf([7])).toEqual({ median: 7, lower: 7, upper: 7 });
  });

  it("a ratio is computed for each pair of turns, and then the median of the ratios is taken", () => {
    // A machine that is slow in one round is slow for both contestants. The ratio of the two medians would be 0.9.
    expect(
      pairedRatio([
        [100, 200],
        [50, 100],
        [90, 100],
      ]),
    ).toEqual({ median: 0.5, lower: 0.5, upper: 0.7 });
  });

  it("a quantile is the value that the given share of values does not exceed", () => {
    const values = Array.from({ length: 200 }, (_, index) => 200 - index);
    expect([quantile(values, 0.5), quantile(values, 0.99), quantile(values, 1)]).toEqual([100, 198, 200]);
    expect(quantile([4], 0.99)).toBe(4);
  });
});

describe("the report of a load generator", () => {
  it("wrk's figures are read from the line that the benchmark's script adds to the report", () => {
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
    expect(() => parseWrk("unable to connect to 127.0.0.1:1 Connection refused\n")).toThrow("Connection refused");
  });

  it("autocannon's figures are its own counts, and the latencies that the benchmark measures itself", () => {
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

  it("the id of a reservation is read from a response, and a settlement's response has no id", () => {
    expect(idIn('{"allowed":true,"limits":[],"id":"a-1"}')).toBe("a-1");
    expect(idIn('{"allowed":true,"limits":[],"id":null}')).toBeUndefined();
    expect(idIn('{"settled":true}')).toBeUndefined();
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

describe("the processor time of a contestant", () => {
  it("user and system time are the 14th and 15th field in /proc, even if the name of the process has spaces", () => {
    const stat = "12 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20 0";
    expect(ticksOf(stat)).toBe(300);
  });

  it("CPU time per request is the CPU time of all turns divided by their requests", () => {
    expect(
      cpuUsPerRequest([
        { cpuMs: 200, requests: 400 },
        { cpuMs: 100, requests: 600 },
      ]),
    ).toBe(300);
    expect(cpuUsPerRequest([{ cpuMs: null, requests: 400 }])).toBeNull();
  });

  it("the CPU time of a process that does not exist is null", () => {
    expect(cpuMsOf([999_999_999])).toBeNull();
  });
});

describe("the calls of objects per thousand requests", () => {
  it("calls per thousand requests count only calls and requests during the turns", () => {
    const turn = difference({ requests: 150, calls: 60 }, { requests: 50, calls: 50 });
    const other = difference({ requests: 450, calls: 100 }, { requests: 150, calls: 60 });
    expect(callsPerThousand([{ counts: turn }, { counts: other }])).toBe(125);
    expect(callsPerThousand([{ counts: null }])).toBeNull();
  });
});

describe("the matches of the HTTP benchmark", () => {
  it("a chosen contestant is measured next to its floor and to every contestant that its goals name", () => {
    expect(allMatches([contestantOf("check")])).toEqual([
      { subject: "check", others: ["noop", "store"], load: "loaded" },
      { subject: "check", others: ["noop-json"], load: "alone" },
    ]);
  });

  it("a floor of another contestant has no match under load of its own", () => {
    const subjects = allMatches(["check", "noop", "plain"].map(contestantOf)).map(({ subject, load }) => [
      subject,
      load,
    ]);
    expect(subjects).not.toContainEqual(["noop", "loaded"]);
    expect(subjects).toContainEqual(["plain", "loaded"]);
  });

  it("the matches of the goals contain every pair that a goal compares, and none for contestants without a goal", () => {
    const matches = goalMatches(contestants);
    for (const { of, to, load } of goals) {
      const match = matches.find((each) => each.subject === of && each.load === load);
      expect(match?.others).toContain(to);
    }
    expect(participants(matches)).toEqual(new Set(goals.flatMap(({ of, to }) => [of, to])));
  });
});

/** A turn of one second with these counts. */
const turnOf = (requests: number, calls: number): MeasuredTurn => ({
  requests,
  seconds: 1,
  statuses: {},
  errors: 0,
  p50Ms: 1_000 / requests,
  p99Ms: 5_000 / requests,
  cpuMs: 500,
  counts: { requests, calls },
});

/** The outcome of a match with these rates in each round. The first contestant is the subject. */
function matchOf(load: LoadName, rates: Readonly<Record<string, readonly number[]>>): MatchOutcome {
  const [[subject, first], ...others] = Object.entries(rates) as [
    [string, readonly number[]],
    ...[string, readonly number[]][],
  ];
  return {
    match: { subject, others: others.map(([id]) => id), load },
    rounds: first.map(
      (_, round) =>
        new Map(Object.entries(rates).map(([id, of]) => [id, turnOf(of[round] ?? 0, id === "plain" ? 0 : 250)])),
    ),
  };
}

const setting: Setting = {
  measuredOn: "2026-11-21",
  command: "npm run bench -- http",
  machine: { ...last.machine, redis: null },
  settings: { rounds: 3, seconds: 1, connections: 32, isQuick: false },
};

const outcome: ContestOutcome = {
  matches: [
    matchOf("loaded", { check: [250, 980, 1_470], noop: [500, 980, 1_400] }),
    matchOf("loaded", { "proxy-denied": [600, 600, 600], plain: [1_000, 1_000, 1_000] }),
    matchOf("loaded", { store: [], noop: [900, 900, 900] }),
    matchOf("alone", { check: [500, 500, 500], "noop-json": [1_000, 1_000, 1_000] }),
  ],
  faults: new Map([
    ["store", { why: "responses with other statuses than 200: 1 of 500", isSkipped: false }],
    ["check-leased", { why: "unknown", isSkipped: true }],
  ]),
};

describe("a recorded run", () => {
  const run = runOf(setting, outcome);

  it("a recorded run has medians, the ratio to the floor, processor time and calls of objects", () => {
    expect(run.figures.find(({ id }) => id === "check")).toMatchObject({
      perSecond: { median: 980, lower: 615, upper: 1_225 },
      ofFloor: { title: "no-op object call", median: 1, lower: 0.75, upper: 1.025 },
      cpuUs: 555.6,
      callsPerThousand: 277.8,
      loaded: { p50Ms: 1.02 },
      alone: { p50Ms: 2 },
    });
  });

  it("a recorded run lists void and skipped contestants without figures", () => {
    expect(run.void).toMatchObject([{ id: "store" }]);
    expect(run.skipped).toMatchObject([{ id: "check-leased", why: "unknown" }]);
    expect(run.figures.map(({ id }) => id)).toEqual(["plain", "noop", "check", "proxy-denied"]);
    expect(cellsOf(figuresTable(run))).toEqual(
      expect.arrayContaining([
        ["leased", "not measured", "", "", "", "", ""],
        ["hono-rate-limiter", "void", "", "", "", "", ""],
        ["strict", "980", "1.00 (0.75 – 1.02)", "556", "278", "2.00 / 10.00", "1.02 / 5.10"],
      ]),
    );
  });

  it("a goal is met or missed, or has no verdict if it was not measured", () => {
    const verdicts = new Map(judge(outcome.matches).map((verdict) => [verdict.title, verdict.isMet]));
    expect(verdicts.get("strict, one key ÷ no-op object call")).toBe(true);
    expect(verdicts.get("proxy, denied ÷ JSON response")).toBe(false);
    expect(verdicts.get("strict, p50 alone ÷ no-op object call, JSON request")).toBe(false);
    expect(verdicts.get("strict, one key ÷ hono-rate-limiter")).toBeNull();
    expect(cellsOf(goalsTable(run))).toContainEqual([
      "strict, one key ÷ no-op object call",
      "at least 1.00",
      "1.00 (0.75 – 1.02)",
      "0.94",
      "met",
    ]);
    expect(cellsOf(goalsTable(run))).toHaveLength(1 + 3);
    expect(goalsText(run)).toBe(
      "Headgate meets 1 of 3 goals. It misses: proxy, denied ÷ JSON response, 0.60 (goal: at least 0.65); strict, p50 alone ÷ no-op object call, JSON request, 2.00 (goal: at most 1.30).",
    );
  });
});

describe("the contestants of the HTTP benchmark", () => {
  it("every contestant has a unique name", () => {
    const namesOf = (name: (of: Contestant) => string): Set<string> => new Set(contestants.map(name));
    expect(namesOf(({ id }) => id).size).toBe(contestants.length);
    expect(namesOf(({ group, title }) => `${group}: ${title}`).size).toBe(contestants.length);
  });

  it("a contestant that reserves settles each reservation with a separate request", () => {
    const { body, followUp } = requestOf(contestantOf("reserve"));
    expect(JSON.parse(body)).toMatchObject({ policy: "allowed", cost: 2 });
    expect(followUp?.path).toBe("/check/settle");
    expect(JSON.parse(followUp?.body.replace(idMark, "a-1") ?? "")).toEqual({ id: "a-1", cost: 1 });
    expect(requestOf(contestantOf("check"))).not.toHaveProperty("followUp");
  });

  it("every goal and every floor names existing contestants", () => {
    const ids = new Set(contestants.map(({ id }) => id));
    for (const { of, to } of goals) expect([ids.has(of), ids.has(to)]).toEqual([true, true]);
    for (const { floor } of contestants) expect(floor === undefined || ids.has(floor)).toBe(true);
  });
});

describe("the recorded run of the HTTP benchmark", () => {
  it("the table, the plot and the sentences of the documentation show the recorded run", () => {
    expect(outdated(httpDocs(last))).toEqual([]);
  });

  it("the generated README text about the HTTP benchmark has three lines", () => {
    const [part = ""] = httpDocs(last).pages["README.md"] ?? [];
    expect(part.split("\n")).toHaveLength(3);
  });

  it("the sentence about other rate limiters has a ratio for each measured limiter", () => {
    const rates = { check: 509, store: 1_018, binding: 203.6 };
    const figures = last.figures.flatMap((of) => {
      const median = (rates as Readonly<Record<string, number>>)[of.id];
      return median === undefined ? [] : [{ ...of, perSecond: { median, lower: 1, upper: 1 } }];
    });
    expect(peersText({ ...last, figures })).toBe(
      "With one key, Headgate's strict `/check` serves 509 requests per second. That is 0.50 times as many as `hono-rate-limiter` with a Durable Object and 2.50 times as many as the rate limiting binding that Miniflare emulates.",
    );
  });

  it("the recorded run covers all contestants and goals, and none is void", () => {
    const { figures, skipped, settings } = last;
    const nameOf = ({ id, group, title }: { id: string; group: string; title: string }): string =>
      `${id}: ${group}, ${title}`;
    expect([...figures, ...skipped].map(nameOf).toSorted()).toEqual(contestants.map(nameOf).toSorted());
    expect(last.goals.map(({ title, bound }) => [title, bound])).toEqual(
      goals.map(({ title, bound }) => [title, bound]),
    );
    expect(last.void).toEqual([]);
    expect(settings.isQuick).toBe(false);
  });
});
