/** The causes of a denial: the requests that still count, their sum, and the time when the denial clears. */
import { describe, expect, test } from "vitest";
import { causesOf } from "../../../src/console/playground/model/causes.ts";
import { outcome } from "../../../src/console/playground/model/columns.ts";
import { createMeter } from "../../../src/strategies/index.ts";
import { forAll } from "../../for-all.ts";
import { listOf, runOf, runsOf, scenarioOf } from "./runs.ts";
import { anyScenario } from "./scenarios.ts";

/** The causes of the last request's decision, in the lane of the limits as written. */
function lastCauses(query: string) {
  const run = runOf(scenarioOf(query));
  return causesOf(run, run.atMs.length - 1);
}

describe("the causes of a denial", () => {
  test("under a fixed window, the causes are the requests since the window started", () => {
    expect(lastCauses("limit=2/1m+fixed-window&traffic=times&at=0,61,80,100")).toEqual([
      {
        limit: 0,
        sentence: "2 of 2 in this window of 1 minute; the next request fits in 21 s.",
        rows: [1, 2],
        clearsMs: 121_000,
      },
    ]);
  });

  test("under a sliding log, the causes are the requests of the last window", () => {
    const [cause] = lastCauses("limit=3/1m+sliding-log&traffic=times&at=0,30,61,62,63");
    expect(cause?.rows).toEqual([1, 2, 3]);
    expect(cause?.clearsMs).toBe(90_000);
  });

  test("under a sliding-window counter, the causes include a share of the previous window", () => {
    const [cause] = lastCauses("limit=100/1m+sliding-window-counter&traffic=times&at=0@40,90@80,90");
    expect(cause?.rows).toEqual([0, 1]);
    expect(cause?.sentence).toContain("80 in this window and 40 × 0.5 of the one before");
  });

  test("under a token bucket, the causes are the requests whose tokens are not yet refilled", () => {
    const [cause] = lastCauses("limit=10/10s+token-bucket+burst=3&traffic=times&at=0,1,1.2,1.4,1.7");
    expect(cause?.rows).toEqual([1, 2, 3]);
    expect(cause?.clearsMs).toBe(2_000);
  });

  test("under a concurrency limit, the causes are the requests that still run", () => {
    const [cause] = lastCauses("limit=2/30s+concurrency&traffic=times&at=0,3,4,4.5&runs=3s");
    expect(cause?.rows).toEqual([1, 2]);
  });

  test("under several limits, the causes name each limit that denies", () => {
    const query = "limit=2/1s+sliding-log&limit=3/1m+sliding-log&traffic=times&at=0,2,2.1";
    expect(lastCauses(`${query},2.2`).map(({ limit }) => limit)).toEqual([0, 1]);
    expect(lastCauses(`${query},9`).map(({ limit }) => limit)).toEqual([1]);
  });

  test("the denial of a request that costs more than the capacity never clears", () => {
    const [cause] = lastCauses("limit=2/1m+sliding-log&traffic=times&at=0@3");
    expect(cause).toMatchObject({ rows: [], clearsMs: Infinity });
  });

  test("the causes of a request that waits are the requests before it in the queue", () => {
    const [cause] = lastCauses("limit=1/1s+leaky-bucket+burst=5&traffic=times&at=0x3");
    expect(cause?.rows).toEqual([0, 1]);
    expect(cause?.clearsMs).toBe(2_000);
  });

  test("requests of other keys and denied requests are not causes", () => {
    const scenario = scenarioOf("limit=3/1m+sliding-log&traffic=steady&rate=60/1m&length=1m&keys=4");
    const run = runOf(scenario);
    const row = listOf(run.outcome).lastIndexOf(outcome.denied);
    const [cause] = causesOf(run, row);
    const rows = cause?.rows ?? [];
    expect(rows).toHaveLength(3);
    for (const each of rows) {
      expect(run.key[each]).toBe(run.key[row]);
      expect(run.outcome[each]).toBe(outcome.allowed);
    }
  });

  /** Excludes retries and slots, whose state does not depend on the rows alone. */
  const anyStill = anyScenario.map((scenario) => ({
    ...scenario,
    runsMs: 0,
    retry: "none" as const,
  }));

  test(
    "every denial clears at the stated instant, and not a millisecond earlier",
    forAll(
      [anyStill],
      (scenario) => {
        for (const run of runsOf(scenario)) {
          const row = listOf(run.outcome).lastIndexOf(outcome.denied);
          if (row === -1 || run.limits.some(({ holdsSlots }) => holdsSlots)) continue;
          const [cause, ...others] = causesOf(run, row);
          const meter = createMeter(run.limits.map(({ rule }) => rule));
          for (let each = 0; each <= row; each++) {
            if (run.key[each] === run.key[row]) meter.consume(run.cost[each] ?? 0, run.startMs + (run.atMs[each] ?? 0));
          }
          const [cost = 0, atMs = 0, waitMs = 0] = [run.cost[row], run.atMs[row], run.waitMs[row]];
          const isAllowed = (ms: number) => meter.look(cost, run.startMs + ms).allowed;
          expect([cause?.clearsMs, others]).toEqual([atMs + waitMs, []]);
          const isPossible = cost <= (run.limits[0]?.capacity ?? 0);
          const clearsMs = isPossible ? atMs + waitMs : atMs + 1;
          expect([isAllowed(clearsMs - 1), isAllowed(clearsMs)]).toEqual([false, isPossible]);
        }
      },
      60,
    ),
  );

  test(
    "the units of the causes of a denial are at least those that leave no room for the request",
    forAll([anyStill], (scenario) => {
      for (const run of runsOf(scenario)) {
        const row = listOf(run.outcome).indexOf(outcome.denied);
        if (row === -1 || run.limits.some(({ holdsSlots }) => holdsSlots)) continue;
        const [cause] = causesOf(run, row);
        const sum = (cause?.rows ?? []).reduce((total, each) => total + (run.cost[each] ?? 0), 0);
        const { capacity = 0 } = run.limits[0] ?? {};
        expect(sum).toBeGreaterThanOrEqual(capacity - (run.cost[row] ?? 0) + 1);
      }
    }),
  );
});
