/** Which policies a request meets. */
import { type Match, normalizedHost, type Policy } from "../config/index.ts";
import { pathOf } from "./path.ts";
import { membersOf } from "./header-lists.ts";
import type { RequestAttributes } from "./request-attributes.ts";

/** All policies that match, in the order of the configuration. */
export const matchingPolicies = (
  policies: readonly Policy[],
  visit: RequestAttributes,
): readonly Policy[] => policies.filter(({ match }) => matches(match, visit));

const matches = (match: Match, visit: RequestAttributes): boolean =>
  matchesTarget(match, visit) &&
  (match.headers === null || matchesHeaders(match.headers, visit.headers));

/** Of method, host and path. */
function matchesTarget(match: Match, visit: RequestAttributes): boolean {
  const { method, url } = visit;
  return (
    (match.methods === null || matchesMethod(match.methods, method.toUpperCase())) &&
    (match.host === null || match.host.test(normalizedHost(url.hostname))) &&
    (match.path === null || matchesPath(match.path, match.pathMatching, visit))
  );
}

/** A policy, and the request that it matches. */
export interface Announced {
  readonly policy: Policy;
  readonly visit: RequestAttributes;
}

/**
 * The policies for a preflight: those of the request that it announces, and those for `OPTIONS`. The values of headers
 * that it only announces are not known, so a policy for some values is taken to be for all of them.
 */
export function announcedPolicies(
  policies: readonly Policy[],
  visit: RequestAttributes,
): Announced[] {
  const { headers } = visit;
  const announced = {
    ...visit,
    method: headers.get("Access-Control-Request-Method") ?? visit.method,
  };
  const names = new Set(
    membersOf(headers, "Access-Control-Request-Headers").map((name) => name.toLowerCase()),
  );
  return policies.flatMap((policy) => {
    const { match } = policy;
    const matched = [announced, visit].find((each) => matchesTarget(match, each));
    const unknown = [...(match.headers ?? [])].filter(([name]) => !names.has(name));
    return matched !== undefined && matchesHeaders(new Map(unknown), headers)
      ? { policy, visit: matched }
      : [];
  });
}

const matchesPath = (
  pattern: NonNullable<Match["path"]>,
  matching: Match["pathMatching"],
  visit: RequestAttributes,
): boolean =>
  matching === "exact" ? pattern.matchesExactly(pathOf(visit)) : pattern.matches(pathOf(visit));

/** A HEAD is a GET without its answer's body: a limit on one that the other could dodge would be none. */
function matchesMethod(methods: ReadonlySet<string>, method: string): boolean {
  return methods.has(method) || (method === "HEAD" && methods.has("GET"));
}

function matchesHeaders(wanted: ReadonlyMap<string, string | true>, headers: Headers): boolean {
  return [...wanted].every(([name, value]) =>
    value === true ? headers.has(name) : headers.get(name) === value,
  );
}
