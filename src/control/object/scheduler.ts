/**
 * The one alarm of the object, shared by all its parts. Each part states when its work is next due, and the scheduler sets
 * the alarm for the earliest.
 */
import { errorText, report } from "../../observability/events.ts";
import type { Clock } from "../../limiter/clock.ts";
import type { ControlStorage } from "./storage.ts";

/** Work of one part of the object that is due at times. */
export interface Task {
  /** When the work is next due; null when there is none. Must be cheap: it is read after each call that writes. */
  dueAtMs(): number | null;
  /** Does what is due by `nowMs`, and at most as much as one alarm should do. */
  run(nowMs: number): void | Promise<void>;
}

/** How long after a failure a task runs again. */
const afterFailureMs = 60_000;
/** The platform may lose an alarm that its handler sets for the present instant. */
const leastDelayMs = 1;
/** An alarm that is overdue by more than this is taken for lost, and set again. */
const lostAfterMs = 60_000;

export class Scheduler {
  readonly #storage: ControlStorage;
  readonly #clock: Clock;
  readonly #tasks: readonly Task[];
  /** When the alarm is due: null for no alarm, undefined before this instance of the object has read it. */
  #alarmAtMs: number | null | undefined;
  /** Tasks that failed, and when they run again. */
  readonly #failed = new Map<Task, number>();

  constructor(storage: ControlStorage, clock: Clock, tasks: readonly Task[]) {
    this.#storage = storage;
    this.#clock = clock;
    this.#tasks = tasks;
  }

  /** Sets the alarm for the time when the next work is due. Call this after each change that may make work due. */
  async ensure(): Promise<void> {
    if (this.#nextDueAtMs() === null) return;
    try {
      if (this.#alarmAtMs === undefined) {
        const storedMs = await this.#storage.getAlarm();
        // Another call may have set the alarm meanwhile.
        this.#alarmAtMs ??= storedMs;
      }
      const nowMs = this.#clock.now();
      const dueAtMs = this.#nextDueAtMs();
      const known = this.#alarmAtMs;
      const isSet = known !== null && known > nowMs - lostAfterMs;
      if (dueAtMs === null || (isSet && known <= dueAtMs)) return;
      const alarmAtMs = Math.max(dueAtMs, nowMs + leastDelayMs);
      this.#alarmAtMs = alarmAtMs;
      await this.#storage.setAlarm(alarmAtMs);
    } catch (error) {
      // The next call tries again.
      this.#alarmAtMs = undefined;
      report({ event: "alarm-failed", error: errorText(error) });
    }
  }

  /** Runs the tasks that are due. Never throws: the platform drops an alarm whose handler keeps failing. */
  async alarm(): Promise<void> {
    this.#alarmAtMs = null;
    const nowMs = this.#clock.now();
    const due = this.#tasks.filter((task) => (this.#dueAtMs(task) ?? nowMs + 1) <= nowMs);
    await Promise.all(due.map((task) => this.#run(task, nowMs)));
    await this.ensure();
  }

  async #run(task: Task, nowMs: number): Promise<void> {
    this.#failed.delete(task);
    try {
      await task.run(nowMs);
    } catch (error) {
      this.#failed.set(task, nowMs + afterFailureMs);
      report({ event: "control-plane-failed", error: errorText(error) });
    }
  }

  #nextDueAtMs(): number | null {
    const dueAtMs = this.#tasks.flatMap((task) => this.#dueAtMs(task) ?? []);
    return dueAtMs.length === 0 ? null : Math.min(...dueAtMs);
  }

  #dueAtMs(task: Task): number | null {
    const dueAtMs = task.dueAtMs();
    return dueAtMs === null ? null : Math.max(dueAtMs, this.#failed.get(task) ?? dueAtMs);
  }
}
