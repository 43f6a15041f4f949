/** Who may use `/check`: holders of a bearer token (RFC 6750), decided before a body is read or an object touched. */
import type { MiddlewareHandler } from "hono";
import { problemResponse } from "./problems.ts";

/** Refuses a request that carries none of the tokens. */
export function requireToken(tokens: readonly string[]): MiddlewareHandler {
  return async function tokenRequired(c, next) {
    const [, token = ""] = /^Bearer +(\S+) *$/i.exec(c.req.header("Authorization") ?? "") ?? [];
    if (await isOneOf(tokens, token)) return next();
    return problemResponse({ kind: "unauthorized", hasTokens: tokens.length > 0 });
  };
}

/**
 * Compares digests, which are of equal length whatever the tokens are, and all of them: the time taken tells neither
 * how much of a token was right nor which one.
 */
async function isOneOf(tokens: readonly string[], token: string): Promise<boolean> {
  const given = await digest(token);
  const matches = await Promise.all(
    tokens.map(async (known) => crypto.subtle.timingSafeEqual(await digest(known), given)),
  );
  return matches.includes(true);
}

function digest(text: string): Promise<ArrayBuffer> {
  return crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
}
