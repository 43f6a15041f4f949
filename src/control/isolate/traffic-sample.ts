/**
 * The traffic of some keys since the last batch, which the batches of the statistics take to the control plane: the arrivals
 * and settlements of sampled keys, and the outcomes of the keys that operators record. Every isolate has the same keys.
 */
import type { SettledCharge } from "../../limiter/protocol.ts";
import { digitOf, toBase64Url } from "../base64url.ts";
import { type OutcomeName, outcomeNames, type SampleBatch } from "../protocol.ts";
import { outcomesIn, type RecordedKeyList, type RecordedOutcomes } from "../recording-calls.ts";
import { type SampledEvent, encodeSamples } from "../sample-codec.ts";

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
  readonly #open = new Map<string, OpenSample>();
  #events = 0;

  constructor({ oneKeyIn, policies }: TrafficSampleOptions) {
    this.#oneKeyIn = oneKeyIn;
    this.#policies = policies;
  }

  /** Whether the key is in the sample. If not, as for most keys, the caller need not describe its arrivals. */
  includes(partitionKey: string): boolean {
    return isSampledKey(partitionKey, this.#oneKeyIn);
  }

  /** Records an event of a key that the sample includes. */
  add(policy: string, partitionKey: string, event: SampledEvent): void {
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

  /** Records the settled charges of a key that the sample includes. */
  settled(partitionKey: string, charges: readonly SettledCharge[]): void {
    for (const { policy, cost, actualCost, spentAtMs, settledAtMs: atMs } of charges) {
      this.add(policy, partitionKey, { kind: "settlement", atMs, spentAtMs, cost, actualCost });
    }
  }

  /** Removes and returns the events, by policy; null when there are none. */
  drain(): DrainedSamples | null {
    if (this.#open.size === 0) return null;
    const samples = [...this.#open].map(([policy, { keys, arrivals, lost }]): [string, SampleBatch] => {
      const events = keys.size === 0 ? "" : toBase64Url(encodeSamples(keys));
      return [policy, { oneKeyIn: this.#oneKeyIn, events, arrivals, lost }];
    });
    const events = this.#events;
    this.#open.clear();
    this.#events = 0;
    return { batches: Object.fromEntries(samples), events };
  }

  #openOf(policy: string): OpenSample {
    const open = this.#open.get(policy) ?? { keys: new Map(), arrivals: 0, lost: 0 };
    this.#open.set(policy, open);
    return open;
  }
}

/**
 * Whether a sample of one key in `oneKeyIn` has the key. A partition key is an HMAC, so its first 24 bits are evenly
 * distributed. A smaller sample is a part of each larger one. The keys of one tree are sampled independently: otherwise, a
 * root that all requests share would put all of its children in the sample, or none.
 */
export function isSampledKey(partitionKey: string, oneKeyIn: number): boolean {
  const start = partitionKey.lastIndexOf(".") + 1;
  let prefix = 0;
  for (let index = start; index < start + 4; index++)
    prefix = 64 * prefix + (digitOf[partitionKey.charCodeAt(index)] ?? 0);
  return prefix < Math.floor(2 ** 24 / oneKeyIn);
}

interface OpenKey {
  readonly untilMs: number;
  /** In the order of `outcomeNames`. */
  readonly outcomes: Float64Array;
}

/** By policy, then by partition key. */
type OpenKeys = ReadonlyMap<string, ReadonlyMap<string, OpenKey>>;

/**
 * The outcomes of the keys that operators record, whatever the sample has. The list of these keys comes with the replies
 * to beats.
 */
export class RecordedKeys {
  #version = 0;
  #keys: OpenKeys = new Map();
  #hasCounts = false;

  /** The version of the list, for the next beat. */
  get version(): number {
    return this.#version;
  }

  /** Replaces the list. Counts of keys that are still on it stay. */
  adopt({ version, keys }: RecordedKeyList, nowMs: number): void {
    const adopted = new Map<string, Map<string, OpenKey>>();
    for (const { policy, key, forMs } of keys) {
      const ofPolicy = adopted.get(policy) ?? new Map<string, OpenKey>();
      adopted.set(policy, ofPolicy);
      const outcomes = this.#keys.get(policy)?.get(key)?.outcomes ?? new Float64Array(outcomeNames.length);
      ofPolicy.set(key, { untilMs: nowMs + forMs, outcomes });
    }
    this.#version = version;
    this.#keys = adopted;
  }

  /** Counts an outcome if the key is recorded. Allocates nothing. */
  count(policy: string, key: string, outcome: OutcomeName, now: () => number): void {
    const open = this.#keys.get(policy)?.get(key);
    if (open === undefined || now() >= open.untilMs) return;
    const index = outcomeNames.indexOf(outcome);
    open.outcomes[index] = (open.outcomes[index] ?? 0) + 1;
    this.#hasCounts = true;
  }

  /** Removes and returns the counts; null when there are none. */
  drain(): RecordedOutcomes | null {
    if (!this.#hasCounts) return null;
    this.#hasCounts = false;
    const policies = [...this.#keys].map(([policy, keys]) => [policy, drained(keys)] as const);
    return Object.fromEntries(policies.filter(([, keys]) => Object.keys(keys).length > 0));
  }
}

function drained(keys: ReadonlyMap<string, OpenKey>): RecordedOutcomes[string] {
  const counted = [...keys].filter(([, { outcomes }]) => outcomes.some(Boolean));
  return Object.fromEntries(
    counted.map(([key, { outcomes }]) => {
      const counts = outcomesIn(outcomes);
      outcomes.fill(0);
      return [key, counts];
    }),
  );
}
