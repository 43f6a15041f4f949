/** An object in virtual time: its timers and alarms fire when they are due, and it can crash. */
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
  /** How many alarms have fired. */
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

  /** Loses the memory, and the changes that are not written yet. */
  crash(): void {
    this.#timers.clear();
    this.limiter = this.#newLimiter();
  }

  /** Loses the memory once no timer is pending, as an idle object does on the platform. */
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

  /** Lets time pass until no timer and no alarm is set. */
  finish(): Promise<void> {
    return this.#fireUntil(Number.POSITIVE_INFINITY);
  }

  /** Waits until all pending calls to the storage have ended, and returns the time of the alarm that is then set. */
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

  /** Sets the clock to an instant at which a timer or an alarm may be due. Never sets it back. */
  protected reach(nowMs: number): void {
    this.nowMs = Math.max(this.nowMs, nowMs);
  }

  /**
   * Fires the timers that are due by `endMs`, and sets the clock to each. Without `endMs`, fires all timers and
   * leaves the clock unchanged.
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
      // A memory budget for this object alone: objects of earlier tests that are not garbage-collected yet do not
      // count.
      isolate: new IsolateBudget(isolateBudgetBytes),
      now: () => this.nowMs,
      after: (afterMs, act) => this.#timers.add(this.nowMs + afterMs, act),
    });
  }
}
