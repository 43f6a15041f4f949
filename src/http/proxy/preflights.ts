/**
 * CORS preflights (Fetch, section 4.8) are charged to limits of their own. Policies of the request that a preflight
 * announces deny the preflight by their blocklists and bans.
 */
import type { Spend } from "../../limiter/client/outcome.ts";
import { missingParts } from "../../policies/key.ts";
import { announcedPolicies } from "../../policies/match.ts";
import type { RequestAttributes } from "../../policies/request-attributes.ts";
import { resolveKey } from "../../policies/resolve-key.ts";
import type { Runtime } from "../runtime.ts";
import type { KeyDenial } from "./denial.ts";

/** The keys of an announced request that may deny its preflight. */
export interface AnnouncedRequest {
  /** Includes those of dry runs. */
  readonly blocked: readonly KeyDenial[];
  /** The client's keys that a policy may have banned, with a cost of 0. */
  readonly bannable: readonly Spend[];
}

export const isPreflight = ({ method, headers }: RequestAttributes): boolean =>
  method === "OPTIONS" && headers.has("Origin") && headers.has("Access-Control-Request-Method");

/** Resolves the keys of the request that a preflight announces. */
export async function resolveAnnounced(context: {
  readonly runtime: Runtime;
  readonly attributes: RequestAttributes;
  readonly tenant: string | null;
}): Promise<AnnouncedRequest> {
  const { runtime, attributes, tenant } = context;
  const blocked: KeyDenial[] = [];
  const bannable: Promise<Spend>[] = [];
  for (const announced of announcedPolicies(runtime.policies, attributes)) {
    // Browsers send no credentials with a preflight, so there are no claims.
    const resolution = resolveKey(announced.policy, announced.attributes, {});
    if (resolution.kind === "blocked") blocked.push(resolution);
    if (resolution.kind !== "charge") continue;
    const { policy, parts, values } = resolution;
    if (policy.ban === null || policy.isDryRun) continue;
    // If the preflight lacks a part of the key, the key is unknown: the announced request may have that part.
    if (parts !== policy.key || missingParts(parts, values).length > 0) continue;
    const partitionKey = Promise.resolve(runtime.partitions.partitionKey(parts, values, tenant));
    bannable.push(partitionKey.then((key) => ({ policy, partitionKey: key, cost: 0 })));
  }
  return { blocked, bannable: await Promise.all(bannable) };
}
