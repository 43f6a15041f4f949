/** Client addresses, in the form in which they are charged. */
import { type Address, parseAddress, type AddressSettings } from "../config/index.ts";
import { membersOf } from "./header-lists.ts";

/** From where all Workers of other zones connect: https://developers.cloudflare.com/fundamentals/reference/http-headers/ */
const allWorkers = "2a06:98c0:3600::103";

/** Where a request comes from. */
export interface Visitor {
  readonly address: Address;
  /** The zone of the Worker that asks, of those that all connect from one address. */
  readonly zone: string | null;
}

/** Null when the request does not tell. */
export function visitorOf(headers: Headers, { trustedProxies }: AddressSettings): Visitor | null {
  if (trustedProxies !== null) {
    const member = membersOf(headers, "X-Forwarded-For").at(-trustedProxies) ?? "";
    const hop = parseAddress(withoutPort(member));
    return hop === null ? null : { address: hop, zone: null };
  }
  const address = parseAddress(headers.get("CF-Connecting-IP") ?? "");
  if (address === null) return null;
  // The edge sets this field for Workers; who comes from elsewhere may have written it.
  const zone = address.toString() === allWorkers ? headers.get("CF-Worker") : null;
  return { address, zone: zone === null ? null : zone.toLowerCase() };
}

/**
 * The text of an address as some proxies write it: `1.2.3.4:5678`, `[2001:db8::1]:443`, `[2001:db8::1]`, or one of these
 * in quotation marks (RFC 7239, section 6). Any other text as it is.
 */
export function withoutPort(text: string): string {
  const bare = /^"(.*)"$/.exec(text)?.[1] ?? text;
  const [, ipv4, ipv6, port = "0"] =
    /^(?:([\d.]+)|\[([\da-f.]*:[\da-f:.]*)\])(?::(\d{1,5}))?$/i.exec(bare) ?? [];
  return Number(port) <= 65_535 ? (ipv4 ?? ipv6 ?? bare) : text;
}

/** What is charged for a visitor, or null when there is none. */
export function visitorKey(visitor: Visitor | null, ipv6Prefix: number): string | null {
  if (visitor === null) return null;
  const charged = networkText(visitor.address, ipv6Prefix);
  return visitor.zone === null ? charged : `${charged} ${visitor.zone}`;
}

/** The address to charge, or null when the text is not one. */
export function addressKey(text: string, ipv6Prefix: number): string | null {
  const address = parseAddress(text);
  return address === null ? null : networkText(address, ipv6Prefix);
}

/** Of IPv6 a customer's network as a whole is one client, since addresses within it are free to take. */
function networkText(address: Address, ipv6Prefix: number): string {
  if (!("parts" in address)) return address.toString();
  const network = address.parts
    .slice(0, Math.ceil(ipv6Prefix / 16))
    .map((part, index) => (part & groupMask(ipv6Prefix - index * 16)).toString(16));
  return `${network.join(":")}::/${ipv6Prefix}`;
}

/** The first so many bits of a group of 16, or all of them. */
function groupMask(bits: number): number {
  return bits >= 16 ? 0xffff : 0xffff << (16 - bits);
}
