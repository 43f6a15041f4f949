/**
 * What an object keeps in storage: a row for each policy, holding its meter's snapshot, and one alarm to sweep them.
 *
 * Invariant: while there is a row, an alarm is set. The first row and its alarm are written in one turn, which the
 * platform makes one transaction. An object that never wrote has an empty database.
 */
import { createMeter } from "../strategies/index.ts";
import { errorText, report } from "../observability/events.ts";

/** Rows and alarm are not waited for: an answer does not depend on the disk, and a failed write restarts the object. */
const unconfirmed = { allowUnconfirmed: true };

export class Ledger {
  readonly #storage: DurableObjectStorage;
  /** Whether this life of the object knows of an alarm that is set. */
  #isArmed = false;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** The snapshot of a policy's meter; undefined if there is none. Synchronous: nothing can come between. */
  read(policy: string): unknown {
    return this.#storage.kv.get(policy);
  }

  /** @param idleAtMs when the row may be forgotten; at `nowMs` or before, there is nothing to keep */
  write(policy: string, snapshot: unknown, idleAtMs: number, nowMs: number): void {
    if (idleAtMs <= nowMs) {
      this.delete(policy);
      return;
    }
    const isFirst = !this.#isArmed && this.#isEmpty();
    const writes = [this.#storage.put(policy, snapshot, unconfirmed)];
    if (isFirst) writes.push(this.#storage.setAlarm(idleAtMs, unconfirmed));
    // An alarm whose retries have run out is gone, and the rows of its time are still there.
    else if (!this.#isArmed) writes.push(this.#armIfNeeded(idleAtMs));
    this.#isArmed = true;
    settle(writes);
  }

  delete(policy: string): void {
    if (this.#storage.kv.delete(policy) && this.#isEmpty()) this.#clear();
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
    this.#isArmed = true;
    settle([this.#storage.setAlarm(Math.min(...kept), unconfirmed)]);
    return forgotten;
  }

  #isEmpty(): boolean {
    return [...this.#storage.kv.list({ limit: 1 })].length === 0;
  }

  async #armIfNeeded(atMs: number): Promise<void> {
    if ((await this.#storage.getAlarm()) === null) await this.#storage.setAlarm(atMs, unconfirmed);
  }

  /** The alarm goes with the rows, and so does the database itself. */
  #clear(): void {
    this.#isArmed = false;
    settle([this.#storage.deleteAll()]);
  }
}

function settle(writes: readonly Promise<void>[]): void {
  for (const write of writes) {
    write.catch((error: unknown) => report({ event: "write-failed", error: errorText(error) }));
  }
}
