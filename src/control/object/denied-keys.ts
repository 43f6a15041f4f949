/** The denials of each key in the log, for pages that read them every few seconds. */
import type { DeniedKeys, DeniedKeysQuery, StoredDenial } from "../denial-calls.ts";

/** The part of an entry that is counted. */
type CountedDenial = readonly [key: string | null, count: number, lastAtMs: number];

/** Without decisions by `onError`. */
export const countedIn = (entries: readonly StoredDenial[]): readonly CountedDenial[] =>
  entries
    .filter(({ outcome }) => outcome !== "fallback-closed")
    .map(({ key, count, lastAtMs }) => [key, count, lastAtMs]);

/**
 * The counted denials of chunks, which never change. Parsing a full log takes about 40 ms, so those of the policy that was
 * read last are kept: at most 10,000 entries, about 1 MB.
 */
export class CountedChunks {
  readonly #known = new Map<number, readonly CountedDenial[]>();
  #policy: string | null = null;

  /** @param entriesOf parses a chunk */
  of<Chunk extends { readonly id: number }>(
    policy: string,
    chunks: readonly Chunk[],
    entriesOf: (chunk: Chunk) => readonly StoredDenial[],
  ): readonly CountedDenial[] {
    if (this.#policy !== policy) this.forget();
    this.#policy = policy;
    return chunks.flatMap((chunk) => {
      const counted = this.#known.get(chunk.id) ?? countedIn(entriesOf(chunk));
      this.#known.set(chunk.id, counted);
      return counted;
    });
  }

  /** Call this when a row is deleted, or all rows of a time: their ids may be used again. */
  forget(id?: number): void {
    if (id === undefined) this.#known.clear();
    else this.#known.delete(id);
  }
}

/** An entry counts at the time of its last denial: it has at most those of one minute of one batch. */
export function deniedKeysOf(
  counted: readonly CountedDenial[],
  { fromMs, toMs, limit, steps }: DeniedKeysQuery,
): Omit<DeniedKeys, "isComplete"> {
  const sums = new Map<string, { count: number; steps: number[] }>();
  let denials = 0;
  for (const [key, count, lastAtMs] of counted) {
    if (lastAtMs < fromMs || lastAtMs >= toMs) continue;
    denials += count;
    if (key === null) continue;
    const own = sums.get(key) ?? { count: 0, steps: Array.from<number>({ length: steps }).fill(0) };
    const step = Math.floor((steps * (lastAtMs - fromMs)) / (toMs - fromMs));
    own.count += count;
    own.steps[step] = (own.steps[step] ?? 0) + count;
    sums.set(key, own);
  }
  const keys = [...sums].map(([key, own]) => ({ key, ...own })).toSorted((one, other) => other.count - one.count);
  return { denials, keys: keys.slice(0, limit) };
}
