/** What is asked of the limiter, and what comes of it. */
import type { Policy } from "../../config/index.ts";
import { type Decision, isBoundByDelay } from "../../strategies/index.ts";

/** What a policy is to spend on a key. */
export interface Spend {
  readonly policy: Policy;
  readonly partitionKey: string;
  readonly cost: number;
  /** For how long it is to be settled, unless it is renewed by then; spent for good when left out. */
  readonly ttlMs?: number;
}

/**
 * What came of one spend. `decided` by the object; `local`, by the isolate for want of the object; `open` and `closed`,
 * by the policy's failure mode, without a decision.
 */
export type Outcome =
  | { readonly kind: "decided" | "local"; readonly policy: Policy; readonly decision: Decision }
  | { readonly kind: "open" | "closed"; readonly policy: Policy };

/** Whether the policy by itself would let the request in. */
export const allows = (outcome: Outcome): boolean =>
  "decision" in outcome ? outcome.decision.allowed : outcome.kind === "open";

/** Whether an outcome lets the request in. */
export const admits = (outcome: Outcome): boolean => outcome.policy.isDryRun || allows(outcome);

/** The names of the limits that deny. */
export function violatedLimits(decisions: readonly Decision[]): string[] {
  return decisions.flatMap(({ limits }) =>
    limits.filter(({ allowed }) => !allowed).map(({ name }) => name),
  );
}

/**
 * Why a request is denied: a limit is exceeded; the key is banned; it is on the policy's `deny` list, or lacks what the
 * policy demands; the cost can never fit; the key has too many open reservations; it would wait longer than `maxDelay`.
 */
export type DenialReason = "limit" | "ban" | "deny" | "cost" | "reservations" | "delay";

/** Where several apply, the first is the reason: waiting for the others would not help. */
const precedence = ["ban", "cost", "limit", "delay"] as const satisfies DenialReason[];

/** The reason of a denial by decisions of which at least one denies. */
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

/** What a decision comes to after so long, if nothing else happens: its waits are shorter. */
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
