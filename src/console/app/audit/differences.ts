/** How a rule differs before and after a change, in words. */
import type { AuditedRule, AuditEntry } from "../api/answers.ts";
import { entryText, writtenLimitsText } from "../parts/rule-text.ts";
import { instantText } from "../parts/text.ts";

export interface Difference {
  readonly field: string;
  /** Empty when there was or is none. */
  readonly before: string;
  readonly after: string;
}

/** The fields that differ. Lists of entries show only the entries that were added or removed. */
export function differences({ before, after }: Pick<AuditEntry, "before" | "after">): Difference[] {
  const old = fieldsOf(before);
  const current = fieldsOf(after);
  const fields = [...new Set([...old.keys(), ...current.keys()])];
  return fields.flatMap((field) => {
    const [left, right] = [new Set(old.get(field)), new Set(current.get(field))];
    const removed = [...left].filter((item) => !right.has(item));
    const added = [...right].filter((item) => !left.has(item));
    if (removed.length === 0 && added.length === 0) return [];
    return { field, before: removed.join(", "), after: added.join(", ") };
  });
}

/** Each field with its items: lists have several. */
function fieldsOf(rule: AuditedRule | null): ReadonlyMap<string, readonly string[]> {
  if (rule === null) return new Map();
  const { kind, mode, limits, strategy, entries, overrides, expiresAt, note } = rule;
  const fields: [string, readonly string[]][] = [["Kind", [kind]]];
  if (mode !== undefined) fields.push(["Mode", [mode]]);
  if (limits !== undefined) {
    const own = { limits, ...(strategy !== undefined && { strategy }) };
    fields.push(["Limits", [writtenLimitsText(own)]]);
  }
  const list = entries ?? overrides;
  if (list !== undefined) fields.push(["Entries", list.map(entryText)]);
  fields.push(["Ends", [expiresAt === null ? "never" : instantText(expiresAt)]]);
  if (note !== null) fields.push(["Note", [note]]);
  return new Map(fields);
}
