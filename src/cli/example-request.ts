/** Builds an example request that a policy charges, for the commands in the banner of `npm start`. */
import type { Config } from "../policy/vars/config.ts";
import type { KeyPart } from "../policy/key.ts";
import type { Policy } from "../policy/policy.ts";

/** The client address of requests to local workerd. */
const loopbackAddress = "127.0.0.1";
/** A documentation address (RFC 5737). */
const forwardedAddress = "203.0.113.7";
const exampleValue = "example";

/** No `curl` command can choose these key parts: tokens must be signed, and the runtime supplies the location. */
const unavailableKeyParts: ReadonlySet<KeyPart["kind"]> = new Set(["jwt", "country", "continent", "asn", "colo"]);

/**
 * The policy of the example: the first one that charges a request which `curl` can send, else the first of the list.
 */
export function examplePolicy({ policies, selfPolicies }: Config): Policy | undefined {
  const ofOrigin = policies.filter((policy) => !selfPolicies.includes(policy));
  const charging = ofOrigin.filter(
    ({ key, onMissingKey }) =>
      (onMissingKey !== "skip" && onMissingKey !== "deny") || key.every(({ kind }) => !unavailableKeyParts.has(kind)),
  );
  const enforced = charging.filter(({ isDryRun }) => !isDryRun);
  return enforced[0] ?? charging[0] ?? ofOrigin[0] ?? policies[0];
}

/** A client of the local Worker. */
export interface ExampleClient {
  readonly address: string;
  /** The value of its headers, cookies and query parameters that are part of a key. */
  readonly value: string;
}

export interface ExampleRequest {
  readonly method: string;
  /** The path and the query. */
  readonly target: string;
  readonly fields: ReadonlyMap<string, string>;
}

/** A request of the client that the policy charges. */
export function exampleRequest(
  policy: Policy,
  { address, value }: ExampleClient = { address: forwardedAddress, value: exampleValue },
): ExampleRequest {
  const { match, key, addresses } = policy;
  const fields = new Map<string, string>();
  if (match.host !== null) fields.set("Host", hostOf(policy));
  for (const [name, wanted] of match.headers ?? []) fields.set(name, wanted === true ? value : wanted);
  for (const part of key) {
    if (part.kind === "header" && !fields.has(part.name)) fields.set(part.name, value);
  }
  const cookies = key.flatMap((part) => (part.kind === "cookie" ? `${part.name}=${value}` : []));
  if (cookies.length > 0) fields.set("Cookie", cookies.join("; "));
  if (addresses.trustedProxies !== null) {
    const proxies = Array.from({ length: addresses.trustedProxies - 1 }, () => loopbackAddress);
    fields.set("X-Forwarded-For", [address, ...proxies].join(", "));
  }
  const query = key.flatMap((part) => (part.kind === "query" ? `${encodeURIComponent(part.name)}=${value}` : []));
  const target = `${pathOf(policy)}${query.length > 0 ? `?${query.join("&")}` : ""}`;
  return { method: methodOf(policy), target, fields };
}

/**
 * A `curl` command for a request that the policy charges.
 * @param url the URL of the Worker
 */
export function requestCommand(url: string, policy: Policy): string {
  const { method, target, fields } = exampleRequest(policy);
  return [
    "curl",
    method === "HEAD" ? "-I" : "-i",
    ...(method === "GET" || method === "HEAD" ? [] : ["-X", method]),
    ...[...fields].map(([name, value]) => `-H ${shellQuoted(`${name}: ${value}`)}`),
    /^[\w:/.-]+$/.test(url + target) ? url + target : shellQuoted(url + target),
  ].join(" ");
}

/** The key that the example request is charged to, one text for each key part. */
export const exampleKey = (policy: Policy): string[] =>
  policy.key.map((part) => {
    const { kind } = part;
    if (kind === "ip") return policy.addresses.trustedProxies === null ? loopbackAddress : forwardedAddress;
    if (kind === "path") return pathOf(policy);
    if (kind === "method") return methodOf(policy);
    if (kind === "host") return hostOf(policy);
    const wanted = kind === "header" ? policy.match.headers?.get(part.name) : undefined;
    return typeof wanted === "string" ? wanted : exampleValue;
  });

function methodOf({ match: { methods } }: Policy): string {
  if (methods === null || methods.has("GET")) return "GET";
  return [...methods].find((method) => method !== "TRACE" && method !== "CONNECT") ?? "GET";
}

const hostOf = ({ match: { host } }: Policy): string =>
  host === null ? "localhost" : host.hostname.replaceAll("*", exampleValue);

const pathOf = ({ match: { path } }: Policy): string =>
  (path?.pathname ?? "/hello")
    .replaceAll(/\/:[a-z_]\w*(?=\/|$)/gi, `/${exampleValue}`)
    .replaceAll("*", exampleValue)
    .replaceAll(/[^\x21-\x7e]+/g, (text) => encodeURIComponent(text));

const shellQuoted = (text: string): string =>
  /["$`\\!]/.test(text) ? `'${text.replaceAll("'", String.raw`'\''`)}'` : `"${text}"`;
