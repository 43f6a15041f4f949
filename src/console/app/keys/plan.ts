/** How to bring a rule of a key into effect: make one, or replace the one of its kind. */
import type { FullLimit, Rule, WrittenLimits } from "../api/answers.ts";
import type { KeyReference, RulePlan, Term } from "../api/rules.ts";
import { contentOf } from "../api/undo-plan.ts";

export type KeyRuleKind = "limits" | "block" | "allow";

export interface KeyRuleContent extends Term {
  readonly kind: KeyRuleKind;
  readonly limits?: WrittenLimits;
  readonly strategy?: string;
}

const endMsOf = ({ expiresAt }: Rule): number =>
  expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt);

/** The rules that can be in effect, of one kind. The first has precedence. */
const liveRules = (rules: readonly Rule[], kind: KeyRuleKind): readonly Rule[] =>
  rules.filter((rule) => rule.kind === kind && rule.state !== "orphan");

/**
 * The rule that a new one of the same kind replaces; null for none. A rule of limits that lasts longer is kept: it is in effect
 * again when the new one has ended.
 * @param rules of the key, the newest first
 * @param endMs the end of the new rule; null for none
 */
export function replacedRule(rules: readonly Rule[], kind: KeyRuleKind, endMs: number | null): Rule | null {
  const [first = null] = liveRules(rules, kind);
  const isKept = first !== null && kind === "limits" && endMsOf(first) > (endMs ?? Number.POSITIVE_INFINITY);
  return isKept ? null : first;
}

/** The rule of limits that is in effect at a later instant; null when no rule of the key gives it limits then. */
export const laterLimitsRule = (rules: readonly Rule[], without: Pick<Rule, "id"> | null, atMs: number): Rule | null =>
  liveRules(rules, "limits").find((rule) => rule.id !== without?.id && endMsOf(rule) > atMs) ?? null;

/** The rule of the key that decides at a later instant; null for none. */
export const laterRule = (rules: readonly Rule[], without: Pick<Rule, "id"> | null, atMs: number): Rule | null =>
  (["block", "allow"] as const)
    .flatMap((kind) => liveRules(rules, kind))
    .find((rule) => rule.id !== without?.id && endMsOf(rule) > atMs) ?? laterLimitsRule(rules, without, atMs);

export const planOf = (key: KeyReference, content: KeyRuleContent, replaced: Rule | null): RulePlan =>
  replaced === null ? { kind: "create", rule: { ...key, ...content } } : { kind: "replace", before: replaced, content };

/** Gives a rule another end, from now on. The note stays unless a new one is given. */
export function extension(rule: Rule, term: Term): RulePlan {
  const { kind, limits, strategy } = contentOf(rule);
  if (kind !== "limits" && kind !== "block" && kind !== "allow") {
    throw new Error(`expected a rule of a key, got one of the kind ${kind}`);
  }
  const note = term.note ?? rule.note ?? undefined;
  return {
    kind: "replace",
    before: rule,
    content: {
      kind,
      ...(limits !== undefined && { limits }),
      ...(strategy !== undefined && { strategy }),
      ...(term.for !== undefined && { for: term.for }),
      ...(note !== undefined && { note }),
    },
  };
}

/** The strategy of limits that are written as text: that of the present ones, if they have one in common. */
export function commonStrategy(limits: readonly FullLimit[]): string | undefined {
  const names = new Set(limits.map(({ strategy }) => strategy));
  const [only] = names;
  return names.size === 1 && only !== "concurrency" ? only : undefined;
}
