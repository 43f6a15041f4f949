/** The name under which a key leaves the Worker: it tells nothing of whom it stands for without the secret. */
import { type KeyPart, partName } from "../config/index.ts";
import { BoundedMap } from "../limiter/bounded-map.ts";
import type { KeyValue } from "./key.ts";
import { type Hmac, hmacWith } from "./hmac.ts";

/** Partition keys remembered in an isolate: hashing one again costs more than a look-up. */
const mostRemembered = 4_096;
/** Longer ones are hashed each time: whoever calls chooses the values, and memory is not theirs to fill. */
const longestRemembered = 256;

/** Turns keys into partition keys. */
export class PartitionKeys {
  readonly #hmac: Hmac;
  readonly #remembered = new BoundedMap<string>(mostRemembered);

  constructor(secret: string) {
    this.#hmac = hmacWith(secret);
  }

  /**
   * HMAC-SHA-256 over the names and values of the parts, base64url: 43 characters.
   * @param tenant whose key it is; null of the proxy's, and of who speaks of the same
   */
  partitionKey(
    parts: readonly KeyPart[],
    values: readonly KeyValue[],
    tenant: string | null = null,
  ): Promise<string> {
    // JSON is injective: no value can pose as several, and a missing part is told from an empty one. Parts are sorted:
    // policies that name the same ones in another order share a key.
    const named = parts.map((part, index) => [partName(part), values[index] ?? null] as const);
    const key = named.toSorted(([a], [b]) => (a < b ? -1 : 1));
    return this.#keyOf(JSON.stringify(tenant === null ? key : { tenant, key }));
  }

  /** The same of a key that no policy names, for limits of a call's own. An object is never a list: no policy's key. */
  adhocPartitionKey(texts: readonly string[], tenant: string | null = null): Promise<string> {
    return this.#keyOf(
      JSON.stringify(tenant === null ? { adhoc: texts } : { tenant, adhoc: texts }),
    );
  }

  async #keyOf(encoded: string): Promise<string> {
    const known = this.#remembered.get(encoded);
    if (known !== undefined) return known;
    const key = await this.#hmac(encoded);
    if (encoded.length <= longestRemembered) this.#remembered.set(encoded, key);
    return key;
  }
}
