/** What is logged about denials: one entry for each policy that denies. */
import type { Admission } from "../../limiter/client/admission.ts";
import type { LoggedDenial } from "../../limiter/client/denial-log.ts";
import {
  admits,
  denialReason,
  type Outcome,
  type Spend,
  violatedLimits,
} from "../../limiter/client/outcome.ts";
import { keyPseudonym, report } from "../../observability/events.ts";
import type { PartitionKeys } from "../../policies/partition-key.ts";
import type { KeyResolution } from "../../policies/resolve-key.ts";

/** How long a client without a place is asked to wait, as its answer says. */
const placeWaitMs = 1_000;

/** Whether a dry-run policy would have denied a request before its limits decide. */
export const isRefusedDryRun = ({ kind, policy }: KeyResolution): boolean =>
  policy.isDryRun && (kind === "missing-key" || kind === "blocked");

export async function reportRefusedDryRuns(
  partitions: PartitionKeys,
  dryRuns: readonly KeyResolution[],
  tenant: string | null,
): Promise<void> {
  const keys = await Promise.all(
    dryRuns.map((resolution) => blockedKey(partitions, resolution, tenant)),
  );
  for (const [index, { kind, policy }] of dryRuns.entries()) {
    const reason = kind === "missing-key" ? "key-missing" : "listed";
    report({ event: "dry-run-denied", policy: policy.name, violated: [], reason, ...keys[index] });
  }
}

async function blockedKey(
  partitions: PartitionKeys,
  resolution: KeyResolution,
  tenant: string | null,
): Promise<{ readonly key?: string }> {
  if (resolution.kind !== "blocked") return {};
  return {
    key: keyPseudonym(await partitions.partitionKey(resolution.parts, resolution.values, tenant)),
  };
}

/** Denials by a list, or for a missing part of the key. */
export async function refusedByRuling(
  partitions: PartitionKeys,
  resolutions: readonly KeyResolution[],
  tenant: string | null,
): Promise<LoggedDenial[]> {
  const denials = resolutions.map(async (resolution): Promise<LoggedDenial[]> => {
    const denial = {
      policy: resolution.policy.name,
      reason: "deny",
      violated: [],
      retryAfterMs: null,
    } as const;
    if (resolution.kind === "missing-key") return [{ ...denial, missing: resolution.missing }];
    if (resolution.kind !== "blocked") return [];
    return [{ ...denial, ...(await blockedKey(partitions, resolution, tenant)) }];
  });
  return (await Promise.all(denials)).flat();
}

/** Denials by limits, bans, and for want of a place. */
export function refusedByLimits(spends: readonly Spend[], { outcomes }: Admission): LoggedDenial[] {
  const denying = outcomes.filter((outcome) => !admits(outcome));
  if (denying.length > 0) return denying.flatMap((outcome) => denialBy(outcome, spends));
  return spends
    .filter(({ policy, ttlMs }) => ttlMs !== undefined && !policy.isDryRun)
    .slice(0, 1)
    .map(({ policy, partitionKey }) => ({
      policy: policy.name,
      reason: "reservations",
      violated: [],
      key: keyPseudonym(partitionKey),
      retryAfterMs: placeWaitMs,
    }));
}

/** None without a decision: that is an event of its own. */
function denialBy(outcome: Outcome, spends: readonly Spend[]): LoggedDenial[] {
  if (!("decision" in outcome)) return [];
  const { policy, decision } = outcome;
  const spend = spends.find((each) => each.policy.name === policy.name);
  return [
    {
      policy: policy.name,
      reason: denialReason([outcome]),
      violated: violatedLimits([decision]),
      ...(spend !== undefined && { key: keyPseudonym(spend.partitionKey) }),
      retryAfterMs: decision.retryAfterMs,
    },
  ];
}
