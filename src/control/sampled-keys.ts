/** The keys of a sample of traffic: every isolate samples the same keys. */

const digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const digitOf = new Uint8Array(128);
for (let digit = 0; digit < digits.length; digit++) digitOf[digits.charCodeAt(digit)] = digit;

const digitAt = (text: string, index: number): number => digitOf[text.charCodeAt(index)] ?? 0;

const prefixes = 2 ** 24;

/**
 * Whether a sample of one key in `oneKeyIn` has the key. A partition key is an HMAC, so its first 24 bits are evenly distributed.
 * A smaller sample is a part of each larger one.
 */
export function isSampledKey(partitionKey: string, oneKeyIn: number): boolean {
  const prefix =
    (digitAt(partitionKey, 0) << 18) |
    (digitAt(partitionKey, 1) << 12) |
    (digitAt(partitionKey, 2) << 6) |
    digitAt(partitionKey, 3);
  return prefix < Math.floor(prefixes / oneKeyIn);
}
