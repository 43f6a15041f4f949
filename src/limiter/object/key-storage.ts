/**
 * What an object keeps in storage: for each key a row, `k <key>`, and a row for each sealed segment of its long logs,
 * `s <key> <number>`; and one alarm to sweep them.
 *
 * Invariant: while there is a row, an alarm is set. The first row and its alarm are written in one turn, which the platform
 * makes one transaction; later ones see to it that it is still there. An object that never wrote has an empty database, and
 * one that has swept its last row has an empty one again.
 */
import { errorText, report } from "../../observability/events.ts";
import { KeyState, type StoredRows } from "./key-state.ts";
import { Alarm, type AlarmStorage } from "./alarm.ts";
import { headOf, mostRowBytes } from "./key-row.ts";

/** What the ledger needs of `DurableObjectStorage`. */
export interface RowStorage extends AlarmStorage {
  readonly kv: {
    get(key: string): unknown;
    list(options: {
      prefix?: string;
      startAfter?: string;
      limit?: number;
    }): Iterable<[string, unknown]>;
  };
  put(rows: Record<string, string>, options: WriteOptions): Promise<void>;
  delete(names: string[], options: WriteOptions): Promise<unknown>;
  deleteAll(): Promise<void>;
}

interface WriteOptions {
  readonly allowUnconfirmed: boolean;
}

/** Whether answers wait until the writes of their turn are confirmed. The platform holds them, not we. */
export type Confirmation = "confirmed" | "unconfirmed";

/** The platform takes so many rows, and so many bytes, at once; local workerd would take more. */
const mostRows = 128;
const mostBytes = 2_000_000;

/** One alarm goes through so many rows; of more the next goes on a second later, so that no decision waits for long. */
const mostSwept = 2_000;
const nextSweepMs = 1_000;

/** An alarm that could not sweep tries again. */
const retryMs = 60_000;

const unconfirmed: WriteOptions = { allowUnconfirmed: true };

/** What a write does for one account. */
interface Change {
  readonly added: readonly [string, string][];
  readonly removed: readonly string[];
  readonly idleAtMs: number;
  /** Whether all of the account is written. */
  readonly isWhole: boolean;
}

const never = Number.POSITIVE_INFINITY;
const nothing: Change = { added: [], removed: [], idleAtMs: never, isWhole: true };
const tooLarge: Change = { ...nothing, isWhole: false };

/** A sweep that takes several alarms: how far it is, and what it has left. */
interface Pass {
  readonly after: string | null;
  readonly firstIdleAtMs: number;
  readonly firstBornAtMs: number;
}

const rowOf = (key: string): string => `k ${key}`;
const segmentRowsOf = (key: string): string => `s ${key} `;
const segmentRowOf = (key: string, number: number): string => `${segmentRowsOf(key)}${number}`;

export class KeyStorage {
  readonly #storage: RowStorage;
  readonly #alarm: Alarm;
  #pass: Pass | null = null;

  constructor(storage: RowStorage) {
    this.#storage = storage;
    this.#alarm = new Alarm(storage);
  }

  /** The account of a key; null if nothing is stored. Synchronous: nothing can come between. */
  read(key: string): KeyState | null {
    const row = this.#storage.kv.get(rowOf(key));
    if (row === undefined) return null;
    const keyState = KeyState.revived(key, row, (number) => {
      const text = this.#storage.kv.get(segmentRowOf(key, number));
      return typeof text === "string" ? text : undefined;
    });
    if (keyState !== null) return keyState;
    report({ event: "state-refused", reason: "not a row of this version" });
    this.#track([this.#delete([rowOf(key), ...this.#segmentsOf(key)], unconfirmed)]);
    return null;
  }

  /**
   * Writes accounts as they stand; deletes the rows of those that are idle.
   * @throws RangeError when a write that is to be confirmed cannot be made
   */
  write(accounts: readonly KeyState[], nowMs: number, confirmation: Confirmation): void {
    const options = { allowUnconfirmed: confirmation === "unconfirmed" };
    const changes = accounts.map((keyState) => this.#changeOf(keyState, nowMs));
    const added = changes.flatMap((change) => change.added);
    const removed = changes.flatMap((change) => change.removed);
    if (added.length === 0) {
      this.#remove(removed, options);
    } else {
      const firstIdleAtMs = Math.min(...changes.map((change) => change.idleAtMs));
      if (this.#pass !== null) this.#pass = left(this.#pass, firstIdleAtMs, nowMs);
      const isFirst = (): boolean => this.#count(1) === 0;
      // It reports its failures itself, and rows are none the worse for them.
      this.#alarm.ensure(firstIdleAtMs, nowMs, isFirst).catch(() => undefined);
      this.#track([this.#put(added, options), this.#delete(removed, options)], () => {
        for (const keyState of accounts) keyState.markLost();
      });
    }
    if (confirmation === "confirmed" && !changes.every(({ isWhole }) => isWhole)) {
      throw new RangeError("the state of a key is larger than storage takes");
    }
  }

  /** The rows to put and to delete for an account, which then counts as written. */
  #changeOf(keyState: KeyState, nowMs: number): Change {
    const { key, stored: before } = keyState;
    const idleAtMs = keyState.idleAtMs();
    if (idleAtMs <= nowMs) {
      keyState.markWritten(null);
      if (before === null) return nothing;
      return { ...nothing, removed: [rowOf(key), ...segmentNames(key, before)] };
    }
    const { row, stored, apart, lost } = keyState.rows(idleAtMs, nowMs);
    if (apart.length + lost.length > 0) reportOversize(keyState, apart, lost);
    if (row.length > mostRowBytes) {
      // The others of its batch are not to fail with it.
      report({ event: "write-failed", error: `a key's row of ${row.length} bytes is too large` });
      return tooLarge;
    }
    keyState.markWritten(stored);
    const segments = segmentChanges(key, before, stored);
    return {
      added: [[rowOf(key), row], ...segments.added],
      removed: segments.removed,
      idleAtMs,
      isWhole: lost.length === 0,
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
    this.#alarm.forget();
    let pass = this.#pass ?? { after: null, firstIdleAtMs: never, firstBornAtMs: nowMs };
    const { after } = pass;
    const range = {
      prefix: rowOf(""),
      limit: mostSwept,
      ...(after !== null && { startAfter: after }),
    };
    const rows = [...this.#storage.kv.list(range)];
    const removed: string[] = [];
    const idle: string[] = [];
    let refused = 0;
    for (const [name, row] of rows) {
      const key = name.slice(rowOf("").length);
      const head = headOf(row);
      if (head === null) refused++;
      if (head !== null && head.idleAtMs > nowMs) {
        pass = left(pass, head.idleAtMs, head.bornAtMs);
        continue;
      }
      idle.push(key);
      removed.push(name, ...(head?.hasSegments === false ? [] : this.#segmentsOf(key)));
    }
    if (refused > 0) {
      report({ event: "state-refused", reason: `${refused} rows are not of this version` });
    }
    const lastName = rows.length < mostSwept ? null : (rows.at(-1)?.[0] ?? null);
    this.#goOn({ ...pass, after: lastName }, removed, nowMs);
    return idle;
  }

  /** Ends a pass, or has the next alarm go on with it. */
  #goOn(pass: Pass, removed: readonly string[], nowMs: number): void {
    const { after, firstIdleAtMs, firstBornAtMs } = pass;
    this.#pass = after === null ? null : pass;
    if (after === null && firstIdleAtMs === never) {
      this.#clear();
      return;
    }
    const alarm =
      after === null
        ? this.#alarm.next(firstIdleAtMs, firstBornAtMs, nowMs)
        : this.#alarm.set(nowMs + nextSweepMs, nowMs);
    alarm.catch(() => undefined);
    this.#track([this.#delete(removed, unconfirmed)]);
  }

  /** Sets the alarm for another try. */
  postpone(nowMs: number): Promise<void> {
    return this.#alarm.set(nowMs + retryMs, nowMs);
  }

  /** The alarm goes with the rows, and so does the database itself. */
  #clear(): void {
    this.#alarm.forget();
    this.#track([this.#storage.deleteAll()]);
  }

  /** How many rows there are, up to so many. */
  #count(limit: number): number {
    return [...this.#storage.kv.list({ limit })].length;
  }

  /** The rows of a key's segments, whether its own row knows of them or not. */
  #segmentsOf(key: string): string[] {
    return [...this.#storage.kv.list({ prefix: segmentRowsOf(key) })].map(([name]) => name);
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
      fail();
    });
  }
}

/** A pass that has left one row more. */
const left = (pass: Pass, idleAtMs: number, bornAtMs: number): Pass => ({
  ...pass,
  firstIdleAtMs: Math.min(pass.firstIdleAtMs, idleAtMs),
  firstBornAtMs: Math.min(pass.firstBornAtMs, bornAtMs),
});

/** Reports once for each key in memory that a row does not hold its state, and each policy that no row holds. */
function reportOversize(
  keyState: KeyState,
  apart: readonly string[],
  lost: readonly string[],
): void {
  for (const policy of lost) {
    const error = `the state of a key under the policy "${policy}" is larger than a row: ${mostRowBytes} bytes`;
    report({ event: "write-failed", error });
  }
  if (keyState.isOversizeReported || apart.length === 0) return;
  keyState.isOversizeReported = true;
  report({ event: "state-oversized", policies: apart });
}

const segmentNames = (key: string, { segments }: StoredRows): string[] =>
  [...segments.values()].map((number) => segmentRowOf(key, number));

function segmentChanges(
  key: string,
  before: StoredRows | null,
  after: StoredRows,
): Pick<Change, "added" | "removed"> {
  const added = [...after.segments].filter(([text]) => before?.segments.has(text) !== true);
  const removed = [...(before?.segments ?? [])].filter(([text]) => !after.segments.has(text));
  return {
    added: added.map(([text, number]) => [segmentRowOf(key, number), text]),
    removed: removed.map(([, number]) => segmentRowOf(key, number)),
  };
}
