/** Recognizes audit entries that take back an earlier one: the log has them as ordinary changes. */
import type { AuditedRule, AuditEntry } from "../api/answers.ts";
import { isSameRule } from "../api/undo-plan.ts";

/**
 * The entry whose change an entry takes back; null for none. It is the change of the same rule just before, or the removal of
 * a rule that the entry makes again.
 * @param entries the newest first
 */
export function undoneEntry(entry: AuditEntry, entries: readonly AuditEntry[]): AuditEntry | null {
  const { seq, rule, action, before, after } = entry;
  if (action !== "create" && action !== "replace" && action !== "delete") return null;
  const earlier = entries.filter((each) => each.seq < seq && each.rule !== null);
  const found =
    before === null
      ? earlier.find(
          (each) => each.action !== "expire" && each.after === null && isSame(each.before, after),
        )
      : earlier.find((each) => each.rule === rule);
  const isInverse =
    found !== undefined &&
    isSame(found.before, after) &&
    (before === null || isSame(found.after, before));
  return isInverse ? found : null;
}

const isSame = (one: AuditedRule | null, other: AuditedRule | null): boolean =>
  one === null || other === null ? one === other : isSameRule(one, other);
