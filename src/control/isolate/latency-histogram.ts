/** A histogram of latencies with the logarithmic buckets of `latencyBoundsMs`. */
import { latencyBoundsMs, type PolicyCounts } from "../protocol.ts";

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
