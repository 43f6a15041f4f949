/** A queue that gives out what comes first: a binary heap. */

export interface Timed {
  readonly atMs: number;
  /** The order of items of one instant. */
  readonly order: number;
}

export interface TimeQueue<Item extends Timed> {
  add(item: Item): void;
  /** Infinity when the queue is empty. */
  earliestMs(): number;
  take(): Item | undefined;
}

export function timeQueue<Item extends Timed>(): TimeQueue<Item> {
  const heap: Item[] = [];
  const isBefore = (a: number, b: number): boolean => {
    const [first, second] = [heap[a], heap[b]];
    if (first === undefined || second === undefined) return first !== undefined;
    return first.atMs === second.atMs ? first.order < second.order : first.atMs < second.atMs;
  };
  const swap = (a: number, b: number): void => {
    const [first, second] = [heap[a], heap[b]];
    if (first === undefined || second === undefined) return;
    heap[a] = second;
    heap[b] = first;
  };
  return {
    earliestMs: () => heap[0]?.atMs ?? Infinity,
    add(item) {
      let place = heap.push(item) - 1;
      while (place > 0) {
        const parent = (place - 1) >> 1;
        if (!isBefore(place, parent)) break;
        swap(place, parent);
        place = parent;
      }
    },
    take() {
      swap(0, heap.length - 1);
      const taken = heap.pop();
      for (let place = 0; ;) {
        const left = 2 * place + 1;
        const child = isBefore(left + 1, left) ? left + 1 : left;
        if (!isBefore(child, place)) return taken;
        swap(child, place);
        place = child;
      }
    },
  };
}
