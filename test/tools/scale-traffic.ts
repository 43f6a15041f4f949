/** What is assumed of traffic at scale: who asks, how often, and from where. */

/** Keys that are asked for equally often. */
export interface KeyGroup {
  readonly keys: number;
  /** Requests a second for each of them, whose gaps are random (Poisson). */
  readonly perSecond: number;
}

export type Distribution = (perSecond: number, keys: number) => readonly KeyGroup[];

export const rates = [1_000, 100_000, 1_000_000] as const;
export const keyCounts = [1e4, 1e5, 1e6, 1e7, 1e8] as const;

/** About as many as there are location hints: a region is where an object is near. */
export const regions = 10;
/** A Worker's requests are gathered on few servers of a data centre: https://blog.cloudflare.com/eliminating-cold-starts-2-shard-and-conquer/ */
export const isolatesPerRegion = 10;
/** An isolate has one thread, and the prices here are for 1 ms of CPU a request. */
export const mostPerIsolate = 1_000;

/**
 * How many isolates a key's requests meet. Here each key meets all, as one of a tenant does who is everywhere: the most
 * calls. A visitor meets those of one region.
 */
export const isolatesFor = (perSecond: number): number =>
  Math.max(regions * isolatesPerRegion, Math.ceil(perSecond / mostPerIsolate));

export const uniform: Distribution = (perSecond, keys) => [{ keys, perSecond: perSecond / keys }];

/** Ranks that have a group each; of those after them, which differ by less, a group takes 2 %. */
const ownGroups = 1_000;
const growth = 1.02;

/** The n-th key is asked for 1/n as often as the first, as in the bench of accuracy. */
export const zipf: Distribution = (perSecond, keys) => {
  const groups: { keys: number; weight: number }[] = [];
  for (let rank = 1; rank <= keys;) {
    const next = rank < ownGroups ? rank + 1 : Math.min(keys + 1, Math.ceil(rank * growth));
    const weight = next === rank + 1 ? 1 / rank : Math.log((next - 0.5) / (rank - 0.5));
    groups.push({ keys: next - rank, weight });
    rank = next;
  }
  const all = groups.reduce((sum, { weight }) => sum + weight, 0);
  return groups.map((group) => ({
    keys: group.keys,
    perSecond: (perSecond * group.weight) / all / group.keys,
  }));
};
