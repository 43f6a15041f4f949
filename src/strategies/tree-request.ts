/** Requests of a path in a tree, and their decisions. */
import { isCount } from "./integers.ts";
import { acceptedWeight, isWeight } from "./shared-limit.ts";
import type { Decision } from "./strategy.ts";
import type { CheckedLevel } from "./tree-levels.ts";

/** A request of one path. Lists have one item for each level of the path. */
export interface TreeRequest {
  /** The keys from the root to any level. */
  readonly path: readonly string[];
  /**
   * The cost at each level, or one for all.
   * @default 1
   */
  readonly cost?: number | readonly number[];
  /** The weights of the keys, for levels with `guaranteed`. */
  readonly weights?: readonly (number | undefined)[];
  /** The classes of the request by level; for a level without an item, the request is of no class. */
  readonly classes?: readonly (string | undefined)[];
}

/** The units that a request spent. Pass it on to `refund`, or to `settle` and `renew` for a reservation. */
export interface TreeSpend {
  /** The keys that were charged. */
  readonly path: readonly string[];
  /** The cost at each level. */
  readonly costs: readonly number[];
  /** When each level was charged, by its meter. */
  readonly spentAtMs: readonly number[];
  /** When each level was charged or last renewed. */
  readonly heldAtMs: readonly number[];
  /** To which instant the part of the next level's key was booked. */
  readonly partAtMs: readonly number[];
  /** The ttl of a reservation in milliseconds; 0 for a final spend. */
  readonly ttlMs: number;
}

/** The decision of one level of a tree. */
export interface LevelDecision extends Decision {
  /** The name of the level. */
  readonly level: string;
  /**
   * Why the level denies; null if it allows. `share`: other keys are guaranteed the rest. `class`: the class of the request
   * may not use the rest. `keys`: the root has too many live keys for a new one.
   */
  readonly reason: "limits" | "share" | "class" | "keys" | null;
}

/** The decision of all levels of a path. */
export interface TreeDecision {
  /** Whether every level allowed the request. */
  readonly allowed: boolean;
  /** How long to delay an allowed request, for leaky-bucket queues. */
  readonly delayMs: number;
  /**
   * The wait after which all levels allow the request, if no other request is decided meanwhile. It is 0 if allowed and null
   * if no wait suffices. It is the least such wait, unless the reason of a level is `share` or `keys`.
   */
  readonly retryAfterMs: number | null;
  /** The levels from the root down. */
  readonly levels: readonly LevelDecision[];
  /** The names of the levels that deny. */
  readonly denied: readonly string[];
  /** The units that were spent; null if the request is denied. */
  readonly spend: TreeSpend | null;
  /** Levels whose keys are now too many to count all as active. Each is named once, until there are fewer. */
  readonly crowded: readonly string[];
}

export function costsOf(cost: number | readonly number[], length: number): readonly number[] {
  const costs = typeof cost === "number" ? Array.from({ length }, () => cost) : cost;
  if (costs.length !== length) throw new RangeError(`cost must have ${length} items, one a level, not ${costs.length}`);
  for (const each of costs) {
    if (!isCount(each)) throw new RangeError(`cost must be integers of at least 0, not ${String(each)}`);
  }
  return costs;
}

export function requireWeight(weight: number): number {
  if (!isWeight(weight)) throw new RangeError(`weight must be ${acceptedWeight}, not ${String(weight)}`);
  return weight;
}

export function percentOf({ level, classes }: CheckedLevel, name: string | undefined): number {
  if (name === undefined) return 100;
  const percent = classes.get(name);
  if (percent !== undefined) return percent;
  const known = [...classes.keys()].map((each) => `"${each}"`).join(", ");
  throw new RangeError(`class of level "${level.name}" must be one of ${known || "none"}, not "${name}"`);
}
