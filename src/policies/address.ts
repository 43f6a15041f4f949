/** Client addresses, and their values as key parts. */
import { type Address, parseAddress, type AddressSettings } from "../config/index.ts";
import { membersOf } from "./header-lists.ts";

/** The address from which Workers of other zones connect: https://developers.cloudflare.com/fundamentals/reference/http-headers/ */
const allWorkers = "2a06:98c0:3600::103";

export interface Visitor {
  readonly address: Address;
  /** The zone of the calling Worker, since all of them connect from one address; null for other clients. */
  readonly zone: string | null;
}

/** Null when the request has no valid client address. */
export function visitorOf(headers: Headers, { trustedProxies }: AddressSettings): Visitor | null {
  if (trustedProxies !== null) {
    const member = membersOf(headers, "X-Forwarded-For").at(-trustedProxies) ?? "";
    const hop = parseAddress(withoutPort(member));
    return hop === null ? null : { address: hop, zone: null };
  }
  const address = parseAddress(headers.get("CF-Connecting-IP") ?? "");
  if (address === null) return null;
  // The edge sets CF-Worker for Workers. Other clients can send it themselves.
  const zone = address.toString() === allWorkers ? headers.get("CF-Worker") : null;
  return { address, zone: zone === null ? null : zone.toLowerCase() };
}

/**
 * Removes a port, brackets and quotation marks, which some proxies add: `1.2.3.4:5678`, `"[2001:db8::1]:443"` (RFC 7239,
 * section 6). Returns other texts unchanged.
 */
export function withoutPort(text: string): string {
  const bare = /^"(.*)"$/.exec(text)?.[1] ?? text;
  const [, ipv4, ipv6, port = "0"] =
    /^(?:([\d.]+)|\[([\da-f.]*:[\da-f:.]*)\])(?::(\d{1,5}))?$/i.exec(bare) ?? [];
  return Number(port) <= 65_535 ? (ipv4 ?? ipv6 ?? bare) : text;
}

/** The value of the key part `ip`; null when the client's address is unknown. */
export function visitorKey(visitor: Visitor | null, ipv6Prefix: number): string | null {
  if (visitor === null) return null;
  const charged = networkText(visitor.address, ipv6Prefix);
  return visitor.zone === null ? charged : `${charged} ${visitor.zone}`;
}

/** The value of the key part `ip` for an address in a text; null when the text is not an address. */
export function addressKey(text: string, ipv6Prefix: number): string | null {
  const address = parseAddress(text);
  return address === null ? null : networkText(address, ipv6Prefix);
}

/** Groups IPv6 addresses by network, since a client can use any address of its network. */
function networkText(address: Address, ipv6Prefix: number): string {
  if (!("parts" in address)) return address.toString();
  const network = address.parts
    .slice(0, Math.ceil(ipv6Prefix / 16))
    .map((part, index) => (part & groupMask(ipv6Prefix - index * 16)).toString(16));
  return `${network.join(":")}::/${ipv6Prefix}`;
}

function groupMask(bits: number): number {
  return bits >= 16 ? 0xffff : 0xffff << (16 - bits);
}
