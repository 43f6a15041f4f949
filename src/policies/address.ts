/** Client addresses, in the form in which they are charged. */
import ipaddr from "ipaddr.js";

/** A customer's network as a whole is one client: addresses within it are free to take. */
const ipv6Prefix = 64;

/** The well-known prefix of RFC 6052, section 2.1. */
const nat64: [ipaddr.IPv6, number] = [ipaddr.IPv6.parse("64:ff9b::"), 96];

/**
 * The address to charge, or null when the text is not one. IPv4 in any IPv6 clothing (mapped, or behind the well-known
 * NAT64 prefix) is that IPv4 address; other IPv6 addresses are grouped by their first 64 bits.
 */
export function chargedAddress(text: string): string | null {
  // The library finds out by throwing, which takes longer than all the rest.
  if (!text.includes(":")) {
    return ipaddr.IPv4.isValidFourPartDecimal(text) ? ipaddr.IPv4.parse(text).toString() : null;
  }
  const address = ipv6Of(text);
  if (address === null) return null;
  if (address.isIPv4MappedAddress() || address.match(nat64)) {
    return new ipaddr.IPv4(address.toByteArray().slice(-4)).toString();
  }
  const network = address.parts.slice(0, ipv6Prefix / 16).map((part) => part.toString(16));
  return `${network.join(":")}::/${ipv6Prefix}`;
}

/** The URL parser is strict where the library is lenient, with octal parts and compatible addresses among others. */
function ipv6Of(text: string): ipaddr.IPv6 | null {
  const url = `http://[${text}]/`;
  if (!/^[0-9a-f:.]+$/i.test(text) || !URL.canParse(url)) return null;
  return ipaddr.IPv6.parse(new URL(url).hostname.slice(1, -1));
}
