/** Which policies a request meets. */
import { type Match, normalizedPath, type Policy } from "../config/index.ts";

/** All policies that match, in the order of the configuration. */
export function matchingPolicies(
  policies: readonly Policy[],
  method: string,
  url: URL,
): readonly Policy[] {
  const path = normalizedPath(url.pathname);
  return policies.filter((policy) => matches(policy.match, method, url.hostname, path));
}

function matches(match: Match, method: string, host: string, path: string): boolean {
  return (
    (match.methods === null || matchesMethod(match.methods, method.toUpperCase())) &&
    (match.host === null || match.host.test({ hostname: host.replace(/\.$/, "") })) &&
    (match.path === null || matchesPath(match.path, path))
  );
}

/** A HEAD is a GET without its answer's body: a limit on one that the other could dodge would be none. */
function matchesMethod(methods: ReadonlySet<string>, method: string): boolean {
  return methods.has(method) || (method === "HEAD" && methods.has("GET"));
}

/** With and without a slash at the end, so that neither form dodges a pattern that was written for the other. */
function matchesPath(pattern: URLPattern, path: string): boolean {
  return pattern.test({ pathname: path }) || pattern.test({ pathname: `${path}/` });
}
