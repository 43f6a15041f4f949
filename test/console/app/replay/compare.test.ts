/** Comparisons of limits on sampled traffic: replayed decisions, recorded decisions, and those of one key. */
import { describe, expect, it } from "vitest";
import { compare, type Comparison, type ComparisonRequest } from "../../../../src/console/app/replay/compare.ts";
import { type ArrivalOutcome, TimelinesBuilder } from "../../../../src/advisor/replay/timelines.ts";
import { parseLimits } from "../../../../src/strategies/index.ts";
import { startMs } from "./known-samples.ts";

const dayMs = 86_400_000;
const fromMs = startMs - dayMs;

/**
 * Key `a` sends 10 requests in a second, and a dry run denied 2 of them. The keys `b` to `e` send 1 each. A rule
 * decides one more request of `b`.
 */
function timelines({ hasOtherLimits }: { readonly hasOtherLimits: boolean }) {
  const builder = new TimelinesBuilder();
  const add = (key: string, atMs: number, outcome: ArrivalOutcome): number =>
    builder.add(key, { atMs: fromMs + atMs, cost: 1, outcome });
  for (let index = 0; index < 10; index++) {
    add("a", 60_000 + 100 * index, index < 8 ? "allowed" : "dry-run-denied");
  }
  for (const key of ["b", "c", "d", "e"]) add(key, 7_200_000, "allowed");
  if (hasOtherLimits) add("b", 9_000_000, "allowed");
  return builder.finish({
    fromMs,
    toMs: startMs,
    oneKeyIn: 1,
    requests: 14,
    lostArrivals: 0,
    otherLimitsArrivals: 0,
  });
}

const limits = (text: string) => parseLimits(text, { strategy: "sliding-log" });

function compared(request: ComparisonRequest): Comparison {
  const samples = {
    timelines: timelines({ hasOtherLimits: false }),
    withOtherLimits: timelines({ hasOtherLimits: true }),
  };
  const steps = compare(samples, request);
  const shares: number[] = [];
  let step = steps.next();
  for (; step.done !== true; step = steps.next()) shares.push(step.value);
  expect(shares).toEqual(shares.toSorted((one, other) => one - other));
  return step.value;
}

it("halving a limit denies more requests of the key that sends most, and does not affect other keys", () => {
  const now = { kind: "limits", limits: limits("8/minute") } as const;
  const then = { kind: "limits", limits: limits("4/minute") } as const;
  const { requests, keys, results, affected, affectedKeys } = compared({ deciders: [now, then] });
  expect([requests, keys, affectedKeys]).toEqual([14, 5, 1]);
  expect(results.map(({ denied, deniedKeys }) => [denied, deniedKeys])).toEqual([
    [2, 1],
    [6, 1],
  ]);
  expect(affected).toEqual([{ key: "a", requests: 10, shareOfRequests: 10 / 14, denied: [2, 6] }]);
  const { deniedShare, denials, retrying } = results[1] ?? {};
  expect(deniedShare?.value).toBeCloseTo(6 / 14);
  const step = Math.floor((fromMs + 60_000 - (denials?.startMs ?? 0)) / (denials?.stepMs ?? 1));
  expect([...(denials?.counts ?? [])].flatMap((count, index) => (count > 0 ? [index] : []))).toEqual([step]);
  // One window later, the retries of all denied requests are allowed.
  expect(retrying).toMatchObject({ denied: 6, abandoned: 0 });
  expect(retrying?.longestWaitMs).toBeGreaterThan(59_000);
});

it("a comparison shows recorded decisions next to replayed ones, with the denials of the dry run", () => {
  const replayed = { kind: "limits", limits: limits("8/minute") } as const;
  const { results, affectedKeys } = compared({ deciders: [{ kind: "recorded" }, replayed] });
  expect(results.map(({ denied, deniedKeys }) => [denied, deniedKeys])).toEqual([
    [2, 1],
    [2, 1],
  ]);
  expect(results[0]?.denials).toEqual(results[1]?.denials);
  expect(affectedKeys).toBe(0);
});

it("a comparison of one key has only the arrivals of this key, and none for an unknown key", () => {
  const deciders = [{ kind: "all-allowed" }, { kind: "all-denied" }] as const;
  const one = compared({ deciders, key: "a" });
  expect([one.requests, one.keys, one.source.oneKeyIn]).toEqual([10, 1, 1]);
  expect(one.results.map(({ denied }) => denied)).toEqual([0, 10]);
  const other = compared({ deciders, key: "absent" });
  expect([other.requests, other.keys, other.affectedKeys]).toEqual([0, 0, 0]);
});

describe("the last minutes of a key", () => {
  const limit = { kind: "limits", limits: limits("60/hour") } as const;

  /** The key sends a request each second in the first minutes of 25. */
  function ofKey(request: Omit<ComparisonRequest, "key">, { beginsAtMs = fromMs, endsAtMinute = 25 } = {}) {
    const builder = new TimelinesBuilder();
    for (let second = 0; second < 60 * endsAtMinute; second++) {
      builder.add("a", { atMs: beginsAtMs + 1_000 * second, cost: 1, outcome: "allowed" });
    }
    const withOtherLimits = builder.finish({
      fromMs: beginsAtMs,
      toMs: beginsAtMs + 25 * 60_000,
      oneKeyIn: 1,
      requests: null,
      lostArrivals: 0,
      otherLimitsArrivals: 0,
    });
    const steps = compare({ timelines: withOtherLimits, withOtherLimits }, { ...request, key: "a" });
    let step = steps.next();
    while (step.done !== true) step = steps.next();
    return step.value;
  }

  it("ten complete minutes are counted, and the requests before them say how much of the limit is used", () => {
    const { requests, source, results } = ofKey({ deciders: [{ kind: "all-denied" }, limit] });
    expect([requests, source.toMs - source.fromMs]).toEqual([600, 600_000]);
    // The first minute uses the limit of the hour, long before the counted minutes.
    expect(results.map(({ denied }) => denied)).toEqual([600, 600]);
    for (const { denials } of results) expect([...denials.counts]).toEqual(Array.from({ length: 10 }, () => 60));
    expect(results[1]?.longestDeniedMs).toBeGreaterThanOrEqual(600_000);
    expect(results[1]?.retrying).toMatchObject({ denied: 600 });
  });

  it("a minute that has not ended, or whose requests may not have arrived, is not counted", () => {
    const knownUntilMs = fromMs + 20 * 60_000 + 59_000;
    const { requests, source } = ofKey({ deciders: [{ kind: "all-allowed" }], knownUntilMs });
    expect([requests, source.toMs]).toEqual([600, fromMs + 20 * 60_000]);
    const begun = ofKey({ deciders: [{ kind: "all-allowed" }] }, { beginsAtMs: fromMs + 30_000 });
    expect([begun.requests, begun.source.toMs % 60_000]).toEqual([600, 0]);
  });

  it("when the key has stopped to send requests, its last minutes with requests are counted", () => {
    const { requests, source } = ofKey({ deciders: [limit, limit] }, { endsAtMinute: 4 });
    expect([requests, source.fromMs, source.toMs]).toEqual([240, fromMs, fromMs + 4 * 60_000]);
  });

  it("before the first complete minute, all requests are counted", () => {
    const options = { beginsAtMs: fromMs + 30_000, endsAtMinute: 1 };
    const knownUntilMs = fromMs + 59_000;
    const { requests, source } = ofKey({ deciders: [{ kind: "all-denied" }], knownUntilMs }, options);
    expect([requests, source.fromMs, source.toMs]).toEqual([29, fromMs + 30_000, knownUntilMs]);
  });
});
