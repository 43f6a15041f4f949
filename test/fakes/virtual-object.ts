/** An object on a platform of virtual time, whose timers and alarms come when they are due, and which can crash. */
import { IsolateBudget, isolateBudgetBytes } from "../../src/limiter/object/isolate-budget.ts";
import { Limiter } from "../../src/limiter/object/limiter.ts";
import type { RowStorage } from "../../src/limiter/object/key-storage.ts";

/** With what the platform does before it calls the handler of an alarm that has come. */
export type VirtualStorage = RowStorage & { deleteAlarm(): Promise<void> };

interface Timer {
  readonly dueAtMs: number;
  readonly act: () => void;
}

export class VirtualObject<Storage extends VirtualStorage> {
  readonly storage: Storage;
  nowMs: number;
  limiter: Limiter;
  /** Those that have come. */
  alarms = 0;
  readonly #timers = new Set<Timer>();

  constructor(storage: Storage, nowMs: number) {
    this.storage = storage;
    this.nowMs = nowMs;
    this.limiter = this.#started();
  }

  get hasTimer(): boolean {
    return this.#timers.size > 0;
  }

  /** Forgets what is in memory, and what waits there to be written. */
  crash(): void {
    this.#timers.clear();
    this.limiter = this.#started();
  }

  /** Forgets what is in memory once no timer is pending, as the platform does with an object that is idle. */
  async evict(): Promise<void> {
    for (let timer = this.#next(); timer !== undefined; timer = this.#next()) {
      // Each may set another.
      // oxlint-disable-next-line no-await-in-loop
      await this.pass(timer.dueAtMs - this.nowMs);
    }
    this.crash();
  }

  /** Lets time pass, and what is due in it happen. */
  async pass(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    await this.#happen(endMs);
    this.reach(endMs);
  }

  /** Lets time pass until nothing is due any more. */
  finish(): Promise<void> {
    return this.#happen(Number.POSITIVE_INFINITY);
  }

  /** The alarm that is set once what asked for it before has had its answer, and has set one. */
  async alarmAtMs(): Promise<number | null> {
    await this.storage.getAlarm();
    return this.storage.getAlarm();
  }

  /** Time has come to an instant at which something may happen. */
  protected reach(nowMs: number): void {
    this.nowMs = Math.max(this.nowMs, nowMs);
  }

  protected async fireAlarm(): Promise<void> {
    this.alarms++;
    await this.storage.deleteAlarm();
    await this.limiter.alarm();
  }

  async #happen(endMs: number): Promise<void> {
    for (;;) {
      const timer = this.#next();
      const timerAtMs = timer?.dueAtMs ?? Number.POSITIVE_INFINITY;
      // oxlint-disable no-await-in-loop
      const alarmAtMs = (await this.alarmAtMs()) ?? Number.POSITIVE_INFINITY;
      const nextAtMs = Math.min(timerAtMs, alarmAtMs);
      if (nextAtMs > endMs || nextAtMs === Number.POSITIVE_INFINITY) return;
      this.reach(nextAtMs);
      if (timer !== undefined && timerAtMs <= alarmAtMs) {
        this.#timers.delete(timer);
        timer.act();
      } else {
        await this.fireAlarm();
      }
      // oxlint-enable no-await-in-loop
    }
  }

  #next(): Timer | undefined {
    let next: Timer | undefined;
    for (const timer of this.#timers) {
      if (next === undefined || timer.dueAtMs < next.dueAtMs) next = timer;
    }
    return next;
  }

  #started(): Limiter {
    return new Limiter({
      storage: this.storage,
      // An isolate of its own: what earlier objects left to the garbage collector is not counted against it.
      isolate: new IsolateBudget(isolateBudgetBytes),
      now: () => this.nowMs,
      after: (afterMs, act) => {
        const timer = { dueAtMs: this.nowMs + afterMs, act };
        this.#timers.add(timer);
        return () => this.#timers.delete(timer);
      },
    });
  }
}
