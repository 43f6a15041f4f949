/** The keys of a sample of traffic: every isolate samples the same keys. */
import { digitAt } from "./base64url.ts";

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
