/** Partition keys: pseudonyms of keys, which reveal nothing of the key without `KEY_SECRET`. */
import { type KeyPart, partName } from "../config/index.ts";
import { BoundedMap } from "../limiter/bounded-map.ts";
import type { KeyValue } from "./key.ts";
import { type Hmac, hmacWith } from "./hmac.ts";

/** A look-up is cheaper than a new HMAC. */
const mostRemembered = 4_096;
/** Longer keys are not cached, because callers choose the values and could fill the memory. */
const longestRemembered = 256;

export class PartitionKeys {
  readonly #hmac: Hmac;
  readonly #remembered = new BoundedMap<string>(mostRemembered);

  constructor(secret: string) {
    this.#hmac = hmacWith(secret);
  }

  /**
   * HMAC-SHA-256 over the names and values of the parts, base64url: 43 characters.
   * @param tenant whose key it is; null: the proxy's, which tokens without a tenant share
   */
  partitionKey(
    parts: readonly KeyPart[],
    values: readonly KeyValue[],
    tenant: string | null = null,
  ): Promise<string> {
    // JSON is injective: different values never have the same text, and a missing part (null) differs from an empty one.
    // Parts are sorted, so that policies with the same parts in another order share a key.
    const named = parts.map((part, index) => [partName(part), values[index] ?? null] as const);
    const key = named.toSorted(([a], [b]) => (a < b ? -1 : 1));
    return this.#keyOf(JSON.stringify(tenant === null ? key : { tenant, key }));
  }

  /** For a check with ad hoc limits. Its JSON is an object where those of policies are lists, so they never collide. */
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
