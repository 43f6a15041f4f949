/** The filter of the audit entries, which is in the query of the page. */
import type { AuditEntry } from "../api/answers.ts";

export const filterFields = ["policy", "actor", "action", "key", "rule"] as const;
export type FilterField = (typeof filterFields)[number];

/** Fields that are absent match every entry. `key` matches the beginning of the id of a key. */
export type Filter = Readonly<Partial<Record<FilterField, string>>>;

export function filterIn(query: URLSearchParams): Filter {
  const given = filterFields.map((field) => [field, query.get(field) ?? ""] as const);
  return Object.fromEntries(given.filter(([, text]) => text !== ""));
}

export const matches = (entry: AuditEntry, { policy, actor, action, key, rule }: Filter): boolean =>
  (policy === undefined || entry.policy === policy) &&
  (actor === undefined || entry.actor === actor) &&
  (action === undefined || entry.action === action) &&
  (key === undefined || (entry.keyId?.startsWith(key) ?? false)) &&
  (rule === undefined || entry.rule === rule);
