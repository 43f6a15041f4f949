/** The preview of a rollback. */
import type { AuditedRule, AuditEntry } from "../api/answers.ts";
import { hasEnded, isSameRule, undoStep, type UndoStep } from "../api/undo-plan.ts";

export interface RollbackPlan {
  readonly steps: readonly UndoStep[];
  /** Rules that existed then, and would have ended by now: they are not restored. */
  readonly ended: readonly AuditedRule[];
}

/**
 * The steps that make the rules what they were after an entry, in the order in which the rules changed.
 * @param entries all entries after `to`, the newest first; older ones are ignored
 */
export function rollbackPlan(entries: readonly AuditEntry[], to: number, nowMs: number): RollbackPlan {
  const changes = new Map<string, { before: AuditedRule | null; after: AuditedRule | null }>();
  for (const { rule, before, after } of entries.filter(({ seq }) => seq > to).toReversed()) {
    if (rule === null) continue;
    const first = changes.get(rule);
    changes.set(rule, { before: first === undefined ? before : first.before, after });
  }
  const steps: UndoStep[] = [];
  const ended: AuditedRule[] = [];
  for (const { before, after } of changes.values()) {
    const current = after !== null && hasEnded(after, nowMs) ? null : after;
    const isOver = before !== null && hasEnded(before, nowMs);
    if (isOver) ended.push(before);
    const isSame = before !== null && current !== null && isSameRule(before, current);
    const step = isSame ? null : undoStep({ before, after: current }, nowMs);
    if (step !== null) steps.push(step);
  }
  return { steps, ended };
}

/** The policies and the keys whose rules change. */
export function concernedBy(steps: readonly UndoStep[]): string {
  const rules = steps.map(({ rule }) => rule);
  const policies = [...new Set(rules.map(({ policy }) => policy))];
  const keys = new Set(rules.flatMap(({ policy, keyId }) => (keyId === null ? [] : `${policy} ${keyId}`)));
  const names = `${policies.length === 1 ? "policy" : "policies"} ${policies.join(", ")}`;
  if (keys.size === 0) return names;
  return `${names}, with rules of ${keys.size} ${keys.size === 1 ? "key" : "keys"}`;
}
