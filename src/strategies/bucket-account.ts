/** The account of token and leaky buckets. */
import type { BucketTerms } from "./account.ts";
import { type BucketLimit, type BucketState, creditsOwed } from "./bucket.ts";

export function bucketTerms(limit: BucketLimit, state: BucketState, nowMs: number): BucketTerms {
  const { creditsPerUnit, creditsPerStep, stepMs } = limit;
  const owedCredits = creditsOwed(limit, state, nowMs);
  return {
    owedCredits,
    creditsPerUnit,
    creditsPerStep,
    stepMs,
    nextStepInMs: owedCredits === 0 ? 0 : stepMs - ((nowMs - state.atMs) % stepMs),
  };
}
