/**
 * The keys that operators record for an hour, and their outcomes by minute, both for 24 hours. New counts are a part of the
 * open state of the statistics. When they are an hour old, they move to a row of their own.
 *
 * A recording costs two written rows, its start and a day later its deletion, and one more if it is stopped or extended.
 * Counts cost two rows an hour, however many keys are recorded: 100 keys take about 100 KB.
 */
import { outcomeNames } from "../protocol.ts";
import {
  outcomesIn,
  type RecordedCounts,
  type RecordedKey,
  type RecordedKeyList,
  type RecordedOutcomes,
  type RecordedPeriod,
  type RecordedQuery,
  type RecordingReply,
} from "../recording-calls.ts";
import { dayMs, hourMs, minuteMs } from "./statistics-rows.ts";
import { numberOf, parsedRecord, recordIn, rowsIn, type Sql } from "./storage.ts";

export const mostRecorded = 100;
/** The most recordings that are remembered. Beyond them, the one that ended first is forgotten with its counts. */
const mostRemembered = 1_000;
const recordedMs = hourMs;
/** Batches of a recording may arrive this long after its end. */
const lateMs = 2 * minuteMs;

interface RecordingRow extends RecordedKey, RecordedPeriod {
  /** The version of the list when this recording began, was extended or was stopped. */
  readonly version: number;
}

/** The outcomes of a minute in the order of `outcomeNames`, without the zeros at the end. */
type MinuteRow = readonly [atMs: number, ...outcomes: number[]];
/** By policy and key. */
type StoredCounts = Readonly<Record<string, Readonly<Record<string, readonly MinuteRow[]>>>>;
export interface RecordingsState {
  readonly fromMs: number;
  readonly counts: StoredCounts;
}

const placeOf = ({ policy, key }: RecordedKey): string => `${policy} ${key}`;

/** Counts that have no row yet. */
class OpenCounts {
  readonly fromMs: number;
  /** By policy and key, then by minute. */
  readonly #keys = new Map<string, RecordedKey & { readonly minutes: Map<number, Float64Array> }>();

  constructor(fromMs: number) {
    this.fromMs = fromMs;
  }

  add(name: RecordedKey, atMs: number, outcomes: readonly number[]): void {
    const known = this.#keys.get(placeOf(name)) ?? { ...name, minutes: new Map<number, Float64Array>() };
    this.#keys.set(placeOf(name), known);
    const sum = known.minutes.get(atMs) ?? new Float64Array(outcomeNames.length);
    known.minutes.set(atMs, sum);
    for (let index = 0; index < sum.length; index++) sum[index] = (sum[index] ?? 0) + (outcomes[index] ?? 0);
  }

  minutesOf(name: RecordedKey): MinuteRow[] {
    const { minutes = new Map<number, Float64Array>() } = this.#keys.get(placeOf(name)) ?? {};
    return [...minutes].map(([atMs, outcomes]) => [atMs, ...outcomes.slice(0, outcomes.findLastIndex(Boolean) + 1)]);
  }

  get isEmpty(): boolean {
    return this.#keys.size === 0;
  }

  counts(): StoredCounts {
    const policies: Record<string, Record<string, readonly MinuteRow[]>> = {};
    for (const name of this.#keys.values()) (policies[name.policy] ??= {})[name.key] = this.minutesOf(name);
    return policies;
  }
}

export class Recordings {
  readonly #sql: Sql;
  #recordings: readonly RecordingRow[];
  #open: OpenCounts | null = null;
  /** Counts whose rows are not written yet. */
  #closed: OpenCounts[] = [];

  /** @param state the last `toJSON` that was stored */
  constructor(sql: Sql, state: RecordingsState | null | undefined) {
    this.#sql = sql;
    sql.exec(
      `CREATE TABLE IF NOT EXISTS recordings (
        policy TEXT NOT NULL, key TEXT NOT NULL, from_ms INTEGER NOT NULL, until_ms INTEGER NOT NULL,
        version INTEGER NOT NULL, PRIMARY KEY (policy, key, from_ms)
      ) WITHOUT ROWID`,
    );
    sql.exec(
      "CREATE TABLE IF NOT EXISTS recorded (id INTEGER PRIMARY KEY, to_ms INTEGER NOT NULL, body TEXT NOT NULL)",
    );
    type Row = RecordedKey & Record<"fromMs" | "untilMs" | "version", number>;
    const select =
      "SELECT policy, key, from_ms AS fromMs, until_ms AS untilMs, version FROM recordings ORDER BY from_ms";
    this.#recordings = sql.exec<Row & Record<string, string | number>>(select).toArray();
    const { fromMs, counts } = recordIn(state ?? undefined);
    if (typeof fromMs !== "number") return;
    this.#open = new OpenCounts(fromMs);
    for (const [policy, keys] of Object.entries(recordIn(counts))) {
      for (const [key, minutes] of Object.entries(recordIn(keys))) {
        for (const [atMs, ...outcomes] of rowsIn(minutes, "number")) this.#open.add({ policy, key }, atMs, outcomes);
      }
    }
  }

  #active(nowMs: number): readonly RecordingRow[] {
    return this.#recordings.filter(({ untilMs }) => untilMs > nowMs);
  }

  get #version(): number {
    return Math.max(0, ...this.#recordings.map(({ version }) => version));
  }

  /** Records the key for an hour from now on. */
  start(name: RecordedKey, nowMs: number): RecordingReply {
    const active = this.#active(nowMs);
    const known = active.find((each) => placeOf(each) === placeOf(name));
    if (known === undefined && active.length >= mostRecorded) {
      const nextEndMs = Math.min(...active.map(({ untilMs }) => untilMs));
      return { kind: "recordings-full", most: mostRecorded, nextEndMs };
    }
    const value = { fromMs: known?.fromMs ?? nowMs, untilMs: nowMs + recordedMs };
    this.#put({ ...name, ...value }, nowMs);
    this.#forgetExcess();
    return { kind: "done", value };
  }

  /** @returns whether the key was recorded */
  stop(name: RecordedKey, nowMs: number): boolean {
    const known = this.#active(nowMs).find((each) => placeOf(each) === placeOf(name));
    if (known !== undefined) this.#put({ ...known, untilMs: nowMs }, nowMs);
    return known !== undefined;
  }

  /** Versions are times, so that they grow even after all recordings are deleted. */
  #put({ policy, key, fromMs, untilMs }: RecordedKey & RecordedPeriod, nowMs: number): void {
    const row = { policy, key, fromMs, untilMs, version: Math.max(nowMs, this.#version + 1) };
    const others = this.#recordings.filter((each) => placeOf(each) !== placeOf(row) || each.fromMs !== fromMs);
    this.#sql.exec(
      "INSERT OR REPLACE INTO recordings (policy, key, from_ms, until_ms, version) VALUES (?, ?, ?, ?, ?)",
      policy,
      key,
      fromMs,
      untilMs,
      row.version,
    );
    this.#recordings = [...others, row].toSorted((one, other) => one.fromMs - other.fromMs);
  }

  #forgetExcess(): void {
    if (this.#recordings.length <= mostRemembered) return;
    const [first] = this.#recordings.toSorted((one, other) => one.untilMs - other.untilMs);
    if (first !== undefined) this.#delete([first]);
  }

  #delete(rows: readonly RecordingRow[]): void {
    for (const { policy, key, fromMs } of rows) {
      const where = "policy = ? AND key = ? AND from_ms = ?";
      this.#sql.exec(`DELETE FROM recordings WHERE ${where}`, policy, key, fromMs);
    }
    this.#recordings = this.#recordings.filter((row) => !rows.includes(row));
  }

  /** The list for an isolate; null when it knows this version. */
  listFor(knownVersion: number, nowMs: number): RecordedKeyList | null {
    const version = this.#version;
    if (version === knownVersion) return null;
    const keys = this.#active(nowMs).map(({ policy, key, untilMs }) => ({ policy, key, forMs: untilMs - nowMs }));
    return { version, keys };
  }

  /**
   * Counts the recorded outcomes of a batch. Keys that are not recorded are ignored.
   * @param atMs the minute in which the batch counts
   */
  add(recorded: RecordedOutcomes | undefined, atMs: number, nowMs: number): void {
    if (recorded === undefined) return;
    const places = new Set(this.#recordings.filter(({ untilMs }) => nowMs - untilMs < lateMs).map(placeOf));
    for (const [policy, keys] of Object.entries(recorded)) {
      for (const [key, outcomes] of Object.entries(keys)) {
        const name = { policy, key };
        if (!places.has(placeOf(name))) continue;
        this.#open ??= new OpenCounts(nowMs);
        this.#open.add(
          name,
          atMs,
          outcomeNames.map((outcome) => outcomes[outcome] ?? 0),
        );
      }
    }
  }

  /** Ends the open counts if they are old enough. */
  closeOld(nowMs: number): void {
    if (this.#open === null || Math.abs(nowMs - this.#open.fromMs) < hourMs) return;
    this.#closed.push(this.#open);
    this.#open = null;
  }

  get isEmpty(): boolean {
    return this.#open === null && this.#closed.length === 0;
  }

  /** Writes the counts that are closed. Call `markStored` when the transaction is committed. */
  write(nowMs: number): void {
    for (const closed of this.#closed) {
      this.#sql.exec("INSERT INTO recorded (to_ms, body) VALUES (?, ?)", nowMs, JSON.stringify(closed.counts()));
    }
  }

  markStored(): void {
    this.#closed = [];
  }

  /** The counts that are in no row. Call `write` before. */
  toJSON(): RecordingsState | null {
    return this.#open === null ? null : { fromMs: this.#open.fromMs, counts: this.#open.counts() };
  }

  history({ policy, key, fromMs, toMs }: RecordedQuery): RecordedCounts {
    const name = { policy, key };
    const own = this.#recordings.filter((each) => placeOf(each) === placeOf(name));
    const periods = own.map((each) => ({ fromMs: each.fromMs, untilMs: each.untilMs }));
    if (periods.length === 0) return { periods: [], points: [] };
    const minutes = new OpenCounts(0);
    const isIn = ([atMs]: MinuteRow): boolean => atMs + minuteMs > fromMs && atMs < toMs;
    for (const row of [...this.#storedMinutes(name, fromMs), ...this.#openMinutes(name)].filter(isIn)) {
      const [atMs, ...outcomes] = row;
      minutes.add(name, atMs, outcomes);
    }
    const points = minutes.minutesOf(name).toSorted(([one], [other]) => one - other);
    return { periods, points: points.map(([atMs, ...outcomes]) => ({ atMs, outcomes: outcomesIn(outcomes) })) };
  }

  #openMinutes(name: RecordedKey): MinuteRow[] {
    return [...this.#closed, ...(this.#open === null ? [] : [this.#open])].flatMap((each) => each.minutesOf(name));
  }

  #storedMinutes({ policy, key }: RecordedKey, fromMs: number): readonly MinuteRow[] {
    const rows = this.#sql.exec<{ body: string }>("SELECT body FROM recorded WHERE to_ms >= ?", fromMs).toArray();
    return rows.flatMap(({ body }) => {
      const keys = recordIn(parsedRecord<StoredCounts>(body)[policy]);
      return rowsIn(keys[key], "number");
    });
  }

  /** Deletes what is older than a day, and recordings of a clock that was set back by more than a day since. */
  deleteOld(nowMs: number): void {
    this.#sql.exec("DELETE FROM recorded WHERE to_ms <= ? OR to_ms > ?", nowMs - dayMs, nowMs + dayMs);
    this.#delete(this.#recordings.filter(({ untilMs }) => Math.abs(nowMs - untilMs) >= dayMs));
  }

  /** When the first row will be too old; null when there is none. */
  nextDeletionMs(): number | null {
    const ofCounts = numberOf(this.#sql, "SELECT min(to_ms) + ? FROM recorded", dayMs);
    const ends = [...this.#recordings.map(({ untilMs }) => untilMs + dayMs), ...(ofCounts === null ? [] : [ofCounts])];
    return ends.length === 0 ? null : Math.min(...ends);
  }
}
