/** An object in virtual time: its timers and alarms fire when they are due, and a test can crash it. */
import { IsolateBudget, isolateBudgetBytes } from "../../src/limiter/object/key-cache.ts";
import { KeyObject } from "../../src/limiter/object/key-object.ts";
import { PendingTimers } from "../../src/sdk/testing/virtual-clock.ts";
import type { RowStorage } from "../../src/limiter/object/key-storage.ts";

/** The platform deletes an alarm before it calls the handler. */
export type VirtualStorage = RowStorage & { deleteAlarm(): Promise<void> };

export class VirtualObject<Storage extends VirtualStorage> {
  readonly storage: Storage;
  nowMs: number;
  limiter: KeyObject;
  /** The number of alarms that have fired. */
  alarms = 0;
  readonly #timers = new PendingTimers();

  constructor(storage: Storage, nowMs: number) {
    this.storage = storage;
    this.nowMs = nowMs;
    this.limiter = this.#newLimiter();
  }

  get hasTimer(): boolean {
    return !this.#timers.isEmpty;
  }

  /** Crashes the object, which loses its memory and all changes that are not written yet. */
  crash(): void {
    this.#timers.clear();
    this.limiter = this.#newLimiter();
  }

  /** Evicts the object once no timer is pending, as the platform evicts an idle object. */
  async evict(): Promise<void> {
    for (let timer = this.#timers.next(); timer !== undefined; timer = this.#timers.next()) {
      // A timer may set another one.
      // oxlint-disable-next-line no-await-in-loop
      await this.pass(timer.dueAtMs - this.nowMs);
    }
    this.crash();
  }

  /** Lets time pass. Fires the timers and alarms that are due by then. */
  async pass(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    await this.#fireUntil(endMs);
    this.reach(endMs);
  }

  /** Lets time pass until neither a timer nor an alarm is set. */
  finish(): Promise<void> {
    return this.#fireUntil(Number.POSITIVE_INFINITY);
  }

  /** Waits for all pending storage calls, and returns the time of the alarm, if one is set. */
  async alarmAtMs(): Promise<number | null> {
    await this.storage.getAlarm();
    return this.storage.getAlarm();
  }

  /** Calls the handler of the alarm, as the platform does when it is due. */
  async runAlarm(): Promise<void> {
    this.alarms++;
    await this.storage.deleteAlarm();
    await this.limiter.alarm();
  }

  /** Moves the clock forward to the time of a timer or an alarm. Never sets it back. */
  protected reach(nowMs: number): void {
    this.nowMs = Math.max(this.nowMs, nowMs);
  }

  /**
   * Fires the timers that are due by `endMs`, each at its own time. Without `endMs`, fires all timers and leaves the
   * clock unchanged.
   */
  protected fireTimers(endMs?: number): void {
    for (;;) {
      const timer = this.#timers.next();
      if (timer === undefined || timer.dueAtMs > (endMs ?? timer.dueAtMs)) return;
      if (endMs !== undefined) this.reach(timer.dueAtMs);
      this.#timers.fire(timer);
    }
  }

  async #fireUntil(endMs: number): Promise<void> {
    for (;;) {
      const timer = this.#timers.next();
      const timerAtMs = timer?.dueAtMs ?? Number.POSITIVE_INFINITY;
      // oxlint-disable no-await-in-loop
      const alarmAtMs = (await this.alarmAtMs()) ?? Number.POSITIVE_INFINITY;
      const nextAtMs = Math.min(timerAtMs, alarmAtMs);
      if (nextAtMs > endMs || nextAtMs === Number.POSITIVE_INFINITY) return;
      this.reach(nextAtMs);
      if (timer !== undefined && timerAtMs <= alarmAtMs) {
        this.#timers.fire(timer);
      } else {
        await this.runAlarm();
      }
      // oxlint-enable no-await-in-loop
    }
  }

  #newLimiter(): KeyObject {
    return new KeyObject({
      storage: this.storage,
      // A memory budget for this object alone. A shared budget would also count objects of earlier tests that are not
      // garbage-collected yet.
      isolate: new IsolateBudget(isolateBudgetBytes),
      now: () => this.nowMs,
      after: (afterMs, act) => this.#timers.add(this.nowMs + afterMs, act),
    });
  }
}
