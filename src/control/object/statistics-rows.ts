/**
 * The stored rows of statistics: one for each finished minute of a day, one for each hour of 90 days, and the open state. Minutes
 * and hours are rings: a row takes the place of the row one day, or 90 days, before it. While traffic lasts, nothing has to be
 * deleted, since a deletion costs as much as a write.
 */
import type { Sql } from "./storage.ts";
import { jsonOrNull } from "../../validation/json.ts";
import { Tally } from "./statistics-tally.ts";

export const minuteMs = 60_000;
export const hourMs = 60 * minuteMs;
export const dayMs = 24 * hourMs;
/** How long minutes and hours are kept. */
export const minutesKeptMs = dayMs;
export const hoursKeptMs = 90 * dayMs;

export type StoredPeriod = "minutes" | "hours";

const lengths: Readonly<Record<StoredPeriod, { readonly ms: number; readonly slots: number }>> = {
  minutes: { ms: minuteMs, slots: minutesKeptMs / minuteMs },
  hours: { ms: hourMs, slots: hoursKeptMs / hourMs },
};

export const floorTo = (stepMs: number, atMs: number): number => Math.floor(atMs / stepMs) * stepMs;

/** A row has at most 2 MB. A character of UTF-16 takes at most three bytes of UTF-8. */
const mostPartCharacters = 600_000;

export class StatisticsRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
    for (const period of ["minutes", "hours"]) {
      sql.exec(
        `CREATE TABLE IF NOT EXISTS ${period} (slot INTEGER PRIMARY KEY, at INTEGER NOT NULL, body TEXT NOT NULL)`,
      );
    }
    sql.exec("CREATE TABLE IF NOT EXISTS statistics (part INTEGER PRIMARY KEY, body TEXT NOT NULL)");
  }

  /** The rows from `fromMs` (inclusive) to `toMs` (exclusive), the oldest first. */
  read(period: StoredPeriod, fromMs: number, toMs: number): [atMs: number, tally: Tally][] {
    const rows = this.#sql
      .exec<{
        at: number;
        body: string;
      }>(`SELECT at, body FROM ${period} WHERE at >= ? AND at < ? ORDER BY at`, fromMs, toMs)
      .toArray();
    return rows.map(({ at, body }) => [at, Tally.revived(jsonOrNull(body))]);
  }

  /**
   * Writes the row of a minute or an hour. Adds to an existing row, which there is only when the clock stepped back.
   */
  add(period: StoredPeriod, atMs: number, tally: Tally): void {
    const [[, stored] = []] = this.read(period, atMs, atMs + 1);
    stored?.add(tally.toJSON());
    this.replace(period, atMs, stored ?? tally);
  }

  replace(period: StoredPeriod, atMs: number, tally: Tally): void {
    const { ms, slots } = lengths[period];
    this.#sql.exec(
      `INSERT OR REPLACE INTO ${period} (slot, at, body) VALUES (?, ?, ?)`,
      (atMs / ms) % slots,
      atMs,
      JSON.stringify(tally),
    );
  }

  /**
   * Writes each hour from `fromMs` (inclusive) to `toMs` (exclusive) as the sum of its minutes. Repeating this changes
   * nothing.
   */
  rollUp(fromMs: number, toMs: number): void {
    const hours = new Map<number, Tally>();
    for (const [atMs, minute] of this.read("minutes", fromMs, toMs)) {
      const hour = hours.get(floorTo(hourMs, atMs)) ?? new Tally();
      hour.add(minute.toJSON());
      hours.set(floorTo(hourMs, atMs), hour);
    }
    for (const [atMs, hour] of hours) this.replace("hours", atMs, hour);
  }

  /** Deletes rows that are too old. */
  deleteOld(nowMs: number): void {
    this.#sql.exec("DELETE FROM minutes WHERE at <= ?", nowMs - minutesKeptMs);
    this.#sql.exec("DELETE FROM hours WHERE at <= ?", nowMs - hoursKeptMs);
  }

  /** When the first row will be too old; null when there is none. */
  nextDeletionMs(): number | null {
    const [first] = this.#sql
      .exec<{ minute: number | null; hour: number | null }>(
        "SELECT (SELECT min(at) FROM minutes) AS minute, (SELECT min(at) FROM hours) AS hour",
      )
      .toArray();
    const dueAtMs = [
      ...(first?.minute == null ? [] : [first.minute + minutesKeptMs]),
      ...(first?.hour == null ? [] : [first.hour + hoursKeptMs]),
    ];
    return dueAtMs.length === 0 ? null : Math.min(...dueAtMs);
  }

  /** The open state as it was last written; null when there is none. */
  readState(): unknown {
    const rows = this.#sql.exec<{ body: string }>("SELECT body FROM statistics ORDER BY part").toArray();
    return jsonOrNull(rows.map(({ body }) => body).join(""));
  }

  /** Writes the open state to one row, or to several if it is larger than a row can be. */
  writeState(state: unknown): void {
    const text = JSON.stringify(state);
    const parts = Math.ceil(text.length / mostPartCharacters);
    for (let part = 0; part < parts; part++) {
      const body = text.slice(part * mostPartCharacters, (part + 1) * mostPartCharacters);
      this.#sql.exec("INSERT OR REPLACE INTO statistics (part, body) VALUES (?, ?)", part, body);
    }
    this.#sql.exec("DELETE FROM statistics WHERE part >= ?", parts);
  }
}
