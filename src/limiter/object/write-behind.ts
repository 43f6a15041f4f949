/**
 * When an unconfirmed change is written: at once, unless two writes were made within the last second. Otherwise one timer
 * gathers all changes of the next second. A busy key then costs one or two rows a second, and a crash loses at most one
 * second. An idle object loses nothing, because the platform keeps it in memory while a timer is set.
 */
import type { KeyState } from "./key-state.ts";
import type { Timer } from "../clock.ts";

const gatheredMs = 1_000;

type WriteKeys = (keys: readonly KeyState[], nowMs: number) => void;

export class WriteBehind {
  readonly #now: () => number;
  readonly #after: Timer;
  readonly #write: WriteKeys;
  readonly #dirty = new Set<KeyState>();
  /** When the last two writes were made, the older first. */
  #writesAtMs: readonly [number, number] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
  #cancelTimer: (() => void) | null = null;

  constructor(now: () => number, after: Timer, write: WriteKeys) {
    this.#now = now;
    this.#after = after;
    this.#write = write;
  }

  /** Writes a changed key, now or within a second. */
  note(keyState: KeyState, nowMs: number): void {
    this.#dirty.add(keyState);
    if (this.#cancelTimer !== null) return;
    // A clock that stepped back only delays the write.
    if (nowMs - this.#writesAtMs[0] >= gatheredMs) this.flush(nowMs);
    else this.#cancelTimer = this.#after(gatheredMs, () => this.flush(this.#now()));
  }

  /** Drops a key that has been written or need not be. */
  drop(keyState: KeyState): void {
    this.#dirty.delete(keyState);
  }

  flush(nowMs: number): void {
    this.#cancelTimer?.();
    this.#cancelTimer = null;
    if (this.#dirty.size === 0) return;
    this.#writesAtMs = [this.#writesAtMs[1], nowMs];
    const keys = [...this.#dirty];
    this.#dirty.clear();
    this.#write(keys, nowMs);
  }
}
