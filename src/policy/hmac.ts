/** HMACs with `KEY_SECRET`, for partition keys and reservation ids. */

/** Returns the HMAC-SHA-256 of a text in base64url (43 characters). Texts for different purposes must differ. */
export type Hmac = (text: string) => Promise<string>;

/** Receives every HMAC that other threads compute, and returns it. */
type HoldHmac = (hmac: Promise<string>) => Promise<string>;

export function hmacWith(secret: string, hold: HoldHmac = (hmac) => hmac): Hmac {
  const utf8 = new TextEncoder();
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  let key: CryptoKey | null = null;
  const hmac = async (text: string): Promise<string> => {
    key ??= await crypto.subtle.importKey("raw", utf8.encode(secret), algorithm, false, ["sign"]);
    const signature = await crypto.subtle.sign("HMAC", key, utf8.encode(text));
    return btoa(String.fromCharCode(...new Uint8Array(signature)))
      .replaceAll("+", "-")
      .replaceAll("/", "_")
      .replaceAll("=", "");
  };
  return (text) => hold(hmac(text));
}
