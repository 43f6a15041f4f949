/** Records the decisions of limits in the traffic sample, with the time at which they were made. */
import type { IsolateStatistics } from "../control/isolate/statistics.ts";
import type { OutcomeName } from "../control/protocol.ts";
import { isByKeyRule, type Outcome, type Spend } from "../limiter/isolate/outcome.ts";

/** An outcome, and the name under which the statistics count it. */
export interface NamedOutcome {
  readonly name: OutcomeName;
  readonly outcome: Outcome;
}

/**
 * Records the arrival of a spend, if its key is in the sample and limits have decided, or `onError` in their place. Lists
 * and key rules that allow or block a key do not depend on limits.
 * @param spends those of the same request
 */
export function sampleArrival(
  { traffic }: Pick<IsolateStatistics, "traffic">,
  { name, outcome }: NamedOutcome,
  spend: Spend,
  spends: readonly Spend[],
): void {
  const { policy, partitionKey, cost } = spend;
  if (traffic === null || !traffic.includes(partitionKey)) return;
  if (name === "exempt" || name === "blocked") return;
  const ttlMs = reservedForMs(spend, spends);
  if (cost === 0 && ttlMs === 0) return;
  if (isByKeyRule(outcome, "allow") || isByKeyRule(outcome, "block")) return;
  // The object gives no time for a key that a rule allows, even while a ban denies it.
  if (outcome.decidedAtMs === 0) return;
  traffic.arrived(policy.name, partitionKey, {
    kind: "arrival",
    atMs: outcome.decidedAtMs,
    cost,
    outcome: name,
    ttlMs,
    hasOtherLimits: hasOtherLimits(outcome.policy, spend),
  });
}

/** The object reserves all spends of a request on one key for the longest of their times. */
function reservedForMs({ partitionKey }: Spend, spends: readonly Spend[]): number {
  let longestMs = 0;
  for (const { partitionKey: key, ttlMs = 0 } of spends) {
    if (key === partitionKey) longestMs = Math.max(longestMs, ttlMs);
  }
  return longestMs;
}

/** Whether the limits of an override or of a key rule decided, and not those of the policy. */
function hasOtherLimits({ limits }: Outcome["policy"], { policy }: Spend): boolean {
  const { lists, ruleLists } = policy;
  return (
    limits !== policy.limits ||
    [lists, ruleLists].some(({ overrides }) => overrides.some((override) => override.limits === limits))
  );
}
