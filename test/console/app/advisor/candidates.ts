/** Candidates of the advisor. */
import type { ShownAdvice, ShownCandidate } from "../../../../src/console/app/replay/messages.ts";
import { knownSamples } from "../replay/known-samples.ts";

export const exactly = (value: number) => ({ value, low: value, high: value });

export const candidate = (fields: Partial<ShownCandidate> = {}): ShownCandidate => ({
  strategy: "sliding-log",
  limits: [{ name: "api", limit: 120, windowMs: 60_000, strategy: "sliding-log" }],
  deniedShare: exactly(0.001),
  deniedKeyShare: exactly(0.01),
  deniedActiveKeyShare: exactly(0.02),
  worstBurst: exactly(300),
  meetsGoal: true,
  ...fields,
});

const bucket = { name: "api", limit: 60, windowMs: 60_000, strategy: "token-bucket", burst: 20 };

export const advice = (fields: Partial<ShownAdvice> = {}): ShownAdvice => ({
  goal: { kind: "denied-requests", mostShare: 0.001 },
  candidates: [candidate(), candidate({ strategy: "token-bucket", limits: [bucket], worstBurst: exactly(180) })],
  recommendation: { kind: "recommended", candidate: 1, reason: "It has the smallest burst." },
  global: null,
  notes: [],
  outliers: [],
  source: knownSamples().source,
  ...fields,
});
