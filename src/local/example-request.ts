/** An example request that a policy charges: what the welcome shows as commands to try. */
import { type Config, type KeyPart, type Policy } from "../config/index.ts";

/** Whoever connects to local workerd. */
const localAddress = "127.0.0.1";
/** From the range for documentation (RFC 5737). */
const forwardedAddress = "203.0.113.7";
const anything = "example";

/** No command can have these: the token must be signed, and local workerd knows no places. */
const unavailable: ReadonlySet<KeyPart["kind"]> = new Set([
  "jwt",
  "country",
  "continent",
  "asn",
  "colo",
]);

/** The policy that the commands are for: the first that charges a request which a command can send. */
export function examplePolicy({ policies, selfPolicies }: Config): Policy | undefined {
  const ofOrigin = policies.filter((policy) => !selfPolicies.includes(policy));
  const charging = ofOrigin.filter(
    ({ key, onMissingKey }) =>
      (onMissingKey !== "skip" && onMissingKey !== "deny") ||
      key.every(({ kind }) => !unavailable.has(kind)),
  );
  const enforced = charging.filter(({ isDryRun }) => !isDryRun);
  return enforced[0] ?? charging[0] ?? ofOrigin[0] ?? policies[0];
}

/** A command that the policy charges. @param url where the Worker runs */
export function requestCommand(url: string, policy: Policy): string {
  const { match, key, addresses } = policy;
  const method = methodOf(policy);
  const fields = new Map<string, string>();
  if (match.host !== null) fields.set("Host", hostOf(policy));
  for (const [name, value] of match.headers ?? [])
    fields.set(name, value === true ? anything : value);
  for (const part of key) {
    if (part.kind === "header" && !fields.has(part.name)) fields.set(part.name, anything);
  }
  const cookies = key.flatMap((part) => (part.kind === "cookie" ? `${part.name}=${anything}` : []));
  if (cookies.length > 0) fields.set("Cookie", cookies.join("; "));
  if (addresses.trustedProxies !== null) {
    const proxies = Array.from({ length: addresses.trustedProxies - 1 }, () => localAddress);
    fields.set("X-Forwarded-For", [forwardedAddress, ...proxies].join(", "));
  }
  const query = key.flatMap((part) =>
    part.kind === "query" ? `${encodeURIComponent(part.name)}=${anything}` : [],
  );
  const target = `${url}${pathOf(policy)}${query.length > 0 ? `?${query.join("&")}` : ""}`;
  return [
    "curl",
    method === "HEAD" ? "-I" : "-i",
    ...(method === "GET" || method === "HEAD" ? [] : ["-X", method]),
    ...[...fields].map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    /^[\w:/.-]+$/.test(target) ? target : quoted(target),
  ].join(" ");
}

/** The key that the same request is charged to, one text for each part. */
export const exampleKey = (policy: Policy): string[] =>
  policy.key.map((part) => {
    const { kind } = part;
    if (kind === "ip")
      return policy.addresses.trustedProxies === null ? localAddress : forwardedAddress;
    if (kind === "path") return pathOf(policy);
    if (kind === "method") return methodOf(policy);
    if (kind === "host") return hostOf(policy);
    const wanted = kind === "header" ? policy.match.headers?.get(part.name) : undefined;
    return typeof wanted === "string" ? wanted : anything;
  });

function methodOf({ match: { methods } }: Policy): string {
  if (methods === null || methods.has("GET")) return "GET";
  return [...methods].find((method) => method !== "TRACE" && method !== "CONNECT") ?? "GET";
}

const hostOf = ({ match: { host } }: Policy): string =>
  host === null ? "localhost" : host.hostname.replaceAll("*", anything);

const pathOf = ({ match: { path } }: Policy): string =>
  (path?.pathname ?? "/hello")
    .replaceAll(/\/:[a-z_]\w*(?=\/|$)/gi, `/${anything}`)
    .replaceAll("*", anything)
    .replaceAll(/[^\x21-\x7e]+/g, (text) => encodeURIComponent(text));

/** For a POSIX shell. */
const quoted = (text: string): string =>
  /["$`\\!]/.test(text) ? `'${text.replaceAll("'", String.raw`'\''`)}'` : `"${text}"`;
