/** What stands in the JSON of a token, where a parsed number is not enough. */
import { base64url } from "jose";
import type { Claims } from "../policies/request-attributes.ts";
import { parseJson, refuseDeepJson } from "../validation/json.ts";
import { isRecord } from "../validation/problems.ts";

/** @throws JsonTooDeep when the header or the payload of a token is nested too deep */
export function refuseDeepToken(token: string): void {
  for (const part of token.split(".").slice(0, 2)) refuseDeepJson(textOf(part) ?? "");
}

/** Only in a text with one of these may a number be other digits than those that it is printed with. */
const maybeInexact = /\d{16}|\d[.eE]|-0/;

/**
 * The claims of a verified token, with numbers as the digits that stand in the token: users whose numbers differ only
 * beyond 2^53 are not one user. A claim whose digits are unknown is missing.
 * @param payload the same token's, parsed
 * @param reportMissing is called for each claim that is missing
 */
export function claimsIn(token: string, payload: Claims, reportMissing: () => void): Claims {
  const text = textOf(token.split(".")[1] ?? "");
  // Invalid bytes would all be read as one character, and users whose names differ in them as one.
  if (text === null) return {};
  if (!maybeInexact.test(text)) return payload;
  const claims = parseJson(text, (_key, value, context) => {
    if (typeof value !== "number") return value;
    // The version of V8 in workerd has the digits; another runtime may not.
    const digits = context?.source ?? (Number.isSafeInteger(value) ? String(value) : undefined);
    if (digits === undefined) reportMissing();
    return digits;
  });
  return isRecord(claims) ? claims : {};
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/** The text of a part in base64url; null when there is none. */
function textOf(part: string): string | null {
  try {
    return utf8.decode(base64url.decode(part));
  } catch {
    return null;
  }
}
