/** The header fields that a gateway removes and adds (RFC 9110, section 7.6), after the request's key is resolved. */
import { visitorOf } from "../../policy/address.ts";
import { membersOf, type RequestTarget } from "../../policy/request.ts";

/** Removed even when `Connection` does not name them. */
export const hopByHop: readonly string[] = [
  "Connection",
  "HTTP2-Settings",
  "Keep-Alive",
  "Proxy-Authenticate",
  "Proxy-Authentication-Info",
  "Proxy-Authorization",
  "Proxy-Connection",
  "TE",
  "Trailer",
  "Transfer-Encoding",
  "Upgrade",
];

const fieldName = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i;

export function removeHopByHop(headers: Headers): void {
  const nominated = headers.has("Connection") ? membersOf(headers, "Connection") : [];
  // A read costs less than the removal of an absent field.
  for (const name of hopByHop) if (headers.has(name)) headers.delete(name);
  for (const name of nominated) if (fieldName.test(name)) headers.delete(name);
}

/** Whether `Via` names this deployment: the request has passed it before. */
export const hasLooped = (headers: Headers, pseudonym: string): boolean =>
  membersOf(headers, "Via").some((member) => member.split(/\s+/)[1] === pseudonym);

/**
 * Adds `Via`, `X-Forwarded-*` and `Forwarded`. The last entry of a list comes from this gateway; earlier entries may be
 * forged.
 */
export function addForwardingFields(
  headers: Headers,
  received: Request,
  { protocol, host }: Pick<RequestTarget, "protocol" | "host">,
  pseudonym: string,
): void {
  const proto = protocol.slice(0, -1);
  const visitor = visitorOf(received.headers, { ipv6Prefix: 128, trustedProxies: null });
  const address = visitor?.address.toString() ?? "unknown";
  headers.append("Via", `${httpVersion(received)} ${pseudonym}`);
  headers.set("X-Forwarded-Proto", proto);
  headers.set("X-Forwarded-Host", host);
  // Cloudflare's edge has appended the address already.
  if (membersOf(headers, "X-Forwarded-For").at(-1) !== address) headers.append("X-Forwarded-For", address);
  const node = address.includes(":") ? `"[${address}]"` : address;
  const element = `for=${node};host="${host}";proto=${proto}`;
  const earlier = headers.get("Forwarded");
  headers.set("Forwarded", isForwardedList(earlier) ? `${earlier}, ${element}` : element);
}

/** The HTTP version that the client speaks with the edge. */
function httpVersion({ cf }: Request): string {
  const protocol: unknown = cf === undefined ? undefined : Reflect.get(cf, "httpProtocol");
  if (typeof protocol !== "string") return "1.1";
  const [, version = "1.1"] = /^HTTP\/(\d(?:\.\d)?)$/.exec(protocol) ?? [];
  return version;
}

/** RFC 7239, section 4. An invalid list is dropped: appending to it would make the new element invalid too. */
const forwardedPair = String.raw`[\w!#$%&'*+.^|~\`-]+=(?:[\w!#$%&'*+.^|~\`-]+|"(?:[^"\\]|\\.)*")`;
const forwardedElement = `${forwardedPair}(?:;${forwardedPair})*`;
const forwardedList = new RegExp(`^${forwardedElement}(?: *, *${forwardedElement})*$`);

const isForwardedList = (value: string | null): value is string =>
  value !== null && value !== "" && value.length <= 4_096 && forwardedList.test(value);

/** RFC 9110, section 7.6.2 lets a recipient lower `Max-Forwards` to the greatest value that it supports. */
const greatestMaxForwards = 2 ** 31;

/** How many more gateways an OPTIONS request may pass; null without a valid `Max-Forwards`. */
export function forwardsLeft({ method, headers }: Request): number | null {
  const text = method === "OPTIONS" ? headers.get("Max-Forwards") : null;
  const isLimited = text !== null && /^\d+$/.test(text);
  return isLimited ? Math.min(Number(text), greatestMaxForwards) : null;
}
