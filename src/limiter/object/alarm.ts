/**
 * The one alarm of an object, which sweeps idle keys. Setting it costs as much as two weeks of storage for the rows it
 * sweeps. It therefore comes late, by up to an hour, and is moved only if it would come more than a day late.
 */
import { errorText, report } from "../../observability/events.ts";

/** The methods of `DurableObjectStorage` that the alarm needs. */
export interface AlarmStorage {
  getAlarm(): Promise<number | null>;
  setAlarm(atMs: number, options: { readonly allowUnconfirmed: boolean }): Promise<void>;
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** The platform rejects instants after 2189. An alarm that comes before its row is idle sets the next one. */
const farthestMs = 366 * dayMs;

export class Alarm {
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
      // Forget `wantedAtMs`: otherwise the alarm that could not be set would be taken for set, and nothing would be
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
