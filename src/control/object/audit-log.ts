/**
 * The history of all changes, which is only appended to. The number of an entry is also the version of the rules that
 * the entry changed. Reveals take their numbers from the same sequence, but have their own log: however many there are,
 * they never displace a change.
 */
import type { AuditEntry, Page, Rule } from "../protocol.ts";
import { type Sql, pageOf, pageSize, readMeta, writeMeta } from "./storage.ts";

const yearMs = 365 * 86_400_000;
export const mostAuditEntries = 100_000;
/** How many entries, and how many reveals, one sweep removes. */
const sweptAtOnce = 1_000;

/** An entry of the log that concerns a rule. */
export interface RuleChange {
  readonly seq: number;
  readonly rule: string;
  readonly action: AuditEntry["action"];
  readonly isOfPolicy: boolean;
}

type AuditRow = { seq: number; at: number; body: string };

/** The numbers that belong to no stored entry. */
interface Extent {
  /** The number of the newest entry that was removed; 0 for none. */
  readonly removed: number;
  /** How many later numbers belong to reveals. */
  readonly reveals: number;
}

export class AuditLog {
  readonly #sql: Sql;
  readonly #reveals: RevealLog;
  /** Whether all entries are kept, because a rollback reads them. */
  isHeld = false;

  constructor(sql: Sql) {
    this.#sql = sql;
    this.#reveals = new RevealLog(sql);
  }

  get lastSeq(): number {
    return Math.max(this.#bound("MAX"), this.#reveals.lastSeq);
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
    this.removeExcess(seq);
  }

  /** Records that an operator has seen a key: once an hour, however often it is revealed. */
  addReveal(entry: Omit<AuditEntry, "seq">): void {
    const seq = this.lastSeq + 1;
    if (!this.#reveals.add({ ...entry, seq })) return;
    const { removed, reveals } = this.#extent();
    this.#keepExtent({ removed, reveals: reveals + 1 });
  }

  page(cursor: string | undefined, limit: number): Page<AuditEntry> {
    const before = cursor === undefined ? Number.MAX_SAFE_INTEGER : Number(cursor);
    if (!Number.isSafeInteger(before)) return { items: [], cursor: null };
    const size = pageSize(limit);
    const rows = this.#sql
      .exec<AuditRow>("SELECT seq, at, body FROM audit WHERE seq < ? ORDER BY seq DESC LIMIT ?", before, size + 1)
      .toArray();
    const entries = [...rows.map(entryOf), ...this.#reveals.before(before, size + 1)];
    const newest = entries.toSorted((one, other) => other.seq - one.seq);
    return pageOf(newest.slice(0, size + 1), size, ({ seq }) => String(seq));
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
      .exec<{ seq: number; rule: string; action: AuditEntry["action"]; key: string | null }>(
        `SELECT seq, rule, json_extract(body, '$.action') AS action,
            COALESCE(json_extract(body, '$.after.key'), json_extract(body, '$.before.key')) AS key
          FROM audit WHERE seq > ? AND rule IS NOT NULL ORDER BY seq LIMIT ?`,
        seq,
        most,
      )
      .toArray()
      .map(({ key, ...change }) => ({ ...change, isOfPolicy: key === null }));
  }

  /** The number of the first change of a rule after the entry `seq`; null if there is none. */
  nextChangeOf(rule: string, seq: number): number | null {
    const [row] = this.#sql
      .exec<{ seq: number }>("SELECT seq FROM audit WHERE seq > ? AND rule = ? ORDER BY seq LIMIT 1", seq, rule)
      .toArray();
    return row?.seq ?? null;
  }

  /** Null when the log does not have it, and for a reveal. */
  entry(seq: number): AuditEntry | null {
    const [row] = this.#sql.exec<AuditRow>("SELECT seq, at, body FROM audit WHERE seq = ?", seq).toArray();
    return row === undefined ? null : entryOf(row);
  }

  /** The rule before the entry `seq`; null if there was none. */
  ruleBefore(seq: number): Rule | null {
    return this.entry(seq)?.before ?? null;
  }

  /** The revision that a rule has after the entry `seq`, or had when the entry removed it. */
  revisionAfter(seq: number): number {
    const entry = this.entry(seq);
    return (entry?.after ?? entry?.before)?.revision ?? 0;
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
   * Removes entries that are older than a year, except the last one, whose number the next entry continues.
   * @returns whether more may be due
   */
  sweep(nowMs: number): boolean {
    this.#reveals.sweep(nowMs - yearMs);
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

  /** @param rows the oldest ones */
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
    // There is no stored extent before the first reveal, or after a version that stored reveals among the changes.
    if (stored === null) return { removed: Math.max(this.#bound("MIN"), 1) - 1, reveals: 0 };
    const extent: Extent = JSON.parse(stored);
    return extent;
  }

  #keepExtent(extent: Extent): void {
    writeMeta(this.#sql, "audit", JSON.stringify(extent));
  }

  #bound(which: "MIN" | "MAX"): number {
    const [row] = this.#sql.exec<{ seq: number | null }>(`SELECT ${which}(seq) AS seq FROM audit`).toArray();
    return row?.seq ?? 0;
  }
}

function entryOf({ body }: AuditRow): AuditEntry {
  const entry: AuditEntry = JSON.parse(body);
  return entry;
}

const hourMs = 3_600_000;
export const mostReveals = 100_000;

export class RevealLog {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
  }

  get lastSeq(): number {
    const [row] = this.#sql.exec<{ seq: number | null }>("SELECT MAX(seq) AS seq FROM reveals").toArray();
    return row?.seq ?? 0;
  }

  /** @returns false when the operator has revealed the key within the last hour */
  add(entry: AuditEntry): boolean {
    const { seq, atMs, via, actor, policy, key = null } = entry;
    const subject = JSON.stringify([via, actor, policy, key]);
    const [recent] = this.#sql
      .exec("SELECT 1 FROM reveals WHERE subject = ? AND at > ? LIMIT 1", subject, atMs - hourMs)
      .toArray();
    if (recent !== undefined) return false;
    const nth = this.#lastNth + 1;
    this.#sql.exec(
      "INSERT INTO reveals (seq, at, nth, subject, body) VALUES (?, ?, ?, ?, ?)",
      seq,
      atMs,
      nth,
      subject,
      JSON.stringify(entry),
    );
    this.#sql.exec("DELETE FROM reveals WHERE nth <= ?", nth - mostReveals);
    return true;
  }

  /** At most `most` reveals before the number `seq`, the newest first. */
  before(seq: number, most: number): AuditEntry[] {
    return this.#sql
      .exec<{ body: string }>("SELECT body FROM reveals WHERE seq < ? ORDER BY seq DESC LIMIT ?", seq, most)
      .toArray()
      .map(({ body }): AuditEntry => JSON.parse(body));
  }

  /** Removes old rows, except the last one, whose number the next entry continues. */
  sweep(beforeMs: number): void {
    this.#sql.exec(
      `DELETE FROM reveals WHERE seq IN (SELECT seq FROM reveals ORDER BY seq LIMIT ?1)
        AND at < ?2 AND seq < (SELECT MAX(seq) FROM reveals)`,
      sweptAtOnce,
      beforeMs,
    );
  }

  /** How many reveals were ever added. */
  get #lastNth(): number {
    const [row] = this.#sql.exec<{ nth: number }>("SELECT nth FROM reveals ORDER BY seq DESC LIMIT 1").toArray();
    return row?.nth ?? 0;
  }
}
