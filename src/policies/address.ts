/** Client addresses, in the form in which they are charged. */
import ipaddr from "ipaddr.js";

/** A customer's network as a whole is one client: addresses within it are free to take. */
const ipv6Prefix = 64;

/**
 * The address to charge, or null when the text is not one. IPv4 in any IPv6 clothing (mapped, or behind the well-known
 * NAT64 prefix of RFC 6052) is that IPv4 address; other IPv6 addresses are grouped by their first 64 bits.
 */
export function chargedAddress(text: string): string | null {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text).toString();
  if (!text.includes(":") || text.includes("%") || !ipaddr.IPv6.isValid(text)) return null;
  const address = ipaddr.IPv6.parse(text);
  if (address.isIPv4MappedAddress() || address.range() === "rfc6052") {
    return new ipaddr.IPv4(address.toByteArray().slice(-4)).toString();
  }
  const network = address.parts.slice(0, ipv6Prefix / 16).map((part) => part.toString(16));
  return `${network.join(":")}::/${ipv6Prefix}`;
}
