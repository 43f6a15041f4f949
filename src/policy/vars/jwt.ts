/** The variables `JWT_*`: the keys that verify bearer tokens, whose claims may be key parts. */
import * as v from "valibot";
import { isRecord } from "../../validation/json.ts";
import { hidden } from "../../validation/problems.ts";
import type { KnownVariables } from "./known-variables.ts";
import { isSet, mayHoldCredentials, typedValue, urlIn, type VariableForm, type VariableReader } from "./variables.ts";

/** One verification key. Its type determines the only algorithm that tokens may use. */
export type JwtKey = { readonly kind: "key"; readonly algorithm: JwtAlgorithm } & (
  | { readonly format: "jwk"; readonly material: v.InferOutput<typeof jwkSchema> }
  | { readonly format: "spki" | "raw"; readonly material: Uint8Array }
);

type JwtAlgorithm = "RS256" | "ES256" | "HS256";

/** A key, or the URL of a key set (JWKS). */
type JwtKeys = JwtKey | { readonly kind: "set"; readonly url: URL };

export interface JwtSettings {
  readonly keys: JwtKeys;
  /** Accepted `iss` claims; null: any. */
  readonly issuers: readonly string[] | null;
  /** Accepted `aud` claims; null: any. */
  readonly audiences: readonly string[] | null;
}

const acceptedKey =
  "a public RSA key of at least 2048 bits or a P-256 key, as PEM or JWK, for RS256 or ES256; or a secret text (or a " +
  'JWK of kty "oct") for HS256';
const acceptedTexts = 'a text such as "https://id.example.com/" that tokens contain, or a list of such texts';

/** Null when neither a key nor a key set is configured, or the one configured is invalid. */
export function readJwt(reader: VariableReader): JwtSettings | null {
  const keys = readKeys(reader);
  const issuers = reader.texts("JWT_ISSUER", acceptedTexts);
  const audiences = reader.texts("JWT_AUDIENCE", acceptedTexts);
  return keys === null ? null : { keys, issuers, audiences };
}

/** Whether a key or key set is configured, valid or not. */
export const hasJwt = (env: KnownVariables): boolean => isSet(env.JWT_KEY) || isSet(env.JWT_JWKS_URL);

export function jwtWarnings(jwt: JwtSettings | null): string[] {
  const isGuessable = jwt?.keys.kind === "key" && jwt.keys.format === "raw" && jwt.keys.material.length < 32;
  return isGuessable
    ? ["JWT_KEY: a secret of less than 32 bytes can be guessed from any token that it signed (RFC 7518, section 3.2)"]
    : [];
}

function readKeys(reader: VariableReader): JwtKeys | null {
  const { JWT_KEY: key, JWT_JWKS_URL: url } = reader.env;
  if (!isSet(key)) return reader.setting("JWT_JWKS_URL", null, keySet);
  if (isSet(url)) reader.problem("JWT_JWKS_URL", hidden, "nothing, because JWT_KEY is set");
  return reader.setting("JWT_KEY", null, { read: keyIn, accepted: acceptedKey, isSecret: () => true });
}

/** An object is a JWK, PEM (with or without its delimiters) is a public key, and any other text is a secret. */
function keyIn(value: unknown): JwtKey | undefined {
  const read = typedValue(value);
  if (isRecord(read)) return jwkOf(read);
  if (typeof read !== "string") return undefined;
  const text = read.trim();
  const publicKey = spkiOf(text);
  if (publicKey !== undefined) return publicKey;
  // These texts are probably URLs or public keys. As a secret, they would be known to others.
  if (text === "" || /^[[{]|-----|^https?:|^(?:ssh|ecdsa)-/i.test(text)) return undefined;
  const material = new TextEncoder().encode(read);
  return { kind: "key", algorithm: "HS256", format: "raw", material };
}

const base64url = v.pipe(v.string(), v.regex(/^[A-Za-z0-9_-]+$/));
const coordinate = v.pipe(base64url, v.length(43));
/** At least 2048 bits (RFC 7518, section 3.3). */
const modulus = v.pipe(base64url, v.minLength(342));
const use = v.optional(v.literal("sig"));

/** Keeps only the key material: other members of a JWK would change how it may be used. */
const jwkSchema = v.variant("kty", [
  v.object({ kty: v.literal("RSA"), n: modulus, e: base64url }),
  v.object({ kty: v.literal("EC"), crv: v.literal("P-256"), x: coordinate, y: coordinate }),
  v.object({ kty: v.literal("oct"), k: base64url }),
]);

const algorithms = { RSA: "RS256", EC: "ES256", oct: "HS256" } as const;

function jwkOf(value: Record<string, unknown>): JwtKey | undefined {
  const parsed = v.safeParse(jwkSchema, value);
  if (!parsed.success) return undefined;
  const material = parsed.output;
  const algorithm = algorithms[material.kty];
  // Only private keys have `d`, and verification needs no private key.
  const allowedUse = v.object({ alg: v.optional(v.literal(algorithm)), use, d: v.optional(v.never()) });
  return v.is(allowedUse, value) ? { kind: "key", algorithm, format: "jwk", material } : undefined;
}

const pem = /^-----BEGIN PUBLIC KEY-----([^-]+)-----END PUBLIC KEY-----$/;

/** The constant beginning of SubjectPublicKeyInfo (RFC 5280, section 4.1) for RSA keys and for P-256 keys. */
const rsaKey = /^3082[0-9a-f]{4}300d06092a864886f70d01010105000382[0-9a-f]{4}003082[0-9a-f]{4}0282([0-9a-f]{4})/;
const p256Key = /^3059301306072a8648ce3d020106082a8648ce3d03010703420004[0-9a-f]{128}$/;

function spkiOf(text: string): JwtKey | undefined {
  const material = base64Bytes(pem.exec(text)?.[1] ?? text);
  if (material === null) return undefined;
  const hex = [...material].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const modulusBytes = Number.parseInt(rsaKey.exec(hex)?.[1] ?? "0", 16);
  const isWhole = Number.parseInt(hex.slice(4, 8), 16) === material.length - 4;
  if (modulusBytes >= 256 && isWhole) {
    return { kind: "key", algorithm: "RS256", format: "spki", material };
  }
  return p256Key.test(hex) ? { kind: "key", algorithm: "ES256", format: "spki", material } : undefined;
}

/** Accepts `\n` for a line break, since many secret stores allow only one line. */
function base64Bytes(text: string): Uint8Array | null {
  const bare = text.replace(/\\n|\s/g, "");
  if (!/^[A-Za-z0-9+/]+={0,2}$/.test(bare) || bare.length % 4 !== 0) return null;
  return Uint8Array.from(atob(bare), (character) => character.charCodeAt(0));
}

const keySet: VariableForm<JwtKeys> = {
  read: (value) => {
    const url = urlIn(value);
    // Over plain HTTP, a machine on the network path could replace the keys. On localhost there is none.
    const isLocal = /^(?:localhost|127\.0\.0\.1|\[::1\])$/.test(url?.hostname ?? "");
    const isSafe = url?.protocol === "https:" || (url?.protocol === "http:" && isLocal);
    return url !== undefined && isSafe ? { kind: "set", url } : undefined;
  },
  accepted: 'an https URL without credentials such as "https://id.example.com/.well-known/jwks.json"',
  isSecret: mayHoldCredentials,
};
