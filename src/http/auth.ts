/** Who may use `/check`: holders of a bearer token (RFC 6750), decided before a body is read or an object touched. */
import type { MiddlewareHandler } from "hono";
import { problemResponse } from "./problems.ts";

/** Refuses a request that carries none of the tokens. */
export function requireToken(tokens: readonly string[]): MiddlewareHandler {
  let known: readonly ArrayBuffer[] | null = null;
  return async function tokenRequired(c, next) {
    const [, token = ""] = /^Bearer +(\S+) *$/i.exec(c.req.header("Authorization") ?? "") ?? [];
    // The digests are remembered, not the promise of them: it would end with the request that made it.
    known ??= await Promise.all(tokens.map(digest));
    if (isOneOf(known, await digest(token))) return next();
    return problemResponse({ kind: "unauthorized", hasTokens: tokens.length > 0 });
  };
}

/**
 * Compares digests, which are of equal length whatever the tokens are, and all of them: the time taken tells neither
 * how much of a token was right nor which one.
 */
function isOneOf(known: readonly ArrayBuffer[], given: ArrayBuffer): boolean {
  return known.map((each) => crypto.subtle.timingSafeEqual(each, given)).includes(true);
}

function digest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}
