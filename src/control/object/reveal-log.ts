/**
 * Records which operator has seen which plain key. Revealing a key again within an hour adds no row, so repeated
 * reveals cannot displace older rows.
 */
import type { AuditEntry } from "../protocol.ts";
import type { Sql } from "./storage.ts";

const hourMs = 3_600_000;
export const mostReveals = 100_000;
/** How many rows one sweep removes. */
const sweptAtOnce = 1_000;

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
