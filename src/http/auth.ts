/** Who may use `/check`: holders of a bearer token (RFC 6750), decided before a body is read or an object touched. */
import type { MiddlewareHandler } from "hono";
import { problemResponse } from "./problems.ts";

/** Refuses a request that carries none of the tokens. */
export function requireToken(tokens: readonly string[]): MiddlewareHandler {
  const sizeBytes = Math.max(0, ...tokens.map((token) => token.length)) + 1;
  const known = tokens.map((token) => padded(token, sizeBytes));
  return async function tokenRequired(c, next) {
    const [, token = ""] = /^Bearer +(\S+) *$/i.exec(c.req.header("Authorization") ?? "") ?? [];
    if (isOneOf(known, padded(token, sizeBytes))) return next();
    return problemResponse({ kind: "unauthorized", hasTokens: tokens.length > 0 });
  };
}

/**
 * Compares all of them, and bytes of equal length whatever the tokens are: the time taken tells neither how much of a
 * token was right nor which one.
 */
function isOneOf(known: readonly Uint8Array[], given: Uint8Array): boolean {
  return known.map((each) => crypto.subtle.timingSafeEqual(each, given)).includes(true);
}

/** Tokens are visible ASCII: what is longer than all of them ends in another byte than they do, which is 0. */
function padded(text: string, sizeBytes: number): Uint8Array {
  const bytes = new Uint8Array(sizeBytes);
  new TextEncoder().encodeInto(text, bytes);
  return bytes;
}
