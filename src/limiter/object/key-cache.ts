/** The accounts in memory, within a budget of bytes: those longest unused go out to storage first. */
import type { KeyState } from "./key-state.ts";
import type { IsolateBudget, ObjectShare } from "./isolate-budget.ts";

/** For one object: what is unused for a while goes out beyond this. */
export const wantedHeldBytes = 2_000_000;
/**
 * What is in use goes out only beyond this: to write and read a few long logs in turn would cost more than to hold them.
 * One account that is larger than all of it is held nevertheless, while it is used.
 */
export const mostHeldBytes = 8_000_000;
const inUseMs = 1_000;

interface Entry {
  readonly keyState: KeyState;
  readonly sizeBytes: number;
  readonly usedAtMs: number;
}

export class KeyCache {
  readonly #entries = new Map<string, Entry>();
  readonly #share: ObjectShare;

  constructor(isolate: IsolateBudget) {
    this.#share = isolate.join(this);
  }

  get sizeBytes(): number {
    return this.#share.sizeBytes;
  }

  get(key: string): KeyState | undefined {
    return this.#entries.get(key)?.keyState;
  }

  /**
   * Holds an account as the one used last, and measures it anew.
   * @returns those that had to go for it
   */
  keep(keyState: KeyState, nowMs: number): KeyState[] {
    const known = this.#entries.get(keyState.key);
    const sizeBytes = keyState.sizeBytes();
    this.#share.add(sizeBytes - (known?.sizeBytes ?? 0));
    this.#entries.delete(keyState.key);
    // At the end: a Map lists its keys in the order of insertion.
    this.#entries.set(keyState.key, { keyState, sizeBytes, usedAtMs: nowMs });
    const gone: KeyState[] = [];
    for (const { keyState: oldest, usedAtMs } of this.#entries.values()) {
      const isInUse = nowMs - usedAtMs < inUseMs;
      const budgetBytes = Math.min(
        isInUse ? mostHeldBytes : wantedHeldBytes,
        this.#share.budgetBytes,
      );
      if (this.#share.sizeBytes <= budgetBytes || oldest === keyState) break;
      this.drop(oldest.key);
      gone.push(oldest);
    }
    return gone;
  }

  drop(key: string): void {
    this.#share.add(-(this.#entries.get(key)?.sizeBytes ?? 0));
    this.#entries.delete(key);
  }

  accounts(): KeyState[] {
    return [...this.#entries.values()].map(({ keyState }) => keyState);
  }
}
