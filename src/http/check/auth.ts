/** Authorizes calls of `/check` by bearer token (RFC 6750), before the body is read or an object is called. */
import type { MiddlewareHandler } from "hono";
import type { CheckToken, Right } from "../../config/index.ts";
import { bearerIn } from "../../policies/header-lists.ts";
import type { Runtime } from "../runtime.ts";
import { tokenMatcher } from "../token-match.ts";
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
  const holderOf = tokenMatcher(tokens);
  return (right: Right): MiddlewareHandler<Authorized, string, object, ProblemResponse> =>
    async function tokenRequired(c, next) {
      const fieldToken = c.req.header(tokenField);
      const token = fieldToken ?? bearerIn(c.req.raw.headers) ?? "";
      const isGiven = fieldToken !== undefined || c.req.header("Authorization") !== undefined;
      const holder = isLookOpen && !isGiven && right === "look" ? anonymous : holderOf(token);
      if (holder === undefined) {
        return problemResponse({ kind: "unauthorized", hasTokens: tokens.length > 0, isGiven });
      }
      if (!holder.may.has(right)) return problemResponse({ kind: "not-permitted", right });
      c.set("holder", holder);
      c.set("credentialField", fieldToken === undefined ? "Authorization" : tokenField);
      return next();
    };
}
