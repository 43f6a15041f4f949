/** Client addresses, in the form in which they are charged. */
import ipaddr from "ipaddr.js";
import type { AddressSettings } from "../config/index.ts";

/** The well-known prefix of RFC 6052, section 2.1. */
const nat64: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse("64:ff9b::"), 96];

/** From where all Workers of other zones connect: https://developers.cloudflare.com/fundamentals/reference/http-headers/ */
const allWorkers = chargedAddress("2a06:98c0:3600::103", 128);

/** The visitor's address to charge, or null when the request does not tell it. */
export function visitorAddress(headers: Headers, settings: AddressSettings): string | null {
  const { ipv6Prefix, trustedProxies } = settings;
  if (trustedProxies !== null) {
    const hops = (headers.get("X-Forwarded-For") ?? "").split(",");
    return chargedAddress((hops.at(-trustedProxies) ?? "").trim(), ipv6Prefix);
  }
  const connecting = headers.get("CF-Connecting-IP") ?? "";
  const address = chargedAddress(connecting, ipv6Prefix);
  // The edge sets this field for Workers; who comes from elsewhere may have written it.
  const zone = headers.get("CF-Worker");
  const isWorker = zone !== null && chargedAddress(connecting, 128) === allWorkers;
  return isWorker ? `${address} ${zone.toLowerCase()}` : address;
}

/**
 * The address to charge, or null when the text is not one. IPv4 in any IPv6 clothing (mapped, or behind the well-known
 * NAT64 prefix) is that IPv4 address. Of other IPv6 addresses a customer's network as a whole is one client, since
 * addresses within it are free to take.
 */
export function chargedAddress(text: string, ipv6Prefix: number): string | null {
  // The library finds out by throwing, which takes longer than all the rest.
  if (!text.includes(":")) {
    return ipaddr.IPv4.isValidFourPartDecimal(text) ? ipaddr.IPv4.parse(text).toString() : null;
  }
  const address = ipv6Of(text);
  if (address === null) return null;
  if (address.isIPv4MappedAddress() || address.match(nat64)) {
    return new ipaddr.IPv4(address.toByteArray().slice(-4)).toString();
  }
  const network = address.parts
    .slice(0, Math.ceil(ipv6Prefix / 16))
    .map((part, index) => (part & groupMask(ipv6Prefix - index * 16)).toString(16));
  return `${network.join(":")}::/${ipv6Prefix}`;
}

/** The first so many bits of a group of 16, or all of them. */
function groupMask(bits: number): number {
  return bits >= 16 ? 0xffff : 0xffff << (16 - bits);
}

/** The URL parser is strict where the library is lenient, with octal parts and compatible addresses among others. */
function ipv6Of(text: string): ipaddr.IPv6 | null {
  const url = `http://[${text}]/`;
  if (!/^[0-9a-f:.]+$/i.test(text) || !URL.canParse(url)) return null;
  return ipaddr.IPv6.parse(new URL(url).hostname.slice(1, -1));
}
