/** Finds the policies that match a request. */
import type { Policy } from "./vars/index.ts";
import { membersOf } from "./header-lists.ts";
import { matchesHeaders } from "./matcher.ts";
import { planOf } from "./plan.ts";
import type { RequestAttributes } from "./request-attributes.ts";

/** In the order of the configuration. */
export const matchingPolicies = (policies: readonly Policy[], attributes: RequestAttributes): readonly Policy[] =>
  policies.filter((policy) => planOf(policy).matches(attributes));

/** A policy, and the request that it matches: the preflight itself or the request that it announces. */
export interface AnnouncedMatch {
  readonly policy: Policy;
  readonly attributes: RequestAttributes;
}

/**
 * The policies for a preflight: those that match the announced request, and those that match `OPTIONS`. A preflight
 * announces header names without values, so a policy for certain values of an announced header matches too.
 */
export function announcedPolicies(policies: readonly Policy[], attributes: RequestAttributes): AnnouncedMatch[] {
  const { headers } = attributes;
  const announced = {
    ...attributes,
    method: headers.get("Access-Control-Request-Method") ?? attributes.method,
  };
  const names = new Set(membersOf(headers, "Access-Control-Request-Headers").map((name) => name.toLowerCase()));
  return policies.flatMap((policy) => {
    const { matchesTarget } = planOf(policy);
    const matched = [announced, attributes].find((each) => matchesTarget(each));
    const unknown = [...(policy.match.headers ?? [])].filter(([name]) => !names.has(name));
    return matched !== undefined && matchesHeaders(new Map(unknown), headers) ? { policy, attributes: matched } : [];
  });
}
