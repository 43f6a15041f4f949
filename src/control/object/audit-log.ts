/**
 * The history of all changes, which is only appended to. The number of an entry is also the version of the rules that
 * the entry changed. Reveals take their numbers from the same sequence, but have their own log: however many there are,
 * they never displace a change.
 */
import type { AuditEntry, Page } from "../protocol.ts";
import { bodiesOf, type Sql, pageOf, pageSize, readMeta, numberOf, writeMeta } from "./storage.ts";

const hourMs = 3_600_000;
const yearMs = 365 * 24 * hourMs;
export const mostAuditEntries = 100_000;
export const mostReveals = 100_000;
/** How many entries, and how many reveals, one sweep removes. */
const sweptAtOnce = 1_000;

/** An entry of the log that concerns a rule. */
export interface RuleChange {
  readonly seq: number;
  readonly rule: string;
  /** Null for a damaged row. */
  readonly action: AuditEntry["action"] | null;
  readonly isOfPolicy: boolean;
}

/** Null for a damaged row. */
function entryIn({ body }: { readonly body: string }): AuditEntry | null {
  try {
    const entry: AuditEntry = JSON.parse(body);
    return entry;
  } catch {
    return null;
  }
}

/** The numbers that belong to no stored entry. */
interface Extent {
  /** The number of the newest entry that was removed; 0 for none. */
  readonly removed: number;
  /** How many later numbers belong to reveals. */
  readonly reveals: number;
}

export class AuditLog {
  readonly #sql: Sql;
  /** Whether all entries are kept, because a rollback reads them. */
  isHeld = false;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get lastSeq(): number {
    return (
      numberOf(
        this.#sql,
        "SELECT MAX(seq) FROM (SELECT MAX(seq) AS seq FROM audit UNION ALL SELECT MAX(seq) FROM reveals)",
      ) ?? 0
    );
  }

  append(entry: AuditEntry): void {
    const { seq, atMs, rule } = entry;
    const row = [seq, atMs, rule, JSON.stringify(entry)];
    this.#sql.exec("INSERT INTO audit (seq, at, rule, body) VALUES (?, ?, ?, ?)", ...row);
    this.removeExcess(seq);
  }

  /** Records that an operator has seen a key: once an hour, however often it is revealed. */
  addReveal(entry: Omit<AuditEntry, "seq">): void {
    const { atMs, via, actor, policy, key = null } = entry;
    const subject = JSON.stringify([via, actor, policy, key]);
    const recent = "SELECT 1 FROM reveals WHERE subject = ? AND at > ? LIMIT 1";
    if (numberOf(this.#sql, recent, subject, atMs - hourMs) !== null) return;
    const seq = this.lastSeq + 1;
    const nth = (numberOf(this.#sql, "SELECT nth FROM reveals ORDER BY seq DESC LIMIT 1") ?? 0) + 1;
    const row = [seq, atMs, nth, subject, JSON.stringify({ ...entry, seq })];
    this.#sql.exec("INSERT INTO reveals (seq, at, nth, subject, body) VALUES (?, ?, ?, ?, ?)", ...row);
    this.#sql.exec("DELETE FROM reveals WHERE nth <= ?", nth - mostReveals);
    const { removed, reveals } = this.#extent();
    this.#keepExtent({ removed, reveals: reveals + 1 });
  }

  /** Leaves out damaged rows, so that the other entries stay readable. */
  page(cursor: string | undefined, limit: number): Page<AuditEntry> {
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor);
    if (!Number.isSafeInteger(before)) return { items: [], cursor: null };
    const size = pageSize(limit);
    const rows = ["audit", "reveals"].flatMap((table) => {
      const select = `SELECT seq, body FROM ${table} WHERE seq < ? ORDER BY seq DESC LIMIT ?`;
      return this.#sql.exec<{ seq: number; body: string }>(select, before, size + 1).toArray();
    });
    const newest = rows.toSorted((one, other) => other.seq - one.seq);
    const { items, cursor: next } = pageOf(newest.slice(0, size + 1), size, ({ seq }) => String(seq));
    return { items: items.flatMap((row) => entryIn(row) ?? []), cursor: next };
  }

  /**
   * Whether the state after an entry can be restored, which needs all later entries. 0 is the state before the first.
   */
  reaches(seq: number): boolean {
    return Number.isSafeInteger(seq) && seq >= this.#extent().removed && seq <= this.lastSeq;
  }

  /** At most `most` changes of rules after the entry `seq`, the oldest first. */
  changesAfter(seq: number, most: number): RuleChange[] {
    return this.#sql
      .exec<{ seq: number; rule: string; action: AuditEntry["action"] | null; key: string | null }>(
        `SELECT seq, rule, json_extract(body, '$.action') AS action,
            COALESCE(json_extract(body, '$.after.key'), json_extract(body, '$.before.key')) AS key
          FROM (SELECT seq, rule, CASE WHEN json_valid(body) THEN body END AS body FROM audit)
          WHERE seq > ? AND rule IS NOT NULL ORDER BY seq LIMIT ?`,
        seq,
        most,
      )
      .toArray()
      .map(({ key, ...change }) => ({ ...change, isOfPolicy: key === null }));
  }

  /** The number of the first change of a rule after the entry `seq`; null if there is none. */
  nextChangeOf(rule: string, seq: number): number | null {
    const select = "SELECT seq FROM audit WHERE seq > ? AND rule = ? ORDER BY seq LIMIT 1";
    return numberOf(this.#sql, select, seq, rule);
  }

  /** The entry with this number; null when the log does not have it, and for a reveal. */
  entry(seq: number): AuditEntry | null {
    return bodiesOf<AuditEntry>(this.#sql, "SELECT body FROM audit WHERE seq = ?", seq)[0] ?? null;
  }

  /** The entries with these numbers that the log has and that are not damaged, the newest first. */
  intactEntries(seqs: readonly number[]): AuditEntry[] {
    const select = "SELECT seq, body FROM audit WHERE seq = ?";
    const rows = seqs
      .toSorted((one, other) => other - one)
      .flatMap((seq) => this.#sql.exec<{ seq: number; body: string }>(select, seq).toArray());
    return rows.flatMap((row) => entryIn(row) ?? []);
  }

  /**
   * Removes the oldest entries if there are more than the log keeps.
   * @returns whether there are more to remove
   */
  removeExcess(lastSeq = this.lastSeq): boolean {
    if (this.isHeld || lastSeq <= mostAuditEntries) return false;
    const { removed, reveals } = this.#extent();
    const excess = lastSeq - removed - reveals - mostAuditEntries;
    if (excess > 0) this.#remove(this.#oldest(Math.min(excess, sweptAtOnce)));
    return excess > sweptAtOnce;
  }

  /**
   * Removes entries and reveals that are older than a year, except the last ones, whose numbers the next entry continues.
   * @returns whether more may be due
   */
  sweep(nowMs: number): boolean {
    this.#sql.exec(
      `DELETE FROM reveals WHERE seq IN (SELECT seq FROM reveals ORDER BY seq LIMIT ?1)
        AND at < ?2 AND seq < (SELECT MAX(seq) FROM reveals)`,
      sweptAtOnce,
      nowMs - yearMs,
    );
    if (this.isHeld) return true;
    const oldest = this.#oldest(sweptAtOnce);
    const last = this.#bound("MAX");
    const expired = oldest.filter(({ seq, at }) => at < nowMs - yearMs && seq < last);
    this.#remove(expired);
    return expired.length === sweptAtOnce;
  }

  #oldest(most: number): { seq: number; at: number }[] {
    return this.#sql
      .exec<{ seq: number; at: number }>("SELECT seq, at FROM audit ORDER BY seq LIMIT ?", most)
      .toArray();
  }

  /** @param rows the oldest rows of the log */
  #remove(rows: readonly { readonly seq: number }[]): void {
    const until = rows.at(-1)?.seq;
    if (until === undefined) return;
    const { removed, reveals } = this.#extent();
    const others = until - removed - rows.length;
    this.#sql.exec("DELETE FROM audit WHERE seq <= ?", until);
    this.#keepExtent({ removed: until, reveals: Math.max(0, reveals - others) });
  }

  /** Read from the database each time, because a transaction may be rolled back. */
  #extent(): Extent {
    const stored = readMeta(this.#sql, "audit");
    // Nothing is stored before the first reveal or removal.
    if (stored === null) return { removed: Math.max(this.#bound("MIN"), 1) - 1, reveals: 0 };
    const extent: Extent = JSON.parse(stored);
    return extent;
  }

  #keepExtent(extent: Extent): void {
    writeMeta(this.#sql, "audit", JSON.stringify(extent));
  }

  #bound(which: "MIN" | "MAX"): number {
    return numberOf(this.#sql, `SELECT ${which}(seq) FROM audit`) ?? 0;
  }
}
