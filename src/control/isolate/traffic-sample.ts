/**
 * A sample of the traffic: the arrivals and settlements of sampled keys since the last batch, which the batches of the
 * statistics take to the control plane. Every isolate samples the same keys.
 */
import type { SettledCharge } from "../../limiter/protocol.ts";
import { toBase64Url } from "../base64url.ts";
import type { SampleBatch } from "../protocol.ts";
import { type SampledArrival, type SampledEvent, encodeSamples, isSampledKey } from "../sample-codec.ts";

/** The most events of a batch, of all policies together. Further ones are counted as lost. */
export const mostSampledEvents = 1_000;

export interface TrafficSampleOptions {
  /** One key in this many is in the sample. */
  readonly oneKeyIn: number;
  /** The names of the sampled policies. Ad hoc limits are not among them. */
  readonly policies: ReadonlySet<string>;
}

/** The events of one policy. */
interface OpenSample {
  readonly keys: Map<string, SampledEvent[]>;
  arrivals: number;
  lost: number;
}

export interface DrainedSamples {
  readonly batches: Readonly<Record<string, SampleBatch>>;
  /** The number of events in all batches. */
  readonly events: number;
}

export class TrafficSample {
  readonly #oneKeyIn: number;
  readonly #policies: ReadonlySet<string>;
  #open = new Map<string, OpenSample>();
  #events = 0;

  constructor({ oneKeyIn, policies }: TrafficSampleOptions) {
    this.#oneKeyIn = oneKeyIn;
    this.#policies = policies;
  }

  /** Whether the key is in the sample. If not, as for most keys, the caller need not describe its arrivals. */
  includes(partitionKey: string): boolean {
    return isSampledKey(partitionKey, this.#oneKeyIn);
  }

  /** Records an arrival of a key that the sample includes. */
  arrived(policy: string, partitionKey: string, arrival: SampledArrival): void {
    this.#add(policy, partitionKey, arrival);
  }

  /** Records what was settled of a key that the sample includes. */
  settled(partitionKey: string, charges: readonly SettledCharge[]): void {
    for (const { policy, cost, actualCost, spentAtMs, settledAtMs: atMs } of charges) {
      this.#add(policy, partitionKey, { kind: "settlement", atMs, spentAtMs, cost, actualCost });
    }
  }

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** Removes and returns the events, by policy. */
  drain(): DrainedSamples {
    const batches: Record<string, SampleBatch> = {};
    for (const [policy, { keys, arrivals, lost }] of this.#open) {
      const events = keys.size === 0 ? "" : toBase64Url(encodeSamples(keys));
      batches[policy] = { oneKeyIn: this.#oneKeyIn, events, arrivals, lost };
    }
    const events = this.#events;
    this.#open = new Map();
    this.#events = 0;
    return { batches, events };
  }

  #add(policy: string, partitionKey: string, event: SampledEvent): void {
    if (!this.#policies.has(policy)) return;
    const open = this.#openOf(policy);
    if (this.#events >= mostSampledEvents) {
      open.lost++;
      return;
    }
    this.#events++;
    if (event.kind === "arrival") open.arrivals++;
    const events = open.keys.get(partitionKey);
    if (events === undefined) open.keys.set(partitionKey, [event]);
    else events.push(event);
  }

  #openOf(policy: string): OpenSample {
    const known = this.#open.get(policy);
    if (known !== undefined) return known;
    const created: OpenSample = { keys: new Map(), arrivals: 0, lost: 0 };
    this.#open.set(policy, created);
    return created;
  }
}
