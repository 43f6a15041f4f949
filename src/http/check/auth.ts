/** Who may use `/check`: holders of a bearer token (RFC 6750), decided before a body is read or an object touched. */
import type { MiddlewareHandler } from "hono";
import type { CheckToken, Right } from "../../config/index.ts";
import { bearerIn } from "../../policies/header-lists.ts";
import { type ProblemResponse, problemResponse } from "../wire/problems.ts";

/** What routes know of a request that is authorized. */
export interface Authorized {
  Variables: {
    holder: CheckToken;
    /** Whether `Authorization` held the token. */
    isBearer: boolean;
  };
}

/** Holds the token of a gateway whose requests have an `Authorization` of their own. */
export const tokenField = "X-Headgate-Token";

/** Who has no token, where looks are open to all. */
const anyone: CheckToken = { token: "", tenant: null, may: new Set(["look"]) };

/**
 * Refuses a request that carries none of the tokens, or one that is not for this.
 * @param isLookOpen whether a look needs none
 */
export function requireToken(tokens: readonly CheckToken[], isLookOpen: boolean) {
  const sizeBytes = Math.max(0, ...tokens.map(({ token }) => token.length)) + longestCharacterBytes;
  const known = tokens.map(({ token }) => padded(token, sizeBytes));
  return (right: Right): MiddlewareHandler<Authorized, string, object, ProblemResponse> =>
    async function tokenRequired(c, next) {
      const own = c.req.header(tokenField);
      const token = own ?? bearerIn(c.req.raw.headers) ?? "";
      const isGiven = own !== undefined || c.req.header("Authorization") !== undefined;
      const holder =
        isLookOpen && !isGiven && right === "look"
          ? anyone
          : tokens[indexOf(known, padded(token, sizeBytes))];
      if (holder === undefined) {
        return problemResponse({ kind: "unauthorized", hasTokens: tokens.length > 0, isGiven });
      }
      if (!holder.may.has(right)) return problemResponse({ kind: "not-permitted", right });
      c.set("holder", holder);
      c.set("isBearer", own === undefined);
      return next();
    };
}

/**
 * Compares all of them, and bytes of equal length whatever the tokens are: the time taken tells neither how much of a
 * token was right nor which one.
 */
function indexOf(known: readonly Uint8Array[], given: Uint8Array): number {
  return known.map((each) => crypto.subtle.timingSafeEqual(each, given)).indexOf(true);
}

/** Of a character that does not fit whole, nothing is written. */
const longestCharacterBytes = 4;

/** Tokens are visible ASCII: what is longer than all of them ends in another byte than they do, which is 0. */
function padded(text: string, sizeBytes: number): Uint8Array {
  const bytes = new Uint8Array(sizeBytes);
  new TextEncoder().encodeInto(text, bytes);
  return bytes;
}
