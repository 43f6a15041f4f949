/**
 * The history of all changes, which is only appended to. The number of an entry is also the version of the rules that the
 * entry changed.
 */
import type { AuditEntry, Page, Rule } from "../protocol.ts";
import { pageOf, pageSize } from "./page.ts";
import type { Sql } from "./storage.ts";

const yearMs = 365 * 86_400_000;
export const mostAuditEntries = 100_000;
/** How many entries one sweep removes. */
const sweptAtOnce = 1_000;

export interface ChangedRule {
  readonly id: string;
  /** The rule before the changes; null if it did not exist. */
  readonly before: Rule | null;
  /** The revision that the rule has, or had when it was deleted. */
  readonly revision: number;
}

type AuditRow = { seq: number; at: number; body: string };

export class AuditLog {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get lastSeq(): number {
    return this.#bound("MAX");
  }

  append(entry: AuditEntry): void {
    const { seq, atMs, rule } = entry;
    this.#sql.exec(
      "INSERT INTO audit (seq, at, rule, body) VALUES (?, ?, ?, ?)",
      seq,
      atMs,
      rule,
      JSON.stringify(entry),
    );
    this.#sql.exec("DELETE FROM audit WHERE seq <= ?", seq - mostAuditEntries);
  }

  page(cursor: string | undefined, limit: number): Page<AuditEntry> {
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor);
    if (!Number.isSafeInteger(before)) return { items: [], cursor: null };
    const size = pageSize(limit);
    const rows = this.#sql
      .exec<AuditRow>(
        "SELECT seq, at, body FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT ?",
        before,
        size + 1,
      )
      .toArray();
    return pageOf(rows.map(entryOf), size, ({ seq }) => String(seq));
  }

  /**
   * Whether the state after an entry can be restored, which needs all later entries. 0 is the state before the first.
   */
  reaches(seq: number): boolean {
    const first = this.#bound("MIN");
    return Number.isSafeInteger(seq) && seq >= Math.max(first, 1) - 1 && seq <= this.lastSeq;
  }

  /** The rules that changed after an entry. */
  *changedSince(seq: number): Iterable<ChangedRule> {
    const changes = this.#sql
      .exec<{ rule: string; first: number; last: number }>(
        `SELECT rule, MIN(seq) AS first, MAX(seq) AS last FROM audit
          WHERE seq > ? AND rule IS NOT NULL GROUP BY rule ORDER BY first`,
        seq,
      )
      .toArray();
    for (const { rule: id, first, last } of changes) {
      const lastEntry = this.#entry(last);
      const newest = lastEntry?.after ?? lastEntry?.before;
      yield { id, before: this.#entry(first)?.before ?? null, revision: newest?.revision ?? 0 };
    }
  }

  /**
   * Removes entries that are older than a year, except the last one, whose number the next entry continues.
   * @returns whether more may be due
   */
  sweep(nowMs: number): boolean {
    const oldest = this.#sql
      .exec<{ seq: number; at: number }>(
        "SELECT seq, at FROM audit ORDER BY seq LIMIT ?",
        sweptAtOnce,
      )
      .toArray();
    const firstKept = oldest.findIndex(({ at }) => at >= nowMs - yearMs);
    const expired = firstKept === -1 ? oldest : oldest.slice(0, firstKept);
    const until = Math.min(expired.at(-1)?.seq ?? 0, this.lastSeq - 1);
    this.#sql.exec("DELETE FROM audit WHERE seq <= ?", until);
    return expired.length === sweptAtOnce;
  }

  #entry(seq: number): AuditEntry | null {
    const [row] = this.#sql
      .exec<AuditRow>("SELECT seq, at, body FROM audit WHERE seq = ?", seq)
      .toArray();
    return row === undefined ? null : entryOf(row);
  }

  #bound(which: "MIN" | "MAX"): number {
    const [row] = this.#sql
      .exec<{ seq: number | null }>(`SELECT ${which}(seq) AS seq FROM audit`)
      .toArray();
    return row?.seq ?? 0;
  }
}

function entryOf({ body }: AuditRow): AuditEntry {
  const entry: AuditEntry = JSON.parse(body);
  return entry;
}
