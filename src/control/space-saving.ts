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

const noSlot = -1;

export class SpaceSaving {
  readonly #mostKeys: number;
  /** By slot. */
  readonly #keys: string[] = [];
  /** By slot, less `#offset`. */
  readonly #counts: Float64Array;
  readonly #errors: Float64Array;
  readonly #slots: SlotTable;
  /** The slots as a binary heap: the least count is first. */
  readonly #heap: Uint16Array;
  /** The place of each slot in the heap. */
  readonly #places: Uint16Array;
  /** A part of the count and the error of every key, listed or not: the sum of `mostOther` of all merged lists. */
  #offset = 0;

  /** @param mostKeys at most 32,768 */
  constructor(mostKeys: number) {
    this.#mostKeys = mostKeys;
    this.#counts = new Float64Array(mostKeys);
    this.#errors = new Float64Array(mostKeys);
    this.#heap = new Uint16Array(mostKeys);
    this.#places = new Uint16Array(mostKeys);
    this.#slots = new SlotTable(this.#keys, mostKeys);
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
    for (const { key, count, error } of keys) {
      // A list that breaks the order of its bounds must not break the heap.
      this.#add(key, Math.max(0, count - mostOther), error - mostOther);
    }
  }

  /** The slot of a key; -1 when it has none. */
  slotOf(key: string): number {
    return this.#slots.find(key);
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
    const next = slots[mostListed] ?? (this.#isFull ? slots.at(-1) : undefined);
    const mostOther = next === undefined ? 0 : (counts[next] ?? 0);
    return { keys, mostOther: mostOther + this.#offset };
  }

  clear(): void {
    this.#slots.clear();
    this.#keys.length = 0;
    this.#offset = 0;
  }

  get #isFull(): boolean {
    return this.#keys.length === this.#mostKeys;
  }

  #add(key: string, weight: number, error: number): number {
    const known = this.#slots.find(key);
    if (known !== noSlot) {
      this.#counts[known] = (this.#counts[known] ?? 0) + weight;
      this.#errors[known] = (this.#errors[known] ?? 0) + error;
      this.#sink(known, this.#places[known] ?? 0);
      return known;
    }
    return this.#isFull ? this.#replaceLeast(key, weight, error) : this.#append(key, weight, error);
  }

  #append(key: string, weight: number, error: number): number {
    const slot = this.#keys.length;
    this.#keys.push(key);
    this.#slots.add(key, slot);
    this.#counts[slot] = weight;
    this.#errors[slot] = error;
    this.#rise(slot, slot);
    return slot;
  }

  #replaceLeast(key: string, weight: number, error: number): number {
    const slot = this.#heap[0] ?? 0;
    const least = this.#counts[slot] ?? 0;
    this.#slots.delete(this.#keys[slot] ?? "");
    this.#keys[slot] = key;
    this.#slots.add(key, slot);
    this.#counts[slot] = least + weight;
    this.#errors[slot] = least + error;
    this.#sink(slot, 0);
    return slot;
  }

  /** Moves a slot whose count has grown, from this place of the heap towards the end. */
  #sink(slot: number, from: number): void {
    const heap = this.#heap;
    const counts = this.#counts;
    const size = this.#keys.length;
    const count = counts[slot] ?? 0;
    let place = from;
    for (let child = 2 * place + 1; child < size; child = 2 * place + 1) {
      let least = heap[child] ?? 0;
      const other = heap[child + 1] ?? 0;
      if (child + 1 < size && (counts[other] ?? 0) < (counts[least] ?? 0)) {
        least = other;
        child++;
      }
      if ((counts[least] ?? 0) >= count) break;
      this.#put(least, place);
      place = child;
    }
    this.#put(slot, place);
  }

  /** Moves a new slot from the end of the heap towards the first place. */
  #rise(slot: number, from: number): void {
    const count = this.#counts[slot] ?? 0;
    let place = from;
    while (place > 0) {
      const parent = this.#heap[(place - 1) >> 1] ?? 0;
      if ((this.#counts[parent] ?? 0) <= count) break;
      this.#put(parent, place);
      place = (place - 1) >> 1;
    }
    this.#put(slot, place);
  }

  #put(slot: number, place: number): void {
    this.#heap[place] = slot;
    this.#places[slot] = place;
  }
}

/**
 * The slot of each key: a hash table with linear probing. A `Map` would allocate again and again, since each replacement
 * leaves a deleted entry behind.
 */
class SlotTable {
  readonly #keys: readonly string[];
  /** Slots plus 1; 0 for a free place. At most half of the places are in use. */
  readonly #places: Uint16Array;
  readonly #mask: number;

  constructor(keys: readonly string[], mostKeys: number) {
    this.#keys = keys;
    const size = 2 ** Math.ceil(Math.log2(2 * mostKeys));
    this.#places = new Uint16Array(size);
    this.#mask = size - 1;
  }

  find(key: string): number {
    for (let place = this.#home(key); ; place = (place + 1) & this.#mask) {
      const slot = (this.#places[place] ?? 0) - 1;
      if (slot === noSlot || this.#keys[slot] === key) return slot;
    }
  }

  /** @param key not in the table */
  add(key: string, slot: number): void {
    let place = this.#home(key);
    while (this.#places[place] !== 0) place = (place + 1) & this.#mask;
    this.#places[place] = slot + 1;
  }

  /** @param key in the table, and still in the list of keys */
  delete(key: string): void {
    let hole = this.#home(key);
    while (this.#keys[(this.#places[hole] ?? 0) - 1] !== key) hole = (hole + 1) & this.#mask;
    // Moves later entries back into the hole, so that no search ends before it reaches them.
    for (let place = (hole + 1) & this.#mask; ; place = (place + 1) & this.#mask) {
      const entry = this.#places[place] ?? 0;
      if (entry === 0) break;
      const home = this.#home(this.#keys[entry - 1] ?? "");
      if (((place - home) & this.#mask) < ((place - hole) & this.#mask)) continue;
      this.#places[hole] = entry;
      hole = place;
    }
    this.#places[hole] = 0;
  }

  clear(): void {
    this.#places.fill(0);
  }

  /** Partition keys are HMACs, so three of their characters are as good as a hash of all. */
  #home(key: string): number {
    const last = key.length - 1;
    const hash = key.charCodeAt(last) + 37 * key.charCodeAt(last - 1);
    // The code of a character before the first is NaN, and 0 as an operand of `^`.
    return (hash ^ (1_369 * key.charCodeAt(last - 2))) & this.#mask;
  }
}
