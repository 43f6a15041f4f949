/** A change of rules in two or three words, for marks on the time axis. */
import type { AuditedRule, AuditEntryView, PolicyView, RuleKind, WrittenLimits } from "../../../admin/wire.ts";
import { factorText, ruleText } from "../parts/rule-text.ts";

/**
 * For example "Boosted 2x (203.0.113.7) by alice", and "Boosted 2x" where space is short.
 * @param key null for a change of no key, or of one that the page is about
 */
export function labelsOf(
  entry: AuditEntryView,
  policies: readonly PolicyView[],
  key: string | null,
): { readonly label: string; readonly shortLabel: string } {
  const shortLabel = changeLabel(entry, policies);
  const label = key === null ? shortLabel : `${shortLabel} (${key})`;
  return { label: entry.action === "expire" ? label : `${label} by ${entry.actor}`, shortLabel };
}

/** For example "Boosted 2x" or "Block removed". */
function changeLabel(entry: AuditEntryView, policies: readonly PolicyView[]): string {
  const { action, before, after } = entry;
  switch (action) {
    case "create":
    case "replace":
      if (after === null) return "Rule changed";
      // Only the end or the note of the rule has changed.
      if (before !== null && ruleText(before) === ruleText(after)) return `${ruleName(after, policies)} changed`;
      return effectLabel(after, policies);
    case "delete":
      return `${ruleName(before, policies)} removed`;
    case "expire":
      return `${ruleName(before, policies)} expired`;
    case "reset":
      return "Usage reset";
    case "rollback":
      return "Rolled back";
    case "record":
      return "Key recorded";
    case "stop-recording":
      return "Recording stopped";
    case "reveal":
      return "Key revealed";
    default:
      return action satisfies never;
  }
}

function effectLabel(rule: AuditedRule, policies: readonly PolicyView[]): string {
  const { kind, keyId, mode = "enforce" } = rule;
  switch (kind) {
    case "block":
      return "Blocked";
    case "allow":
      return keyId === null ? "Allow list changed" : "Allowed without charge";
    case "limits":
      return boostLabel(rule, policies) ?? `Limits ${shortLimits(rule.limits)}`;
    case "mode":
      return `Mode ${mode}`;
    case "deny":
      return "Deny list changed";
    case "overrides":
      return "Overrides changed";
    default:
      return kind satisfies never;
  }
}

const ruleNames: Readonly<Record<RuleKind, string>> = {
  limits: "Limits",
  allow: "Allow rule",
  block: "Block",
  mode: "Mode",
  deny: "Deny list",
  overrides: "Overrides",
};

function ruleName(rule: AuditedRule | null, policies: readonly PolicyView[]): string {
  if (rule === null) return "Rule";
  return boostLabel(rule, policies) === null ? ruleNames[rule.kind] : "Boost";
}

/** Null for a rule that does not raise the limits of a key above those of its policy. */
function boostLabel(rule: AuditedRule, policies: readonly PolicyView[]): string | null {
  const { kind, keyId, policy, limits, factor } = rule;
  if (factor !== undefined && factor > 1) return `Boosted ${factorText(factor)}`;
  const usual = policies.find(({ name }) => name === policy)?.limits;
  if (kind !== "limits" || keyId === null || usual === undefined) return null;
  const units = listOf(limits).map(unitsOf);
  if (units.length !== usual.value.length) return null;
  const ratios = usual.value.map(({ limit }, index) => (units[index] ?? 0) / limit);
  if (!(Math.min(...ratios) >= 1) || Math.max(...ratios) === 1) return null;
  // If a rule has changed the policy's limits, these may have been different when the key was boosted.
  const isFactor = usual.source === "configuration" && new Set(ratios).size === 1;
  return isFactor && Number.isInteger(ratios[0]) ? `Boosted ${ratios[0]}x` : `Boosted to ${shortLimits(limits)}`;
}

const listOf = (limits: WrittenLimits | undefined): readonly unknown[] => (Array.isArray(limits) ? limits : [limits]);

const unitsOf = (limit: unknown): number =>
  typeof limit === "string" ? Number.parseInt(limit, 10) : Number(Object(limit).limit);

/** The limits without their strategies: "20/1m; 100/1h". */
const shortLimits = (limits: WrittenLimits | undefined): string => listOf(limits).map(shortLimit).join("; ");

function shortLimit(limit: unknown): string {
  if (typeof limit === "string") return limit;
  const { limit: units, window }: Record<string, unknown> = { ...Object(limit) };
  return `${String(units)}/${String(window)}`;
}
