/**
 * Parts of simulated clients: random numbers that are equal for equal seeds, the waits of a client that obeys `Retry-After`, and
 * a queue that gives out what comes first.
 */
import { type Decision, strategies } from "../../strategies/index.ts";

/** Returns a number of at least 0 and below 1 at each call. */
export function seededRandom(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    return mixed(state);
  };
}

/** A number of at least 0 and below 1 that depends on the numbers alone, and not on the order of calls. */
export const randomAt = (seed: number, index: number, step: number): number =>
  mixed((Math.imul(seed ^ Math.imul(index + 1, 0x9e3779b1), 0x85ebca6b) + step * 0x6d2b79f5) | 0);

function mixed(state: number): number {
  let bits = Math.imul(state ^ (state >>> 15), state | 1);
  bits ^= bits + Math.imul(bits ^ (bits >>> 7), bits | 61);
  return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
}

/** The wait that responses state when no slot is free. A slot can become free long before its lease expires. */
const slotWaitMs = 1_000;

/** The wait after a denial: as exact as the limits know it, and 1 s for a slot. Null: the request never fits. */
export function denialWaitMs({ limits }: Decision): number | null {
  let longestMs = 0;
  for (const { allowed, strategy, retryAfterMs } of limits) {
    if (allowed) continue;
    if (retryAfterMs === null) return null;
    const isSlot = strategies.get(strategy)?.holdsSlots === true;
    longestMs = Math.max(longestMs, isSlot ? slotWaitMs : retryAfterMs);
  }
  return longestMs;
}

/** `Retry-After` of the response to a denied request: whole seconds, at least one. */
export const obeyedWaitMs = (waitMs: number): number => Math.max(1, Math.ceil(waitMs / 1_000)) * 1_000;

interface Timed {
  readonly atMs: number;
  /** Orders the items that have the same instant. */
  readonly order: number;
}

interface TimeQueue<Item extends Timed> {
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
