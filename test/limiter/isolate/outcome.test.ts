/** The reason of a denial, and decisions that are answered later than they were made. */
import { describe, expect, it } from "vitest";
import { admits, aged, allows, denialReason, type Outcome } from "../../../src/limiter/isolate/outcome.ts";
import { createMeter, type Decision } from "../../../src/strategies/index.ts";
import { policyOf } from "../../fakes/isolate.ts";

const queue = (window: string, fields: object): object => ({
  limit: 10,
  window,
  strategy: "leaky-bucket",
  ...fields,
});

/** The outcome of the last of these spends, on a new meter. */
function outcomeOf(fields: object, costs: readonly number[], changes: object = {}): Outcome {
  const policy = policyOf(fields);
  const meter = createMeter(policy.limits);
  const decisions = costs.map((cost) => meter.consume(cost, 1_000));
  const decision = decisions.at(-1) ?? meter.look(0, 1_000);
  return { kind: "decided", policy, decision: { ...decision, ...changes }, decidedAtMs: 1_000 };
}

const undecided = (kind: "open" | "closed", policy = policyOf()): Outcome => ({
  kind,
  policy,
  decidedAtMs: 1_000,
  decision: null,
});

const limit = outcomeOf({ limits: "1/minute" }, [1, 1]);
const ban = outcomeOf({ limits: "1/minute" }, [1, 1], { bannedForMs: 5 });
const cost = outcomeOf({ limits: "1/minute" }, [2]);
const delayed = { maxDelay: "1s", limits: [queue("10s", { burst: 10 })] };
const delay = outcomeOf(delayed, [1, 1, 1]);

describe("the reason of a denial", () => {
  it("a denial with several possible reasons reports the first in the order ban, cost, limit, delay", () => {
    expect([limit, ban, cost, delay].map((outcome) => allows(outcome))).toEqual(Array.from({ length: 4 }, () => false));
    expect([limit, ban, cost, delay].map((outcome) => denialReason([outcome]))).toEqual([
      "limit",
      "ban",
      "cost",
      "delay",
    ]);
    expect(denialReason([delay, limit])).toBe("limit");
    expect(denialReason([limit, delay, cost])).toBe("cost");
    expect(denialReason([cost, limit, ban])).toBe("ban");
  });

  it("during a ban, the reason is ban even if the cost exceeds the capacity", () => {
    expect(denialReason([outcomeOf({ limits: "1/minute" }, [2], { bannedForMs: 5 })])).toBe("ban");
  });

  it("the reason of a denial is delay only if every limit that denies is a queue bounded by maxDelay", () => {
    const beside = (other: string): object => ({
      maxDelay: "1s",
      limits: [queue("10s", { burst: 10 }), other],
    });
    expect(denialReason([outcomeOf(beside("100/day"), [1, 1, 1])])).toBe("delay");
    expect(denialReason([outcomeOf(beside("2/day"), [1, 1, 1])])).toBe("limit");
  });

  it("the reason is limit when onError = closed denies without a decision", () => {
    expect(denialReason([undecided("closed")])).toBe("limit");
  });
});

describe("an outcome", () => {
  it("an outcome admits the request when its policy allows it or is a dry run", () => {
    const dryRun = policyOf({ dryRun: true });
    const outcomes: Outcome[] = [limit, undecided("open")];
    outcomes.push(undecided("closed"), undecided("closed", dryRun));
    expect(outcomes.map(allows)).toEqual([false, true, false, false]);
    expect(outcomes.map(admits)).toEqual([false, true, false, true]);
  });
});

describe("an aged decision", () => {
  const waits = { retryAfterMs: 900, replenishAfterMs: 800, resetAfterMs: 700 };
  const base = createMeter(policyOf().limits).look(1, 0);
  const decision: Decision = {
    ...base,
    retryAfterMs: 1_000,
    bannedForMs: 600,
    limits: base.limits.map((each) => ({ ...each, ...waits })),
  };

  it("in an aged decision, each wait is shorter by the age, and nothing else changes", () => {
    expect(aged(decision, 100)).toEqual({
      ...decision,
      retryAfterMs: 900,
      bannedForMs: 500,
      limits: decision.limits.map((each) => ({
        ...each,
        retryAfterMs: 800,
        replenishAfterMs: 700,
        resetAfterMs: 600,
      })),
    });
    expect(aged(decision, 0)).toEqual(decision);
  });

  it("an aged decision has no wait below zero, and keeps a wait of null", () => {
    const never = {
      ...decision,
      retryAfterMs: null,
      limits: decision.limits.map((each) => ({ ...each, retryAfterMs: null })),
    };
    expect(aged(never, 5_000)).toMatchObject({
      retryAfterMs: null,
      bannedForMs: 0,
      limits: [{ retryAfterMs: null, replenishAfterMs: 0, resetAfterMs: 0 }],
    });
    expect(aged(decision, 5_000)).toMatchObject({ retryAfterMs: 0, limits: [{ retryAfterMs: 0 }] });
  });
});
