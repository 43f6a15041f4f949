/** The counts of one policy in an isolate since its last batch. */
import type { PlainKey } from "../../policy/key.ts";
import type { Decision } from "../../strategies/index.ts";
import { type OutcomeName, type PolicyCounts, latencyBoundsMs, outcomeNames } from "../protocol.ts";
import { SpaceSaving, type TopList } from "../space-saving.ts";
import { isTooLong } from "./key-sealer.ts";

const sketchSlots = 256;

export interface DecidedKey {
  readonly partitionKey: string;
  readonly cost: number;
}

/** A listed key, and its plain form while that is known. */
export interface ListedKey {
  readonly key: string;
  readonly count: number;
  readonly error: number;
  sealed?: string;
}

export interface NamedList extends TopList<ListedKey> {
  /** One for each of `keys`. */
  readonly plain: readonly (PlainKey | null)[];
}

/** The most frequent keys, with their plain forms. */
class NamedSketch {
  readonly #sketch = new SpaceSaving(sketchSlots);
  /** By slot. */
  readonly #plain: (PlainKey | null)[] = [];

  add(key: string, weight: number, plain: PlainKey | null): void {
    const slot = this.#sketch.add(key, weight);
    this.#plain[slot] = plain === null || isTooLong(plain) ? null : plain;
  }

  get size(): number {
    return this.#sketch.size;
  }

  drain(mostListed: number): NamedList {
    const { keys, mostOther } = this.#sketch.top(mostListed);
    const plain = keys.map(({ key }) => this.#plain[this.#sketch.slotOf(key)] ?? null);
    this.#sketch.clear();
    this.#plain.length = 0;
    return { keys: keys.map((each) => ({ ...each })), mostOther, plain };
  }
}

export interface DrainedPolicy {
  readonly counts: PolicyCounts;
  /** The lists in `counts`, with the plain keys. */
  readonly lists: readonly NamedList[];
}

export class PolicyStatistics {
  /** In the order of `outcomeNames`. */
  readonly #outcomes = new Float64Array(outcomeNames.length);
  #nearLimit = 0;
  readonly #latency = new LatencyHistogram();
  #hasCounts = false;
  readonly #denied = new NamedSketch();
  readonly #spenders = new NamedSketch();

  count(outcome: OutcomeName): void {
    const index = outcomeNames.indexOf(outcome);
    this.#outcomes[index] = (this.#outcomes[index] ?? 0) + 1;
    this.#hasCounts = true;
  }

  countNearLimit(decision: Decision): void {
    if (isNearLimit(decision)) this.#nearLimit++;
  }

  countLatency(latencyMs: number): void {
    this.#latency.add(latencyMs);
    this.#hasCounts = true;
  }

  countDenied(key: string, plain: PlainKey | null): void {
    this.#denied.add(key, 1, plain);
  }

  countSpent({ partitionKey, cost }: DecidedKey, plain: PlainKey | null): void {
    if (cost > 0) this.#spenders.add(partitionKey, cost, plain);
  }

  get hasCounts(): boolean {
    return this.#hasCounts;
  }

  /** The number of lists that are not empty. */
  get lists(): number {
    return Math.min(1, this.#denied.size) + Math.min(1, this.#spenders.size);
  }

  /** Returns the counts, and sets them to 0. */
  drain(mostListed: number): DrainedPolicy {
    const denied = this.#denied.drain(mostListed);
    const spenders = this.#spenders.drain(mostListed);
    const counts: PolicyCounts = {
      outcomes: this.#drainOutcomes(),
      nearLimit: this.#nearLimit,
      ...this.#latency.drain(),
      topDenied: denied.keys,
      ...(denied.mostOther > 0 && { mostOtherDenied: denied.mostOther }),
      topSpenders: spenders.keys,
      ...(spenders.mostOther > 0 && { mostOtherSpent: spenders.mostOther }),
    };
    this.#nearLimit = 0;
    this.#hasCounts = false;
    return { counts, lists: [denied, spenders] };
  }

  #drainOutcomes(): PolicyCounts["outcomes"] {
    const outcomes: Partial<Record<OutcomeName, number>> = {};
    for (const [index, name] of outcomeNames.entries()) {
      const count = this.#outcomes[index] ?? 0;
      if (count > 0) outcomes[name] = count;
    }
    this.#outcomes.fill(0);
    return outcomes;
  }
}

/** Whether less than 20 % of a limit is left. */
function isNearLimit({ limits }: Decision): boolean {
  for (const { remaining, capacity } of limits) if (remaining * 5 < capacity) return true;
  return false;
}

export class LatencyHistogram {
  /** The last one counts latencies above all bounds. */
  readonly #buckets = new Float64Array(latencyBoundsMs.length + 1);
  #sumMs = 0;

  add(latencyMs: number): void {
    // A clock that stepped back must not reduce the sum.
    const ms = Math.max(0, latencyMs);
    const bucket = bucketOf(ms);
    this.#buckets[bucket] = (this.#buckets[bucket] ?? 0) + 1;
    this.#sumMs += ms;
  }

  /** Returns the counts, and sets them to 0. */
  drain(): Pick<PolicyCounts, "latency" | "latencySumMs"> {
    const latency: (readonly [number, number])[] = [];
    for (const [bucket, decisions] of this.#buckets.entries()) {
      if (decisions > 0) latency.push([bucket, decisions]);
    }
    const latencySumMs = this.#sumMs;
    this.#buckets.fill(0);
    this.#sumMs = 0;
    return { latency, latencySumMs };
  }
}

/** The first bucket whose bound is not exceeded. Most latencies are short. */
function bucketOf(ms: number): number {
  let bucket = 0;
  for (const boundMs of latencyBoundsMs) {
    if (ms <= boundMs) break;
    bucket++;
  }
  return bucket;
}
