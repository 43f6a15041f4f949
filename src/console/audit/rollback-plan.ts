/** The preview of a rollback, and of the undo of a single change. */
import type { AuditedRule, AuditEntry } from "../api/answers.ts";
import { hasEnded, isSameRule, undoStep, type UndoStep } from "../api/undo-plan.ts";
import { undoneEntry } from "../parts/undone-entry.ts";

export interface RollbackPlan {
  readonly steps: readonly UndoStep[];
  /** Rules that existed then, and would have ended by now: they are not restored. */
  readonly ended: readonly AuditedRule[];
}

/**
 * The steps that make the rules what they were after an entry, in the order in which the rules changed.
 * @param entries all entries after `to`, the newest first; older ones are ignored
 */
export function rollbackPlan(
  entries: readonly AuditEntry[],
  to: number,
  nowMs: number,
): RollbackPlan {
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

export type UndoOption = { readonly step: UndoStep } | { readonly obstacle: string };

/**
 * How an entry can be undone by itself, or why it cannot.
 * @param entries the newest first, without gaps down to the entry
 */
export function undoOption(
  entry: AuditEntry,
  entries: readonly AuditEntry[],
  nowMs: number,
): UndoOption {
  const { action, rule, before, after, seq } = entry;
  if (action === "reset") return { obstacle: "a reset forgets the usage, which is not stored" };
  if (action === "reveal") return { obstacle: "the operator has seen the key" };
  if (action === "expire") return { obstacle: "the rule reached its end; make a new one instead" };
  const newest = entries.find((each) => each.rule === rule && each.seq > seq);
  const obstacleBy = (other: AuditEntry, change: string): UndoOption => ({
    obstacle: `entry ${other.seq} ${undoneEntry(other, entries) === entry ? "undid it" : change}`,
  });
  if (newest !== undefined) return obstacleBy(newest, "changed the rule again");
  if (after !== null && hasEnded(after, nowMs)) return { obstacle: "the rule has ended" };
  const step = undoStep({ before, after }, nowMs);
  if (step === null) return { obstacle: "the rule would have ended by now" };
  const again = step.kind === "restore" ? madeAgain(step.rule, entries, seq) : undefined;
  return again === undefined ? { step } : obstacleBy(again, "made the same rule again");
}

/** The entry after which a rule with the same effect and end exists under another id. */
const madeAgain = (
  rule: AuditedRule,
  entries: readonly AuditEntry[],
  seq: number,
): AuditEntry | undefined =>
  entries.find(
    (entry) =>
      entry.seq > seq &&
      entry.after !== null &&
      isSameRule(entry.after, rule) &&
      !entries.some((later) => later.rule === entry.rule && later.seq > entry.seq),
  );

/** The policies and the keys whose rules change. */
export function concernedBy(steps: readonly UndoStep[]): string {
  const rules = steps.map(({ rule }) => rule);
  const policies = [...new Set(rules.map(({ policy }) => policy))];
  const keys = new Set(
    rules.flatMap(({ policy, keyId }) => (keyId === null ? [] : `${policy} ${keyId}`)),
  );
  const names = `${policies.length === 1 ? "policy" : "policies"} ${policies.join(", ")}`;
  if (keys.size === 0) return names;
  return `${names}, with rules of ${keys.size} ${keys.size === 1 ? "key" : "keys"}`;
}
