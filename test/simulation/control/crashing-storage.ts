/**
 * The storage of an object that crashes. A crash loses unconfirmed writes, the latest first. The platform writes in
 * order, so a confirmed write also confirms all earlier writes.
 */
import type { RowStorage } from "../../../src/limiter/object/key-storage.ts";
import type { Random } from "../../random.ts";
import { MemoryStorage } from "../../../src/sdk/testing/memory-storage.ts";

interface Copy {
  /** The turn of the object at whose end the storage had this content. */
  readonly turn: number;
  readonly rows: ReadonlyMap<string, string>;
  readonly alarmAtMs: number | null;
}

/** The promise that a crashed object gets for its calls: it never settles. */
const never = new Promise<never>(() => undefined);

export class CrashingStorage {
  readonly #memory = new MemoryStorage();
  /** The number of the object's current turn. */
  turn = 0;
  /** Copies of the storage, the oldest first. The oldest one is confirmed. */
  #copies: readonly Copy[] = [{ turn: 0, rows: new Map(), alarmAtMs: null }];
  #isChanged = false;
  #isConfirmed = false;
  readonly #onAlarmSet: () => void;

  constructor(onAlarmSet: () => void) {
    this.#onAlarmSet = onAlarmSet;
  }

  get rows(): ReadonlyMap<string, string> {
    return this.#memory.rows;
  }

  get alarmAtMs(): number | null {
    return this.#memory.alarmAtMs;
  }

  /** Removes the alarm, as the platform does before it calls the handler. */
  takeAlarm(): void {
    this.#memory.alarmAtMs = null;
    this.#isChanged = true;
  }

  beginTurn(): void {
    this.#keep();
    this.turn++;
  }

  /**
   * Loses unconfirmed writes.
   * @param isMidTurn whether the writes of the current turn are always lost
   * @returns the last turn of which no write was lost
   */
  crash(random: Random, isMidTurn: boolean): number {
    if (!isMidTurn) this.#keep();
    const index = Math.floor(random() * this.#copies.length);
    const copy = this.#copies[index];
    if (copy === undefined) throw new Error("there is always a confirmed copy");
    const nextTurn = this.#copies[index + 1]?.turn ?? this.turn + (isMidTurn ? 0 : 1);
    this.#memory.rows.clear();
    for (const [name, row] of copy.rows) this.#memory.rows.set(name, row);
    this.#memory.alarmAtMs = copy.alarmAtMs;
    this.#copies = [copy];
    this.#isChanged = false;
    this.#isConfirmed = false;
    this.#onAlarmSet();
    return nextTurn - 1;
  }

  /** The storage for one life of the object. After the crash that ends this life, writes have no effect. */
  seenBy(isAlive: () => boolean): RowStorage {
    const memory = this.#memory;
    const written = <Result>(write: () => Promise<Result>, isConfirmed: boolean): Promise<Result> => {
      if (!isAlive()) return never;
      this.#isChanged = true;
      this.#isConfirmed ||= isConfirmed;
      return write();
    };
    return {
      kv: memory.kv,
      put: (rows, options) => written(() => memory.put(rows, options), !options.allowUnconfirmed),
      delete: (names, options) => written(() => memory.delete(names), !options.allowUnconfirmed),
      deleteAll: () => written(() => memory.deleteAll(), true),
      getAlarm: () => (isAlive() ? memory.getAlarm() : never),
      setAlarm: async (atMs) => {
        await written(() => memory.setAlarm(atMs), false);
        this.#onAlarmSet();
      },
    };
  }

  #keep(): void {
    if (!this.#isChanged) return;
    const { rows, alarmAtMs } = this.#memory;
    const copy = { turn: this.turn, rows: new Map(rows), alarmAtMs };
    this.#copies = this.#isConfirmed ? [copy] : [...this.#copies, copy];
    this.#isChanged = false;
    this.#isConfirmed = false;
  }
}
