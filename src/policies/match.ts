/** Which policies a request meets. */
import { type Match, normalizedHost, normalizedPath, type Policy } from "../config/index.ts";
import type { Visit } from "./visit.ts";

/** All policies that match, in the order of the configuration. */
export function matchingPolicies(policies: readonly Policy[], visit: Visit): readonly Policy[] {
  const path = normalizedPath(visit.url.pathname);
  return policies.filter(({ match }) => matches(match, visit, path));
}

function matches(match: Match, { method, url, headers }: Visit, path: string): boolean {
  return (
    (match.methods === null || matchesMethod(match.methods, method.toUpperCase())) &&
    (match.host === null || match.host.test({ hostname: normalizedHost(url.hostname) })) &&
    (match.path === null || match.path.test(path)) &&
    (match.headers === null || matchesHeaders(match.headers, headers))
  );
}

/** A HEAD is a GET without its answer's body: a limit on one that the other could dodge would be none. */
function matchesMethod(methods: ReadonlySet<string>, method: string): boolean {
  return methods.has(method) || (method === "HEAD" && methods.has("GET"));
}

function matchesHeaders(wanted: ReadonlyMap<string, string | true>, headers: Headers): boolean {
  return [...wanted].every(([name, value]) =>
    value === true ? headers.has(name) : headers.get(name) === value,
  );
}
