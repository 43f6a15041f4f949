/** Parses addresses and CIDR blocks. */
import ipaddr from "ipaddr.js";

export type Address = ipaddr.IPv4 | ipaddr.IPv6;

/** All addresses whose first `prefixBits` bits equal those of `address`. */
export interface Network {
  readonly address: Address;
  readonly prefixBits: number;
}

/** The well-known prefix of RFC 6052, section 2.1. */
const nat64: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse("64:ff9b::"), 96];

const octet = String.raw`(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`;
const fourOctets = new RegExp(String.raw`^${octet}(?:\.${octet}){3}$`);

/** Null when the text is not an address. IPv4-mapped and NAT64 addresses become the IPv4 address that they contain. */
export function parseAddress(text: string): Address | null {
  // The library accepts more forms, and throws for other texts, which is slow.
  if (!text.includes(":")) {
    return fourOctets.test(text) ? new ipaddr.IPv4(text.split(".").map(Number)) : null;
  }
  const address = parseIpv6(text);
  if (address === null) return null;
  return isIpv4InIpv6(address) ? new ipaddr.IPv4(address.toByteArray().slice(-4)) : address;
}

/** The URL parser rejects forms that the library accepts, such as octal parts. */
function parseIpv6(text: string): ipaddr.IPv6 | null {
  const url = `http://[${text}]/`;
  if (!/^[0-9a-f:.]+$/i.test(text) || !URL.canParse(url)) return null;
  return ipaddr.IPv6.parse(new URL(url).hostname.slice(1, -1));
}

const isIpv4InIpv6 = (address: ipaddr.IPv6): boolean =>
  address.isIPv4MappedAddress() || address.match(nat64);

/** A CIDR block such as `10.0.0.0/8`, or an address as a network of one; null when the text is neither. */
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
