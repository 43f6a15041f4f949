/** Outcomes by key rules: runtime rules for one policy and one key, which the key's object enforces and reports. */
import type { Policy } from "../../policy/policy.ts";
import type { Limit } from "../../strategies/index.ts";
import type { KeyRule } from "../protocol.ts";
import { allowedNow, type DecidedOutcome, isByKeyRule, type Outcome, type Spend } from "./outcome.ts";

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
