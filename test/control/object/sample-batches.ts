/** Sampled traffic for tests of the control plane. */
import { fromBase64Url, toBase64Url } from "../../../src/control/base64url.ts";
import type { StatisticsStore } from "../../../src/control/object/statistics.ts";
import type { SampleBatch, StatisticsBatch } from "../../../src/control/protocol.ts";
import {
  decodeSamples,
  encodeSamples,
  mergeSamples,
  type SampledArrival,
  type SampledEvent,
  type SampledKeys,
} from "../../../src/control/sample-codec.ts";
import type { SampleIndex, SamplesQuery } from "../../../src/control/statistics-calls.ts";
import { batch } from "./batches.ts";

export const arrival = (atMs: number, fields: Partial<SampledArrival> = {}): SampledArrival => ({
  kind: "arrival",
  atMs,
  cost: 1,
  outcome: "allowed",
  ttlMs: 0,
  hasOtherLimits: false,
  ...fields,
});

export function sampleBatch(
  keys: Readonly<Record<string, readonly SampledEvent[]>>,
  fields: Partial<SampleBatch> = {},
): SampleBatch {
  const all = Object.entries(keys);
  const events = all.flatMap(([, own]) => own);
  return {
    oneKeyIn: 64,
    events: all.length === 0 ? "" : toBase64Url(encodeSamples(new Map(all))),
    arrivals: events.filter(({ kind }) => kind === "arrival").length,
    lost: 0,
    ...fields,
  };
}

/** A batch with one allowed decision and samples of the policy `api`. */
export const sampledBatch = (seq: number, api: SampleBatch): StatisticsBatch => ({
  ...batch(seq, 1),
  samples: { api },
});

type Reader = Pick<StatisticsStore, "samples" | "sampleChunks">;

export const all = (policy = "api"): SamplesQuery => ({
  policy,
  fromMs: 0,
  toMs: Number.MAX_SAFE_INTEGER,
});

/** The events of all chunks and open samples of an index. */
export function eventsOf(store: Reader, index: SampleIndex, policy = "api"): SampledKeys {
  const ids = index.chunks.map(({ id }) => id);
  const bodies = store.sampleChunks(policy, ids).map((body) => new Uint8Array(body));
  const open = index.open.flatMap(({ events }) => events.map((text) => fromBase64Url(text) ?? new Uint8Array()));
  return mergeSamples([...bodies, ...open].map((bytes) => decodeSamples(bytes)));
}

/** The costs of all arrivals of a policy, in ascending order. */
export const storedCosts = (store: Reader, policy = "api"): number[] =>
  [...eventsOf(store, store.samples(all(policy)), policy).values()]
    .flat()
    .map(({ cost }) => cost)
    .toSorted((one, other) => one - other);
