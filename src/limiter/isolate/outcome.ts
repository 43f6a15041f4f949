/** The limiter's input and output: what a policy charges to a key, the outcome, and what key rules change in both. */
import type { PlainKey } from "../../policy/key.ts";
import type { Policy } from "../../policy/policy.ts";
import { type Decision, type Limit, isBoundByDelay } from "../../strategies/index.ts";
import type { KeyRule } from "../protocol.ts";

/** A cost that a policy charges to a key. */
export interface Spend {
  readonly policy: Policy;
  readonly partitionKey: string;
  readonly cost: number;
  /** Makes the spend a reservation that can be settled for this long. Without it the spend is final. */
  readonly ttlMs?: number;
  /** The key that `partitionKey` stands for. Only for statistics that reveal keys. */
  readonly plain?: PlainKey;
}

/** Identifies a key of a policy. */
export const policyKey = ({ policy, partitionKey }: Pick<Spend, "policy" | "partitionKey">): string =>
  `${policy.name} ${partitionKey}`;

interface OutcomeOfPolicy {
  /** With the limits in effect for the key. */
  readonly policy: Policy;
  /**
   * When it was decided, in milliseconds since the Unix epoch: by the object's clock if the object decided, otherwise by the
   * isolate's. 0 for a charge that a key rule allows.
   */
  readonly decidedAtMs: number;
}

/** `decided`: by the object, or by what it last reported. `local`: by the isolate's own meters. */
export interface DecidedOutcome extends OutcomeOfPolicy {
  readonly kind: "decided" | "local";
  readonly decision: Decision;
  /** The kind of the key rule that decided in place of the limits. `allow`: nothing is charged. */
  readonly keyRule?: "allow" | "block";
}

/**
 * The outcome of one spend. `open` and `closed`: by the failure mode without a decision, because the object gave no
 * answer.
 */
export type Outcome = DecidedOutcome | UndecidedOutcome;

interface UndecidedOutcome extends OutcomeOfPolicy {
  readonly kind: "open" | "closed";
}

/** Whether the policy alone would allow the request. */
export const allows = (outcome: Outcome): boolean =>
  "decision" in outcome ? outcome.decision.allowed : outcome.kind === "open";

/** Whether the outcome lets the request pass: a dry run always does. */
export const admits = (outcome: Outcome): boolean => outcome.policy.isDryRun || allows(outcome);

/** Whether a key rule decided in place of the limits. */
export const isByKeyRule = (outcome: Outcome, kind: "allow" | "block"): boolean =>
  "decision" in outcome && outcome.keyRule === kind;

/** The parts of a decision that allows a request at once. */
export const allowedNow = { allowed: true, delayMs: 0, retryAfterMs: 0, bannedForMs: 0 } as const;

export function violatedLimits(decisions: readonly Decision[]): string[] {
  return decisions.flatMap(({ limits }) => limits.filter(({ allowed }) => !allowed).map(({ name }) => name));
}

/**
 * Why a request is denied. `deny`: the key is on the policy's `deny` list, blocked by a key rule, or lacks a required part.
 * `cost`: the cost exceeds the capacity. `reservations`: too many are open. `delay`: the request would wait longer than
 * `maxDelay`.
 */
export type DenialReason = "limit" | "ban" | "deny" | "cost" | "reservations" | "delay";

/** When several reasons apply, the first in this list is reported. */
const precedence = ["deny", "ban", "cost", "limit", "delay"] as const satisfies DenialReason[];

/** The reason of a denial. At least one of the outcomes must deny. */
export function denialReason(denying: readonly Outcome[]): DenialReason {
  const reasons = new Set(denying.map(reasonOf));
  return precedence.find((reason) => reasons.has(reason)) ?? "limit";
}

function reasonOf(outcome: Outcome): DenialReason {
  if (!("decision" in outcome)) return "limit";
  const { policy, decision, keyRule } = outcome;
  if (keyRule === "block") return "deny";
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

/** Approximate memory of a rule, and of each of its limits, in bytes. */
const ruleBytes = 400;
const limitBytes = 200;

export const ruleSizeBytes = (rule: KeyRule): number =>
  ruleBytes + (rule.kind === "limits" ? rule.limits.length * limitBytes : 0);

/** The limits in effect for the key. */
export const ruledLimits = (policy: Policy, rule: KeyRule | null): readonly Limit[] =>
  rule?.kind === "limits" ? rule.limits : policy.limits;

/** The policy with the limits in effect for the key. */
function ruledPolicy(policy: Policy, rule: KeyRule | null): Policy {
  const limits = ruledLimits(policy, rule);
  return limits === policy.limits ? policy : { ...policy, limits };
}

/** The spend with the limits in effect for the key. */
export function ruledSpend(spend: Spend, rule: KeyRule | null): Spend {
  const policy = ruledPolicy(spend.policy, rule);
  return policy === spend.policy ? spend : { ...spend, policy };
}

/** The outcome of a decision under a rule. A ban takes precedence over rules that allow or block. */
export function ruledOutcome(decided: DecidedOutcome, rule: KeyRule | null): DecidedOutcome {
  if (rule === null) return decided;
  const { policy, decision } = decided;
  if (rule.kind === "limits" || decision.bannedForMs > 0) {
    return { ...decided, policy: ruledPolicy(policy, rule) };
  }
  const change = rule.kind === "allow" ? allowedNow : { allowed: false, delayMs: 0, retryAfterMs: null };
  return { ...decided, decision: { ...decision, ...change }, keyRule: rule.kind };
}

/**
 * The spends with the limits that decided them, without those that a key rule allowed without charge. Without rules they
 * are the same list.
 */
export const chargedSpends = (spends: readonly Spend[], outcomes: readonly Outcome[]): readonly Spend[] =>
  spends.every((spend) => chargedSpend(spend, outcomes) === spend)
    ? spends
    : spends.flatMap((spend) => chargedSpend(spend, outcomes));

function chargedSpend(spend: Spend, outcomes: readonly Outcome[]): Spend | readonly [] {
  const outcome = outcomes.find(({ policy }) => policy.name === spend.policy.name);
  if (outcome === undefined) return spend;
  if (isByKeyRule(outcome, "allow")) return [];
  return outcome.policy === spend.policy ? spend : { ...spend, policy: outcome.policy };
}
