/** Which audit entries the page shows, and how each changes a rule. */
import type { AuditedRule, AuditEntryView } from "../../../admin/wire.ts";
import { actionText, entryText, writtenLimitsText } from "../parts/rule-text.ts";
import { instantText } from "../parts/text.ts";

export const mostShownEntries = 200;
/** The number of entries by which the shown part moves. */
const step = 100;

/** The part of a long list of entries that the page shows, so that the page stays small. */
interface EntryWindow {
  readonly rows: readonly AuditEntryView[];
  /** The numbers of entries in the list that are newer or older than the shown part. */
  readonly newer: number;
  readonly older: number;
}

/**
 * @param list the newest first
 * @param first the seq of the newest entry to show; null for the newest of the list
 */
export function entryWindow(list: readonly AuditEntryView[], first: number | null): EntryWindow {
  const found = first === null ? 0 : list.findIndex(({ seq }) => seq <= first);
  const newer = found === -1 ? Math.max(0, list.length - step) : found;
  const rows = list.slice(newer, newer + mostShownEntries);
  return { rows, newer, older: list.length - newer - rows.length };
}

/** The first entry of the next older part, which overlaps the shown one. */
export const olderFirst = ({ rows }: Pick<EntryWindow, "rows">, first: number | null): number | null =>
  rows.length < mostShownEntries ? first : (rows[step]?.seq ?? first);

export const newerFirst = (list: readonly AuditEntryView[], { newer }: EntryWindow): number | null =>
  newer <= step ? null : (list[newer - step]?.seq ?? null);

/**
 * The first entry of a part that contains the named entry. The shown part stays if it contains the entry, or if the
 * list does not.
 */
export function firstAround(list: readonly AuditEntryView[], first: number | null, named: number): number | null {
  const index = list.findIndex(({ seq }) => seq === named);
  const { newer, rows } = entryWindow(list, first);
  if (index === -1 || (index >= newer && index < newer + rows.length)) return first;
  return list[Math.max(0, index - step / 2)]?.seq ?? first;
}

export const filterFields = ["policy", "actor", "action", "key", "rule"] as const;

/** Fields that are absent match every entry. `key` matches the beginning of the id of a key. */
export type Filter = Readonly<Partial<Record<(typeof filterFields)[number], string>>>;

export function filterIn(query: URLSearchParams): Filter {
  const given = filterFields.map((field) => [field, query.get(field) ?? ""] as const);
  return Object.fromEntries(given.filter(([, text]) => text !== ""));
}

/** The value that a filter compares and offers. The words of an action are those of the sentence of the entry. */
export const filteredFieldOf = (entry: AuditEntryView, field: "policy" | "actor" | "action"): string | null =>
  field === "action" ? actionText(entry) : entry[field];

/** An address may also name an action as the API does, such as `create`. */
export const matches = (entry: AuditEntryView, { policy, actor, action, key, rule }: Filter): boolean =>
  (policy === undefined || entry.policy === policy) &&
  (actor === undefined || entry.actor === actor) &&
  (action === undefined || actionText(entry) === action || entry.action === action) &&
  (key === undefined || (entry.keyId?.startsWith(key) ?? false)) &&
  (rule === undefined || entry.rule === rule);

/**
 * The fields that differ between two rules, with "" for a missing value. Lists of entries show only added and removed
 * entries.
 */
export function differences({ before, after }: Pick<AuditEntryView, "before" | "after">) {
  const old = fieldsOf(before);
  const current = fieldsOf(after);
  return Object.keys({ ...old, ...current }).flatMap((field) => {
    const [left, right] = [new Set(old[field]), new Set(current[field])];
    const removed = [...left].filter((item) => !right.has(item));
    const added = [...right].filter((item) => !left.has(item));
    if (removed.length === 0 && added.length === 0) return [];
    return { field, before: removed.join(", "), after: added.join(", ") };
  });
}

/** The items of each field. Fields that are lists have several. */
function fieldsOf(rule: AuditedRule | null): Readonly<Record<string, readonly string[]>> {
  if (rule === null) return {};
  const { kind, mode, limits, entries, overrides, expiresAt, note } = rule;
  return {
    Kind: [kind],
    Mode: mode === undefined ? [] : [mode],
    Limits: limits === undefined ? [] : [writtenLimitsText(rule)],
    Entries: (entries ?? overrides ?? []).map(entryText),
    Ends: [expiresAt === null ? "never" : instantText(expiresAt)],
    Note: note === null ? [] : [note],
  };
}
