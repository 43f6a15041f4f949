/** The worst burst of a lane, and the worst traffic of a limit. */
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import { outcome } from "../../../src/console/playground/model/columns.ts";
import type { LaneLimit } from "../../../src/console/playground/model/lanes.ts";
import type { LaneRun } from "../../../src/console/playground/model/run.ts";
import { formatScenario, parseScenario } from "../../../src/console/playground/model/scenario-query.ts";
import { worstTraffic } from "../../../src/console/playground/model/worst-traffic.ts";
import { forAll, forAllCounted } from "../../for-all.ts";
import { laneOf, runOf, runsOf, scenarioOf } from "./runs.ts";
import { anyComposite, anyScenario } from "./scenarios.ts";

/** The most units of one key that are allowed in any span that begins with an allowed request. */
function naiveWorst(run: LaneRun, { windowMs, holdsSlots }: LaneLimit): number {
  const spanMs = holdsSlots ? Math.min(windowMs, run.runsMs) : windowMs;
  const rows = [...run.outcome.keys()].filter((row) => run.outcome[row] !== outcome.denied);
  const at = (row: number): number => run.atMs[row] ?? 0;
  const sums = rows.map((first, index) =>
    rows
      .slice(index)
      .filter((row) => row === first || (run.key[row] === run.key[first] && at(row) < at(first) + spanMs))
      .reduce((sum, row) => sum + (run.cost[row] ?? 0), 0),
  );
  return Math.max(0, ...sums);
}

describe("the worst burst", () => {
  test(
    "the worst burst is the greatest sum of all windows, and its rows add up to this sum",
    forAll(
      [anyScenario],
      (scenario) => {
        for (const run of runsOf({ ...scenario, lengthMs: Math.min(scenario.lengthMs, 10_000) })) {
          for (const [index, limit] of run.limits.entries()) {
            const worst = run.summary.worstBursts[index] ?? null;
            expect(worst?.units ?? 0).toBe(naiveWorst(run, limit));
            if (worst === null) continue;
            const { rows, key, units, fromMs, toMs, lengthMs } = worst;
            const [first = 0, last = 0] = [rows[0], rows.at(-1)];
            let sum = 0;
            for (let row = first; row <= last; row++) {
              if (run.key[row] === key && run.outcome[row] !== outcome.denied) sum += run.cost[row] ?? 0;
            }
            expect(sum).toBe(units);
            expect(run.atMs[first]).toBe(fromMs);
            expect(run.atMs[last]).toBe(fromMs + lengthMs);
            expect(run.atMs[last]).toBeLessThan(Math.max(toMs, fromMs + 1));
          }
        }
      },
      60,
    ),
  );

  test(
    "the worst burst never exceeds the documented bound",
    forAll([anyScenario], (scenario) => {
      for (const run of runsOf(scenario)) {
        for (const [index, { mostPerWindow }] of run.limits.entries())
          expect(run.summary.worstBursts[index]?.units ?? 0).toBeLessThanOrEqual(mostPerWindow);
      }
    }),
  );

  test("no limit of a lane with several limits exceeds its documented bound", async () => {
    let slots = 0;
    const runs = 150;
    await forAllCounted(
      [anyComposite],
      (scenario) => {
        const lanes = runsOf(scenario);
        fc.pre(lanes.length > 0);
        for (const { limits, summary } of lanes) {
          for (const [index, { mostPerWindow, holdsSlots }] of limits.entries()) {
            const units = summary.worstBursts[index]?.units ?? 0;
            expect(units).toBeLessThanOrEqual(mostPerWindow);
            if (holdsSlots && limits.length > 1 && units > 0) slots++;
          }
        }
      },
      runs,
    )();
    expect(slots).toBeGreaterThan(runs);
  });

  test("requests still hold the slots of a longer limit after the lease of a shorter limit has expired", () => {
    const slots = "limit=10/1s+concurrency+name=a&limit=2/10s+concurrency+name=b";
    const { limits, summary } = runOf(scenarioOf(`${slots}&runs=3s&rate=300/1m`));
    expect(summary.allowed).toBe(120);
    expect(summary.worstBursts.map((burst) => burst?.units)).toEqual([2, 2]);
    expect(limits.map(({ mostPerWindow }) => mostPerWindow)).toEqual([10, 2]);
  });

  test("a burst at the window's edge is twice the limit under a fixed window", () => {
    const scenario = scenarioOf(
      "limit=100/1m+fixed-window+align=clock&traffic=bursts&size=200&within=2s&first=59s&every=5m",
    );
    const { limits, summary } = runOf(scenario);
    expect(summary.worstBursts[0]).toEqual({
      units: 200,
      key: 0,
      rows: Uint32Array.from({ length: 200 }, (_, row) => row),
      fromMs: 59_000,
      toMs: 119_000,
      lengthMs: 1_990,
      unitsByWindow: [100, 100],
    });
    expect(limits[0]?.mostPerWindow).toBe(200);
  });

  test("two requests exactly one window apart are in different windows", () => {
    const of = (at: string) => runOf(scenarioOf(`limit=9/1s&traffic=times&at=${at}`)).summary.worstBursts[0]?.units;
    expect([of("0,1"), of("0,0.999")]).toEqual([1, 2]);
  });

  test("a run in which no request is allowed has no worst burst", () => {
    const run = runOf(scenarioOf("limit=1/1s&traffic=times&at=0@2"));
    expect(run.summary.worstBursts).toEqual([null]);
  });
});

describe("the worst traffic", () => {
  test.each([
    ["100/1m+fixed-window+align=clock", 200, 200],
    ["100/1m+fixed-window", 199, 200],
    ["100/1m+fixed-window+elastic=true", 100, 100],
    ["1000/1d+fixed-window+align=calendar+timezone=Europe/Berlin", 2_000, 2_000],
    ["100/1m+sliding-log", 100, 100],
    ["100/1m+sliding-window-counter", 199, 200],
    ["100/1m+sliding-window-counter+align=clock", 200, 200],
    ["100/1m+sliding-buckets", 100, 100],
    ["100/1m+sliding-buckets+edge=drop", 200, 200],
    ["100/1m+token-bucket", 199, 200],
    ["100/1m+token-bucket+burst=5", 104, 105],
    ["1000/1m+token-bucket+burst=1", 1_000, 1_001],
    ["100/1m+token-bucket+refill=interval+burst=250", 349, 350],
    ["100/1m+leaky-bucket", 200, 201],
    ["100/1m+leaky-bucket+mode=police+burst=7", 106, 107],
    ["100/1m+concurrency", 100, 100],
    ["50000/1h+fixed-window", 99_999, 100_000],
  ])("with the worst traffic, %s allows %i units of at most %i", (limit, units, mostPerWindow) => {
    const scenario = scenarioOf(`limit=${limit}&start=2026-01-05T10:59:13Z`);
    const worst = worstTraffic(scenario, laneOf(scenario), 0);
    const [written] = laneOf(scenario).limits;
    expect([worst?.burst.units, written?.mostPerWindow]).toEqual([units, mostPerWindow]);
  });

  test("the worst traffic of two limits exceeds the shorter limit and reaches the bound of the longer one", () => {
    const scenario = scenarioOf("limit=100/1m+fixed-window+align=clock&limit=10/1s+sliding-log");
    const worst = [0, 1].map((index) => worstTraffic(scenario, laneOf(scenario), index)?.burst.units);
    expect(worst).toEqual([200, 10]);
  });

  test("the worst traffic is a scenario that can be written as a URL, and running it gives the same burst", () => {
    const scenario = scenarioOf("limit=100/1m&keys=7&retry=obey&cost=3");
    for (const lane of ["written", "fixed-window", "token-bucket"]) {
      const worst = worstTraffic(scenario, laneOf(scenario, lane), 0);
      if (worst === null) throw new Error("expected a worst traffic");
      const { scenario: read, problems } = parseScenario(formatScenario(worst.scenario));
      expect(problems).toEqual([]);
      expect(runOf(read, lane).summary.worstBursts[0]).toEqual(worst.burst);
    }
  });
});
