/** Audit entries that belong together: a rollback writes one for each rule. */
import type { AuditEntryView } from "../../../admin/wire.ts";
import { changeText } from "./rule-text.ts";

/** One entry, or all given entries of one rollback, the newest first. */
export type EntryGroup = readonly [AuditEntryView, ...AuditEntryView[]];

/** A rollback is one group, in the place of its newest entry. Entries of earlier versions do not name their rollback. */
export function groupsOf(rows: readonly AuditEntryView[]): readonly EntryGroup[] {
  const ofRollback = Map.groupBy(rows, ({ rollback }) => rollback?.from);
  return rows.flatMap((row): EntryGroup[] => {
    const [first = row, ...others] = row.rollback === undefined ? [] : (ofRollback.get(row.rollback.from) ?? []);
    return first === row ? [[first, ...others]] : [];
  });
}

/** For example "rolled back to the state after entry 12 (ticket 7)". */
export function groupText([entry, ...others]: EntryGroup): string {
  if (others.length === 0) return changeText(entry);
  const { note, rollback: { to } = { to: 0 } } = entry;
  const state = to === 0 ? "the state before the first change" : `the state after entry ${to}`;
  return `rolled back to ${state}${note === null ? "" : ` (${note})`}`;
}
