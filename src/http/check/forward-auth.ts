/**
 * `/check/forward` decides for a request that a gateway describes: 204, or the denial. The gateway describes it by
 * `X-Forwarded-*` (Traefik and Caddy) or `X-Original-*` (nginx). These fields are trusted, because the gateway has a token.
 */
import { report } from "../../observability/events.ts";
import { type CallerAttributes, noAttributes } from "../../policy/resolve-key.ts";
import { type Claims, type RequestAttributes, membersOf, RequestTarget } from "../../policy/request.ts";
import { type Caller, tokenField } from "./call.ts";
import type { CallerContext } from "./operations.ts";
import type { ForwardOptions } from "./input.ts";
import { applicablePolicies, enforcePolicies } from "../proxy/enforce.ts";
import { isFailure, problemResponse, type FieldError, type FieldsInvalid } from "../wire/problems.ts";
import { withoutPort } from "../../policy/address.ts";
import { attributesOf } from "../attributes.ts";

/** The gateway never reports the outcome, so the charge is final. */
export async function forwardAuth(
  { runtime, tenant, waitUntil }: CallerContext,
  { deny, attributes = noAttributes }: ForwardOptions,
  request: Request,
  { credentialField }: Caller,
): Promise<Response> {
  const described = forwardedRequest(request, credentialField);
  if (isFailure(described)) {
    report({
      event: "forward-request-invalid",
      fields: described.errors.map(({ field }) => field),
    });
    return problemResponse(described);
  }
  const visitor = { ...described, cf: locationIn(attributes) };
  return enforcePolicies(request, () => applicablePolicies(runtime, visitor), {
    runtime,
    attributes: visitor,
    claims: claimsIn(attributes),
    tenant,
    denyStatus: deny,
    forward: letIn,
    waitUntil,
  });
}

/** The visitor's location, under the names of the `cf` object of Workers. */
const locationIn =
  (attributes: CallerAttributes): RequestAttributes["cf"] =>
  (name) =>
    attributes.get(name)?.[0];

/** The `jwt:` attributes, from a token that the gateway has verified. */
function claimsIn(attributes: CallerAttributes): Claims {
  const claims = [...attributes].flatMap(([name, texts]) => {
    const [, claim] = /^jwt:(.+)$/.exec(name) ?? [];
    return claim === undefined ? [] : [[claim, texts.length === 1 ? texts[0] : texts] as const];
  });
  return Object.fromEntries(claims);
}

const letIn = async (): Promise<Response> =>
  new Response(null, { status: 204, headers: { "Cache-Control": "no-store" } });

const method = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}$/;
const host = /^(?:[a-z0-9._-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i;

/** Gateways send `ws` and `wss` for WebSocket upgrades. */
const schemes = new Map([
  ["http", "http"],
  ["https", "https"],
  ["ws", "http"],
  ["wss", "https"],
]);

/** Fields of the gateway's own call, which the described request lacks or has with other values. */
const callFields = ["Connection", "Content-Length", "Transfer-Encoding", "Upgrade", tokenField];

/**
 * @param call the gateway's call, with the headers of the described request
 * @param credentialField the field that holds the gateway's token
 */
export function forwardedRequest(
  call: Request,
  credentialField: Caller["credentialField"],
): RequestAttributes | FieldsInvalid {
  const errors: FieldError[] = [];
  const forwardedMethod = readField(call.headers, "Method", errors);
  const uri = readField(call.headers, "Uri", errors);
  const scheme = schemes.get((call.headers.get("X-Forwarded-Proto") ?? "https").toLowerCase());
  if (scheme === undefined) {
    errors.push({ field: "X-Forwarded-Proto", accepted: '"http" or "https"' });
  }
  const authority = call.headers.get("X-Forwarded-Host") ?? new URL(call.url).host;
  if (!host.test(authority) || !URL.canParse(`https://${authority}`))
    errors.push({ field: "X-Forwarded-Host", accepted: "a host name, and optionally a port" });
  if (errors.length > 0) return { kind: "fields-invalid", errors };
  const headers = new Headers(call.headers);
  for (const name of [...callFields, credentialField]) headers.delete(name);
  setVisitor(headers);
  return {
    ...attributesOf(new Request(call.url, { headers })),
    // Not resolved against a base URL, which would read a path that begins with two slashes as a host.
    target: RequestTarget.of(new URL(`${scheme}://${authority}${uri}`), uri.split(/[?#]/, 1)[0]),
    method: forwardedMethod,
  };
}

const describingFields = {
  Method: {
    names: ["X-Forwarded-Method", "X-Original-Method"],
    accepted: "an HTTP method",
    isValid: (text: string) => method.test(text),
  },
  Uri: {
    names: ["X-Forwarded-Uri", "X-Original-URI"],
    accepted: "a path that begins with /, and optionally a query",
    isValid: (text: string) => text.startsWith("/"),
  },
} as const;

/**
 * @returns the value of whichever of the two fields is present. Appends to `errors` when neither is present or a
 * value is invalid
 */
function readField(headers: Headers, field: keyof typeof describingFields, errors: FieldError[]): string {
  const { names, accepted, isValid } = describingFields[field];
  const isNginx = headers.has("X-Original-URI") || headers.has("X-Original-Method");
  const [name = names[isNginx ? 1 : 0], ...others] = names.filter((each) => headers.has(each));
  const text = headers.get(name) ?? "";
  if (!isValid(text)) errors.push({ field: name, accepted });
  // A gateway sets only one of the two fields. The other one may come from the client, which must not describe its
  // own request.
  for (const other of others) {
    if (headers.get(other) !== text) {
      errors.push({ field: other, accepted: `no value, or the value of ${name}` });
    }
  }
  return text;
}

/**
 * Takes as the visitor's address the one that was connected to the gateway: the last in `X-Forwarded-For`. If the
 * gateway's call came through Cloudflare, Cloudflare has appended the gateway's own address, which is removed first.
 */
function setVisitor(headers: Headers): void {
  const hops = membersOf(headers, "X-Forwarded-For");
  const gateway = headers.get("CF-Connecting-IP");
  if (hops.length > 1 && hops.at(-1) === gateway) hops.pop();
  const visitor = hops.at(-1) ?? "";
  headers.set("X-Forwarded-For", hops.join(", "));
  if (visitor === "") headers.delete("CF-Connecting-IP");
  else headers.set("CF-Connecting-IP", withoutPort(visitor));
}
