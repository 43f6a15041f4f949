/** Streams of keys for the tests and measurements of statistics. */

/** Texts of the form of partition keys: 43 characters of base64url, different for each number. */
export function partitionKeys(count: number): string[] {
  return Array.from({ length: count }, (_, index) => {
    let state = (index + 1) * 2_654_435_761;
    const bytes = Uint8Array.from({ length: 32 }, () => {
      state = Math.imul(state ^ (state >>> 15), 2_246_822_519) + 374_761_393;
      return state >>> 24;
    });
    return btoa(String.fromCharCode(...bytes))
      .replaceAll("+", "-")
      .replaceAll("/", "_")
      .replaceAll("=", "");
  });
}

/** Draws keys by Zipf's law: key number n is drawn 1/n times as often as the first key. */
export function zipfFrom<Key>(random: () => number, keys: readonly Key[]): () => Key {
  let sum = 0;
  const sums = keys.map((_, index) => (sum += 1 / (index + 1)));
  return () => {
    const drawn = random() * sum;
    let [low, high] = [0, keys.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] ?? 0) < drawn) low = middle + 1;
      else high = middle;
    }
    const key = keys[low];
    if (key === undefined) throw new RangeError("there is at least one key");
    return key;
  };
}
