/** The limiter's input and output: what a policy charges to a key, and the outcome. */
import type { Policy } from "../../config/index.ts";
import { type Decision, isBoundByDelay } from "../../strategies/index.ts";

/** A cost that a policy charges to a key. */
export interface Spend {
  readonly policy: Policy;
  readonly partitionKey: string;
  readonly cost: number;
  /** Makes the spend a reservation that can be settled for this long. Without it the spend is final. */
  readonly ttlMs?: number;
}

/**
 * The outcome of one spend. `decided`: by the object, or by what it last reported. `local`: by the isolate's own meters.
 * `open` and `closed`: by the failure mode without a decision, because the object gave no answer.
 */
export type Outcome =
  | { readonly kind: "decided" | "local"; readonly policy: Policy; readonly decision: Decision }
  | { readonly kind: "open" | "closed"; readonly policy: Policy };

/** Whether the policy alone would allow the request. */
export const allows = (outcome: Outcome): boolean =>
  "decision" in outcome ? outcome.decision.allowed : outcome.kind === "open";

/** Whether the outcome lets the request pass: a dry run always does. */
export const admits = (outcome: Outcome): boolean => outcome.policy.isDryRun || allows(outcome);

export function violatedLimits(decisions: readonly Decision[]): string[] {
  return decisions.flatMap(({ limits }) =>
    limits.filter(({ allowed }) => !allowed).map(({ name }) => name),
  );
}

/**
 * Why a request is denied. `deny`: the key is on the policy's `deny` list or lacks a required part. `cost`: the cost exceeds
 * the capacity. `reservations`: too many are open. `delay`: the request would wait longer than `maxDelay`.
 */
export type DenialReason = "limit" | "ban" | "deny" | "cost" | "reservations" | "delay";

/** When several reasons apply, the first in this list is reported. */
const precedence = ["ban", "cost", "limit", "delay"] as const satisfies DenialReason[];

/** The reason of a denial. At least one of the outcomes must deny. */
export function denialReason(denying: readonly Outcome[]): DenialReason {
  const reasons = new Set(denying.map(reasonOf));
  return precedence.find((reason) => reasons.has(reason)) ?? "limit";
}

function reasonOf(outcome: Outcome): DenialReason {
  if (!("decision" in outcome)) return "limit";
  const { policy, decision } = outcome;
  if (decision.bannedForMs > 0) return "ban";
  if (decision.retryAfterMs === null) return "cost";
  const isDelay = decision.limits.every(({ allowed, capacity }, index) => {
    const limit = policy.limits[index];
    return allowed || (limit !== undefined && isBoundByDelay(limit, capacity));
  });
  return isDelay ? "delay" : "limit";
}

/** The decision `sinceMs` later, if nothing else is spent: every wait is shorter by that time. */
export function aged(decision: Decision, sinceMs: number): Decision {
  if (sinceMs === 0) return decision;
  const left = (waitMs: number): number => Math.max(0, waitMs - sinceMs);
  const leftOf = (waitMs: number | null): number | null => (waitMs === null ? null : left(waitMs));
  return {
    ...decision,
    retryAfterMs: leftOf(decision.retryAfterMs),
    bannedForMs: left(decision.bannedForMs),
    limits: decision.limits.map((limit) => ({
      ...limit,
      retryAfterMs: leftOf(limit.retryAfterMs),
      replenishAfterMs: left(limit.replenishAfterMs),
      resetAfterMs: left(limit.resetAfterMs),
    })),
  };
}
