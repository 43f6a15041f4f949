/** The keys that an object keeps in memory, within a budget of bytes. The least recently used are evicted first. */
import type { KeyState } from "./key-state.ts";
import type { IsolateBudget, ObjectShare } from "./isolate-budget.ts";

/** Beyond this, keys that are not in use are evicted. */
export const softBudgetBytes = 2_000_000;
/**
 * Beyond this, keys in use are evicted too. Evicting them earlier would write and read long logs again and again. A single
 * key may be larger while it is used.
 */
export const hardBudgetBytes = 8_000_000;
const inUseMs = 1_000;

interface CachedKey {
  readonly keyState: KeyState;
  readonly sizeBytes: number;
  readonly usedAtMs: number;
}

export class KeyCache {
  /** In the order of last use: a Map lists its entries in the order of insertion. */
  readonly #cached = new Map<string, CachedKey>();
  readonly #share: ObjectShare;

  constructor(isolate: IsolateBudget) {
    this.#share = isolate.join(this);
  }

  get sizeBytes(): number {
    return this.#share.sizeBytes;
  }

  get(key: string): KeyState | undefined {
    return this.#cached.get(key)?.keyState;
  }

  keys(): KeyState[] {
    return [...this.#cached.values()].map(({ keyState }) => keyState);
  }

  /** Keeps a key as the most recently used and measures it again. Returns the keys evicted for it. */
  keep(keyState: KeyState, nowMs: number): KeyState[] {
    const { key } = keyState;
    const sizeBytes = keyState.sizeBytes();
    this.drop(key);
    this.#share.add(sizeBytes);
    this.#cached.set(key, { keyState, sizeBytes, usedAtMs: nowMs });
    const evicted: KeyState[] = [];
    for (const { keyState: oldest, usedAtMs } of this.#cached.values()) {
      const isInUse = nowMs - usedAtMs < inUseMs;
      const objectBytes = isInUse ? hardBudgetBytes : softBudgetBytes;
      const budgetBytes = Math.min(objectBytes, this.#share.budgetBytes);
      if (this.#share.sizeBytes <= budgetBytes || oldest === keyState) break;
      this.drop(oldest.key);
      evicted.push(oldest);
    }
    return evicted;
  }

  drop(key: string): void {
    this.#share.add(-(this.#cached.get(key)?.sizeBytes ?? 0));
    this.#cached.delete(key);
  }
}
