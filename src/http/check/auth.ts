/** Authorizes calls of `/check` by bearer token (RFC 6750), before the body is read or an object is called. */
import type { MiddlewareHandler } from "hono";
import type { CheckToken, Right } from "../../config/index.ts";
import { bearerIn } from "../../policies/header-lists.ts";
import type { Runtime } from "../runtime.ts";
import { type ProblemResponse, problemResponse } from "../wire/problems.ts";

/** The variables that `requireToken` sets. */
export interface Authorized {
  Variables: {
    holder: CheckToken;
    credentialField: "Authorization" | typeof tokenField;
  };
}

/** A gateway sends its token here when `Authorization` belongs to the request that it describes. */
export const tokenField = "X-Headgate-Token";

/** Stands for the token's holder in a request without a token, under `CHECK_AUTH = "none"`. */
const anonymous: CheckToken = { token: "", tenant: null, may: new Set(["look"]) };

/** @returns a function that makes middleware for a right: it answers 401 without a valid token, and 403 without the right */
export function requireToken({
  checkTokens: tokens,
  isLookOpen,
}: Pick<Runtime, "checkTokens" | "isLookOpen">) {
  const sizeBytes = Math.max(0, ...tokens.map(({ token }) => token.length)) + longestCharacterBytes;
  const paddedTokens = tokens.map(({ token }) => padded(token, sizeBytes));
  return (right: Right): MiddlewareHandler<Authorized, string, object, ProblemResponse> =>
    async function tokenRequired(c, next) {
      const fieldToken = c.req.header(tokenField);
      const token = fieldToken ?? bearerIn(c.req.raw.headers) ?? "";
      const isGiven = fieldToken !== undefined || c.req.header("Authorization") !== undefined;
      const holder =
        isLookOpen && !isGiven && right === "look"
          ? anonymous
          : tokens[indexOf(paddedTokens, padded(token, sizeBytes))];
      if (holder === undefined) {
        return problemResponse({ kind: "unauthorized", hasTokens: tokens.length > 0, isGiven });
      }
      if (!holder.may.has(right)) return problemResponse({ kind: "not-permitted", right });
      c.set("holder", holder);
      c.set("credentialField", fieldToken === undefined ? "Authorization" : tokenField);
      return next();
    };
}

/**
 * Compares with every token, and always the same number of bytes: the time reveals neither which token matched nor
 * how many characters did.
 */
function indexOf(paddedTokens: readonly Uint8Array[], given: Uint8Array): number {
  return paddedTokens.map((each) => crypto.subtle.timingSafeEqual(each, given)).indexOf(true);
}

/** `encodeInto` omits a character that does not fit completely. */
const longestCharacterBytes = 4;

/**
 * Pads with zeros, and truncates longer texts. A padded token ends with at least four zero bytes, because `sizeBytes`
 * leaves room for one more character. A truncated text ends with at most three, so it never equals a token.
 */
function padded(text: string, sizeBytes: number): Uint8Array {
  const bytes = new Uint8Array(sizeBytes);
  new TextEncoder().encodeInto(text, bytes);
  return bytes;
}
