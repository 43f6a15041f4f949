/** Values kept for later: by text up to a bound, or by object for as long as the object lives. */

/** Returns the function with a cache: it computes once for each object. */
export function memoized<Key extends object, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, Value>();
  return (key) => {
    const kept = known.get(key);
    if (kept !== undefined) return kept;
    const value = compute(key);
    known.set(key, value);
    return value;
  };
}

/** A map with a bounded number of entries and, if wanted, of bytes. It drops the entries that were set longest ago. */
export class BoundedMap<Value> {
  readonly #mostEntries: number;
  readonly #budget: Budget<Value> | null;
  /** In the order in which they were set: a Map lists its entries in the order of insertion. */
  readonly #entries = new Map<string, { readonly value: Value; readonly sizeBytes: number }>();
  #sizeBytes = 0;

  /** @param budget bounds the bytes of all values together; null for no bound */
  constructor(mostEntries: number, budget: Budget<Value> | null = null) {
    this.#mostEntries = mostEntries;
    this.#budget = budget;
  }

  /** The bytes of all values, each measured when it was set. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  /** Sets and measures a value. Returns the values dropped for it. The new value stays, however large it is. */
  set(key: string, value: Value): readonly Value[] {
    this.delete(key);
    const sizeBytes = this.#budget === null ? 0 : this.#budget.bytesOf(value);
    this.#entries.set(key, { value, sizeBytes });
    this.#sizeBytes += sizeBytes;
    // Most calls drop nothing: return without a new list.
    return this.#isFull ? this.#dropOldest(key) : nothing;
  }

  /** Makes a value the latest, as if it were set again, without measuring it. */
  refresh(key: string): void {
    const entry = this.#entries.get(key);
    if (entry === undefined) return;
    this.#entries.delete(key);
    this.#entries.set(key, entry);
  }

  get #isFull(): boolean {
    const isTooLarge = this.#budget !== null && this.#sizeBytes > this.#budget.mostBytes;
    return isTooLarge || this.#entries.size > this.#mostEntries;
  }

  #dropOldest(latestKey: string): Value[] {
    const dropped: Value[] = [];
    for (const [key, { value }] of this.#entries) {
      if (!this.#isFull || key === latestKey) break;
      this.delete(key);
      dropped.push(value);
    }
    return dropped;
  }

  delete(key: string): void {
    this.#sizeBytes -= this.#entries.get(key)?.sizeBytes ?? 0;
    this.#entries.delete(key);
  }
}

interface Budget<Value> {
  readonly mostBytes: number;
  readonly bytesOf: (value: Value) => number;
}

const nothing: readonly never[] = [];
