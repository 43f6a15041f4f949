/**
 * Preflights (Fetch, section 4.8) are charged to limits of their own. The policies of the request that one announces
 * refuse it where they refuse its client: by their deny lists and their bans.
 */
import type { Spend } from "../../limiter/client/outcome.ts";
import { announcedPolicies } from "../../policies/match.ts";
import { missingParts } from "../../policies/key.ts";
import { type KeyResolution, resolveKey } from "../../policies/resolve-key.ts";
import type { RequestAttributes } from "../../policies/request-attributes.ts";
import { isRefusedDryRun, reportRefusedDryRuns } from "./denial-events.ts";
import type { Runtime } from "../runtime.ts";

/** What the policies of an announced request say of the client that announces it. */
export interface ClientStanding {
  /** The policies whose deny lists name the client. */
  readonly blocked: readonly KeyResolution[];
  /** The keys that may be banned. */
  readonly bannable: readonly Spend[];
}

/** @param tenant whose keys may be banned; null: the proxy's */
export async function standingOf(
  { policies, partitions }: Runtime,
  {
    attributes,
    tenant,
  }: { readonly attributes: RequestAttributes; readonly tenant: string | null },
): Promise<ClientStanding> {
  const blocked: KeyResolution[] = [];
  const bannable: Promise<Spend>[] = [];
  for (const { policy, attributes: announced } of announcedPolicies(policies, attributes)) {
    // Browsers send no credentials with a preflight.
    const resolution = resolveKey(policy, announced, {});
    if (resolution.kind === "blocked") blocked.push(resolution);
    if (policy.ban === null || policy.isDryRun || resolution.kind !== "charge") continue;
    const { parts, values } = resolution;
    // A key with a part that only the request itself has is not known yet.
    if (parts !== policy.key || missingParts(parts, values).length > 0) continue;
    const partitionKey = partitions.partitionKey(parts, values, tenant);
    const { policy: charged } = resolution;
    bannable.push(partitionKey.then((key) => ({ policy: charged, partitionKey: key, cost: 0 })));
  }
  const dryRuns = blocked.filter(isRefusedDryRun);
  if (dryRuns.length > 0) await reportRefusedDryRuns(partitions, dryRuns, tenant);
  return {
    blocked: blocked.filter((each) => !dryRuns.includes(each)),
    bannable: await Promise.all(bannable),
  };
}
