/** The assumed traffic: its keys, rates and regions. */

/** Keys with the same rate. */
export interface KeyGroup {
  readonly keys: number;
  /** Requests per second for each key, at random intervals (Poisson). */
  readonly perSecond: number;
}

export type Distribution = (perSecond: number, keys: number) => readonly KeyGroup[];

export const rates = [1_000, 100_000, 1_000_000] as const;
export const keyCounts = [1e4, 1e5, 1e6, 1e7, 1e8] as const;

/** About the number of location hints, since an object is near callers of one region. */
export const regions = 10;
/**
 * Cloudflare routes a Worker's requests to few servers of a data centre:
 * https://blog.cloudflare.com/eliminating-cold-starts-2-shard-and-conquer/
 */
export const isolatesPerRegion = 10;
/** An isolate has one thread, and the prices assume 1 ms of CPU per request. */
export const mostPerIsolate = 1_000;

/**
 * The number of isolates that receive a key's requests. This is the worst case, in which each key reaches all isolates,
 * as the key of a worldwide tenant does. A visitor reaches only the isolates of one region.
 */
export const isolatesFor = (perSecond: number): number =>
  Math.max(regions * isolatesPerRegion, Math.ceil(perSecond / mostPerIsolate));

export const uniform: Distribution = (perSecond, keys) => [{ keys, perSecond: perSecond / keys }];

/**
 * Each of the first ranks has its own group. A later group spans 2 % of its rank, because neighboring rates differ
 * little.
 */
const ownGroups = 1_000;
const growth = 1.02;

/** The n-th key has 1/n of the rate of the first key, as in `npm run bench -- accuracy`. */
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
