/** The keys that an object keeps in memory, within a budget of bytes. The least recently used are evicted first. */
import type { KeyState } from "./key-state.ts";
import { acceptedDate, hasFeatures } from "../../validation/compatibility.ts";
import type { Clock } from "../clock.ts";

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
  readonly #isolate: IsolateBudget;
  readonly #share: ObjectShare;

  constructor(isolate: IsolateBudget) {
    this.#isolate = isolate;
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
    this.#isolate.add(this.#share, sizeBytes);
    this.#cached.set(key, { keyState, sizeBytes, usedAtMs: nowMs });
    const evicted: KeyState[] = [];
    for (const { keyState: oldest, usedAtMs } of this.#cached.values()) {
      const isInUse = nowMs - usedAtMs < inUseMs;
      const objectBytes = isInUse ? hardBudgetBytes : softBudgetBytes;
      const budgetBytes = Math.min(objectBytes, this.#isolate.bytesOfObject);
      if (this.#share.sizeBytes <= budgetBytes || oldest === keyState) break;
      this.drop(oldest.key);
      evicted.push(oldest);
    }
    return evicted;
  }

  drop(key: string): void {
    this.#isolate.add(this.#share, -(this.#cached.get(key)?.sizeBytes ?? 0));
    this.#cached.delete(key);
  }
}

/**
 * Leaves room for the isolate's own maps, for requests, and for garbage: V8 may let a heap grow to 4 times its live size
 * before it collects garbage.
 */
export const isolateBudgetBytes = 12_000_000;

/** The memory that the keys of one object take. */
interface ObjectShare {
  sizeBytes: number;
}

export class IsolateBudget {
  readonly mostBytes: number;
  usedBytes = 0;
  objects = 0;
  /** An object ends without notice. Its memory is in use until it is garbage-collected. */
  readonly #ended: FinalizationRegistry<ObjectShare>;

  /** @throws Error if the compatibility date of the Worker is too early; the Worker then does not start */
  constructor(mostBytes: number) {
    if (!hasFeatures()) throw new Error(`compatibility_date: expected ${acceptedDate}`);
    this.mostBytes = mostBytes;
    this.#ended = new FinalizationRegistry(({ sizeBytes }) => {
      this.objects--;
      this.usedBytes -= sizeBytes;
    });
  }

  /** @param owner is garbage-collected together with the object */
  join(owner: object): ObjectShare {
    const share = { sizeBytes: 0 };
    this.objects++;
    this.#ended.register(owner, share);
    return share;
  }

  /** @param sizeBytes negative when memory is freed */
  add(share: ObjectShare, sizeBytes: number): void {
    share.sizeBytes += sizeBytes;
    this.usedBytes += sizeBytes;
  }

  /** The most bytes of an object: the whole budget while all objects together stay within it; otherwise an equal part. */
  get bytesOfObject(): number {
    return this.usedBytes <= this.mostBytes ? this.mostBytes : Math.floor(this.mostBytes / this.objects);
  }
}

export const isolateBudget = new IsolateBudget(isolateBudgetBytes);

const gatheredMs = 1_000;

export class WriteBehind {
  readonly #clock: Clock;
  readonly #write: (keys: readonly KeyState[], nowMs: number) => void;
  readonly #dirty = new Set<KeyState>();
  /** When the last two writes were made, the older first. */
  #writesAtMs: readonly [number, number] = [Number.NEGATIVE_INFINITY, Number.NEGATIVE_INFINITY];
  #cancelTimer: (() => void) | null = null;

  constructor(clock: Clock, write: (keys: readonly KeyState[], nowMs: number) => void) {
    this.#clock = clock;
    this.#write = write;
  }

  /** Writes changed keys together, now or within a second. */
  note(keyStates: readonly KeyState[], nowMs: number): void {
    for (const each of keyStates) this.#dirty.add(each);
    if (this.#cancelTimer !== null) return;
    // A clock that stepped back only delays the write.
    if (nowMs - this.#writesAtMs[0] >= gatheredMs) this.flush(nowMs);
    else this.#cancelTimer = this.#clock.after(gatheredMs, () => this.flush(this.#clock.now()));
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
