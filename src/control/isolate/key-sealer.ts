/**
 * Seals plain keys, so that the control plane can store them without being able to read them: AES-256-GCM with a key derived
 * from `KEY_SECRET`. A sealed text belongs to one policy and one partition key.
 */
import { fromBase64Url, toBase64Url } from "../base64url.ts";
import { type KeyPart, type PlainKey, partName } from "../../policy/key.ts";

const version = "v1";
const nonceBytes = 12;
const algorithm = "AES-GCM";

export class KeySealer {
  readonly #secret: string;
  #key: CryptoKey | null = null;

  /** @param secret `KEY_SECRET` */
  constructor(secret: string) {
    this.#secret = secret;
  }

  /** @returns `v1.` and the nonce with the ciphertext in base64url */
  async seal(policy: string, partitionKey: string, text: string): Promise<string> {
    const nonce = crypto.getRandomValues(new Uint8Array(nonceBytes));
    const sealed = await crypto.subtle.encrypt(
      parametersOf(nonce, policy, partitionKey),
      await this.#derivedKey(),
      new TextEncoder().encode(text),
    );
    return `${version}.${toBase64Url(new Uint8Array([...nonce, ...new Uint8Array(sealed)]))}`;
  }

  /** @returns null when the text was sealed for another key, with another `KEY_SECRET`, or was changed */
  async open(policy: string, partitionKey: string, sealed: string): Promise<string | null> {
    const bytes = sealed.startsWith(`${version}.`) ? fromBase64Url(sealed.slice(version.length + 1)) : null;
    if (bytes === null || bytes.length <= nonceBytes) return null;
    const key = await this.#derivedKey();
    const parameters = parametersOf(bytes.slice(0, nonceBytes), policy, partitionKey);
    try {
      const opened = await crypto.subtle.decrypt(parameters, key, bytes.slice(nonceBytes));
      return new TextDecoder().decode(opened);
    } catch {
      return null;
    }
  }

  async #derivedKey(): Promise<CryptoKey> {
    if (this.#key !== null) return this.#key;
    const utf8 = new TextEncoder();
    const secret = utf8.encode(this.#secret);
    const base = await crypto.subtle.importKey("raw", secret, "HKDF", false, ["deriveKey"]);
    const derivation = {
      name: "HKDF",
      hash: "SHA-256",
      salt: new Uint8Array(),
      info: utf8.encode("reveal"),
    };
    const derived = { name: algorithm, length: 256 };
    const usages = ["encrypt", "decrypt"];
    this.#key = await crypto.subtle.deriveKey(derivation, base, derived, false, usages);
    return this.#key;
  }
}

const parametersOf = (nonce: Uint8Array, policy: string, partitionKey: string) => ({
  name: algorithm,
  iv: nonce,
  additionalData: new TextEncoder().encode(JSON.stringify([policy, partitionKey])),
});

/** Such a label has at most 1,024 characters when it is sealed, the most that the control plane stores. */
const longestLabel = 240;

/** Such as `ip=203.0.113.7, header:x-user=a`. */
export function labelOf({ parts, values, tenant = null }: PlainKey): string {
  const named = parts.map((part, index) => {
    const name = partName(part);
    if (part.kind === "global") return name;
    const value = values[index] ?? null;
    if (value === null) return `${name} missing`;
    return `${name}=${isSecret(part) ? lastCharacters(value) : value}`;
  });
  const label = (tenant === null ? named : [`tenant=${tenant}`, ...named]).join(", ");
  return label.length <= longestLabel ? label : `${label.slice(0, longestLabel - 1)}…`;
}

/** Longer than most tokens. */
const longestKept = 1_024;

/** Whether a key is too long to be kept in memory, since callers choose the values. */
export function isTooLong({ values }: PlainKey): boolean {
  let length = 0;
  for (const value of values) length += value?.length ?? 0;
  return length > longestKept;
}

/** Header fields and query parameters whose usual values grant access. */
const secretName =
  /auth|token|secret|passw|credential|session|signature|cookie|jwt|(?:^|[-_.])(?:key|sig|sid|pin|otp)$|(?:api|access|private)[-_.]?key/i;

/** Whether the values of a part may be secrets. Every cookie may be a session. */
function isSecret(part: KeyPart): boolean {
  if (part.kind === "cookie") return true;
  return (part.kind === "header" || part.kind === "query") && secretName.test(part.name);
}

const shownCharacters = 4;
/** Four characters would reveal too much of a shorter secret. */
const shortestShown = 12;

const lastCharacters = (secret: string): string =>
  secret.length < shortestShown ? "…" : `…${secret.slice(-shownCharacters)}`;
