/**
 * Computes what a second of traffic costs on Cloudflare. The model describes write-behind by a formula, and a test
 * compares this formula with a replay of the object's own code. Another test compares the calls of leased and eventual
 * policies with a simulation of isolates.
 */
import type { Bill } from "./cost-replay.ts";
import { prices } from "./prices.ts";
import type { KeyGroup } from "./scale-traffic.ts";

export interface ServingMode {
  readonly consistency: "strict" | "leased" | "eventual";
  /** Null if each key has its own object. */
  readonly shards: number | null;
  readonly isolates: number;
  /**
   * The share of each key's requests that are denied. Denials come in periods that last much longer than an entry of
   * the deny cache.
   */
  readonly deniedShare?: number;
  readonly hasDenyCache?: boolean;
  readonly syncSeconds?: number;
}

export interface ModelledLoad {
  /** The bill for one second. */
  readonly bill: Bill;
  /** Calls per second of the busiest object. */
  readonly hottest: number;
  /** The number of objects per second that are called for the first time or after losing their memory. */
  readonly woken: number;
}

/** The soft limit: https://developers.cloudflare.com/durable-objects/platform/limits/ */
export const mostCallsPerObject = 1_000;

/** Write-behind gathers changes for this time (`write-behind.ts`). */
const gatheredSeconds = 1;
/** The active time of a call, as in the replay, without pending timers. */
const callSeconds = 0.001;
/** An object loses its memory after this time without an event. */
const idleMemorySeconds = 10;
/** The row of an idle limit per minute is swept after two and a half windows. The value is fitted to the replay. */
const sweptAfterSeconds = 150;
/** The longer a row stays in use, the longer its alarm is postponed, up to an hour. */
const alarmSeconds = 3_600;
/**
 * Calls per second of an isolate that borrows. It requests the next slice 0.2 s before the end of the last one
 * (`lease.ts`), and returns the unused units of a slice when the slice's second is over.
 */
const borrowsPerSecond = 1.25;
const returnsPerSecond = 1;
/** An isolate borrows when it has spent this many units of a key within a second (`lease.ts`). */
const leastDemand = 6;
/**
 * Each slice is stored as a row. With fewer decisions per second and isolate than this, `leased` costs more than
 * `strict`.
 */
export const worthwhileUnits =
  borrowsPerSecond * (1 + prices.rowsWritten.dollars / prices.objectRequests.dollars) + returnsPerSecond;
/** The default of `syncEvery`. */
const defaultSyncSeconds = 1;
/** Keys of a shard are synced together (`sync-queue.ts`), up to this number in one call. */
const keysOfCall = 100;
const firstSeconds = 0.1;
/** The number of keys whose state an isolate remembers. It forgets the least recently used key first. */
const knownKeys = 1_024;
/**
 * In a flood, a limit of 100 a minute has a free unit every 0.6 s, which ends a cached denial before its maximum of 1
 * s.
 */
const deniedSeconds = 0.6;

/** The rates of one key at its object, each per second. */
interface KeyRates {
  readonly keys: number;
  readonly calls: number;
  /** Changes that write-behind stores. */
  readonly changes: number;
  /** Changes that are stored before the reply, which are slices. */
  readonly slices: number;
}

export function loadOf(groups: readonly KeyGroup[], way: ServingMode): ModelledLoad {
  const { shards, deniedShare = 0 } = way;
  const rates = groups.map((group) => keyRates(group, way));
  const decisions = sumOf(groups, ({ keys, perSecond }) => keys * perSecond);
  const isJoint = way.consistency === "eventual" && shards !== null;
  const calls = isJoint ? jointCalls(groups, { ...way, shards }, total(rates, "calls")) : total(rates, "calls");
  const changes = total(rates, "changes");
  const lives = sumOf(rates, ({ keys, ...key }) => keys * livesOf(key.changes + key.slices));
  const alarms = shards === null ? sumOf(rates, ({ keys, ...key }) => keys * alarmsOf(key)) : shards / alarmSeconds;
  const puts =
    total(rates, "slices") +
    sumOf(rates, (key) => {
      const others = shards === null ? 0 : (changes - key.changes) / shards;
      return key.keys * writtenBehind(key.changes, key.changes + others);
    });
  const activeSeconds =
    shards === null
      ? sumOf(rates, ({ keys, ...key }) => keys * activeOf(key.calls, key.changes))
      : shards * activeOf(calls / shards, changes / shards);
  const woken =
    shards === null
      ? sumOf(rates, ({ keys, ...key }) => keys * wakeRate(key.calls))
      : shards * wakeRate(calls / shards);
  return {
    bill: {
      decisions,
      denied: decisions * deniedShare,
      // Setting an alarm writes a row. A key with its own object ends by deleteAll, and a key in a shard by deleting a
      // row.
      rowsWritten: puts + alarms + (shards === null ? 0 : lives),
      // Reading rows costs a thousandth of a dollar per million, so the model ignores it.
      rowsRead: 0,
      calls,
      alarms,
      activeSeconds,
      objects: shards ?? sumOf(groups, ({ keys }) => keys),
    },
    hottest: hottestOf(rates, calls, way),
    woken,
  };
}

/**
 * The rate at which groups of events start. Every event within `seconds` of a group's first event belongs to the group.
 * @param perSecond the rate of events
 */
const startRate = (perSecond: number, seconds: number): number => perSecond / (1 + perSecond * seconds);

function keyRates({ keys, perSecond }: KeyGroup, way: ServingMode): KeyRates {
  const { consistency, isolates, deniedShare = 0, hasDenyCache = true } = way;
  const denied = perSecond * deniedShare;
  const allowed = perSecond - denied;
  const refusing = hasDenyCache ? isolates * startRate(denied / isolates, deniedSeconds) : denied;
  if (consistency === "eventual") {
    const syncs = isolates * startRate(allowed / isolates, syncSecondsOf(way));
    return { keys, calls: syncs, changes: syncs, slices: 0 };
  }
  // Isolates with less demand than this make a call for each request.
  if (consistency === "leased" && allowed / isolates >= leastDemand) {
    const [borrows, returns] = [isolates * borrowsPerSecond, isolates * returnsPerSecond];
    return { keys, calls: borrows + returns + refusing, changes: returns, slices: borrows };
  }
  return { keys, calls: allowed + refusing, changes: allowed, slices: 0 };
}

const syncSecondsOf = ({ syncSeconds = defaultSyncSeconds }: ServingMode): number => syncSeconds;

/** Calls per second for `syncs` of single keys, when all keys that are due at the same time share a call. */
function jointCalls(
  groups: readonly KeyGroup[],
  way: ServingMode & { readonly shards: number },
  syncs: number,
): number {
  const { isolates, shards } = way;
  const pairs = isolates * shards;
  const first = isolates * firstSeen(groups, isolates);
  const allowed = (1 - (way.deniedShare ?? 0)) * sumOf(groups, (key) => key.keys * key.perSecond);
  const lines =
    startRate(first / pairs, firstSeconds) + startRate(Math.max(0, allowed - first) / pairs, syncSecondsOf(way));
  return Math.min(syncs, Math.max(pairs * lines, syncs / keysOfCall));
}

/**
 * The rate per isolate of requests for keys that the isolate does not remember. An isolate remembers the keys that it
 * used during the time in which it sees as many keys as it can remember. This approximation is from H. Che, Y. Tung and
 * Z. Wang, Hierarchical Web Caching Systems, 2002.
 */
function firstSeen(groups: readonly KeyGroup[], isolates: number): number {
  const keysWithin = (seconds: number): number =>
    sumOf(groups, ({ keys, perSecond }) => keys * -Math.expm1((-perSecond / isolates) * seconds));
  let [least, most] = [0, 1];
  while (keysWithin(most) < knownKeys && most < 1e9) most *= 2;
  if (most >= 1e9) return 0;
  for (let step = 0; step < 60; step++) {
    const middle = (least + most) / 2;
    if (keysWithin(middle) < knownKeys) least = middle;
    else most = middle;
  }
  return sumOf(
    groups,
    ({ keys, perSecond }) => keys * (perSecond / isolates) * Math.exp((-perSecond / isolates) * most),
  );
}

/**
 * The probability that a change is not written immediately, because two changes were made in the gathering time before
 * it.
 */
const waiting = (perSecond: number): number =>
  1 - Math.exp(-perSecond * gatheredSeconds) * (1 + perSecond * gatheredSeconds);

/**
 * The mean cycle of write-behind: the number of changes written immediately, and the seconds until the next gathering
 * starts.
 */
function cycleOf(perSecond: number): { immediateWrites: number; seconds: number } {
  const immediateWrites = 1 / waiting(perSecond);
  return { immediateWrites, seconds: (immediateWrites + 1) / perSecond + gatheredSeconds };
}

/** Whether changes are so rare that hardly any change waits. */
const isRare = (perSecond: number): boolean => perSecond < 1e-3;

/**
 * Rows written per second for one key.
 * @param own changes per second of the key
 * @param all changes per second of its object
 */
function writtenBehind(own: number, all: number): number {
  if (isRare(all)) return own;
  const { immediateWrites, seconds } = cycleOf(all);
  const share = own / all;
  // A gathering writes one row for the key, unless the key did not change during it.
  const gathered = 1 - (1 - share) * Math.exp(-own * gatheredSeconds);
  return (immediateWrites * share + gathered) / seconds;
}

/** The share of time in which an object is active, because of calls and pending timers. */
function activeOf(calls: number, changes: number): number {
  const kept = isRare(changes) ? 0 : gatheredSeconds / cycleOf(changes).seconds;
  return kept + (1 - kept) * (1 - Math.exp(-calls * callSeconds));
}

/** How often per second a key's row is created again after it was swept. */
const livesOf = (changes: number): number => changes * Math.exp(-changes * sweptAfterSeconds);

/** One alarm for each lifetime of a row, or one per hour for a row that stays in use. */
function alarmsOf({ changes, slices }: Pick<KeyRates, "changes" | "slices">): number {
  const all = changes + slices;
  return Math.max(livesOf(all), (1 - Math.exp(-all * sweptAfterSeconds)) / alarmSeconds);
}

const wakeRate = (calls: number): number => calls * Math.exp(-calls * idleMemorySeconds);

function hottestOf(rates: readonly KeyRates[], calls: number, way: ServingMode): number {
  const { shards, consistency } = way;
  const hottestKey = Math.max(...rates.map((key) => key.calls));
  if (shards === null) return hottestKey;
  // Each isolate calls every shard equally often, regardless of the keys.
  if (consistency === "eventual") return calls / shards;
  // The busiest shard has an equal share of the calls, plus either the hottest key or the random excess of keys in the
  // shard.
  const spread = Math.sqrt(sumOf(rates, (key) => key.keys * key.calls ** 2) / shards);
  return calls / shards + Math.max(hottestKey, Math.sqrt(2 * Math.log(shards)) * spread);
}

const sumOf = <Item>(items: readonly Item[], value: (item: Item) => number): number =>
  items.reduce((sum, item) => sum + value(item), 0);

const total = (rates: readonly KeyRates[], name: "calls" | "changes" | "slices"): number =>
  sumOf(rates, (key) => key.keys * key[name]);
