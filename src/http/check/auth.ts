/** Authorizes calls of `/check` by bearer token (RFC 6750), before the body is read or an object is called. */
import type { MiddlewareHandler } from "hono";
import type { CheckToken, Right } from "../../policy/vars/secrets.ts";
import { bearerOf } from "../../policy/request.ts";
import type { Runtime } from "../runtime.ts";
import { type Failure, isFailure, problemResponse } from "../wire/problems.ts";

/** An authorized caller. */
export interface Caller {
  readonly holder: CheckToken;
  readonly credentialField: "Authorization" | typeof tokenField;
}

/** The variables that `requireToken` sets. */
export interface Authorized {
  Variables: Caller;
}

/** A gateway sends its token here when `Authorization` belongs to the request that it describes. */
export const tokenField = "X-Headgate-Token";

/** Stands for the token's holder in a request without a token, under `CHECK_AUTH = "none"`. */
const anonymous: CheckToken = { token: "", tenant: null, may: new Set(["look"]) };

/** Returns the caller of a request, or a failure if the token is missing or invalid, or lacks the right. */
export type Authorize = (headers: Headers, right: Right) => Caller | Failure;

export function authorizer({
  checkTokens: tokens,
  isLookOpen,
}: Pick<Runtime, "checkTokens" | "isLookOpen">): Authorize {
  const holderOf = tokenMatcher(tokens);
  return (headers, right) => {
    const fieldToken = headers.get(tokenField);
    const authorization = headers.get("Authorization");
    const isGiven = fieldToken !== null || authorization !== null;
    const token = fieldToken ?? bearerOf(authorization) ?? "";
    const holder = isLookOpen && !isGiven && right === "look" ? anonymous : holderOf(token);
    if (holder === undefined) {
      return { kind: "unauthorized", hasTokens: tokens.length > 0, isGiven };
    }
    if (!holder.may.has(right)) return { kind: "not-permitted", right };
    return { holder, credentialField: fieldToken === null ? "Authorization" : tokenField };
  };
}

/** Middleware that answers 401 without a valid token, and 403 without the right. */
export const requireToken =
  (authorize: Authorize, right: Right): MiddlewareHandler<Authorized> =>
  async (c, next) => {
    const caller = authorize(c.req.raw.headers, right);
    if (isFailure(caller)) return problemResponse(caller);
    c.set("holder", caller.holder);
    c.set("credentialField", caller.credentialField);
    return next();
  };

/** Returns the holder of a token; undefined when no holder has it. */
type FindHolder<Holder> = (token: string) => Holder | undefined;

export function tokenMatcher<Holder extends { readonly token: string }>(
  holders: readonly Holder[],
): FindHolder<Holder> {
  const lengths = holders.map(({ token }) => utf8.encode(token).length);
  const sizeBytes = Math.max(0, ...lengths) + longestCharacterBytes;
  const paddedTokens = holders.map(({ token }) => padded(token, new Uint8Array(sizeBytes)));
  const given = new Uint8Array(sizeBytes);
  return (token) => holders[indexOf(paddedTokens, padded(token, given))];
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

const utf8 = new TextEncoder();

/**
 * Pads with zeros, and truncates longer texts. A padded token ends with at least four zero bytes, because the bytes
 * leave room for one more character. A truncated text ends with at most three, so it never equals a token.
 */
function padded(text: string, bytes: Uint8Array): Uint8Array {
  const { written } = utf8.encodeInto(text, bytes);
  return bytes.fill(0, written);
}
