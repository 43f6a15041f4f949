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

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const notDigit = 64;
const digitOf = new Uint8Array(128).fill(notDigit);
for (let digit = 0; digit < digits.length; digit++) digitOf[digits.charCodeAt(digit)] = digit;

/** The value of a character, 0 to 63; 64 for a character that is not of base64url. */
export const digitAt = (text: string, index: number): number =>
  digitOf[text.charCodeAt(index)] ?? notDigit;

/** Null for a text that `toBase64Url` does not return. */
export function fromBase64Url(text: string): Uint8Array<ArrayBuffer> | null {
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let length = 0;
  // The bits that no byte has yet, and their number.
  let bits = 0;
  let count = 0;
  for (let index = 0; index < text.length; index++) {
    const digit = digitAt(text, index);
    if (digit === notDigit) return null;
    bits = (bits << 6) | digit;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes[length++] = bits >> count;
    bits &= (1 << count) - 1;
  }
  return count === 6 || bits !== 0 ? null : bytes;
}
