/** Decisions for the tests and measurements of statistics. */
import type { Decision, LimitDecision } from "../../src/strategies/index.ts";

export function limitDecision(fields: Partial<LimitDecision> = {}): LimitDecision {
  return {
    name: "p",
    strategy: "fixed-window",
    limit: 100,
    capacity: 100,
    windowMs: 60_000,
    allowed: true,
    remaining: 50,
    retryAfterMs: 0,
    replenishAfterMs: 30_000,
    resetAfterMs: 30_000,
    ...fields,
  };
}

export function decisionOf(...limits: readonly Partial<LimitDecision>[]): Decision {
  const decided = (limits.length === 0 ? [{}] : limits).map((each) => limitDecision(each));
  const allowed = decided.every((each) => each.allowed);
  return {
    allowed,
    cost: 1,
    delayMs: 0,
    retryAfterMs: allowed ? 0 : 30_000,
    bannedForMs: 0,
    limits: decided,
  };
}

export const denied = decisionOf({ allowed: false, remaining: 0, retryAfterMs: 30_000 });
