/** How to undo a change of a rule, and how rules differ. */
import type { AuditedRule, AuditEntry } from "./answers.ts";

/** A rule before and after a change; null when there was or is none. */
export type RuleChange = Pick<AuditEntry, "before" | "after">;

/** The call that undoes a change. */
export type UndoStep =
  | { readonly kind: "remove"; readonly rule: AuditedRule }
  | { readonly kind: "restore"; readonly rule: AuditedRule }
  /** `rule` is the one in effect, which becomes `former` again. */
  | { readonly kind: "replace"; readonly rule: AuditedRule; readonly former: AuditedRule };

type KindFields = Pick<AuditedRule, "kind" | "limits" | "strategy" | "mode" | "entries" | "overrides">;

/** The kind of a rule and the fields of that kind, as a call to the admin API sends them. */
export const contentOf = ({ kind, limits, strategy, mode, entries, overrides }: KindFields): KindFields => ({
  kind,
  ...(limits !== undefined && { limits }),
  ...(strategy !== undefined && { strategy }),
  ...(mode !== undefined && { mode }),
  ...(entries !== undefined && { entries }),
  ...(overrides !== undefined && { overrides }),
});

/** Whether two states of a rule have the same place, effect, end and note. */
export const isSameRule = (one: AuditedRule, other: AuditedRule): boolean =>
  ruleStateText(one) === ruleStateText(other);

/** Rules never change in place, and their lists can be long. */
const stateTexts = new WeakMap<AuditedRule, string>();

/** The same text for states with the same place, effect, end and note. */
export function ruleStateText(rule: AuditedRule): string {
  const known = stateTexts.get(rule);
  if (known !== undefined) return known;
  const { policy, scope, keyId, expiresAt, note } = rule;
  const text = JSON.stringify([policy, scope, keyId, expiresAt, note, contentOf(rule)]);
  stateTexts.set(rule, text);
  return text;
}

export const hasEnded = ({ expiresAt }: Pick<AuditedRule, "expiresAt">, nowMs: number): boolean =>
  expiresAt !== null && Date.parse(expiresAt) <= nowMs;

/** Null when nothing is left to undo: the former rule would have ended by now, and there is no later one. */
export function undoStep({ before, after }: RuleChange, nowMs: number): UndoStep | null {
  const former = before === null || hasEnded(before, nowMs) ? null : before;
  if (after === null) return former === null ? null : { kind: "restore", rule: former };
  if (former === null) return { kind: "remove", rule: after };
  return { kind: "replace", rule: after, former };
}
