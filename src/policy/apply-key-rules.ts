/** Matches a client against the allowlist, the blocklist and the overrides of a policy. */
import {
  type Address,
  type Condition,
  hasPieces,
  isWithin,
  type KeyPart,
  type SubjectPattern,
  type Override,
  type Pattern,
  type Policy,
  type RuleEntry,
} from "./vars/index.ts";
import type { Limit } from "../strategies/index.ts";
import type { KeyValue } from "./apply-key.ts";

/** The client that a policy would charge. */
export interface Subject {
  /** Null when it is unknown. */
  readonly address: Address | null;
  readonly key: readonly KeyPart[];
  readonly values: readonly KeyValue[];
  /** All values of a part, which need not be in the key. A repeated header or a list claim has several. */
  readonly textsOf: (part: KeyPart) => readonly string[];
}

/**
 * The field of the configuration, or the runtime rule, that decided about a key. `mode`, `limits` and `onMissingKey` have
 * no entries.
 */
export interface DecisionSource {
  readonly field: "mode" | "deny" | "allow" | "onMissingKey" | "overrides" | "limits";
  /** The id of the runtime rule; null for the configuration. */
  readonly rule: string | null;
  /** The position of the entry in the field, or in the rule's entries; null without entries. */
  readonly index: number | null;
}

export interface ListMatch {
  readonly kind: "blocked" | "exempt";
  readonly source: DecisionSource;
}

/**
 * The entry that decides without the limits. Runtime rules come before the configuration, and in each of them `deny` comes
 * before `allow`. Null without a match.
 */
export function listMatch({ ruleLists, keyRules }: Policy, subject: Subject): ListMatch | null {
  return (
    denied(ruleLists.deny, subject) ??
    allowed(ruleLists.allow, subject) ??
    denied(keyRules.deny, subject) ??
    allowed(keyRules.allow, subject)
  );
}

/**
 * The limits of a key: those of the first matching override, else those of the policy. Runtime rules come before the
 * configuration.
 */
export function limitsFor(
  { ruleLists, keyRules, limits, limitsRule }: Policy,
  subject: Subject,
): { readonly limits: readonly Limit[]; readonly source: DecisionSource } {
  return (
    overridden(ruleLists.overrides, subject) ??
    overridden(keyRules.overrides, subject) ?? { limits, source: limitsSource(limitsRule) }
  );
}

const configuredLimits: DecisionSource = { field: "limits", rule: null, index: null };

/** The source of the policy's own limits. Without a rule it is always the same object. */
export const limitsSource = (rule: string | null): DecisionSource =>
  rule === null ? configuredLimits : { ...configuredLimits, rule };

type MaybeOfRule<Entry> = Entry & Partial<RuleEntry>;

const sourceOf = (
  field: DecisionSource["field"],
  { rule, index }: Partial<RuleEntry>,
  found: number,
): DecisionSource => ({ field, rule: rule ?? null, index: index ?? found });

function allowed(list: readonly MaybeOfRule<SubjectPattern>[], subject: Subject): ListMatch | null {
  const index = list.findIndex((entry) => matchesSubject(entry, subject));
  const entry = list[index];
  return entry === undefined ? null : { kind: "exempt", source: sourceOf("allow", entry, index) };
}

/**
 * Compares every value of each part, not only the one that is charged: a client must not evade the blocklist by sending
 * a second value.
 */
function denied(list: readonly MaybeOfRule<SubjectPattern>[], subject: Subject): ListMatch | null {
  const index = list.findIndex(
    (entry) =>
      matchesSubject(entry, subject) ||
      (entry.kind === "key" &&
        entry.patterns.every((pattern, position) => {
          const part = subject.key[position];
          return part === undefined || part.kind === "global" || matchesCondition({ part, pattern }, subject);
        })),
  );
  const entry = list[index];
  return entry === undefined ? null : { kind: "blocked", source: sourceOf("deny", entry, index) };
}

/** The first matching override; null without one. */
function overridden(overrides: readonly MaybeOfRule<Override>[], subject: Subject) {
  const index = overrides.findIndex((override) =>
    override.for.kind === "condition"
      ? matchesCondition(override.for.condition, subject)
      : matchesSubject(override.for, subject),
  );
  const override = overrides[index];
  return override === undefined ? null : { limits: override.limits, source: sourceOf("overrides", override, index) };
}

function matchesSubject(entry: SubjectPattern, { address, key, values }: Subject): boolean {
  if (entry.kind === "address") return matchesAddress(entry.pattern, address);
  return entry.patterns.every((pattern, index) => {
    const part = key[index];
    const value = values[index] ?? null;
    if (part?.kind === "global") return true;
    if (part?.kind === "ip") return matchesAddress(pattern, address);
    return value !== null && matchesText(pattern, value);
  });
}

function matchesCondition({ part, pattern }: Condition, { address, textsOf }: Subject): boolean {
  if (part.kind === "ip") return matchesAddress(pattern, address);
  return textsOf(part).some((text) => matchesText(pattern, text));
}

function matchesAddress(pattern: Pattern, address: Address | null): boolean {
  if (address === null) return false;
  return pattern.kind === "network" ? isWithin(address, pattern.network) : matchesText(pattern, address.toString());
}

function matchesText(pattern: Pattern, text: string): boolean {
  switch (pattern.kind) {
    case "text":
      return text === pattern.text;
    case "network":
      return false;
    case "wildcard":
      return hasPieces(text, pattern.pieces);
    default:
      return pattern satisfies never;
  }
}
