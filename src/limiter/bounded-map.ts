/** A map with a bounded number of entries and bytes: of more, those set longest ago are the first to go. */
export class BoundedMap<Value> {
  readonly #most: number;
  readonly #budget: Budget<Value> | null;
  /** A Map lists its keys in the order of insertion. */
  readonly #entries = new Map<string, { readonly value: Value; readonly sizeBytes: number }>();
  #sizeBytes = 0;

  /** @param budget how many bytes all values may take; not bounded when left out */
  constructor(most: number, budget: Budget<Value> | null = null) {
    this.#most = most;
    this.#budget = budget;
  }

  /** What the values took when they were last set. */
  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(key: string): Value | undefined {
    return this.#entries.get(key)?.value;
  }

  /**
   * Sets and measures a value.
   * @returns the values that had to go for it; the new one stays, however large it is
   */
  set(key: string, value: Value): readonly Value[] {
    this.delete(key);
    const sizeBytes = this.#budget === null ? 0 : this.#budget.bytesOf(value);
    this.#entries.set(key, { value, sizeBytes });
    this.#sizeBytes += sizeBytes;
    return this.#isOver ? this.#makeRoom(key) : nothing;
  }

  get #isOver(): boolean {
    const isTooLarge = this.#budget !== null && this.#sizeBytes > this.#budget.mostBytes;
    return isTooLarge || this.#entries.size > this.#most;
  }

  #makeRoom(latestKey: string): Value[] {
    const gone: Value[] = [];
    for (const [key, { value }] of this.#entries) {
      if (!this.#isOver || key === latestKey) break;
      this.delete(key);
      gone.push(value);
    }
    return gone;
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
