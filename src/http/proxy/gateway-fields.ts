/**
 * What a gateway does to the fields of messages that it passes on (RFC 9110, section 7.6): those of one hop go, and those
 * are added that tell of the way. Whoever is charged is known before any of it.
 */
import { visitorOf } from "../../policies/address.ts";
import { membersOf } from "../../policies/header-lists.ts";

/** Fields of one hop, whether `Connection` names them or not. */
const hopByHop = [
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

const token = /^[!#$%&'*+.^_`|~0-9a-z-]+$/i;

export function removeHopByHop(headers: Headers): void {
  const nominated = membersOf(headers, "Connection");
  for (const name of [...hopByHop, ...nominated]) if (token.test(name)) headers.delete(name);
}

/** Whether a message has been here before. */
export function hasPassed(headers: Headers, pseudonym: string): boolean {
  return membersOf(headers, "Via").some((member) => member.split(/\s+/)[1] === pseudonym);
}

/** Tells the origin of us, and of who asks: in each field what is last is what we have seen ourselves. */
export function addWay(
  headers: Headers,
  received: Request,
  { protocol, host }: URL,
  pseudonym: string,
): void {
  const proto = protocol.slice(0, -1);
  const visitor = visitorOf(received.headers, { ipv6Prefix: 128, trustedProxies: null });
  const address = visitor?.address.toString() ?? "unknown";
  headers.append("Via", `${versionOf(received)} ${pseudonym}`);
  headers.set("X-Forwarded-Proto", proto);
  headers.set("X-Forwarded-Host", host);
  // The edge has put it there already.
  if (membersOf(headers, "X-Forwarded-For").at(-1) !== address)
    headers.append("X-Forwarded-For", address);
  const node = address.includes(":") ? `"[${address}]"` : address;
  const ours = `for=${node};host="${host}";proto=${proto}`;
  const before = headers.get("Forwarded");
  headers.set("Forwarded", isForwarded(before) ? `${before}, ${ours}` : ours);
}

/** The version that the client speaks, as the edge tells it. */
function versionOf({ cf }: Request): string {
  const spoken = cf === undefined ? undefined : Reflect.get(cf, "httpProtocol");
  const [, version = "1.1"] = /^HTTP\/(\d(?:\.\d)?)$/.exec(String(spoken)) ?? [];
  return version;
}

/** RFC 7239, section 4: pairs of a name and a token or a quoted text. What is none would spoil what is added to it. */
const pair = String.raw`[\w!#$%&'*+.^|~\`-]+=(?:[\w!#$%&'*+.^|~\`-]+|"(?:[^"\\]|\\.)*")`;
const element = `${pair}(?:;${pair})*`;
const forwardedList = new RegExp(`^${element}(?: *, *${element})*$`);

const isForwarded = (value: string | null): value is string =>
  value !== null && value !== "" && value.length <= 4_096 && forwardedList.test(value);

/** What is more is taken for it (RFC 9110, section 7.6.2). */
const mostForwards = 2 ** 31;

/** How many gateways an OPTIONS may still pass; null where it does not say. */
export function forwardsLeft({ method, headers }: Request): number | null {
  const text = headers.get("Max-Forwards");
  const isCounted = method === "OPTIONS" && text !== null && /^\d+$/.test(text);
  return isCounted ? Math.min(Number(text), mostForwards) : null;
}
