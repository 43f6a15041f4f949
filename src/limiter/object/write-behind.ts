/**
 * When a change is written: at once, unless two were within the last second; then one timer gathers what follows for a
 * second. So a key that is asked seldom is as safe as can be, a busy one costs a row or two a second, and what a crash can
 * take is a second's worth. A timer keeps the object in memory: idleness takes nothing.
 */
import type { KeyState } from "./key-state.ts";
import type { Timer } from "../clock.ts";

const gatheredMs = 1_000;

export class WriteBehind {
  readonly #now: () => number;
  readonly #after: Timer;
  readonly #write: (accounts: readonly KeyState[], nowMs: number) => void;
  readonly #dirty = new Set<KeyState>();
  /** When the last two writes were. */
  #writesAtMs: readonly [number, number] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
  #callOff: (() => void) | null = null;

  constructor(
    now: () => number,
    after: Timer,
    write: (accounts: readonly KeyState[], nowMs: number) => void,
  ) {
    this.#now = now;
    this.#after = after;
    this.#write = write;
  }

  /** Sees to it that a changed account is written. */
  note(keyState: KeyState, nowMs: number): void {
    this.#dirty.add(keyState);
    if (this.#callOff !== null) return;
    // A clock that has stepped back since only makes more be gathered.
    if (nowMs - this.#writesAtMs[0] >= gatheredMs) this.flush(nowMs);
    else this.#callOff = this.#after(gatheredMs, () => this.flush(this.#now()));
  }

  /** An account has been written, or is not to be. */
  drop(keyState: KeyState): void {
    this.#dirty.delete(keyState);
  }

  /** Writes what is waiting. */
  flush(nowMs: number): void {
    this.#callOff?.();
    this.#callOff = null;
    if (this.#dirty.size === 0) return;
    this.#writesAtMs = [this.#writesAtMs[1], nowMs];
    const accounts = [...this.#dirty];
    this.#dirty.clear();
    this.#write(accounts, nowMs);
  }
}
