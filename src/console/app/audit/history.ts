/** Says how each audit entry can be undone, and previews a rollback. */
import type { AuditedRule, AuditEntryView } from "../../../admin/wire.ts";
import { countOf } from "../parts/text.ts";
import { hasEnded, isSameRule, type RuleChange, ruleIn, ruleStateText, undoStep } from "../api/rules.ts";

export type UndoOption = { readonly step: RuleChange } | { readonly obstacle: string };

/**
 * An index of audit entries. It finds how an entry can be undone, and which one it undoes, without a search through all
 * entries.
 */
export class History {
  readonly newest: number;
  readonly #newestOfRule = new Map<string, AuditEntryView>();
  /** By the text of a rule's state: the newest entry that left a rule in this state. */
  readonly #newestLike = new Map<string, AuditEntryView>();
  readonly #undone = new Map<AuditEntryView, AuditEntryView>();

  /** @param entries the newest first, without gaps */
  constructor(entries: readonly AuditEntryView[]) {
    this.newest = entries[0]?.seq ?? 0;
    const removals = new Map<string, AuditEntryView>();
    for (const entry of entries.toReversed()) {
      const { rule, action, before, after } = entry;
      if (rule === null) continue;
      const former = before === null ? removals.get(ruleStateText(after)) : this.#newestOfRule.get(rule);
      if (former !== undefined && takesBack(entry, former)) this.#undone.set(entry, former);
      this.#newestOfRule.set(rule, entry);
      if (after === null && action !== "expire") removals.set(ruleStateText(before), entry);
    }
    for (const entry of this.#newestOfRule.values()) {
      if (entry.after === null) continue;
      const text = ruleStateText(entry.after);
      const other = this.#newestLike.get(text);
      if (other === undefined || other.seq < entry.seq) this.#newestLike.set(text, entry);
    }
  }

  /**
   * The earlier entry that an entry undoes; null for none. This is the previous change of the same rule, or the removal
   * of a rule that the entry creates again. The log records undos as ordinary changes.
   */
  undoneBy(entry: AuditEntryView): AuditEntryView | null {
    return this.#undone.get(entry) ?? null;
  }

  undoOption(entry: AuditEntryView, nowMs: number): UndoOption {
    const { action, rule, before, after, seq } = entry;
    if (action === "reset") return { obstacle: "a reset forgets the usage, which is not stored" };
    if (action === "record" || action === "stop-recording") return { obstacle: "a recording changes no rule" };
    if (action === "reveal") return { obstacle: "the operator has seen the key" };
    if (action === "expire") return { obstacle: "the rule reached its end; make a new one instead" };
    const newest = rule === null ? undefined : this.#newestOfRule.get(rule);
    if (newest !== undefined && newest.seq > seq) {
      return this.#obstacleBy(newest, entry, "changed the rule again");
    }
    if (after !== null && hasEnded(after, nowMs)) return { obstacle: "the rule has ended" };
    const step = undoStep({ before, after }, nowMs);
    if (step === null) return { obstacle: "the rule would have ended by now" };
    // A rule with the same effect and end may exist under another id.
    const again = step.before === null ? this.#newestLike.get(ruleStateText(step.after)) : undefined;
    if (again === undefined || again.seq <= seq) return { step };
    return this.#obstacleBy(again, entry, "made the same rule again");
  }

  #obstacleBy(other: AuditEntryView, entry: AuditEntryView, change: string): UndoOption {
    const isUndo = this.undoneBy(other) === entry;
    return { obstacle: `entry ${other.seq} ${isUndo ? "undid it" : change}` };
  }
}

const takesBack = ({ action, before, after }: AuditEntryView, former: AuditEntryView): boolean =>
  (action === "create" || action === "replace" || action === "delete") &&
  isSameRule(former.before, after) &&
  isSameRule(former.after, before);

export interface RollbackPlan {
  readonly steps: readonly RuleChange[];
  /** Rules that existed then, and would have ended by now: they are not restored. */
  readonly ended: readonly AuditedRule[];
}

/**
 * The steps that make the rules what they were after an entry, in the order in which the rules changed.
 * @param entries all entries after `to`, the newest first; older ones are ignored
 */
export function rollbackPlan(entries: readonly AuditEntryView[], to: number, nowMs: number): RollbackPlan {
  const changes = new Map<string, RuleChange>();
  for (const { rule, before, after } of entries.filter(({ seq }) => seq > to).toReversed()) {
    if (rule === null) continue;
    const first = changes.get(rule) ?? { before };
    changes.set(rule, { before: first.before, after });
  }
  const steps: RuleChange[] = [];
  const ended: AuditedRule[] = [];
  for (const { before, after } of changes.values()) {
    const current = after !== null && hasEnded(after, nowMs) ? null : after;
    if (before !== null && hasEnded(before, nowMs)) ended.push(before);
    const step = isSameRule(before, current) ? null : undoStep({ before, after: current }, nowMs);
    if (step !== null) steps.push(step);
  }
  return { steps, ended };
}

export function concernedBy(steps: readonly RuleChange[]): string {
  const rules = steps.map(ruleIn).filter((rule) => rule !== null);
  const policies = [...new Set(rules.map(({ policy }) => policy))];
  const keys = new Set(rules.flatMap(({ policy, keyId }) => (keyId === null ? [] : `${policy} ${keyId}`)));
  const names = `${policies.length === 1 ? "policy" : "policies"} ${policies.join(", ")}`;
  if (keys.size === 0) return names;
  return `${names}, with rules of ${countOf(keys.size, "key")}`;
}
