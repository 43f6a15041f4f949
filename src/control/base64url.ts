/** Base64url without padding. `btoa` would need a text of all bytes, and `Uint8Array.prototype.toBase64` is missing in Node 24. */

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const notDigit = 64;
/** The value of a character by its code: 0 to 63, or 64 for one that is not of base64url. */
export const digitOf = new Uint8Array(128).fill(notDigit);
for (let digit = 0; digit < digits.length; digit++) digitOf[digits.charCodeAt(digit)] = digit;

const codes = new TextEncoder().encode(digits);
const ascii = new TextDecoder();

export function toBase64Url(bytes: Uint8Array): string {
  const text = new Uint8Array(Math.ceil((bytes.length * 4) / 3));
  let length = 0;
  // The bits that no character has yet, and their number.
  let bits = 0;
  let count = 0;
  for (const byte of bytes) {
    bits = (bits << 8) | byte;
    for (count += 8; count >= 6;) {
      count -= 6;
      text[length++] = codes[bits >> count] ?? 0;
      bits &= (1 << count) - 1;
    }
  }
  if (count > 0) text[length] = codes[bits << (6 - count)] ?? 0;
  return ascii.decode(text);
}

/** Null for a text that `toBase64Url` never returns. */
export function fromBase64Url(text: string): Uint8Array<ArrayBuffer> | null {
  const bytes = new Uint8Array(Math.floor((text.length * 3) / 4));
  let length = 0;
  // The bits that no byte has yet, and their number.
  let bits = 0;
  let count = 0;
  for (let index = 0; index < text.length; index++) {
    const digit = digitOf[text.charCodeAt(index)] ?? notDigit;
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
