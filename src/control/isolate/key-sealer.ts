/**
 * Seals plain keys, so that the control plane can store them without being able to read them: AES-256-GCM with a key derived
 * from `KEY_SECRET`. A sealed text belongs to one policy and one partition key.
 */
import { fromBase64Url, toBase64Url } from "../base64url.ts";

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
