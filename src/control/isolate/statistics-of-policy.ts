/** The counts of one policy in an isolate since its last batch. */
import type { PlainKey } from "../../policy/key.ts";
import type { Decision } from "../../strategies/index.ts";
import { type OutcomeName, outcomeNames, type PolicyCounts } from "../protocol.ts";
import { SpaceSaving, type TopList } from "../space-saving.ts";
import { isTooLong } from "./key-label.ts";
import { LatencyHistogram } from "./latency-histogram.ts";

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
