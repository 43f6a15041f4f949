/** Requests that clients send again, the earliest first: a binary heap. */

export interface QueuedRetry {
  readonly atMs: number;
  /** The row of `Arrivals`. */
  readonly arrival: number;
  /** 1 for the first retry. */
  readonly retry: number;
}

export interface RetryQueue {
  add(retry: QueuedRetry): void;
  /** Infinity when the queue is empty. */
  earliestMs(): number;
  take(): QueuedRetry | undefined;
}

export function retryQueue(): RetryQueue {
  const heap: QueuedRetry[] = [];
  const isBefore = (a: number, b: number): boolean => {
    const [first, second] = [heap[a], heap[b]];
    if (first === undefined || second === undefined) return first !== undefined;
    return first.atMs === second.atMs ? first.arrival < second.arrival : first.atMs < second.atMs;
  };
  const swap = (a: number, b: number): void => {
    const [first, second] = [heap[a], heap[b]];
    if (first === undefined || second === undefined) return;
    heap[a] = second;
    heap[b] = first;
  };
  return {
    earliestMs: () => heap[0]?.atMs ?? Infinity,
    add(retry) {
      let place = heap.push(retry) - 1;
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
