/** Host names of requests and the patterns they are matched with, in one spelling. */
import { hasPieces, piecesOf } from "./wildcard.ts";

/** Which hosts are meant. */
export interface HostPattern {
  readonly hostname: string;
  /** @param host a normalized one, without a port */
  readonly test: (host: string) => boolean;
}

/** Host names in any case, and with the dot that may end them, are the same. */
export const normalizedHost = (host: string): string => host.toLowerCase().replace(/\.$/, "");

/** A pattern of a host name, with `*` for any characters; null when the text is none. */
export function hostPattern(text: string): HostPattern | null {
  const hostname = normalizedHost(text);
  const [first = "", ...others] = piecesOf(hostname);
  if (!/^[a-z0-9*.-]+$/.test(hostname)) return null;
  if (others.length > 0) return { hostname, test: (host) => hasPieces(host, [first, ...others]) };
  return URL.canParse(`http://${hostname}`)
    ? { hostname, test: (host) => host === hostname }
    : null;
}
