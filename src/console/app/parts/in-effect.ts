/** Sentences about the state of a policy without one of its rules. */
import type { Policy, Rule, RuleKind } from "../api/answers.ts";
import { ruleText } from "./rule-text.ts";
import { instantText, limitsText, numberText } from "./text.ts";

/** For example "from a rule by ops, until 22 Nov 2026, 18:30:00". */
export function ruleSource({ actor, expiresAt }: Pick<Rule, "actor" | "expiresAt">): string {
  const end = expiresAt === null ? "without an end" : `until ${instantText(expiresAt)}`;
  return `from a rule by ${actor}, ${end}`;
}

/**
 * When the newest change of a rule was made, which is that of its actor; null when the answer does not say. A rule starts with its
 * first change. A rule of a policy is applied with each change, one of a key when the object of the key confirms it.
 */
export function changedAt({ keyId, revision, startsAt, appliedAt }: Rule): string | null {
  if (revision === 1) return startsAt;
  return keyId === null ? appliedAt : null;
}

/** For example "by alice, since 22 Nov 2026, 18:30:00". */
export function authorText(rule: Rule): string {
  const at = changedAt(rule);
  return `by ${rule.actor}${at === null ? "" : `, since ${instantText(at)}`}`;
}

/** For example "enforce, from the configuration". */
export const configuredText = ({ configured }: Policy, part: "mode" | "limits"): string =>
  `${part === "mode" ? configured.mode : limitsText(configured.limits)}, from the configuration`;

const entryNames = {
  allow: "allow entries",
  deny: "deny entries",
  overrides: "overrides",
} as const;

/**
 * For example "enforce, from the configuration" or "without these entries; 3 other deny entries stay".
 * @param rule with the id null for one that does not exist yet
 */
export function policyWithout(
  policy: Policy,
  { kind, id }: { readonly kind: RuleKind; readonly id: string | null },
): string {
  if (kind === "mode" || kind === "limits") {
    const next = policy.rules.find((rule) => rule.kind === kind && rule.id !== id && !isRefused(policy, rule));
    return next === undefined ? configuredText(policy, kind) : `${ruleText(next)}, ${ruleSource(next)}`;
  }
  if (kind === "block") throw new Error("expected a rule of a policy, got a block");
  const others = policy[kind].filter(({ rule }) => rule !== id).reduce((sum, { count }) => sum + count, 0);
  const name = entryNames[kind];
  return others === 0 ? `no ${name}` : `without these entries; ${numberText(others)} other ${name} stay`;
}

const isRefused = ({ refused }: Policy, { id }: Rule): boolean => refused.some(({ rule }) => rule === id);
