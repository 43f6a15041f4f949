/** Client addresses: parses addresses and CIDR blocks, and derives the key part `ip`. */
import ipaddr from "ipaddr.js";
import type { AddressSettings } from "./key.ts";
import { membersOf } from "./request.ts";

export type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** All addresses whose first `prefixBits` bits equal those of `address`. */
export interface Network {
  readonly address: Address;
  readonly prefixBits: number;
}

/** The well-known prefix of RFC 6052, section 2.1. */
const nat64: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse("64:ff9b::"), 96];

/** The address from which Workers of other zones connect: https://developers.cloudflare.com/fundamentals/reference/http-headers/ */
const allWorkers = "2a06:98c0:3600::103";

const octet = String.raw`(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`;
const fourOctets = new RegExp(String.raw`^${octet}(?:\.${octet}){3}$`);

/** Null when the text is not an address. IPv4-mapped and NAT64 addresses become the IPv4 address that they contain. */
export function parseAddress(text: string): Address | null {
  // The library accepts more forms, and throws for other texts, which is slow.
  if (!text.includes(":")) {
    return fourOctets.test(text) ? new ipaddr.IPv4(text.split(".").map(Number)) : null;
  }
  // The URL parser rejects forms that the library accepts, such as octal parts.
  const url = /^[0-9a-f:.]+$/i.test(text) ? URL.parse(`http://[${text}]/`) : null;
  if (url === null) return null;
  const address = ipaddr.IPv6.parse(url.hostname.slice(1, -1));
  const isIpv4 = address.isIPv4MappedAddress() || address.match(nat64);
  return isIpv4 ? new ipaddr.IPv4(address.toByteArray().slice(-4)) : address;
}

/** A CIDR block such as `10.0.0.0/8`, or an address as a network of one address; null for any other text. */
export function parseNetwork(text: string): Network | null {
  const [written = "", bits, ...more] = text.split("/");
  const address = parseAddress(written);
  if (address === null || more.length > 0) return null;
  const mostBits = address.kind() === "ipv4" ? 32 : 128;
  if (bits === undefined) return { address, prefixBits: mostBits };
  const prefixBits = /^\d{1,3}$/.test(bits) ? Number(bits) : Number.POSITIVE_INFINITY;
  // A block of mapped addresses would become an IPv4 block with a different prefix length.
  const isPlain = address.kind() === "ipv6" || !written.includes(":");
  return isPlain && prefixBits <= mostBits ? { address, prefixBits } : null;
}

/** False for an address and a network of different IP versions. */
export function isWithin(address: Address, { address: first, prefixBits }: Network): boolean {
  return address.kind() === first.kind() && address.match(first, prefixBits);
}

/**
 * Removes a port, brackets and quotation marks, which some proxies add: `1.2.3.4:5678`, `"[2001:db8::1]:443"` (RFC 7239,
 * section 6). Returns other texts unchanged.
 */
export function withoutPort(text: string): string {
  const bare = /^"(.*)"$/.exec(text)?.[1] ?? text;
  const [, ipv4, ipv6, port = "0"] = /^(?:([\d.]+)|\[([\da-f.]*:[\da-f:.]*)\])(?::(\d{1,5}))?$/i.exec(bare) ?? [];
  return Number(port) <= 65_535 ? (ipv4 ?? ipv6 ?? bare) : text;
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

/** The value of the key part `ip` for a text that is an address, or already such a value; null for any other text. */
export function addressKey(text: string, ipv6Prefix: number): string | null {
  const address = parseAddress(text);
  return address === null ? networkKey(text, ipv6Prefix) : networkText(address, ipv6Prefix);
}

/** A network of exactly `ipv6Prefix` bits, and after it the zone of the Workers that share the network. */
function networkKey(text: string, ipv6Prefix: number): string | null {
  const [, first = "", bits, zone] = /^([\da-f:.]+)\/(\d{1,3})(?: ([\w.-]+))?$/i.exec(text) ?? [];
  if (Number(bits) !== ipv6Prefix) return null;
  // With more than 112 bits, `networkText` writes eight groups before the two colons.
  const address = parseAddress(first.replace(/^((?:[\da-f]+:){7}[\da-f]+)::$/i, "$1"));
  if (address === null || !("parts" in address)) return null;
  const network = networkText(address, ipv6Prefix);
  if (zone === undefined) return network;
  const isOfWorkers = network === networkText(ipaddr.IPv6.parse(allWorkers), ipv6Prefix);
  return isOfWorkers ? `${network} ${zone.toLowerCase()}` : null;
}

interface Visitor {
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

/** The value of the key part `ip`; null when the client's address is unknown. */
export function visitorKey(visitor: Visitor | null, ipv6Prefix: number): string | null {
  if (visitor === null) return null;
  const charged = networkText(visitor.address, ipv6Prefix);
  return visitor.zone === null ? charged : `${charged} ${visitor.zone}`;
}
