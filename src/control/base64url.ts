/** Base64url without padding. `Uint8Array.prototype.toBase64` is missing in Node 24. */

/** The number of arguments that a function call accepts is limited. */
const bytesAtOnce = 8_192;

export function toBase64Url(bytes: Uint8Array): string {
  let binary = "";
  for (let from = 0; from < bytes.length; from += bytesAtOnce) {
    binary += String.fromCharCode(...bytes.subarray(from, from + bytesAtOnce));
  }
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** Null for any other text. */
export function fromBase64Url(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[\w-]*$/.test(text)) return null;
  try {
    const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = new Uint8Array(binary.length);
    for (let index = 0; index < binary.length; index++) bytes[index] = binary.charCodeAt(index);
    return bytes;
  } catch {
    return null;
  }
}
