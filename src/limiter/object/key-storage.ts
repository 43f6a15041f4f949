/**
 * The storage of an object. Each key has a row `k <key>` (see key-row.ts), and a row `s <key> <number>` for each of its texts
 * that is stored apart: sealed segments of long logs, and snapshots that do not fit in the key's row. One alarm sweeps them.
 *
 * Invariant: while there is a row, an alarm is set. The first row and its alarm are written in one turn, which the platform
 * makes one transaction. Later writes ensure that the alarm is still set. Before the first write and after the last row is
 * swept, the database is empty.
 */
import { errorText, report } from "../../observability/events.ts";
import type { KeyState, StoredRows } from "./key-state.ts";
import { headOf, mostRowBytes, renewedRow, revivedKey, rowsOf } from "./key-row.ts";
import { noSqliteStorage } from "../protocol.ts";

/** The methods of `DurableObjectStorage` that the limiter needs. */
export interface RowStorage extends AlarmStorage {
  readonly kv: {
    get(key: string): unknown;
    list(options: { prefix?: string; startAfter?: string; limit?: number }): Iterable<[string, unknown]>;
  };
  put(rows: Record<string, string>, options: WriteOptions): Promise<void>;
  delete(names: string[], options: WriteOptions): Promise<unknown>;
  deleteAll(): Promise<void>;
}

interface WriteOptions {
  readonly allowUnconfirmed: boolean;
}

/** The platform holds the replies of a turn until its confirmed writes are on disk. */
type Confirmation = "confirmed" | "unconfirmed";

/** Limits of one put on Cloudflare. Local workerd does not enforce them. */
const mostRows = 128;
const mostBytes = 2_000_000;

/** The most rows that one alarm reads. The next alarm continues a second later, so that decisions never wait for long. */
const mostSwept = 2_000;
const nextSweepMs = 1_000;

const retryMs = 60_000;

const unconfirmed: WriteOptions = { allowUnconfirmed: true };

interface RowChanges {
  readonly added: readonly [string, string][];
  readonly removed: readonly string[];
  readonly idleAtMs: number;
  /** Whether the whole state of the key is written. */
  readonly isWhole: boolean;
}

const never = Number.POSITIVE_INFINITY;
const nothing: RowChanges = { added: [], removed: [], idleAtMs: never, isWhole: true };
const tooLarge: RowChanges = { ...nothing, isWhole: false };

interface SweepProgress {
  /** The name of the last row read; null before the first alarm and after the last. */
  readonly after: string | null;
  /** The least `idleAtMs` and `bornAtMs` of the rows that are left. */
  readonly firstIdleAtMs: number;
  readonly firstBornAtMs: number;
}

const rowOf = (key: string): string => `k ${key}`;
const textRowsOf = (key: string): string => `s ${key} `;
const textRowOf = (key: string, number: number): string => `${textRowsOf(key)}${number}`;

export class KeyStorage {
  readonly #storage: RowStorage;
  readonly #alarm: Alarm;
  #progress: SweepProgress | null = null;

  constructor(storage: RowStorage) {
    this.#storage = storage;
    this.#alarm = new Alarm(storage);
  }

  /** Reads the state of a key; null if none is stored. Synchronous, so that nothing comes between reading and changing it. */
  read(key: string): KeyState | null {
    const row = this.#row(key);
    if (row === undefined) return null;
    const keyState = revivedKey(key, row, (number) => {
      const text = this.#storage.kv.get(textRowOf(key, number));
      return typeof text === "string" ? text : undefined;
    });
    if (keyState !== null) return keyState;
    report({ event: "state-refused", reason: "not a row of this version" });
    this.#track([this.#delete([rowOf(key), ...this.#textRowsOf(key)], unconfirmed)]);
    return null;
  }

  /** @throws Error with `noSqliteStorage` when the object's class was deployed without SQLite storage */
  #row(key: string): unknown {
    try {
      return this.#storage.kv.get(rowOf(key));
    } catch (error) {
      throw isWithoutSqlite(error) ? new Error(noSqliteStorage) : error;
    }
  }

  /**
   * Writes the state of keys. Deletes the rows of idle keys.
   * @throws RangeError when a state is to be confirmed and is larger than its rows can be
   */
  write(keys: readonly KeyState[], nowMs: number, confirmation: Confirmation): void {
    const options = { allowUnconfirmed: confirmation === "unconfirmed" };
    const changes = keys.map((keyState) => changesOf(keyState, nowMs));
    const added = changes.flatMap((change) => change.added);
    const removed = changes.flatMap((change) => change.removed);
    if (added.length === 0) {
      this.#remove(removed, options);
    } else {
      const firstIdleAtMs = Math.min(...changes.map((change) => change.idleAtMs));
      // The sweep may already be past the rows that are added.
      if (this.#progress !== null) this.#progress = withLeft(this.#progress, firstIdleAtMs, nowMs);
      const isFirst = (): boolean => this.#count(1) === 0;
      // The alarm reports its failures itself. The rows are written nevertheless.
      this.#alarm.ensure(firstIdleAtMs, nowMs, isFirst).catch(() => undefined);
      this.#track([this.#put(added, options), this.#delete(removed, options)], () => {
        for (const keyState of keys) keyState.markLost();
      });
    }
    if (confirmation === "confirmed" && !changes.every(({ isWhole }) => isWhole)) {
      throw new RangeError("the state of a key is larger than storage takes");
    }
  }

  /** Deletes everything when no other row is left, because `deleteAll` is not billed for written rows. */
  #remove(names: readonly string[], options: WriteOptions): void {
    if (names.length === 0) return;
    if (this.#count(names.length + 1) === names.length) this.#clear();
    else this.#track([this.#delete(names, options)]);
  }

  /**
   * Deletes the rows of idle keys, and sets the next alarm or deletes the database. Renews rows that are kept for live rules.
   * @returns the keys whose rows are deleted
   */
  sweep(nowMs: number): string[] {
    // The sweep is called by the alarm that was set.
    this.#alarm.forget();
    let progress = this.#progress ?? { after: null, firstIdleAtMs: never, firstBornAtMs: nowMs };
    const { after } = progress;
    const range = {
      prefix: rowOf(""),
      limit: mostSwept,
      ...(after !== null && { startAfter: after }),
    };
    const rows = [...this.#storage.kv.list(range)];
    const removed: string[] = [];
    const renewed: [string, string][] = [];
    const idle: string[] = [];
    let refused = 0;
    for (const [name, row] of rows) {
      const key = name.slice(rowOf("").length);
      const head = headOf(row);
      if (head === null) refused++;
      if (head !== null && head.idleAtMs > nowMs) {
        progress = withLeft(progress, head.idleAtMs, head.bornAtMs);
        continue;
      }
      const kept = head === null ? null : renewedRow(row, nowMs);
      if (head !== null && kept !== null) {
        renewed.push([name, kept.row]);
        progress = withLeft(progress, kept.idleAtMs, head.bornAtMs);
        continue;
      }
      idle.push(key);
      removed.push(name, ...(head?.hasTexts === false ? [] : this.#textRowsOf(key)));
    }
    if (refused > 0) {
      report({ event: "state-refused", reason: `${refused} rows are not of this version` });
    }
    const lastName = rows.length < mostSwept ? null : (rows.at(-1)?.[0] ?? null);
    this.#continue({ ...progress, after: lastName }, { renewed, removed }, nowMs);
    return idle;
  }

  /** Ends the sweep, or leaves the rest of it to the next alarm. */
  #continue(
    sweep: SweepProgress,
    { renewed, removed }: { renewed: [string, string][]; removed: string[] },
    nowMs: number,
  ): void {
    const { after, firstIdleAtMs, firstBornAtMs } = sweep;
    this.#progress = after === null ? null : sweep;
    if (after === null && firstIdleAtMs === never) {
      this.#clear();
      return;
    }
    const alarm =
      after === null
        ? this.#alarm.next(firstIdleAtMs, firstBornAtMs, nowMs)
        : this.#alarm.set(nowMs + nextSweepMs, nowMs);
    alarm.catch(() => undefined);
    // A renewal that fails leaves the row as it is, and the next sweep renews it.
    this.#track([this.#put(renewed, unconfirmed), this.#delete(removed, unconfirmed)]);
  }

  postpone(nowMs: number): Promise<void> {
    return this.#alarm.set(nowMs + retryMs, nowMs);
  }

  /** `deleteAll` also deletes the alarm (since compatibility date 2026-02-24) and the database. */
  #clear(): void {
    this.#alarm.forget();
    this.#track([this.#storage.deleteAll()]);
  }

  #count(limit: number): number {
    return [...this.#storage.kv.list({ limit })].length;
  }

  /** Includes rows whose numbers are not in the key's own row. */
  #textRowsOf(key: string): string[] {
    return [...this.#storage.kv.list({ prefix: textRowsOf(key) })].map(([name]) => name);
  }

  async #put(rows: readonly [string, string][], options: WriteOptions): Promise<void> {
    const writes: Promise<void>[] = [];
    let batch: [string, string][] = [];
    let sizeBytes = 0;
    for (const row of rows) {
      const rowBytes = row[0].length + row[1].length;
      if (batch.length === mostRows || (batch.length > 0 && sizeBytes + rowBytes > mostBytes)) {
        writes.push(this.#storage.put(Object.fromEntries(batch), options));
        [batch, sizeBytes] = [[], 0];
      }
      batch.push(row);
      sizeBytes += rowBytes;
    }
    if (batch.length > 0) writes.push(this.#storage.put(Object.fromEntries(batch), options));
    await Promise.all(writes);
  }

  async #delete(names: readonly string[], options: WriteOptions): Promise<void> {
    const deletions: Promise<unknown>[] = [];
    for (let index = 0; index < names.length; index += mostRows) {
      deletions.push(this.#storage.delete(names.slice(index, index + mostRows), options));
    }
    await Promise.all(deletions);
  }

  #track(writes: readonly Promise<void>[], onFailure: () => void = () => undefined): void {
    Promise.all(writes).catch((error: unknown) => {
      report({ event: "write-failed", error: errorText(error) });
      onFailure();
    });
  }
}

/**
 * The platform has no property for the kind of storage. Every text of this error names the migration that creates
 * SQLite storage.
 */
const isWithoutSqlite = (error: unknown): boolean =>
  error instanceof Error && error.message.includes("new_sqlite_classes");

/** The progress of a sweep after it has left one more row in place. */
const withLeft = (sweep: SweepProgress, idleAtMs: number, bornAtMs: number): SweepProgress => ({
  ...sweep,
  firstIdleAtMs: Math.min(sweep.firstIdleAtMs, idleAtMs),
  firstBornAtMs: Math.min(sweep.firstBornAtMs, bornAtMs),
});

/** The rows to put and to delete for a key, whose state then counts as written. */
function changesOf(keyState: KeyState, nowMs: number): RowChanges {
  const { key, stored: before } = keyState;
  const idleAtMs = keyState.idleAtMs(nowMs);
  if (idleAtMs <= nowMs) {
    keyState.markWritten(null);
    if (before === null) return nothing;
    return { ...nothing, removed: [rowOf(key), ...textRowNames(key, before)] };
  }
  const { row, stored, apart, apartBytes, lost } = rowsOf(keyState, idleAtMs, nowMs);
  keyState.apartBytes = apartBytes;
  if (apart.length + lost.length > 0) reportOversize(keyState, apart, lost);
  if (row.length > mostRowBytes) {
    // Left out, so that the other keys of the same put are written.
    report({ event: "write-failed", error: `a key's row of ${row.length} bytes is too large` });
    return tooLarge;
  }
  keyState.markWritten(stored);
  const { added, removed } = textChanges(key, before, stored);
  return { added: [[rowOf(key), row], ...added], removed, idleAtMs, isWhole: lost.length === 0 };
}

/** Reports each policy that is too large to store and, once for each key in memory, that its state takes several rows. */
function reportOversize(keyState: KeyState, apart: readonly string[], lost: readonly string[]): void {
  for (const policy of lost) {
    const error = `the state of a key under the policy "${policy}" is larger than a row: ${mostRowBytes} bytes`;
    report({ event: "write-failed", error });
  }
  if (keyState.isOversizeReported || apart.length === 0) return;
  keyState.isOversizeReported = true;
  report({ event: "state-oversized", policies: apart });
}

const textRowNames = (key: string, { texts }: StoredRows): string[] =>
  [...texts.values()].map((number) => textRowOf(key, number));

function textChanges(key: string, before: StoredRows | null, after: StoredRows): Pick<RowChanges, "added" | "removed"> {
  const added = [...after.texts].filter(([text]) => before?.texts.has(text) !== true);
  const removed = [...(before?.texts ?? [])].filter(([text]) => !after.texts.has(text));
  return {
    added: added.map(([text, number]) => [textRowOf(key, number), text]),
    removed: removed.map(([, number]) => textRowOf(key, number)),
  };
}

/** The methods of `DurableObjectStorage` that the alarm needs. */
interface AlarmStorage {
  getAlarm(): Promise<number | null>;
  setAlarm(atMs: number, options: { readonly allowUnconfirmed: boolean }): Promise<void>;
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** The platform rejects instants after 2189. An alarm that comes before its row is idle sets the next one. */
const farthestMs = 366 * dayMs;

class Alarm {
  readonly #storage: AlarmStorage;
  /** Null until this instance of the object knows when the alarm is due. */
  #dueAtMs: number | null = null;

  constructor(storage: AlarmStorage) {
    this.#storage = storage;
  }

  /**
   * Ensures an alarm for a row that is idle at `idleAtMs`.
   * @param isFirst whether the storage was empty before this row, and so has no alarm
   */
  async ensure(idleAtMs: number, nowMs: number, isFirst: () => boolean): Promise<void> {
    const wantedAtMs = lateBy(idleAtMs - nowMs, idleAtMs);
    const known = this.#dueAtMs;
    if (known === null) this.#dueAtMs = wantedAtMs;
    let dueAtMs = known;
    try {
      // Rows may have no alarm: the platform drops an alarm after its last retry.
      dueAtMs ??= isFirst() ? null : await this.#storage.getAlarm();
    } catch (error) {
      // Forget `wantedAtMs`: otherwise the alarm would count as set although setting it failed, and nothing would be
      // swept.
      this.#failed(error);
    }
    if (dueAtMs === null) await this.set(wantedAtMs, nowMs);
    else if (dueAtMs - wantedAtMs > dayMs) await this.set(Math.max(wantedAtMs, nowMs + hourMs), nowMs);
    else this.#dueAtMs = dueAtMs;
  }

  /**
   * Sets the next alarm after a sweep. The longer the rows have existed, the later it comes.
   * @param idleAtMs when the first of the remaining rows is idle
   * @param bornAtMs when the first of them was written
   */
  next(idleAtMs: number, bornAtMs: number, nowMs: number): Promise<void> {
    const wantedAtMs = lateBy(idleAtMs - nowMs, idleAtMs);
    return this.set(Math.max(wantedAtMs, lateBy(nowMs - bornAtMs, nowMs)), nowMs);
  }

  async set(atMs: number, nowMs: number): Promise<void> {
    const dueAtMs = Math.min(atMs, nowMs + farthestMs);
    this.#dueAtMs = dueAtMs;
    try {
      await this.#storage.setAlarm(dueAtMs, { allowUnconfirmed: true });
    } catch (error) {
      this.#failed(error);
    }
  }

  #failed(error: unknown): never {
    this.#dueAtMs = null;
    report({ event: "alarm-failed", error: errorText(error) });
    throw error;
  }

  /** Notes that no alarm is set: it has come, or was deleted with all rows. */
  forget(): void {
    this.#dueAtMs = null;
  }
}

/** `atMs` delayed by `delayMs`, but by at least 1 ms and at most an hour. */
const lateBy = (delayMs: number, atMs: number): number => atMs + Math.min(hourMs, Math.max(1, delayMs));
