/**
 * CORS preflights (Fetch, section 4.8) are charged to limits of their own. Policies of the request that a preflight
 * announces deny the preflight by their blocklists, by bans, and by rules that block its key.
 */
import { compiledPolicy } from "./compiled-policy.ts";
import { matchesHeaders } from "./match.ts";
import type { Policy } from "./policy.ts";
import { membersOf, type RequestAttributes } from "./request.ts";
import {
  hasKeyStates,
  isKeyDenial,
  type KeyDenial,
  type KeyResolution,
  missingParts,
  type NamedKeys,
  resolveKey,
} from "./resolve-key.ts";
import { matchesOf } from "./within.ts";

/** The keys of an announced request that may deny its preflight. */
interface AnnouncedRequest {
  /** Includes the denials of dry runs. */
  readonly blocked: readonly KeyDenial[];
  /** The client's keys, which may have bans and rules. */
  readonly named: readonly NamedKeys[];
}

/** Resolves the keys of the request that a preflight announces. */
export function resolveAnnounced(policies: readonly Policy[], attributes: RequestAttributes): AnnouncedRequest {
  const blocked: KeyDenial[] = [];
  const named: NamedKeys[] = [];
  for (const { policy, attributes: matched } of announcedPolicies(policies, attributes)) {
    // Browsers send no credentials with a preflight, so there are no claims.
    const resolution = resolveKey(policy, matched, {});
    const isDenied = isKeyDenial(resolution) && (resolution.kind === "blocked" || resolution.named === null);
    if (isDenied) blocked.push(resolution);
    else if (hasKeyStates(policy)) named.push({ policy, keys: announcedKeys(resolution) });
  }
  return { blocked, named };
}

/** A policy, and the request that the policy matches: the announced request or the preflight itself. */
interface AnnouncedMatch {
  readonly policy: Policy;
  readonly attributes: RequestAttributes;
}

/**
 * The policies for a preflight: those that match the announced request, and those that match `OPTIONS`. A preflight
 * announces header names without values, so a policy for certain values of an announced header matches too.
 */
function announcedPolicies(policies: readonly Policy[], attributes: RequestAttributes): AnnouncedMatch[] {
  const { headers } = attributes;
  const announced = { ...attributes, method: headers.get("Access-Control-Request-Method") ?? attributes.method };
  const names = new Set(membersOf(headers, "Access-Control-Request-Headers").map((name) => name.toLowerCase()));
  return policies.flatMap((policy) => {
    const { matchesTarget } = compiledPolicy(policy);
    const matched = [announced, attributes].find((each) => matchesTarget(each));
    const isMatched = matchesOf(policy).every(({ headers: wanted }) =>
      matchesHeaders(new Map([...(wanted ?? [])].filter(([name]) => !names.has(name))), headers),
    );
    return matched !== undefined && isMatched ? { policy, attributes: matched } : [];
  });
}

/** If the preflight lacks a part of a key, the key is unknown: the announced request may have that part. */
function announcedKeys(resolution: KeyResolution): NamedKeys["keys"] {
  const { kind, policy } = resolution;
  const named = resolution.named ?? [];
  const isOwn = kind === "charge" && resolution.parts === policy.key;
  const keys = isOwn ? [resolution.values, ...named] : named;
  return keys.filter((values) => missingParts(policy.key, values).length === 0);
}
