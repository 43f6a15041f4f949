/** Client addresses, and their values as key parts. */
import {
  type Address,
  type AddressSettings,
  allWorkers,
  networkText,
  parseAddress,
  withoutPort,
} from "./vars/index.ts";
import { membersOf } from "./header-lists.ts";

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

/** The value of the key part `ip`; null when the client's address is unknown. */
export function visitorKey(visitor: Visitor | null, ipv6Prefix: number): string | null {
  if (visitor === null) return null;
  const charged = networkText(visitor.address, ipv6Prefix);
  return visitor.zone === null ? charged : `${charged} ${visitor.zone}`;
}
