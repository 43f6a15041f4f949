/**
 * The most frequent keys of a stream, in bounded memory: Space-Saving (Metwally, Agrawal, El Abbadi 2005) with weights. A
 * key that finds no free slot takes that of the least key, and the count of the least key becomes its error. Isolates count
 * with it, and the control plane merges their lists with it.
 */

/** A key among the most frequent. Its true count is within `count - error` and `count`. */
export interface CountedKey {
  readonly key: string;
  readonly count: number;
  readonly error: number;
}

/** The most frequent keys, the greatest count first; of equal counts, the least error first. */
export interface TopList<Listed extends CountedKey = CountedKey> {
  readonly keys: readonly Listed[];
  /** Upper bound on the true count of any key that is not listed. */
  readonly mostOther: number;
}

export class SpaceSaving {
  readonly #mostKeys: number;
  readonly #slots = new Map<string, number>();
  /** By slot. */
  readonly #keys: string[] = [];
  /** By slot, less `#offset`. */
  readonly #counts: Float64Array;
  readonly #errors: Float64Array;
  /** No slot before `#searched` has the count `#least`, and no slot a lower one: it never falls once all are taken. */
  #searched = 0;
  #least = 0;
  /** A part of the count and the error of every key, listed or not: the sum of `mostOther` of all merged lists. */
  #offset = 0;

  constructor(mostKeys: number) {
    this.#mostKeys = mostKeys;
    this.#counts = new Float64Array(mostKeys);
    this.#errors = new Float64Array(mostKeys);
  }

  get size(): number {
    return this.#keys.length;
  }

  /**
   * Adds to the count of a key.
   * @param weight at least 0
   * @returns the key's slot
   */
  add(key: string, weight: number): number {
    return this.#add(key, weight, 0);
  }

  /** Adds the counts of another sketch. The bounds of both hold for the sum. */
  merge({ keys, mostOther }: TopList): void {
    this.#offset += mostOther;
    // A list that breaks the order of its bounds must not reduce a count.
    for (const { key, count, error } of keys) this.#add(key, Math.max(0, count - mostOther), error - mostOther);
  }

  /** The slot of a key; -1 when it has none. */
  slotOf(key: string): number {
    return this.#slots.get(key) ?? -1;
  }

  /** The keys with the greatest counts. */
  top(mostListed: number): TopList {
    const slots = this.#keys.map((_, slot) => slot);
    const counts = this.#counts;
    const errors = this.#errors;
    slots.sort((a, b) => (counts[b] ?? 0) - (counts[a] ?? 0) || (errors[a] ?? 0) - (errors[b] ?? 0));
    const keys = slots.slice(0, mostListed).map((slot) => ({
      key: this.#keys[slot] ?? "",
      count: (counts[slot] ?? 0) + this.#offset,
      error: (errors[slot] ?? 0) + this.#offset,
    }));
    const next = slots[mostListed] ?? (this.size === this.#mostKeys ? slots.at(-1) : undefined);
    const mostOther = next === undefined ? 0 : (counts[next] ?? 0);
    return { keys, mostOther: mostOther + this.#offset };
  }

  clear(): void {
    this.#slots.clear();
    this.#keys.length = 0;
    this.#searched = 0;
    this.#least = 0;
    this.#offset = 0;
  }

  #add(key: string, weight: number, error: number): number {
    const known = this.#slots.get(key);
    const slot = known ?? this.#take(key);
    this.#counts[slot] = (this.#counts[slot] ?? 0) + weight;
    this.#errors[slot] = (this.#errors[slot] ?? 0) + error;
    return slot;
  }

  /** Gives a key a free slot, or that of the least key with its count. */
  #take(key: string): number {
    const isFull = this.size === this.#mostKeys;
    const slot = isFull ? this.#leastSlot() : this.size;
    const count = isFull ? (this.#counts[slot] ?? 0) : 0;
    this.#slots.delete(this.#keys[slot] ?? "");
    this.#slots.set(key, slot);
    this.#keys[slot] = key;
    this.#counts[slot] = count;
    this.#errors[slot] = count;
    return slot;
  }

  #leastSlot(): number {
    const counts = this.#counts;
    let least = this.#searched;
    while (least < counts.length && (counts[least] ?? 0) > this.#least) least++;
    if (least === counts.length) {
      least = 0;
      for (let slot = 1; slot < counts.length; slot++) if ((counts[slot] ?? 0) < (counts[least] ?? 0)) least = slot;
    }
    this.#searched = least;
    this.#least = counts[least] ?? 0;
    return least;
  }
}
