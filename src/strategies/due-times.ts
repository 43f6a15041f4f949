/** Items in the order of the instants at which they are due: a binary heap. */

interface DueItem<Item> {
  readonly atMs: number;
  readonly item: Item;
}

/** A heap with fewer removed items is not built again. */
const leastRemoved = 64;

export class DueTimes<Item extends object> {
  readonly #heap: DueItem<Item>[] = [];
  /** The earliest entry of each item. */
  readonly #firstMs = new Map<Item, number>();

  /** Adds an item, unless it is due earlier. The caller adds it again when it was taken too early. */
  add(atMs: number, item: Item): void {
    if ((this.#firstMs.get(item) ?? Number.POSITIVE_INFINITY) <= atMs) return;
    this.#firstMs.set(item, atMs);
    const heap = this.#heap;
    let index = heap.length;
    const added = { atMs, item };
    heap.push(added);
    while (index > 0) {
      const above = Math.floor((index - 1) / 2);
      const parent = heap[above];
      if (parent === undefined || parent.atMs <= atMs) break;
      heap[index] = parent;
      index = above;
    }
    heap[index] = added;
  }

  /** Removes and returns the item that is due first; null if none is due. */
  take(nowMs: number): Item | null {
    for (;;) {
      const [first] = this.#heap;
      if (first === undefined || first.atMs > nowMs) return null;
      this.#removeFirst();
      // An item that was added again for an earlier instant has a later entry, too.
      if (this.#firstMs.get(first.item) !== first.atMs) continue;
      this.#firstMs.delete(first.item);
      return first.item;
    }
  }

  delete(item: Item): void {
    if (!this.#firstMs.delete(item)) return;
    const heap = this.#heap;
    // The heap would keep removed items until they are due.
    if (heap.length < 2 * this.#firstMs.size + leastRemoved) return;
    const left = heap.filter((each) => this.#firstMs.get(each.item) === each.atMs);
    heap.length = 0;
    this.#firstMs.clear();
    for (const { atMs, item: other } of left) this.add(atMs, other);
  }

  #removeFirst(): void {
    const heap = this.#heap;
    const last = heap.pop();
    if (last === undefined || heap.length === 0) return;
    let index = 0;
    for (;;) {
      let below = 2 * index + 1;
      const [left, right] = [heap[below], heap[below + 1]];
      if (left === undefined) break;
      const least = right !== undefined && right.atMs < left.atMs ? right : left;
      if (least === right) below++;
      if (least.atMs >= last.atMs) break;
      heap[index] = least;
      index = below;
    }
    heap[index] = last;
  }
}
