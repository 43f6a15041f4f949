/** Finds the policies that match a request. */
import { type Match, normalizedHost, type Policy } from "../config/index.ts";
import { membersOf } from "./header-lists.ts";
import type { RequestAttributes } from "./request-attributes.ts";

/** In the order of the configuration. */
export const matchingPolicies = (
  policies: readonly Policy[],
  attributes: RequestAttributes,
): readonly Policy[] => policies.filter(({ match }) => matches(match, attributes));

const matches = (match: Match, attributes: RequestAttributes): boolean =>
  matchesTarget(match, attributes) &&
  (match.headers === null || matchesHeaders(match.headers, attributes.headers));

function matchesTarget(match: Match, attributes: RequestAttributes): boolean {
  const { method, target } = attributes;
  return (
    (match.methods === null || matchesMethod(match.methods, method.toUpperCase())) &&
    (match.host === null || match.host.test(normalizedHost(target.hostname))) &&
    (match.path === null || matchesPath(match.path, match.pathMatching, target))
  );
}

/** A policy, and the request that it matches: the preflight itself or the request that it announces. */
export interface AnnouncedMatch {
  readonly policy: Policy;
  readonly attributes: RequestAttributes;
}

/**
 * The policies for a preflight: those that match the announced request, and those that match `OPTIONS`. A preflight
 * announces header names without values, so a policy for certain values of an announced header matches too.
 */
export function announcedPolicies(
  policies: readonly Policy[],
  attributes: RequestAttributes,
): AnnouncedMatch[] {
  const { headers } = attributes;
  const announced = {
    ...attributes,
    method: headers.get("Access-Control-Request-Method") ?? attributes.method,
  };
  const names = new Set(
    membersOf(headers, "Access-Control-Request-Headers").map((name) => name.toLowerCase()),
  );
  return policies.flatMap((policy) => {
    const { match } = policy;
    const matched = [announced, attributes].find((each) => matchesTarget(match, each));
    const unknown = [...(match.headers ?? [])].filter(([name]) => !names.has(name));
    return matched !== undefined && matchesHeaders(new Map(unknown), headers)
      ? { policy, attributes: matched }
      : [];
  });
}

const matchesPath = (
  pattern: NonNullable<Match["path"]>,
  matching: Match["pathMatching"],
  { path }: RequestAttributes["target"],
): boolean => (matching === "exact" ? pattern.matchesExactly(path) : pattern.matches(path));

/** A policy for GET also matches HEAD: otherwise a client could evade it with HEAD requests. */
function matchesMethod(methods: ReadonlySet<string>, method: string): boolean {
  return methods.has(method) || (method === "HEAD" && methods.has("GET"));
}

function matchesHeaders(wanted: ReadonlyMap<string, string | true>, headers: Headers): boolean {
  return [...wanted].every(([name, value]) =>
    value === true ? headers.has(name) : headers.get(name) === value,
  );
}
