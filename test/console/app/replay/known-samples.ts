/** Samples as the replay worker describes them. */
import type { KnownSamples } from "../../../../src/console/app/replay/messages.ts";

export const startMs = Date.UTC(2026, 10, 23, 12);
const dayMs = 86_400_000;

export const knownSamples = (fields: Partial<KnownSamples> = {}): KnownSamples => ({
  policy: "api",
  readAtMs: startMs,
  sample: "1/64",
  keys: 41,
  arrivals: 12_345,
  coverage: 0.998,
  storedAtMs: startMs - 120_000,
  source: {
    fromMs: startMs - dayMs,
    toMs: startMs,
    oneKeyIn: 64,
    requests: 800_000,
    lostArrivals: 25,
    otherLimitsArrivals: 0,
  },
  ...fields,
});
