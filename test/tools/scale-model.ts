/**
 * What a second of traffic asks of Cloudflare. The write-behind is a formula here, and a test holds it against the replay
 * of the object's own code; leased and eventual are what the design says of them.
 */
import type { Bill } from "./cost-replay.ts";
import { prices } from "./prices.ts";
import type { KeyGroup } from "./scale-traffic.ts";

export interface Way {
  readonly consistency: "strict" | "leased" | "eventual";
  /** Null: an object for each key. */
  readonly shards: number | null;
  readonly isolates: number;
  /** Of each key's requests, in stretches long beside what is remembered of them. */
  readonly deniedShare?: number;
  readonly hasDenyCache?: boolean;
  readonly syncSeconds?: number;
}

export interface Load {
  /** Of one second. */
  readonly bill: Bill;
  /** Calls a second of the object that is asked most. */
  readonly hottest: number;
  /** Objects a second that are called after their memory is lost, or for the first time. */
  readonly woken: number;
}

/** The soft limit: https://developers.cloudflare.com/durable-objects/platform/limits/ */
export const mostCallsPerObject = 1_000;

/** What is written behind is gathered for so long (`write-behind.ts`). */
const gatheredSeconds = 1;
/** As in the replay, beyond what a timer keeps it. */
const callSeconds = 0.001;
/** After so long without an event an object's memory is gone. */
const idleMemorySeconds = 10;
/** A limit per minute that is idle is swept after two and a half windows: fitted to the replay. */
const sweptAfterSeconds = 150;
/** A row that lasts puts its alarm off for as long, up to an hour. */
const alarmSeconds = 3_600;
/** A slice is lent for so long: the design says "short". Calls and rows of `leased` go with its inverse. */
const sliceSeconds = 1;
/** A slice is a call and a row, the decisions it saves are calls: with fewer of them it costs more than they would. */
export const worthwhileUnits = 1 + prices.rowsWritten.dollars / prices.objectRequests.dollars;
/** The default of `syncEvery`. */
const defaultSyncSeconds = 1;
/** Keys of a shard are synced together (`syncs.ts`): so many in a call, and those seen first after so long. */
const keysOfCall = 100;
const firstSeconds = 0.1;
/** Keys that an isolate knows the state of (`replicas.ts`): the least recently asked for are seen first again. */
const knownKeys = 1_024;
/** Under a flood a limit of 100 a minute has room each 0.6 s: what is remembered of a denial holds no longer, nor than 1 s. */
const deniedSeconds = 0.6;

/** What one key asks of its object in a second. */
interface Asked {
  readonly keys: number;
  readonly calls: number;
  /** Changes that are written behind. */
  readonly changes: number;
  /** Changes that are written before the answer: slices. */
  readonly slices: number;
}

export function loadOf(groups: readonly KeyGroup[], way: Way): Load {
  const { shards, deniedShare = 0 } = way;
  const asked = groups.map((group) => askedOf(group, way));
  const decisions = sumOf(groups, ({ keys, perSecond }) => keys * perSecond);
  const isJoint = way.consistency === "eventual" && shards !== null;
  const calls = isJoint
    ? jointCalls(groups, { ...way, shards }, total(asked, "calls"))
    : total(asked, "calls");
  const changes = total(asked, "changes");
  const lives = sumOf(asked, ({ keys, ...key }) => keys * livesOf(key.changes + key.slices));
  const alarms =
    shards === null
      ? sumOf(asked, ({ keys, ...key }) => keys * alarmsOf(key))
      : shards / alarmSeconds;
  const puts =
    total(asked, "slices") +
    sumOf(asked, (key) => {
      const others = shards === null ? 0 : (changes - key.changes) / shards;
      return key.keys * writtenBehind(key.changes, key.changes + others);
    });
  const activeSeconds =
    shards === null
      ? sumOf(asked, ({ keys, ...key }) => keys * activeOf(key.calls, key.changes))
      : shards * activeOf(calls / shards, changes / shards);
  const woken =
    shards === null
      ? sumOf(asked, ({ keys, ...key }) => keys * wokenOf(key.calls))
      : shards * wokenOf(calls / shards);
  return {
    bill: {
      decisions,
      denied: decisions * deniedShare,
      // An alarm set is a row. With an object of its own a key goes by deleteAll, in a shard by a row.
      rowsWritten: puts + alarms + (shards === null ? 0 : lives),
      // A thousandth of a dollar for a million.
      rowsRead: 0,
      calls,
      alarms,
      activeSeconds,
      objects: shards ?? sumOf(groups, ({ keys }) => keys),
    },
    hottest: hottestOf(asked, calls, way),
    woken,
  };
}

/**
 * Once something has happened, what happens within the next while goes with it: so often it begins anew.
 * @param perSecond how often it happens
 */
const begun = (perSecond: number, seconds: number): number => perSecond / (1 + perSecond * seconds);

function askedOf({ keys, perSecond }: KeyGroup, way: Way): Asked {
  const { consistency, isolates, deniedShare = 0, hasDenyCache = true } = way;
  const denied = perSecond * deniedShare;
  const allowed = perSecond - denied;
  const refusing = hasDenyCache ? isolates * begun(denied / isolates, deniedSeconds) : denied;
  if (consistency === "eventual") {
    const syncs = isolates * begun(allowed / isolates, syncSecondsOf(way));
    return { keys, calls: syncs, changes: syncs, slices: 0 };
  }
  // Who expects no second request within a slice's time asks for each. Settling one goes with borrowing the next.
  const borrowing = isolates / sliceSeconds;
  return consistency === "leased" && allowed > borrowing
    ? { keys, calls: borrowing + refusing, changes: 0, slices: borrowing }
    : { keys, calls: allowed + refusing, changes: allowed, slices: 0 };
}

const syncSecondsOf = ({ syncSeconds = defaultSyncSeconds }: Way): number => syncSeconds;

/** @param syncs of keys a second, of which so many go together as are due */
function jointCalls(
  groups: readonly KeyGroup[],
  way: Way & { readonly shards: number },
  syncs: number,
): number {
  const { isolates, shards } = way;
  const pairs = isolates * shards;
  const first = isolates * firstSeen(groups, isolates);
  const allowed = (1 - (way.deniedShare ?? 0)) * sumOf(groups, (key) => key.keys * key.perSecond);
  const lines =
    begun(first / pairs, firstSeconds) +
    begun(Math.max(0, allowed - first) / pairs, syncSecondsOf(way));
  return Math.min(syncs, Math.max(pairs * lines, syncs / keysOfCall));
}

/**
 * How many requests a second of an isolate are for keys that it does not know: it knows those asked for within so long that
 * they are as many as it can (the approximation of H. Che, Y. Tung and Z. Wang, Hierarchical Web Caching Systems, 2002).
 */
function firstSeen(groups: readonly KeyGroup[], isolates: number): number {
  const askedWithin = (seconds: number): number =>
    sumOf(groups, ({ keys, perSecond }) => keys * -Math.expm1((-perSecond / isolates) * seconds));
  let [least, most] = [0, 1];
  while (askedWithin(most) < knownKeys && most < 1e9) most *= 2;
  if (most >= 1e9) return 0;
  for (let step = 0; step < 60; step++) {
    const middle = (least + most) / 2;
    if (askedWithin(middle) < knownKeys) least = middle;
    else most = middle;
  }
  return sumOf(
    groups,
    ({ keys, perSecond }) =>
      keys * (perSecond / isolates) * Math.exp((-perSecond / isolates) * most),
  );
}

/** How likely a change is within the gathering time of the one before the last, so that it waits. */
const waiting = (perSecond: number): number =>
  1 - Math.exp(-perSecond * gatheredSeconds) * (1 + perSecond * gatheredSeconds);

/** From one gathering to the next: so many changes are written at once, then one begins to gather. */
function cycleOf(perSecond: number): { atOnce: number; seconds: number } {
  const atOnce = 1 / waiting(perSecond);
  return { atOnce, seconds: (atOnce + 1) / perSecond + gatheredSeconds };
}

/** So few that hardly any waits. */
const isRare = (perSecond: number): boolean => perSecond < 1e-3;

/**
 * Rows a second of one key.
 * @param own its changes a second
 * @param all those of its object
 */
function writtenBehind(own: number, all: number): number {
  if (isRare(all)) return own;
  const { atOnce, seconds } = cycleOf(all);
  const share = own / all;
  // Of those gathered it is one, unless another began and it did not follow.
  const gathered = 1 - (1 - share) * Math.exp(-own * gatheredSeconds);
  return (atOnce * share + gathered) / seconds;
}

/** The share of its time that an object is active: while a timer keeps it, and when it is called. */
function activeOf(calls: number, changes: number): number {
  const kept = isRare(changes) ? 0 : gatheredSeconds / cycleOf(changes).seconds;
  return kept + (1 - kept) * (1 - Math.exp(-calls * callSeconds));
}

/** How often a second a key's row is made anew, after it has been swept. */
const livesOf = (changes: number): number => changes * Math.exp(-changes * sweptAfterSeconds);

/** One for each life, or one an hour of those that last. */
function alarmsOf({ changes, slices }: Pick<Asked, "changes" | "slices">): number {
  const all = changes + slices;
  return Math.max(livesOf(all), (1 - Math.exp(-all * sweptAfterSeconds)) / alarmSeconds);
}

const wokenOf = (calls: number): number => calls * Math.exp(-calls * idleMemorySeconds);

function hottestOf(asked: readonly Asked[], calls: number, way: Way): number {
  const { shards, consistency } = way;
  const hottestKey = Math.max(...asked.map((key) => key.calls));
  if (shards === null) return hottestKey;
  // A shard is asked by each isolate as often, whatever its keys.
  if (consistency === "eventual") return calls / shards;
  // Beside its share a shard has the hottest key, or as many more keys than others as the unluckiest of them gets.
  const spread = Math.sqrt(sumOf(asked, (key) => key.keys * key.calls ** 2) / shards);
  return calls / shards + Math.max(hottestKey, Math.sqrt(2 * Math.log(shards)) * spread);
}

const sumOf = <Item>(items: readonly Item[], value: (item: Item) => number): number =>
  items.reduce((sum, item) => sum + value(item), 0);

const total = (asked: readonly Asked[], name: "calls" | "changes" | "slices"): number =>
  sumOf(asked, (key) => key.keys * key[name]);
