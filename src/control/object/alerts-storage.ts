/** The stored alerts: one row for each cause, with the body that is still to be delivered. */
import { jsonOrNull } from "../../validation/json.ts";
import { isRecord } from "../../validation/problems.ts";
import type { Sql } from "./storage.ts";

export interface AlertContent {
  readonly type: string;
  /** For people: the field that Slack and compatible receivers show. */
  readonly text: string;
  readonly data: Readonly<Record<string, string | number>>;
}

/** An alert that a receiver has not confirmed. */
export interface PendingAlert {
  readonly cause: string;
  /** The same for each attempt, so that a receiver can ignore a repetition. */
  readonly id: string;
  readonly body: string;
  /** Attempts that failed. */
  readonly attempts: number;
}

interface Row {
  readonly raisedMs: number;
  /** The policy whose condition still holds; null when it has ended, or for an alert about a key. */
  readonly active: string | null;
  readonly id: string;
  /** Null when the alert was delivered or given up. */
  readonly body: string | null;
  readonly attempts: number;
  readonly dueMs: number;
}

/** The first attempt is made at once. If the object crashes during it, the alarm repeats it after this time. */
const afterCrashMs = 15_000;
/** How long a row is kept after its alert was raised, at least. */
const keptMs = 3_600_000;

export class AlertRows {
  readonly #sql: Sql;
  /** All rows, by cause. */
  readonly #rows = new Map<string, Row>();

  constructor(sql: Sql) {
    this.#sql = sql;
    sql.exec("CREATE TABLE IF NOT EXISTS alerts (cause TEXT PRIMARY KEY, body TEXT NOT NULL) WITHOUT ROWID");
    for (const { cause, body } of sql
      .exec<{ cause: string; body: string }>("SELECT cause, body FROM alerts")
      .toArray()) {
      const row = rowIn(jsonOrNull(body));
      if (row !== null) this.#rows.set(cause, row);
    }
  }

  isActive(cause: string): boolean {
    return this.#rows.get(cause)?.active != null;
  }

  /** The policies whose conditions still hold. */
  activePolicies(): ReadonlySet<string> {
    return new Set([...this.#rows.values()].flatMap(({ active }) => active ?? []));
  }

  /** When the last alert of this cause was raised. */
  raisedMs(cause: string): number {
    return this.#rows.get(cause)?.raisedMs ?? Number.NEGATIVE_INFINITY;
  }

  /** How many alerts were raised after this instant. */
  raisedSince(fromMs: number): number {
    return [...this.#rows.values()].filter(({ raisedMs }) => raisedMs > fromMs).length;
  }

  raise(cause: string, active: string | null, content: AlertContent, nowMs: number): void {
    const { text, type, data } = content;
    const timestamp = new Date(nowMs).toISOString();
    this.#write(cause, {
      raisedMs: nowMs,
      active,
      id: `msg_${crypto.randomUUID().replaceAll("-", "")}`,
      body: JSON.stringify({ text, type, timestamp, data }),
      attempts: 0,
      dueMs: nowMs + afterCrashMs,
    });
    this.#deleteOld(nowMs);
  }

  /** Notes that the condition of the cause has ended. */
  end(cause: string, nowMs: number): void {
    const row = this.#rows.get(cause);
    if (row?.active == null) return;
    this.#write(cause, { ...row, active: null });
    this.#deleteOld(nowMs);
  }

  /** The alerts to send now: those that were never sent, and those whose next attempt is due. */
  pending(nowMs: number): PendingAlert[] {
    return [...this.#rows].flatMap(([cause, { id, body, attempts, dueMs }]) =>
      body !== null && (attempts === 0 || dueMs <= nowMs) ? [{ cause, id, body, attempts }] : [],
    );
  }

  /** When the next attempt is due; null when nothing is pending. */
  dueAtMs(): number | null {
    const due = [...this.#rows.values()].filter(({ body }) => body !== null);
    return due.length === 0 ? null : Math.min(...due.map(({ dueMs }) => dueMs));
  }

  /** Notes an attempt that failed. The next one is due at `dueMs`. */
  failed({ cause, id }: PendingAlert, dueMs: number): void {
    const row = this.#rows.get(cause);
    if (row?.id === id) this.#write(cause, { ...row, attempts: row.attempts + 1, dueMs });
  }

  /** Notes that an alert was delivered, or given up. */
  done({ cause, id }: PendingAlert): void {
    const row = this.#rows.get(cause);
    if (row?.id === id) this.#write(cause, { ...row, body: null });
  }

  #write(cause: string, row: Row): void {
    this.#sql.exec("INSERT OR REPLACE INTO alerts (cause, body) VALUES (?, ?)", cause, JSON.stringify(row));
    this.#rows.set(cause, row);
  }

  /** Deletes old rows whose conditions have ended and whose alerts need no further attempt. */
  #deleteOld(nowMs: number): void {
    for (const [cause, { raisedMs, active, body }] of this.#rows) {
      if (active !== null || body !== null || nowMs - raisedMs <= keptMs) continue;
      this.#sql.exec("DELETE FROM alerts WHERE cause = ?", cause);
      this.#rows.delete(cause);
    }
  }
}

function rowIn(stored: unknown): Row | null {
  if (!isRecord(stored)) return null;
  const { raisedMs, active, id, body, attempts, dueMs } = stored;
  const isRow =
    typeof raisedMs === "number" &&
    (typeof active === "string" || active === null) &&
    typeof id === "string" &&
    (typeof body === "string" || body === null) &&
    typeof attempts === "number" &&
    typeof dueMs === "number";
  return isRow ? { raisedMs, active, id, body, attempts, dueMs } : null;
}
