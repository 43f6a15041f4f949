/** Runs of scenarios, whose decisions must be those of the engine. */
import { describe, expect, test } from "vitest";
import { answersTo } from "../../../src/console/playground/model/serve.ts";
import { lanesOf } from "../../../src/console/playground/model/lanes.ts";
import { arrivalsOf } from "../../../src/console/playground/model/traffic.ts";
import { presets } from "../../../src/console/playground/model/presets.ts";
import { referenceExamples } from "./reference-examples.ts";
import { mostRows, runLane } from "../../../src/console/playground/model/run.ts";
import { outcome } from "../../../src/console/playground/model/columns.ts";
import { createMeter, strategies } from "../../../src/strategies/index.ts";
import { forAll } from "../../for-all.ts";
import { answersOf, laneOf, listOf, runOf, runsOf, scenarioOf } from "./runs.ts";
import { anyScenario } from "./scenarios.ts";

describe("a lane", () => {
  test(
    "a lane decides every request as a meter of the request's key does",
    forAll(
      [anyScenario],
      (scenario) => {
        for (const run of runsOf({ ...scenario, runsMs: 0 })) {
          if (run.limits.some((limit) => limit.holdsSlots)) continue;
          const rules = run.limits.map(({ rule }) => rule);
          const meters = run.keys.map(() => createMeter(rules));
          const decided = listOf(run.key).map((key, row) => {
            const atMs = run.startMs + (run.atMs[row] ?? 0);
            const decision = meters[key]?.consume(run.cost[row] ?? 0, atMs);
            if (decision === undefined) throw new Error("expected a meter of the key");
            const { allowed, delayMs, retryAfterMs } = decision;
            return [
              allowed ? (delayMs > 0 ? outcome.delayed : outcome.allowed) : outcome.denied,
              allowed ? delayMs : (retryAfterMs ?? Infinity),
              Math.min(...decision.limits.map(({ remaining }) => remaining)),
              decision.limits.reduce((bits, limit, bit) => bits | (limit.allowed ? 0 : 1 << bit), 0),
            ];
          });
          const rows = decided.map((_, row) => [
            run.outcome[row],
            run.waitMs[row],
            run.remaining[row],
            run.deniedBy[row],
          ]);
          expect(rows).toEqual(decided);
        }
      },
      40,
    ),
  );

  test(
    "the rows of a lane are in order of time, and the lane's counts match them",
    forAll(
      [anyScenario],
      (scenario) => {
        for (const run of runsOf(scenario)) {
          const times = listOf(run.atMs);
          expect(times).toEqual(times.toSorted((a, b) => a - b));
          const denied = listOf(run.outcome).filter((each) => each === outcome.denied).length;
          expect(run.summary.denied).toBe(denied);
          expect(run.summary.allowed).toBe(times.length - denied);
          const deniedKeys = run.summary.topDenied.reduce((sum, each) => sum + each.denied, 0);
          expect(deniedKeys).toBe(denied);
        }
      },
      40,
    ),
  );

  test("running a scenario again gives the same result", () => {
    const scenario = scenarioOf("traffic=poisson&rate=200/1m&keys=5&retry=jitter&seed=9");
    expect(runsOf(scenario)).toEqual(runsOf(scenario));
    expect(listOf(runOf(scenario).atMs)).not.toEqual(listOf(runOf({ ...scenario, seed: 10 }).atMs));
  });

  test("a fixed window allows twice as many requests of a burst at its edge as a sliding log", () => {
    const preset = presets.find(({ id }) => id === "window-edge");
    const scenario = scenarioOf(preset?.query ?? "");
    const allowed = Object.fromEntries(runsOf(scenario).map((run) => [run.lane, run.summary.allowed]));
    expect(allowed["written"]).toBe(200);
    expect(allowed["sliding-log"]).toBe(100);
    const { atMs } = runOf(scenario);
    expect((atMs.at(-1) ?? 0) - (atMs[0] ?? 0)).toBeLessThan(2_000);
  });

  test.each([
    ["sliding-window-counter", [60, 0, 0, 6, 6], "aadad"],
    ["sliding-log", [9, 7, 3, 0, 0, 0, 0, 0], "aaaadadd"],
    ["sliding-buckets", [40, 0, 0, 0, 0], "aadda"],
    ["fixed-window", [9, 0, 0, 0, 0], "aadad"],
    ["token-bucket", [0, 0, 0, 0, 0, 0], "adaada"],
    ["leaky-bucket", [3, 2, 1, 0, 0, 0, 3], "awwwdwa"],
    ["several-limits-on-one-key", [0, 0, 0, 0, 0, 0, 0, 0], "adaaaada"],
  ])("the example of %s has the decisions of the reference", (name, remaining, decisions) => {
    const run = runOf(scenarioOf(referenceExamples[name] ?? ""));
    const letters = listOf(run.outcome).map((each) => "adw"[each]);
    expect([letters.join(""), listOf(run.remaining)]).toEqual([decisions, remaining]);
  });

  test("requests hold a slot until they end, or until the slot's lease expires", () => {
    const slots = "limit=2/30s+concurrency&traffic=times&at=0,1,2,3,3.5,4";
    const letters = (runs: string) => listOf(runOf(scenarioOf(`${slots}&runs=${runs}`)).outcome).join("");
    expect(letters("3s")).toBe("001010");
    expect(letters("1s")).toBe("000000");
    expect(letters("1h")).toBe("001111");
    const leases = "limit=1/2s+concurrency&traffic=times&at=0,1.999,2&runs=1h";
    expect(listOf(runOf(scenarioOf(leases)).outcome)).toEqual([0, 1, 0]);
  });
});

describe("the lanes", () => {
  test("the lane of the limits as written comes first, and each strategy has a lane", () => {
    const { lanes, missing } = lanesOf(scenarioOf("limit=100/1m&limit=10/1s+token-bucket+burst=30&runs=1s"));
    expect(lanes.map(({ lane }) => lane)).toEqual(["written", ...strategies.keys()]);
    expect(missing).toEqual([]);
    const leaky = lanes.find(({ lane }) => lane === "leaky-bucket");
    expect(leaky?.limits.map(({ rule }) => Reflect.get(rule, "burst"))).toEqual([undefined, 30]);
  });

  test("a strategy that the written limits already use has no second lane", () => {
    const { lanes } = lanesOf(scenarioOf("limit=100/1m+sliding-log"));
    expect(lanes.map(({ lane }) => lane)).not.toContain("sliding-log");
  });

  test("a strategy that cannot decide the limits is reported with the reason", () => {
    const { missing } = lanesOf(scenarioOf("limit=100/month"));
    expect(missing.map(({ lane }) => lane)).toEqual([...strategies.keys()].filter((name) => name !== "fixed-window"));
    expect(missing[0]?.reason).toContain("fixed-window");
    const slots = lanesOf(scenarioOf("limit=100/1m")).missing;
    expect(slots).toEqual([{ lane: "concurrency", reason: "requests take no time, so none holds a slot" }]);
  });
});

describe("clients", () => {
  const denied = "limit=1/10s+fixed-window&traffic=times&at=0,0.5";
  const timesOf = (query: string) => listOf(runOf(scenarioOf(`${denied}&${query}`)).atMs);

  test("clients that do not retry send each request once", () => {
    expect(timesOf("retry=none")).toEqual([0, 500]);
  });

  test("clients that ignore Retry-After repeat a request after each pause", () => {
    expect(timesOf("retry=ignore&pause=2s&attempts=3")).toEqual([0, 500, 2_500, 4_500, 6_500]);
  });

  test("clients that obey Retry-After wait for whole seconds", () => {
    expect(timesOf("retry=obey")).toEqual([0, 500, 10_500]);
  });

  test("clients with jitter wait for an additional random time", () => {
    const [, , retryMs = 0] = timesOf("retry=jitter&pause=5s");
    expect(retryMs).toBeGreaterThan(10_500);
    expect(retryMs).toBeLessThan(15_500);
  });

  test("a request that can never be allowed is not retried", () => {
    const query = "limit=2/10s+fixed-window&traffic=times&at=0@5&retry=obey";
    const run = runOf(scenarioOf(query));
    expect(listOf(run.waitMs)).toEqual([Infinity]);
  });

  test("clients that honor Retry-After retry one second after a limit with slots denies them", () => {
    const query = "limit=1/30s+concurrency&traffic=times&at=0,0.5&retry=obey&runs=2s";
    expect(listOf(runOf(scenarioOf(query)).atMs)).toEqual([0, 500, 1_500, 2_500]);
  });

  test("lanes have different retries, because each lane denies different requests", () => {
    const query = "limit=10/1m+fixed-window&traffic=steady&rate=30/1m&length=2m&retry=obey";
    const rows = new Set(runsOf(scenarioOf(query)).map((run) => run.atMs.length));
    expect(rows.size).toBeGreaterThan(1);
  });

  test("a run with too many retries is truncated and says so", () => {
    const query = "limit=1/1h+fixed-window&traffic=steady&rate=25000/1m&length=1m&retry=ignore";
    const cut = (attempts: number) => {
      const scenario = scenarioOf(`${query}&attempts=${attempts}`);
      const steps = runLane(laneOf(scenario), arrivalsOf(scenario), scenario);
      let step = steps.next();
      while (!step.done) step = steps.next();
      return [step.value.isCut, step.value.atMs.length];
    };
    expect([cut(1), cut(20)]).toEqual([
      [false, 49_999],
      [true, mostRows],
    ]);
  });

  test("under Zipf's law, the first client sends about twice as many requests as the second", () => {
    const scenario = scenarioOf("traffic=steady&rate=100000/1m&length=1m&keys=10");
    const counts = [0, 0];
    for (const key of arrivalsOf(scenario).key) if (key < 2) counts[key] = (counts[key] ?? 0) + 1;
    expect((counts[0] ?? 0) / (counts[1] ?? 1)).toBeCloseTo(2, 0);
  });

  test("Poisson requests arrive at their rate, and the variance of their counts per second is about the mean", () => {
    const { atMs } = arrivalsOf(scenarioOf("traffic=poisson&rate=60000/1m&length=1m"));
    expect(Math.abs(atMs.length - 60_000)).toBeLessThan(1_000);
    const perSecond = Array.from({ length: 60 }, () => 0);
    for (const time of atMs) perSecond[Math.floor(time / 1_000)] = (perSecond[Math.floor(time / 1_000)] ?? 0) + 1;
    const mean = atMs.length / 60;
    const variance = perSecond.reduce((sum, each) => sum + (each - mean) ** 2, 0) / 60;
    // The variance of a Poisson distribution equals its mean. The variance of steady requests is about 0.
    expect(variance / mean).toBeGreaterThan(0.5);
    expect(variance / mean).toBeLessThan(2);
  });
});

describe("the answers of a run", () => {
  const scenario = scenarioOf("traffic=steady&rate=12000/1m&length=1m");

  test("the first answer of a run names the lanes, and the lanes arrive in that order", () => {
    const [started, ...others] = answersOf(scenario);
    const lanes = others.flatMap((answer) => (answer.kind === "lane" ? [answer.run.lane] : []));
    expect(started).toMatchObject({ kind: "started", requests: 12_000, lanes, log: null });
    expect(others.at(-1)).toEqual({ kind: "done", id: 1 });
  });

  test("the progress of a run grows from 0 to 1", () => {
    const shares = answersOf(scenario).flatMap((answer) => (answer.kind === "progress" ? [answer.share] : []));
    expect(shares.length).toBeGreaterThan(15);
    expect(shares).toEqual(shares.toSorted((a, b) => a - b));
    expect(shares.at(-1)).toBe(1);
  });

  test("a run stops deciding requests when the caller stops iterating", () => {
    const answers = answersTo({ kind: "run", id: 1, scenario, log: null });
    const kinds = [answers.next().value?.kind, answers.next().value?.kind];
    expect(kinds).toEqual(["started", "progress"]);
    answers.return();
    expect(answers.next()).toEqual({ done: true, value: undefined });
  });

  test("limits that the engine rejects, too many requests and a missing log are reported", () => {
    const wrong = { ...scenario, limits: [{ limit: 0, window: "1m" }] };
    expect(answersOf(wrong)).toEqual([
      {
        kind: "failed",
        id: 1,
        problems: [expect.stringContaining("limits[0].limit: expected")],
        log: null,
      },
    ]);
    const flood = { ...scenario, lengthMs: 3_600_000 };
    expect(answersOf(flood)).toEqual([
      {
        kind: "failed",
        id: 1,
        problems: [expect.stringContaining("at most 250000 requests")],
        log: null,
      },
    ]);
    expect(answersOf({ ...scenario, traffic: "log" })).toEqual([
      {
        kind: "failed",
        id: 1,
        problems: [expect.stringContaining("the log is missing")],
        log: null,
      },
    ]);
  });
});
