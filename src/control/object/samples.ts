/**
 * Sampled traffic of the last 24 hours, for each policy at most 8 MB. New samples are a part of the open state of the statistics,
 * which is stored with the numbers of the counted batches: a crash neither loses samples that were acknowledged nor
 * stores any twice. Samples are moved to a chunk, a row of their own, when they have 64 KB or are an hour old.
 *
 * A chunk costs two written rows: the row, and a day later its deletion. One isolate that decides ten times a second with a sample of one
 * key in 64 writes a chunk each hour, so 1,460 rows a month: about 1 % of the rows of the statistics. Larger chunks
 * have at least 1,600 sampled arrivals each, or 100,000 decisions.
 */
import { errorText, report } from "../../observability/events.ts";
import { isRecord } from "../../validation/problems.ts";
import type { SampleBatch } from "../protocol.ts";
import { countArrivals, decodeBatches, encodeSamples } from "../sample-codec.ts";
import type { OpenSamples, SampleChunk, SampleIndex, SamplesQuery } from "../statistics-calls.ts";
import { dayMs, floorTo, hourMs, minuteMs } from "./statistics-rows.ts";
import type { Sql } from "./storage.ts";

/** In characters of base64url, of which four take three bytes. */
const mostOpen = (64 * 1_024 * 4) / 3;
/** The same for all policies together: the open state is written with each write of the statistics. */
const mostOpenInAll = 4 * mostOpen;
const longestOpenMs = hourMs;

/** New samples of one policy and one size of the sample. */
class OpenChunk {
  readonly policy: string;
  readonly oneKeyIn: number;
  readonly #sinceMs: number;
  #untilMs: number;
  #arrivals = 0;
  #lost = 0;
  readonly #events: string[] = [];
  /** The length of all events. */
  characters = 0;

  constructor(policy: string, oneKeyIn: number, nowMs: number) {
    this.policy = policy;
    this.oneKeyIn = oneKeyIn;
    this.#sinceMs = nowMs;
    this.#untilMs = nowMs;
  }

  add({ events, arrivals, lost }: Omit<SampleBatch, "oneKeyIn">, nowMs: number): void {
    this.#untilMs = Math.max(this.#untilMs, nowMs);
    this.#arrivals += arrivals;
    this.#lost += lost;
    if (events !== "") this.#events.push(events);
    this.characters += events.length;
  }

  isOld(nowMs: number): boolean {
    return nowMs - this.#sinceMs >= longestOpenMs;
  }

  /** Whether the clock was set back since the first samples, whose times may be far in the future. */
  isAhead(nowMs: number): boolean {
    return this.#sinceMs - nowMs > minuteMs;
  }

  view(): OpenSamples {
    return {
      oneKeyIn: this.oneKeyIn,
      fromMs: this.#sinceMs,
      toMs: this.#untilMs,
      arrivals: this.#arrivals,
      lost: this.#lost,
      events: this.#events,
    };
  }

  /** Merges the batches, whose keys are often the same. Arrivals of a batch that cannot be read are lost. */
  close(): ClosedChunk {
    const keys = decodeBatches(this.#events, reportDamage);
    const arrivals = countArrivals(keys);
    let [fromMs, toMs] = [Infinity, -Infinity];
    for (const { atMs } of [...keys.values()].flat()) {
      fromMs = Math.min(fromMs, atMs);
      toMs = Math.max(toMs, atMs);
    }
    return {
      policy: this.policy,
      oneKeyIn: this.oneKeyIn,
      ...(keys.size > 0 ? { fromMs, toMs } : { fromMs: this.#sinceMs, toMs: this.#untilMs }),
      arrivals,
      lost: this.#lost + Math.max(0, this.#arrivals - arrivals),
      body: encodeSamples(keys),
    };
  }

  toJSON(): unknown {
    const { policy, oneKeyIn } = this;
    const numbers = [oneKeyIn, this.#sinceMs, this.#untilMs, this.#arrivals, this.#lost];
    return [policy, ...numbers, ...this.#events];
  }

  /** Null for another form. */
  static revived(stored: unknown): OpenChunk | null {
    const [policy, oneKeyIn, sinceMs, untilMs, arrivals, lost, ...events]: unknown[] = Array.isArray(stored)
      ? stored
      : [];
    const numbers = [oneKeyIn, sinceMs, untilMs, arrivals, lost].filter(isNumber);
    if (typeof policy !== "string" || numbers.length < 5) return null;
    const [size = 1, fromMs = 0, toMs = 0, count = 0, missed = 0] = numbers;
    const revived = new OpenChunk(policy, size, fromMs);
    revived.add({ events: "", arrivals: count, lost: missed }, toMs);
    for (const each of events) {
      if (typeof each === "string") revived.add({ events: each, arrivals: 0, lost: 0 }, toMs);
    }
    return revived;
  }
}

const isNumber = (value: unknown): value is number => Number.isFinite(value);

const reportDamage = (error: unknown): void => report({ event: "control-plane-failed", error: errorText(error) });

interface KeptSamples extends Omit<SampleIndex, "requests"> {
  /** Before, nothing is kept: it was dropped, or recording began later. The start of the period without samples. */
  readonly recordedFromMs: number;
}

/** Arrivals whose chunks were dropped, by policy and by the hour in which the chunk begins. */
type Dropped = Map<string, Map<number, number>>;

export class StoredSamples {
  readonly #rows: SampleRows;
  /** By policy and size of the sample: while a new `SAMPLE` is deployed, isolates send both. */
  readonly #open = new Map<string, OpenChunk>();
  /** Chunks whose rows are not written yet. */
  #closed: OpenChunk[] = [];
  /** When the last samples of each policy arrived. */
  readonly #storedAtMs = new Map<string, number>();
  #dropped: Dropped = new Map();
  /** `#dropped` after the transaction that is under way. */
  #nextDropped: Dropped = this.#dropped;

  /** @param state the last `toJSON` that was stored */
  constructor(sql: Sql, state: unknown) {
    this.#rows = new SampleRows(sql);
    const { open, storedAtMs, dropped } = isRecord(state) ? state : {};
    for (const stored of Array.isArray(open) ? (open as unknown[]) : []) {
      const chunk = OpenChunk.revived(stored);
      if (chunk !== null) this.#open.set(nameOf(chunk.policy, chunk.oneKeyIn), chunk);
    }
    for (const [policy, atMs] of Object.entries(isRecord(storedAtMs) ? storedAtMs : {})) {
      if (isNumber(atMs)) this.#storedAtMs.set(policy, atMs);
    }
    for (const row of Array.isArray(dropped) ? (dropped as unknown[]) : []) {
      const [policy, atMs, arrivals]: unknown[] = Array.isArray(row) ? row : [];
      if (typeof policy !== "string" || !isNumber(atMs) || !isNumber(arrivals)) continue;
      countDropped(this.#dropped, policy, atMs, arrivals);
    }
  }

  /** Whether there are samples that must be written. */
  get hasClosed(): boolean {
    return this.#closed.length > 0;
  }

  get isEmpty(): boolean {
    return this.#open.size === 0 && this.#closed.length === 0;
  }

  add(samples: Readonly<Record<string, SampleBatch>> = {}, nowMs: number): void {
    for (const [policy, batch] of Object.entries(samples)) {
      const chunk = this.#openChunk(policy, batch.oneKeyIn, nowMs);
      chunk.add(batch, nowMs);
      this.#storedAtMs.set(policy, nowMs);
      if (chunk.characters >= mostOpen) this.#close(chunk);
    }
    const all = [...this.#open.values()];
    let characters = all.reduce((sum, chunk) => sum + chunk.characters, 0);
    // One batch may have samples of many policies, so the largest chunk alone may not make enough room.
    for (const chunk of all.toSorted((one, other) => other.characters - one.characters)) {
      if (characters < mostOpenInAll) break;
      characters -= chunk.characters;
      this.#close(chunk);
    }
  }

  /** Ends the chunks that are old enough. */
  closeOld(nowMs: number): void {
    for (const chunk of this.#open.values()) if (chunk.isOld(nowMs)) this.#close(chunk);
  }

  /** Writes the chunks that are closed. Call `markStored` when the transaction is committed. */
  write(): void {
    this.#nextDropped = structuredClone(this.#dropped);
    for (const chunk of this.#closed) {
      for (const dropped of this.#rows.add(chunk.close())) {
        const { fromMs, arrivals, lost } = dropped;
        countDropped(this.#nextDropped, chunk.policy, floorTo(hourMs, fromMs), arrivals + lost);
      }
    }
  }

  markStored(): void {
    this.#dropped = this.#nextDropped;
    this.#closed = [];
  }

  /** The samples that are not in rows. Call `write` before. */
  toJSON(): unknown {
    const dropped = [...this.#nextDropped].flatMap(([policy, hours]) =>
      [...hours].map(([atMs, arrivals]) => [policy, atMs, arrivals]),
    );
    return {
      open: [...this.#open.values()],
      storedAtMs: Object.fromEntries(this.#storedAtMs),
      dropped,
    };
  }

  index({ policy, fromMs, toMs }: SamplesQuery): KeptSamples {
    const isIn = (part: Pick<SampleChunk, "fromMs" | "toMs">): boolean => part.fromMs < toMs && part.toMs >= fromMs;
    const chunks = this.#rows.chunks(policy);
    const open = [...this.#closed, ...this.#open.values()].filter((each) => each.policy === policy);
    const firstKeptMs = Math.min(...[...chunks, ...open.map((each) => each.view())].map(startOf));
    const hours = [...(this.#dropped.get(policy) ?? [])];
    const dropped = hours.map(([atMs, arrivals]) => {
      // The oldest chunks are dropped first, so nothing is dropped after the start of the first chunk that is left.
      const endMs = Math.max(atMs + 1, Math.min(atMs + hourMs, firstKeptMs));
      const inMs = Math.min(endMs, toMs) - Math.max(atMs, fromMs);
      return (arrivals * Math.max(0, inMs)) / (endMs - atMs);
    });
    return {
      recordedFromMs: Math.max(fromMs, Number.isFinite(firstKeptMs) ? firstKeptMs : fromMs),
      chunks: chunks.filter(isIn).toSorted((one, other) => one.fromMs - other.fromMs),
      // Their events may be earlier than the time when they arrived, so the reader decides which are in the period.
      open: open.map((each) => each.view()),
      dropped: Math.round(dropped.reduce((sum, arrivals) => sum + arrivals, 0)),
      storedAtMs: this.#storedAtMs.get(policy) ?? null,
    };
  }

  bodies(policy: string, ids: readonly number[]): ArrayBuffer[] {
    return this.#rows.bodies(policy, ids);
  }

  /** Deletes what is older than a day, so that policies that no longer exist leave nothing. */
  deleteOld(nowMs: number): void {
    this.#rows.deleteOld(nowMs);
    const isOld = (atMs: number): boolean => Math.abs(nowMs - atMs) >= dayMs;
    for (const [policy, atMs] of this.#storedAtMs) {
      if (isOld(atMs)) this.#storedAtMs.delete(policy);
    }
    for (const [policy, hours] of this.#dropped) {
      for (const atMs of hours.keys()) if (isOld(atMs + hourMs)) hours.delete(atMs);
      if (hours.size === 0) this.#dropped.delete(policy);
    }
  }

  /** When the first row will be too old; null when there is none. */
  nextDeletionMs(): number | null {
    return this.#rows.nextDeletionMs();
  }

  #openChunk(policy: string, oneKeyIn: number, nowMs: number): OpenChunk {
    const name = nameOf(policy, oneKeyIn);
    const open = this.#open.get(name);
    if (open?.isAhead(nowMs) === false) return open;
    if (open !== undefined) this.#close(open);
    const created = new OpenChunk(policy, oneKeyIn, nowMs);
    this.#open.set(name, created);
    return created;
  }

  #close(chunk: OpenChunk): void {
    this.#open.delete(nameOf(chunk.policy, chunk.oneKeyIn));
    this.#closed.push(chunk);
  }
}

const nameOf = (policy: string, oneKeyIn: number): string => JSON.stringify([policy, oneKeyIn]);

const startOf = ({ fromMs }: { readonly fromMs: number }): number => fromMs;

function countDropped(dropped: Dropped, policy: string, hourAtMs: number, arrivals: number): void {
  const hours = dropped.get(policy) ?? new Map<number, number>();
  dropped.set(policy, hours);
  hours.set(hourAtMs, (hours.get(hourAtMs) ?? 0) + arrivals);
}

/** The most bytes of the chunks of a policy: 8 MB, less the room that its open samples may take as text. */
const mostBytes = 7_800_000;

export interface ClosedChunk extends Omit<SampleChunk, "id" | "bytes"> {
  readonly policy: string;
  readonly body: Uint8Array<ArrayBuffer>;
}

export class SampleRows {
  readonly #sql: Sql;

  constructor(sql: Sql) {
    this.#sql = sql;
    // The body is last, so that other columns are read without its pages.
    sql.exec(
      `CREATE TABLE IF NOT EXISTS samples (
        id INTEGER PRIMARY KEY, policy TEXT NOT NULL, one_key_in INTEGER NOT NULL, from_ms INTEGER NOT NULL,
        to_ms INTEGER NOT NULL, arrivals INTEGER NOT NULL, lost INTEGER NOT NULL, body BLOB NOT NULL
      )`,
    );
  }

  /** The chunks of a policy, in the order in which they were added. */
  chunks(policy: string): SampleChunk[] {
    const rows = this.#sql.exec<{
      id: number;
      oneKeyIn: number;
      fromMs: number;
      toMs: number;
      arrivals: number;
      lost: number;
      bytes: number;
    }>(
      `SELECT id, one_key_in AS oneKeyIn, from_ms AS fromMs, to_ms AS toMs, arrivals, lost, length(body) AS bytes
      FROM samples WHERE policy = ? ORDER BY id`,
      policy,
    );
    return rows.toArray();
  }

  bodies(policy: string, ids: readonly number[]): ArrayBuffer[] {
    return ids.flatMap((id) =>
      this.#sql
        .exec<{
          body: ArrayBuffer;
        }>("SELECT body FROM samples WHERE id = ? AND policy = ?", id, policy)
        .toArray()
        .map(({ body }) => body),
    );
  }

  /**
   * Adds a chunk.
   * @returns the oldest chunks of the policy, which it drops to make room
   */
  add({ policy, oneKeyIn, fromMs, toMs, arrivals, lost, body }: ClosedChunk): SampleChunk[] {
    const chunks = this.chunks(policy);
    let bytes = chunks.reduce((sum, each) => sum + each.bytes, body.byteLength);
    const dropped: SampleChunk[] = [];
    for (const chunk of chunks) {
      if (bytes <= mostBytes) break;
      bytes -= chunk.bytes;
      dropped.push(chunk);
      this.#sql.exec("DELETE FROM samples WHERE id = ?", chunk.id);
    }
    this.#sql.exec(
      "INSERT INTO samples (policy, one_key_in, from_ms, to_ms, arrivals, lost, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
      policy,
      oneKeyIn,
      fromMs,
      toMs,
      arrivals,
      lost,
      body.buffer,
    );
    return dropped;
  }

  /** Deletes chunks that ended a day ago, and chunks of a clock that was set back by more than a day since. */
  deleteOld(nowMs: number): void {
    const [fromMs, toMs] = [nowMs - dayMs, nowMs + dayMs];
    this.#sql.exec("DELETE FROM samples WHERE to_ms <= ? OR from_ms > ?", fromMs, toMs);
  }

  /** When the first chunk will be too old; null when there is none. */
  nextDeletionMs(): number | null {
    const [first] = this.#sql.exec<{ toMs: number | null }>("SELECT min(to_ms) AS toMs FROM samples").toArray();
    return first?.toMs == null ? null : first.toMs + dayMs;
  }
}
