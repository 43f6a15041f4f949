/**
 * What an object keeps in storage: a row for each policy, holding its meter's snapshot, and one alarm to sweep them.
 *
 * Invariant: while there is a row, an alarm is set. The first row and its alarm are written in one turn, which the
 * platform makes one transaction, so that neither outlives the other; an object that never wrote has an empty database.
 */
import { createMeter } from "../strategies/index.ts";
import { errorText, report } from "../observability/events.ts";

/** Rows and alarm are not waited for: an answer does not depend on the disk, and a failed write restarts the object. */
const unconfirmed = { allowUnconfirmed: true };

export class Ledger {
  readonly #storage: DurableObjectStorage;
  /** Null until the storage has been asked. */
  #hasRows: boolean | null = null;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** The snapshot of a policy's meter; undefined if there is none. Synchronous: nothing can come between. */
  read(policy: string): unknown {
    return this.#storage.kv.get(policy);
  }

  /** @param idleAtMs when the row may be forgotten */
  write(policy: string, snapshot: unknown, idleAtMs: number): void {
    this.#hasRows ??= this.#policies().length > 0;
    const writes = [this.#storage.put(policy, snapshot, unconfirmed)];
    if (!this.#hasRows) writes.push(this.#storage.setAlarm(idleAtMs, unconfirmed));
    this.#hasRows = true;
    settle(writes);
  }

  delete(policy: string): void {
    this.#storage.kv.delete(policy);
    if (this.#policies().length === 0) this.#clear();
  }

  /**
   * Forgets what is idle and sets the next alarm by what is left; safe to call early, late or twice.
   * @returns the policies that were forgotten
   */
  sweep(nowMs: number): string[] {
    const rows = [...this.#storage.kv.list()];
    // A meter without limits keeps every state until it is idle: it answers when the last of a row will be.
    const idle = rows.map(([policy, row]) => ({ policy, atMs: createMeter([], row).idleAtMs() }));
    const forgotten = idle.filter(({ atMs }) => atMs <= nowMs).map(({ policy }) => policy);
    const kept = idle.filter(({ atMs }) => atMs > nowMs).map(({ atMs }) => atMs);
    if (kept.length === 0) {
      this.#clear();
      return forgotten;
    }
    for (const policy of forgotten) this.#storage.kv.delete(policy);
    settle([this.#storage.setAlarm(Math.min(...kept), unconfirmed)]);
    return forgotten;
  }

  #policies(): string[] {
    return [...this.#storage.kv.list({ limit: 1 })].map(([policy]) => policy);
  }

  /** The alarm goes with the rows, and so does the database itself. */
  #clear(): void {
    this.#hasRows = false;
    settle([this.#storage.deleteAll()]);
  }
}

function settle(writes: readonly Promise<void>[]): void {
  for (const write of writes) {
    write.catch((error: unknown) => report({ event: "write-failed", error: errorText(error) }));
  }
}
