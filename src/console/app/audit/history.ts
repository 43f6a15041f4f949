/** The index of audit entries, which says how each one can be undone, and the preview of a rollback. */
import type { AuditedRule, AuditEntry } from "../api/answers.ts";
import { hasEnded, isSameRule, ruleStateText, undoStep, type UndoStep } from "../api/undo-plan.ts";

export type UndoOption = { readonly step: UndoStep } | { readonly obstacle: string };

/** Answers how an entry can be undone, and which one it undoes, without reading the others again. */
export class History {
  readonly newest: number;
  readonly #newestOfRule = new Map<string, AuditEntry>();
  /** The newest entry that leaves a rule as the text says, by the text. */
  readonly #newestLike = new Map<string, AuditEntry>();
  readonly #undone = new Map<AuditEntry, AuditEntry>();

  /** @param entries the newest first, without gaps */
  constructor(entries: readonly AuditEntry[]) {
    this.newest = entries[0]?.seq ?? 0;
    const removals = new Map<string, AuditEntry>();
    for (let index = entries.length - 1; index >= 0; index--) {
      const entry = entries[index];
      if (entry === undefined || entry.rule === null) continue;
      const { rule, action, before, after } = entry;
      const former = before === null ? removals.get(textOf(after)) : this.#newestOfRule.get(rule);
      if (former !== undefined && takesBack(entry, former)) this.#undone.set(entry, former);
      this.#newestOfRule.set(rule, entry);
      if (after === null && action !== "expire") removals.set(textOf(before), entry);
    }
    for (const entry of this.#newestOfRule.values()) {
      if (entry.after === null) continue;
      const text = textOf(entry.after);
      const other = this.#newestLike.get(text);
      if (other === undefined || other.seq < entry.seq) this.#newestLike.set(text, entry);
    }
  }

  /**
   * The entry whose change an entry takes back; null for none. It is the change of the same rule just before, or the removal of
   * a rule that the entry makes again: the log has both as ordinary changes.
   */
  undoneBy(entry: AuditEntry): AuditEntry | null {
    return this.#undone.get(entry) ?? null;
  }

  /** How an entry can be undone by itself, or why it cannot. */
  undoOption(entry: AuditEntry, nowMs: number): UndoOption {
    const { action, rule, before, after, seq } = entry;
    if (action === "reset") return { obstacle: "a reset forgets the usage, which is not stored" };
    if (action === "reveal") return { obstacle: "the operator has seen the key" };
    if (action === "expire") return { obstacle: "the rule reached its end; make a new one instead" };
    const newest = rule === null ? undefined : this.#newestOfRule.get(rule);
    if (newest !== undefined && newest.seq > seq) {
      return this.#obstacleBy(newest, entry, "changed the rule again");
    }
    if (after !== null && hasEnded(after, nowMs)) return { obstacle: "the rule has ended" };
    const step = undoStep({ before, after }, nowMs);
    if (step === null) return { obstacle: "the rule would have ended by now" };
    // A rule with the same effect and end exists under another id.
    const again = step.kind === "restore" ? this.#newestLike.get(textOf(step.rule)) : undefined;
    if (again === undefined || again.seq <= seq) return { step };
    return this.#obstacleBy(again, entry, "made the same rule again");
  }

  #obstacleBy(other: AuditEntry, entry: AuditEntry, change: string): UndoOption {
    const isUndo = this.undoneBy(other) === entry;
    return { obstacle: `entry ${other.seq} ${isUndo ? "undid it" : change}` };
  }
}

const textOf = (rule: AuditedRule | null): string => (rule === null ? "" : ruleStateText(rule));

const takesBack = ({ action, before, after }: AuditEntry, former: AuditEntry): boolean =>
  (action === "create" || action === "replace" || action === "delete") &&
  areSame(former.before, after) &&
  areSame(former.after, before);

const areSame = (one: AuditedRule | null, other: AuditedRule | null): boolean =>
  one === null || other === null ? one === other : isSameRule(one, other);

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
