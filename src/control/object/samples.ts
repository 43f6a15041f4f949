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
import type { SampleBatch } from "../protocol.ts";
import { countArrivals, decodeBatches, encodeSamples } from "../sample-codec.ts";
import type { OpenSamples, SampleChunk, SampleIndex, SamplesQuery } from "../statistics-calls.ts";
import { dayMs, floorTo, hourMs, minuteMs } from "./statistics-rows.ts";
import { numberOf, numbersIn, recordIn, rowsIn, type Sql } from "./storage.ts";

/** In characters of base64url, of which four take three bytes. */
const mostOpen = (64 * 1_024 * 4) / 3;
/** The same for all policies together: the open state is written with each write of the statistics. */
const mostOpenInAll = 4 * mostOpen;
/** The most bytes of the chunks of a policy: 8 MB, less the room that its open samples may take as text. */
const mostBytes = 7_800_000;

/** New samples of one policy and one size of the sample. The times are those at which they arrived. */
type OpenChunk = OpenSamples & { readonly policy: string };

const charactersOf = ({ events }: OpenChunk): number => events.reduce((sum, { length }) => sum + length, 0);

type ChunkRow = readonly [
  policy: string,
  oneKeyIn: number,
  fromMs: number,
  toMs: number,
  arrivals: number,
  lost: number,
  ...events: string[],
];

function chunkIn([policy, oneKeyIn, fromMs, toMs, arrivals, lost, ...events]: ChunkRow): OpenChunk {
  return { policy, oneKeyIn, fromMs, toMs, arrivals, lost, events: events.filter((each) => typeof each === "string") };
}

/** Arrivals whose chunks were dropped, by policy and by the hour in which the chunk begins. */
type Dropped = readonly [policy: string, hourAtMs: number, arrivals: number];

export interface SamplesState {
  readonly open: readonly ChunkRow[];
  readonly storedAtMs: Readonly<Record<string, number>>;
  readonly dropped: readonly Dropped[];
}

interface KeptSamples extends Omit<SampleIndex, "requests"> {
  /** Before, nothing is kept: it was dropped, or recording began later. The start of the period without samples. */
  readonly recordedFromMs: number;
}

export class StoredSamples {
  readonly #sql: Sql;
  /** At most one for each policy and size of the sample: while a new `SAMPLE` is deployed, isolates send both. */
  #open: OpenChunk[];
  /** Chunks whose rows are not written yet. */
  #closed: OpenChunk[] = [];
  /** When the last samples of each policy arrived. */
  readonly #storedAtMs: Map<string, number>;
  #dropped: readonly Dropped[];
  /** `#dropped` after the transaction that is under way. */
  #nextDropped: readonly Dropped[];

  /** @param state the last `toJSON` that was stored */
  constructor(sql: Sql, state: SamplesState | undefined) {
    this.#sql = sql;
    // The body is last, so that other columns are read without its pages.
    sql.exec(
      `CREATE TABLE IF NOT EXISTS samples (
        id INTEGER PRIMARY KEY, policy TEXT NOT NULL, one_key_in INTEGER NOT NULL, from_ms INTEGER NOT NULL,
        to_ms INTEGER NOT NULL, arrivals INTEGER NOT NULL, lost INTEGER NOT NULL, body BLOB NOT NULL
      )`,
    );
    const { open, storedAtMs, dropped } = recordIn(state);
    this.#open = rowsIn(open, "string", "number", "number", "number", "number", "number").map(chunkIn);
    this.#storedAtMs = new Map(numbersIn(storedAtMs));
    this.#dropped = rowsIn(dropped, "string", "number", "number");
    this.#nextDropped = this.#dropped;
  }

  /** Whether there are samples that must be written. */
  get hasClosed(): boolean {
    return this.#closed.length > 0;
  }

  get isEmpty(): boolean {
    return this.#open.length === 0 && this.#closed.length === 0;
  }

  add(samples: Readonly<Record<string, SampleBatch>> = {}, nowMs: number): void {
    for (const [policy, { oneKeyIn, events, arrivals, lost }] of Object.entries(samples)) {
      this.#storedAtMs.set(policy, nowMs);
      const none: OpenChunk = { policy, oneKeyIn, fromMs: nowMs, toMs: nowMs, arrivals: 0, lost: 0, events: [] };
      const known = this.#take((each) => each.policy === policy && each.oneKeyIn === oneKeyIn);
      // The clock was set back since the first samples, whose times may be far in the future.
      const ahead = known.filter(({ fromMs }) => fromMs - nowMs > minuteMs);
      this.#closed.push(...ahead);
      const [open = none] = ahead.length > 0 ? [] : known;
      const chunk = {
        ...open,
        toMs: Math.max(open.toMs, nowMs),
        arrivals: open.arrivals + arrivals,
        lost: open.lost + lost,
        events: events === "" ? open.events : [...open.events, events],
      };
      (charactersOf(chunk) >= mostOpen ? this.#closed : this.#open).push(chunk);
    }
    // One batch may have samples of many policies, so the largest chunk alone may not make enough room.
    while (this.#open.reduce((sum, chunk) => sum + charactersOf(chunk), 0) >= mostOpenInAll) {
      const [largest] = this.#open.toSorted((one, other) => charactersOf(other) - charactersOf(one));
      this.#closed.push(...this.#take((each) => each === largest));
    }
  }

  /** Ends the chunks that are old enough. */
  closeOld(nowMs: number): void {
    this.#closed.push(...this.#take(({ fromMs }) => nowMs - fromMs >= hourMs));
  }

  #take(isTaken: (chunk: OpenChunk) => boolean): OpenChunk[] {
    const taken = this.#open.filter(isTaken);
    this.#open = this.#open.filter((chunk) => !isTaken(chunk));
    return taken;
  }

  /** Writes the chunks that are closed. Call `markStored` when the transaction is committed. */
  write(): void {
    this.#nextDropped = this.#dropped;
    for (const chunk of this.#closed) this.#write(chunk);
  }

  /** Merges the batches, whose keys are often the same. Arrivals of a batch that cannot be read are lost. */
  #write({ policy, oneKeyIn, fromMs, toMs, ...open }: OpenChunk): void {
    const keys = decodeBatches(open.events, (error) =>
      report({ event: "control-plane-failed", error: errorText(error) }),
    );
    const body = encodeSamples(keys);
    this.#makeRoom(policy, body.byteLength);
    const arrivals = countArrivals(keys);
    const times = [...keys.values()].flatMap((events) => events.map(({ atMs }) => atMs)).toSorted((a, b) => a - b);
    this.#sql.exec(
      "INSERT INTO samples (policy, one_key_in, from_ms, to_ms, arrivals, lost, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
      policy,
      oneKeyIn,
      times[0] ?? fromMs,
      times.at(-1) ?? toMs,
      arrivals,
      open.lost + Math.max(0, open.arrivals - arrivals),
      body.buffer,
    );
  }

  /** Drops the oldest chunks of a policy if another one would exceed its room. */
  #makeRoom(policy: string, addedBytes: number): void {
    const chunks = this.#chunks(policy);
    let bytes = chunks.reduce((sum, each) => sum + each.bytes, addedBytes);
    for (const { id, fromMs, arrivals, lost, bytes: freed } of chunks) {
      if (bytes <= mostBytes) break;
      bytes -= freed;
      this.#sql.exec("DELETE FROM samples WHERE id = ?", id);
      const hourAtMs = floorTo(hourMs, fromMs);
      const isSame = ([of, atMs]: Dropped): boolean => of === policy && atMs === hourAtMs;
      const [, , before] = this.#nextDropped.find(isSame) ?? [policy, hourAtMs, 0];
      const others = this.#nextDropped.filter((each) => !isSame(each));
      this.#nextDropped = [...others, [policy, hourAtMs, before + arrivals + lost]];
    }
  }

  markStored(): void {
    this.#dropped = this.#nextDropped;
    this.#closed = [];
  }

  /** The samples that are not in rows. Call `write` before. */
  toJSON(): SamplesState {
    return {
      open: this.#open.map(({ policy, oneKeyIn, fromMs, toMs, arrivals, lost, events }): ChunkRow => [
        policy,
        oneKeyIn,
        fromMs,
        toMs,
        arrivals,
        lost,
        ...events,
      ]),
      storedAtMs: Object.fromEntries(this.#storedAtMs),
      dropped: this.#nextDropped,
    };
  }

  index({ policy, fromMs, toMs }: SamplesQuery): KeptSamples {
    const chunks = this.#chunks(policy);
    const open = [...this.#closed, ...this.#open].filter((each) => each.policy === policy);
    const firstKeptMs = Math.min(...[...chunks, ...open].map((each) => each.fromMs));
    const dropped = this.#dropped.map(([of, atMs, arrivals]) => {
      if (of !== policy) return 0;
      // The oldest chunks are dropped first, so nothing is dropped after the start of the first chunk that is left.
      const endMs = Math.max(atMs + 1, Math.min(atMs + hourMs, firstKeptMs));
      const inMs = Math.min(endMs, toMs) - Math.max(atMs, fromMs);
      return (arrivals * Math.max(0, inMs)) / (endMs - atMs);
    });
    return {
      recordedFromMs: Math.max(fromMs, Number.isFinite(firstKeptMs) ? firstKeptMs : fromMs),
      chunks: chunks
        .filter((each) => each.fromMs < toMs && each.toMs >= fromMs)
        .toSorted((one, other) => one.fromMs - other.fromMs),
      // Their events may be earlier than the time when they arrived, so the reader decides which are in the period.
      open: open.map(({ policy: _policy, ...samples }) => samples),
      dropped: Math.round(dropped.reduce((sum, arrivals) => sum + arrivals, 0)),
      storedAtMs: this.#storedAtMs.get(policy) ?? null,
    };
  }

  /** The chunks of a policy, in the order in which they were added. */
  #chunks(policy: string): SampleChunk[] {
    type Row = Record<keyof SampleChunk, number>;
    return this.#sql
      .exec<Row>(
        `SELECT id, one_key_in AS oneKeyIn, from_ms AS fromMs, to_ms AS toMs, arrivals, lost, length(body) AS bytes
          FROM samples WHERE policy = ? ORDER BY id`,
        policy,
      )
      .toArray();
  }

  bodies(policy: string, ids: readonly number[]): ArrayBuffer[] {
    const select = "SELECT body FROM samples WHERE id = ? AND policy = ?";
    const rows = ids.flatMap((id) => this.#sql.exec<{ body: ArrayBuffer }>(select, id, policy).toArray());
    return rows.map(({ body }) => body);
  }

  /**
   * Deletes what is older than a day, so that policies that no longer exist leave nothing, and chunks of a clock that was
   * set back by more than a day since.
   */
  deleteOld(nowMs: number): void {
    this.#sql.exec("DELETE FROM samples WHERE to_ms <= ? OR from_ms > ?", nowMs - dayMs, nowMs + dayMs);
    const isOld = (atMs: number): boolean => Math.abs(nowMs - atMs) >= dayMs;
    for (const [policy, atMs] of this.#storedAtMs) if (isOld(atMs)) this.#storedAtMs.delete(policy);
    this.#dropped = this.#dropped.filter(([, atMs]) => !isOld(atMs + hourMs));
  }

  /** When the first row will be too old; null when there is none. */
  nextDeletionMs(): number | null {
    return numberOf(this.#sql, "SELECT min(to_ms) + ? FROM samples", dayMs);
  }
}
