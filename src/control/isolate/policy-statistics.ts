/** The counts of one policy in an isolate, and its most frequent keys, since they were last taken. */
import type { PlainKey } from "../../policy/key.ts";
import type { Decision } from "../../strategies/index.ts";
import { type OutcomeName, type PolicyCounts, latencyBoundsMs, outcomeNames } from "../protocol.ts";
import { SpaceSaving } from "../space-saving.ts";
import type { SealCandidate, SealedKey } from "./batches.ts";
import type { DecidedKey } from "./denial-sample.ts";
import { isTooLong } from "./key-sealer.ts";

const sketchSlots = 256;

export class PolicyStatistics {
  /** In the order of `outcomeNames`. */
  readonly #outcomes = new Float64Array(outcomeNames.length);
  #nearLimit = 0;
  #deniedRequests = 0;
  /** By bucket. The last one counts latencies above all bounds. */
  readonly #latency = new Float64Array(latencyBoundsMs.length + 1);
  #latencySumMs = 0;
  #hasCounts = false;
  readonly #denied = new NamedSketch();
  readonly #spenders = new NamedSketch();
  /** The units that settlements gave back. Null until the first. */
  #refunds: SpaceSaving | null = null;

  count(outcome: OutcomeName): void {
    const index = outcomeNames.indexOf(outcome);
    this.#outcomes[index] = (this.#outcomes[index] ?? 0) + 1;
    this.#hasCounts = true;
  }

  countDeniedRequest(): void {
    this.#deniedRequests++;
    this.#hasCounts = true;
  }

  /** Counts a decision after which less than 20 % of a limit is left. */
  countNearLimit({ limits }: Decision): void {
    for (const { remaining, capacity } of limits) {
      if (remaining * 5 >= capacity) continue;
      this.#nearLimit++;
      return;
    }
  }

  countLatency(latencyMs: number): void {
    // A clock that stepped back must not reduce the sum.
    const ms = Math.max(0, latencyMs);
    // Most latencies are short.
    let bucket = 0;
    while (ms > (latencyBoundsMs[bucket] ?? Infinity)) bucket++;
    this.#latency[bucket] = (this.#latency[bucket] ?? 0) + 1;
    this.#latencySumMs += ms;
    this.#hasCounts = true;
  }

  countDenied(key: string, plain: PlainKey | null): void {
    this.#denied.add(key, 1, plain);
  }

  countSpent({ partitionKey, cost }: DecidedKey, plain: PlainKey | null): void {
    if (cost > 0) this.#spenders.add(partitionKey, cost, plain);
  }

  /**
   * Counts the difference that a settlement makes. Refunds have a list of their own: a sketch that subtracts would no
   * longer bound the counts of the keys that it has dropped.
   * @param more the actual cost less the cost that was counted
   */
  countSettled(key: string, more: number): void {
    if (more > 0) this.#spenders.addMore(key, more);
    else (this.#refunds ??= new SpaceSaving(sketchSlots)).add(key, -more);
    this.#hasCounts = true;
  }

  get hasCounts(): boolean {
    return this.#hasCounts;
  }

  /** The number of lists that are not empty. */
  get lists(): number {
    const sizes = [this.#denied.size, this.#spenders.size, this.#refunds?.size ?? 0];
    return sizes.filter((size) => size > 0).length;
  }

  /** Returns the counts, and the listed keys whose plain form is known. Resets the counts to 0. */
  drain(policy: string, mostKeys: number): { readonly counts: PolicyCounts; readonly named: readonly SealCandidate[] } {
    const denied = this.#denied.drain(policy, mostKeys);
    const spenders = this.#spenders.drain(policy, mostKeys);
    const refunds = this.#refunds?.top(mostKeys) ?? { keys: [], mostOther: 0 };
    this.#refunds?.clear();
    const counts: PolicyCounts = {
      outcomes: Object.fromEntries(nonZero(this.#outcomes).map(([index, count]) => [outcomeNames[index] ?? "", count])),
      nearLimit: this.#nearLimit,
      latency: nonZero(this.#latency),
      latencySumMs: this.#latencySumMs,
      topDenied: denied.keys,
      ...(denied.mostOther > 0 && { mostOtherDenied: denied.mostOther }),
      topSpenders: spenders.keys,
      ...(spenders.mostOther > 0 && { mostOtherSpent: spenders.mostOther }),
      ...(this.#deniedRequests > 0 && { deniedRequests: this.#deniedRequests }),
      ...(refunds.keys.length > 0 && { topRefunded: refunds.keys }),
      ...(refunds.mostOther > 0 && { mostOtherRefunded: refunds.mostOther }),
    };
    this.#outcomes.fill(0);
    this.#nearLimit = 0;
    this.#deniedRequests = 0;
    this.#latency.fill(0);
    this.#latencySumMs = 0;
    this.#hasCounts = false;
    return { counts, named: [...denied.named, ...spenders.named] };
  }
}

const nonZero = (counts: Float64Array): [index: number, count: number][] =>
  [...counts.entries()].filter(([, count]) => count > 0);

/** The most frequent keys, with their plain forms. */
class NamedSketch {
  readonly #sketch = new SpaceSaving(sketchSlots);
  /** By slot. */
  readonly #plain: (PlainKey | null)[] = [];

  add(key: string, weight: number, plain: PlainKey | null): void {
    const slot = this.#sketch.add(key, weight);
    this.#plain[slot] = plain === null || isTooLong(plain) ? null : plain;
  }

  /** Adds to the weight of a key whose plain form is unknown, or was passed before. */
  addMore(key: string, weight: number): void {
    const isKnown = this.#sketch.slotOf(key) !== -1;
    const slot = this.#sketch.add(key, weight);
    if (!isKnown) this.#plain[slot] = null;
  }

  get size(): number {
    return this.#sketch.size;
  }

  drain(policy: string, mostKeys: number) {
    const { keys, mostOther } = this.#sketch.top(mostKeys);
    const listed: SealedKey[] = keys.map((each) => ({ ...each }));
    const named = listed.flatMap((each, rank): SealCandidate[] => {
      const plain = this.#plain[this.#sketch.slotOf(each.key)] ?? null;
      return plain === null ? [] : [{ policy, rank, key: each.key, listed: each, plain }];
    });
    this.#sketch.clear();
    this.#plain.length = 0;
    return { keys: listed, mostOther, named };
  }
}
