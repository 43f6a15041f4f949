/** The claims of a request's bearer token, once its signature, times, issuer and audience are verified. */
import {
  base64url,
  errors,
  type JWTVerifyOptions,
  createRemoteJWKSet,
  customFetch,
  type JWTPayload,
  jwtVerify,
  type JWTVerifyGetKey,
} from "jose";
import type { JwtKey, JwtSettings } from "../policy/vars/jwt.ts";
import { bearerOf, tokensIn, type Claims, type TokenClaims } from "../policy/request.ts";
import { Cooldown } from "../limiter/isolate/object-caller.ts";
import type { Clock } from "../limiter/clock.ts";
import { errorText, report } from "../observability/events.ts";
import { isRecord, JsonTooDeep, refuseDeepJson } from "../validation/json.ts";
import { type Failure, isFailure } from "./wire/problems.ts";

/** Without a valid token there are no claims. An invalid token is not logged; an unavailable verification key is. */
export type ReadClaims = (headers: Headers) => Promise<TokenClaims | Failure>;

const noClaims = { claims: {} } as const;

/** The most tokens of one request that are verified, because each verification costs CPU time. */
const mostTokens = 4;

export function claimsReader({ keys, issuers, audiences }: JwtSettings, clock: Clock): ReadClaims {
  const keyCooldown = new Cooldown(keyCooldownMs, clock);
  const reportCooldown = new Cooldown(keyCooldownMs, clock);
  const reportInexactNumber = (): void => {
    if (reportCooldown.isOn) return;
    reportCooldown.begin();
    report({ event: "token-number-inexact" });
  };
  const key = withKeyErrors(keys.kind === "set" ? fetchedKeys(keys.url, keyCooldown) : configuredKey(keys));
  const options: JWTVerifyOptions = {
    // Never HS256 with a key set: anyone could sign a token with a public key as the shared secret.
    algorithms: keys.kind === "set" ? ["RS256", "ES256"] : [keys.algorithm],
    ...(issuers !== null && { issuer: [...issuers] }),
    ...(audiences !== null && { audience: [...audiences] }),
  };
  const verified = async (token: string): Promise<TokenClaims | Failure> => {
    try {
      const payloadText = shallowPayload(token);
      const payload = await verifiedPayload(token, key, {
        ...options,
        currentDate: new Date(clock.now()),
      });
      return { claims: exactClaims(payloadText, payload, reportInexactNumber) };
    } catch (error) {
      if (error instanceof JsonTooDeep) {
        return { kind: "json-too-deep", place: "bearer token", position: error.position };
      }
      if (!(error instanceof errors.JOSEError) && !keyCooldown.isOn) {
        keyCooldown.begin();
        report({ event: "token-key-unavailable", error: errorText(error) });
      }
      return noClaims;
    }
  };
  const { hold = (reading) => reading } = clock;
  return async (headers) => {
    const authorization = headers.get("Authorization");
    if (authorization === null) return noClaims;
    const token = bearerOf(authorization);
    if (token !== null && /^[\w.-]+$/.test(token)) return hold(verified(token));
    const tokens = tokensIn(authorization);
    if (tokens.length > mostTokens) return { ...noClaims, possible: null };
    return tokens.length === 0 ? noClaims : hold(Promise.all(tokens.map(verified)).then(merged));
  };
}

/** Merges the claims of several tokens: each claim becomes a list. */
function merged(readings: readonly (TokenClaims | Failure)[]): TokenClaims | Failure {
  const possible = new Map<string, unknown[]>();
  for (const reading of readings) {
    if (isFailure(reading)) return reading;
    for (const [name, value] of Object.entries(reading.claims)) {
      possible.set(name, [possible.get(name) ?? [], value].flat());
    }
  }
  return { ...noClaims, possible: Object.fromEntries(possible) };
}

const parameters = {
  RS256: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
  ES256: { name: "ECDSA", namedCurve: "P-256" },
  HS256: { name: "HMAC", hash: "SHA-256" },
} as const;

function configuredKey(key: JwtKey): () => Promise<CryptoKey> {
  let imported: CryptoKey | null = null;
  return async () => {
    const algorithm = parameters[key.algorithm];
    imported ??=
      key.format === "jwk"
        ? await crypto.subtle.importKey("jwk", key.material, algorithm, false, ["verify"])
        : await crypto.subtle.importKey(key.format, key.material, algorithm, false, ["verify"]);
    return imported;
  };
}

/** Decodes a base64url part of a token; null when it is not valid base64url or UTF-8. */
function decodedText(part: string | undefined): string | null {
  try {
    return utf8.decode(base64url.decode(part ?? ""));
  } catch {
    return null;
  }
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/**
 * The JSON text of a token's payload; null when it is not valid UTF-8.
 * @throws JsonTooDeep when the header or the payload is nested too deep
 */
function shallowPayload(token: string): string | null {
  const [header, payload] = token.split(".", 2).map(decodedText);
  for (const text of [header, payload]) refuseDeepJson(text ?? "");
  return payload ?? null;
}

/** Matches every JSON text with a number that might have other digits after parsing and printing. */
const maybeInexact = /\d{16}|\d[.eE]|-0/;

/**
 * The claims of a verified token, with numbers as the digits in the token: two user ids that differ only beyond 2^53
 * stay different. A numeric claim is left out if its digits cannot be recovered.
 * @param text the payload's JSON text
 * @param payload the parsed payload
 * @param reportInexactNumber is called for each claim whose digits cannot be recovered
 */
function exactClaims(text: string | null, payload: Claims, reportInexactNumber: () => void): Claims {
  // Invalid UTF-8 is decoded to U+FFFD: two names that differ only there would become one key.
  if (text === null) return {};
  if (!maybeInexact.test(text)) return payload;
  const claims: unknown = JSON.parse(text, (_key, value, context?: { source?: string }) => {
    if (typeof value !== "number") return value as unknown;
    // workerd's V8 reports the digits as `source`; another runtime may not.
    const digits = context?.source ?? (Number.isSafeInteger(value) ? String(value) : undefined);
    if (digits === undefined) reportInexactNumber();
    return digits;
  });
  return isRecord(claims) ? claims : {};
}

const timeoutMs = 2_000;
/** After a failed fetch of the key set, no request fetches it again for this time. */
export const keyCooldownMs = 5_000;

/** The verification key cannot be obtained, and the token is not the cause. */
class KeyUnavailable extends Error {
  override readonly name = "KeyUnavailable";
}

/** The key set at a URL. It is not fetched while `cooldown` is on. */
export function fetchedKeys(url: URL, cooldown: Cooldown): JWTVerifyGetKey {
  return createRemoteJWKSet(url, {
    timeoutDuration: timeoutMs,
    [customFetch]: async (from, init) => {
      if (cooldown.isOn)
        throw new Error(`skipped: the last fetch of the key set failed less than ${keyCooldownMs / 1_000} seconds ago`);
      return fetch(from, init);
    },
  });
}

/** Throws `KeyUnavailable` for every error that the token did not cause. */
export function withKeyErrors(key: JWTVerifyGetKey): JWTVerifyGetKey {
  return async (header, token) => {
    try {
      return await key(header, token);
    } catch (error) {
      const isTokenError =
        error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWKSMultipleMatchingKeys;
      throw isTokenError ? error : new KeyUnavailable(errorText(error));
    }
  };
}

/** @throws JOSEError for an invalid token, and any other error when no key is available */
export async function verifiedPayload(
  token: string,
  key: JWTVerifyGetKey,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token, key, options)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    // Without a `kid`, any key of the set may have signed the token.
    for await (const each of error) {
      const result = await jwtVerify(token, each, options).catch(nullForOtherKey);
      if (result !== null) return result.payload;
    }
    throw new errors.JWSSignatureVerificationFailed();
  }
}

function nullForOtherKey(error: unknown): null {
  if (error instanceof errors.JWSSignatureVerificationFailed) return null;
  throw error;
}
