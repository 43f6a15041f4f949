/**
 * The one alarm of an object. It costs as much as two weeks of storage for what it sweeps: so it comes later than it could,
 * by as long as what it is for is to last, or has lasted, and is set again only where it would come much too late.
 */
import { errorText, report } from "../../observability/events.ts";

/** What the alarm needs of `DurableObjectStorage`. */
export interface AlarmStorage {
  getAlarm(): Promise<number | null>;
  setAlarm(atMs: number, options: { readonly allowUnconfirmed: boolean }): Promise<void>;
}

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** The platform takes no date beyond 2189. What lasts longer is found then to be left. */
const farthestMs = 366 * dayMs;

export class Alarm {
  readonly #storage: AlarmStorage;
  /** When it is due; null while this life of the object does not know. */
  #dueAtMs: number | null = null;

  constructor(storage: AlarmStorage) {
    this.#storage = storage;
  }

  /**
   * A row is written that is idle at an instant.
   * @param isFirst whether there was none before, and so no alarm
   */
  async ensure(idleAtMs: number, nowMs: number, isFirst: () => boolean): Promise<void> {
    const wantedAtMs = patient(idleAtMs, idleAtMs - nowMs);
    const known = this.#dueAtMs;
    if (known === null) this.#dueAtMs = wantedAtMs;
    let dueAtMs = known;
    try {
      // One whose retries have run out is gone, and its rows are not.
      dueAtMs ??= isFirst() ? null : await this.#storage.getAlarm();
    } catch (error) {
      // Otherwise an alarm that was never set would be taken for due, and its rows would never be swept.
      this.#failed(error);
    }
    if (dueAtMs === null) await this.set(wantedAtMs, nowMs);
    else if (dueAtMs - wantedAtMs > dayMs)
      await this.set(Math.max(wantedAtMs, nowMs + hourMs), nowMs);
    else this.#dueAtMs = dueAtMs;
  }

  /**
   * After a sweep: for the row that is idle first, but not so soon that a row that lives long calls for many.
   * @param bornAtMs when the first of the rows was written
   */
  next(idleAtMs: number, bornAtMs: number, nowMs: number): Promise<void> {
    const wantedAtMs = patient(idleAtMs, idleAtMs - nowMs);
    return this.set(Math.max(wantedAtMs, patient(nowMs, nowMs - bornAtMs)), nowMs);
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

  /** It has come, or has been deleted with everything else: none is set. */
  forget(): void {
    this.#dueAtMs = null;
  }
}

/** Later than due by as long as something lasts, up to an hour. */
const patient = (dueAtMs: number, lastsMs: number): number =>
  dueAtMs + Math.min(hourMs, Math.max(1, lastsMs));
