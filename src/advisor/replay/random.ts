/** Random numbers that are equal for equal seeds: mulberry32. */

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
