/** Verifies JWTs with the keys of a fetched key set (JWKS), or with another source of keys. */
import {
  createRemoteJWKSet,
  customFetch,
  errors,
  type JWTPayload,
  jwtVerify,
  type JWTVerifyGetKey,
  type JWTVerifyOptions,
} from "jose";
import type { Cooldown } from "../limiter/isolate/cooldown.ts";
import { errorText } from "../observability/events.ts";

const timeoutMs = 2_000;
/** After a failed fetch of the key set, no request fetches it again for this time. */
export const keyCooldownMs = 5_000;

/** The verification key cannot be obtained, and the token is not the cause. */
class KeyUnavailable extends Error {
  override readonly name = "KeyUnavailable";
}

/** The keys at a URL. While `cooldown` is on, none are fetched. */
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
