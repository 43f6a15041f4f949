/**
 * What an object keeps in storage: for each key a row, `k <key>`, and a row for each sealed segment of its long logs,
 * `s <key> <number>`; and one alarm to sweep them.
 *
 * Invariant: while there is a row, an alarm is set. Rows and alarm are written in one turn, which the platform makes one
 * transaction. An object that never wrote has an empty database, and one that has swept its last row has none again.
 */
import { errorText, report } from "../observability/events.ts";
import { Account, datesOf, type StoredRows } from "./account.ts";

/** What the ledger needs of `DurableObjectStorage`. */
export interface RowStorage {
  readonly kv: {
    get(key: string): unknown;
    list(options: { prefix?: string; limit?: number }): Iterable<[string, unknown]>;
  };
  put(rows: Record<string, string>, options: WriteOptions): Promise<void>;
  delete(names: string[], options: WriteOptions): Promise<unknown>;
  deleteAll(): Promise<void>;
  getAlarm(): Promise<number | null>;
  setAlarm(atMs: number, options: WriteOptions): Promise<void>;
}

interface WriteOptions {
  readonly allowUnconfirmed: boolean;
}

/** Whether answers wait until the writes of their turn are confirmed. The platform holds them, not we. */
export type Confirmation = "confirmed" | "unconfirmed";

/** The platform takes so many rows, and so many bytes, at once; local workerd would take more. */
const mostRows = 128;
const mostBytes = 2_000_000;
const longestName = 2_048;

/**
 * An alarm costs as much as two weeks of storage for what it sweeps: it comes later than it could, by as long as what it
 * is for has lasted already, but no more than this.
 */
const longestDelayMs = 3_600_000;

/** An alarm that could not sweep tries again. */
const retryMs = 60_000;

const unconfirmed: WriteOptions = { allowUnconfirmed: true };

/** What a write does for one account. */
interface Change {
  readonly added: readonly [string, string][];
  readonly removed: readonly string[];
  readonly idleAtMs: number;
}

const nothing: Change = { added: [], removed: [], idleAtMs: Number.POSITIVE_INFINITY };

const rowOf = (key: string): string => `k ${key}`;
const segmentRowsOf = (key: string): string => `s ${key} `;

export class Ledger {
  readonly #storage: RowStorage;
  /** Whether this life of the object knows of an alarm that is set. */
  #isArmed = false;

  constructor(storage: RowStorage) {
    this.#storage = storage;
  }

  /** The account of a key; null if nothing is stored. Synchronous: nothing can come between. */
  read(key: string): Account | null {
    const row = this.#storage.kv.get(rowOf(key));
    if (row === undefined) return null;
    const account = Account.revived(key, row, (number) => {
      const text = this.#storage.kv.get(`${segmentRowsOf(key)}${number}`);
      return typeof text === "string" ? text : undefined;
    });
    if (account !== null) return account;
    report({ event: "state-refused", reason: "not a row of this version" });
    this.#track([this.#delete(this.#namesOf(key), unconfirmed)]);
    return null;
  }

  /** Writes accounts as they stand; deletes the rows of those that are idle. */
  write(accounts: readonly Account[], nowMs: number, confirmation: Confirmation): void {
    const options = { allowUnconfirmed: confirmation === "unconfirmed" };
    const changes = accounts.map((account) => this.#changeOf(account, nowMs));
    const added = changes.flatMap((change) => change.added);
    const removed = changes.flatMap((change) => change.removed);
    if (added.length === 0) {
      this.#remove(removed, options);
      return;
    }
    const firstIdleAtMs = Math.min(...changes.map((change) => change.idleAtMs));
    const alarm = this.#arm(firstIdleAtMs, nowMs);
    this.#track([this.#put(added, options), this.#delete(removed, options), alarm], () => {
      for (const account of accounts) account.markLost();
    });
  }

  /** The rows to put and to delete for an account, which then counts as written. */
  #changeOf(account: Account, nowMs: number): Change {
    const { key, stored: before } = account;
    const idleAtMs = account.idleAtMs(nowMs);
    if (idleAtMs <= nowMs) {
      account.markWritten(null);
      return { ...nothing, removed: before === null ? [] : this.#namesOf(key) };
    }
    const { row, stored } = account.rows(idleAtMs, nowMs);
    if (row.length > mostBytes - longestName) {
      // The others of its batch are not to fail with it; it stays in memory.
      report({ event: "write-failed", error: `a key's row of ${row.length} bytes is too large` });
      return nothing;
    }
    account.markWritten(stored);
    const segments = segmentChanges(key, before, stored);
    return {
      added: [[rowOf(key), row], ...segments.added],
      removed: segments.removed,
      idleAtMs,
    };
  }

  /** To delete everything costs no rows. */
  #remove(names: readonly string[], options: WriteOptions): void {
    if (names.length === 0) return;
    if (this.#count(names.length + 1) === names.length) this.#clear();
    else this.#track([this.#delete(names, options)]);
  }

  /**
   * Deletes what is idle: everything, when nothing else is left, else rows, and sets the next alarm.
   * @returns the keys whose rows are gone
   */
  sweep(nowMs: number): string[] {
    // The one that was set has come.
    this.#isArmed = false;
    const idle: string[] = [];
    let refused = 0;
    let firstIdleAtMs = Number.POSITIVE_INFINITY;
    let firstBornAtMs = nowMs;
    for (const [name, row] of this.#storage.kv.list({ prefix: rowOf("") })) {
      const dates = datesOf(row);
      if (dates === null) refused++;
      if (dates === null || dates.idleAtMs <= nowMs) {
        idle.push(name.slice(rowOf("").length));
        continue;
      }
      firstIdleAtMs = Math.min(firstIdleAtMs, dates.idleAtMs);
      firstBornAtMs = Math.min(firstBornAtMs, dates.bornAtMs);
    }
    if (refused > 0) {
      report({ event: "state-refused", reason: `${refused} rows are not of this version` });
    }
    if (firstIdleAtMs === Number.POSITIVE_INFINITY) {
      this.#clear();
      return idle;
    }
    const names = idle.flatMap((key) => this.#namesOf(key));
    const dueAtMs = Math.max(
      patient(firstIdleAtMs, firstIdleAtMs - nowMs),
      patient(nowMs, nowMs - firstBornAtMs),
    );
    this.#isArmed = true;
    this.#track([this.#delete(names, unconfirmed), this.#storage.setAlarm(dueAtMs, unconfirmed)]);
    return idle;
  }

  /** Sets the alarm for another try. */
  async postpone(nowMs: number): Promise<void> {
    await this.#storage.setAlarm(nowMs + retryMs, unconfirmed);
    this.#isArmed = true;
  }

  /** The alarm goes with the rows, and so does the database itself. */
  #clear(): void {
    this.#isArmed = false;
    this.#track([this.#storage.deleteAll()]);
  }

  /** How many rows there are, up to so many. */
  #count(limit: number): number {
    return [...this.#storage.kv.list({ limit })].length;
  }

  /** All rows of a key. */
  #namesOf(key: string): string[] {
    const segments = [...this.#storage.kv.list({ prefix: segmentRowsOf(key) })];
    return [rowOf(key), ...segments.map(([name]) => name)];
  }

  async #arm(idleAtMs: number, nowMs: number): Promise<void> {
    if (this.#isArmed) return;
    this.#isArmed = true;
    const dueAtMs = patient(idleAtMs, idleAtMs - nowMs);
    // With the first row of all there can be no alarm yet. One whose retries have run out is gone, and its rows are not.
    const isFirst = this.#count(1) === 0;
    if (isFirst || (await this.#storage.getAlarm()) === null) {
      await this.#storage.setAlarm(dueAtMs, unconfirmed);
    }
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

  /** Nothing waits for the disk here, but no failure goes unheard. */
  #track(writes: readonly Promise<void>[], fail: () => void = () => undefined): void {
    Promise.all(writes).catch((error: unknown) => {
      report({ event: "write-failed", error: errorText(error) });
      this.#isArmed = false;
      fail();
    });
  }
}

/** Later than due by as long as something has lasted, or will. */
const patient = (dueAtMs: number, lastedMs: number): number =>
  dueAtMs + Math.min(longestDelayMs, Math.max(1, lastedMs));

function segmentChanges(
  key: string,
  before: StoredRows | null,
  after: StoredRows,
): Pick<Change, "added" | "removed"> {
  const name = (number: number): string => `${segmentRowsOf(key)}${number}`;
  const added = [...after.segments].filter(([text]) => before?.segments.has(text) !== true);
  const removed = [...(before?.segments ?? [])].filter(([text]) => !after.segments.has(text));
  return {
    added: added.map(([text, number]) => [name(number), text]),
    removed: removed.map(([, number]) => name(number)),
  };
}
