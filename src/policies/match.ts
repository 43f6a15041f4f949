/** Which policies a request meets. */
import { type Match, normalizedHost, type Policy } from "../config/index.ts";
import { pathOf } from "./path.ts";
import type { Visit } from "./visit.ts";

/** All policies that match, in the order of the configuration. */
export const matchingPolicies = (policies: readonly Policy[], visit: Visit): readonly Policy[] =>
  policies.filter(({ match }) => matches(match, visit));

function matches(match: Match, visit: Visit): boolean {
  const { method, url, headers } = visit;
  return (
    (match.methods === null || matchesMethod(match.methods, method.toUpperCase())) &&
    (match.host === null || match.host.test(normalizedHost(url.hostname))) &&
    (match.path === null || matchesPath(match.path, match.pathMatching, visit)) &&
    (match.headers === null || matchesHeaders(match.headers, headers))
  );
}

const matchesPath = (
  pattern: NonNullable<Match["path"]>,
  matching: Match["pathMatching"],
  visit: Visit,
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
