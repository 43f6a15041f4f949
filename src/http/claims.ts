/** What the bearer token of a request claims, once its signature, its times, its issuer and its audience hold. */
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTPayload,
  jwtVerify,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
} from "jose";
import type { JwtKey, JwtSettings } from "../config/index.ts";
import { Cooldown } from "../limiter/client/cooldown.ts";
import { errorText, report } from "../observability/events.ts";
import { bearerIn } from "../policies/header-lists.ts";
import type { Claims } from "../policies/request-attributes.ts";
import { JsonTooDeep } from "../validation/json.ts";
import type { Failure } from "./wire/problems.ts";
import { claimsIn, refuseDeepToken } from "./token-json.ts";

/** There are no claims without a token that can be verified. An invalid token is not logged; an unavailable key is. */
export type ReadClaims = (headers: Headers) => Promise<{ readonly claims: Claims } | Failure>;

const noClaims = { claims: {} } as const;

/** No request waits longer for the keys of an issuer, and none asks for them again so soon after it was in vain. */
const fetchTimeoutMs = 2_000;
const restMs = 5_000;

/** Why there is no key, where the fault is not the token's. */
class KeyUnavailable extends Error {
  override readonly name = "KeyUnavailable";
}

export function claimsReader({ keys, issuers, audiences }: JwtSettings): ReadClaims {
  const rest = new Cooldown(restMs);
  const reportRest = new Cooldown(restMs);
  const reportMissing = (): void => {
    if (reportRest.isOn) return;
    reportRest.begin();
    report({ event: "token-number-inexact" });
  };
  const key = orUnavailable(keys.kind === "set" ? publishedKeys(keys.url, rest) : ownKey(keys));
  const options: JWTVerifyOptions = {
    // A public key is no secret: whoever signs with it for HS256 is refused.
    algorithms: keys.kind === "set" ? ["RS256", "ES256"] : [keys.algorithm],
    ...(issuers !== null && { issuer: [...issuers] }),
    ...(audiences !== null && { audience: [...audiences] }),
  };
  return async (headers) => {
    const token = bearerIn(headers);
    if (token === null) return noClaims;
    try {
      refuseDeepToken(token);
      const payload = await verified(token, key, options);
      return { claims: claimsIn(token, payload, reportMissing) };
    } catch (error) {
      if (error instanceof JsonTooDeep) {
        return { kind: "json-too-deep", place: "bearer token", position: error.position };
      }
      if (!(error instanceof errors.JOSEError) && !rest.isOn) {
        rest.begin();
        report({ event: "token-key-unavailable", error: errorText(error) });
      }
      return noClaims;
    }
  };
}

async function verified(
  token: string,
  key: JWTVerifyGetKey,
  options: JWTVerifyOptions,
): Promise<JWTPayload> {
  try {
    return (await jwtVerify(token, key, options)).payload;
  } catch (error) {
    if (!(error instanceof errors.JWKSMultipleMatchingKeys)) throw error;
    // A token that does not say which key it was signed with may be of any of them.
    for await (const each of error) {
      const result = await jwtVerify(token, each, options).catch(unlessOfAnotherKey);
      if (result !== null) return result.payload;
    }
    throw new errors.JWSSignatureVerificationFailed();
  }
}

function unlessOfAnotherKey(error: unknown): null {
  if (error instanceof errors.JWSSignatureVerificationFailed) return null;
  throw error;
}

function publishedKeys(url: URL, rest: Cooldown): JWTVerifyGetKey {
  return createRemoteJWKSet(url, {
    timeoutDuration: fetchTimeoutMs,
    [customFetch]: async (from, init) => {
      if (rest.isOn) throw new Error("asked in vain a moment ago");
      return fetch(from, init);
    },
  });
}

const parameters = {
  RS256: { name: "RSASSA-PKCS1-v1_5", hash: "SHA-256" },
  ES256: { name: "ECDSA", namedCurve: "P-256" },
  HS256: { name: "HMAC", hash: "SHA-256" },
} as const;

function ownKey(key: JwtKey): () => Promise<CryptoKey> {
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

/** Of all that can go wrong with a key, only that a token names none or too many is for its bearer to mend. */
function orUnavailable(key: JWTVerifyGetKey): JWTVerifyGetKey {
  return async (header, token) => {
    try {
      return await key(header, token);
    } catch (error) {
      const isOfToken =
        error instanceof errors.JWKSNoMatchingKey ||
        error instanceof errors.JWKSMultipleMatchingKeys;
      throw isOfToken ? error : new KeyUnavailable(errorText(error));
    }
  };
}
