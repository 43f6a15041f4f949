/** Partition keys: pseudonyms of keys, which reveal nothing of the key without `KEY_SECRET`. */
import { type KeyPart, type KeyValue, partName, type PlainKey } from "./key.ts";
import { BoundedMap, memoized } from "./caches.ts";

/** Returns the HMAC-SHA-256 of a text in base64url (43 characters). Texts for different purposes must differ. */
export type Hmac = (text: string) => Promise<string>;

/** @param hold receives every HMAC that other threads compute, and returns it */
export function hmacWith(secret: string, hold = (hmac: Promise<string>) => hmac): Hmac {
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

interface KeyInTree extends Pick<PlainKey, "parts" | "values"> {
  /** The key of the root; null unless the key is within another one. */
  readonly root: Pick<PlainKey, "parts" | "values"> | null;
}

/** A look-up is cheaper than a new HMAC. */
const mostCached = 4_096;
/** Longer keys are not cached, because callers choose the values and could fill the memory. */
const longestCached = 256;

export class PartitionKeys {
  readonly #hmac: Hmac;
  readonly #cache = new BoundedMap<string>(mostCached);

  constructor(hmac: Hmac) {
    this.#hmac = hmac;
  }

  /**
   * HMAC-SHA-256 over the names and values of the parts, base64url: 43 characters.
   * @param tenant whose key it is; null: the proxy's, which tokens without a tenant share
   * @returns no promise when the key is cached
   */
  partitionKey(
    parts: readonly KeyPart[],
    values: readonly KeyValue[],
    tenant: string | null = null,
  ): string | Promise<string> {
    const key = encodingOf(parts)(values);
    return this.#keyOf(tenant === null ? key : `{"tenant":${JSON.stringify(tenant)},"key":${key}}`);
  }

  /** The partition keys of a spend. `rootKey` is absent unless the key has a root. */
  async spendKeys(
    { parts, values, root }: KeyInTree,
    tenant: string | null = null,
  ): Promise<{ readonly partitionKey: string; readonly rootKey?: string }> {
    const partitionKey = await this.partitionKey(parts, values, tenant);
    if (root === null) return { partitionKey };
    return { partitionKey, rootKey: await this.partitionKey(root.parts, root.values, tenant) };
  }

  /**
   * The partition key of a check with ad hoc limits. Its JSON is an object and that of policies is a list, so the two
   * never collide. @param name the name of the limits; null without one
   * @returns no promise when the key is cached
   */
  adhocPartitionKey(
    texts: readonly string[],
    tenant: string | null = null,
    name: string | null = null,
  ): string | Promise<string> {
    return this.#keyOf(
      JSON.stringify({
        ...(tenant !== null && { tenant }),
        adhoc: texts,
        ...(name !== null && { name }),
      }),
    );
  }

  #keyOf(encoded: string): string | Promise<string> {
    return this.#cache.get(encoded) ?? this.#newKeyOf(encoded);
  }

  async #newKeyOf(encoded: string): Promise<string> {
    const key = await this.#hmac(encoded);
    if (encoded.length <= longestCached) this.#cache.set(encoded, key);
    return key;
  }
}

/**
 * Encodes the names and values as the JSON of a list of pairs. JSON is injective: different values never have the same
 * text, and a missing part (null) differs from an empty one. Parts are sorted, so that policies with the same parts in
 * another order share a key.
 */
export const encodingOf = memoized((parts: readonly KeyPart[]) => {
  const sorted = parts
    .map((part, index) => [partName(part), index] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, index], place) => ({ head: `${place === 0 ? "" : ","}[${JSON.stringify(name)},`, index }));
  return (values: readonly KeyValue[]): string => {
    let pairs = "";
    for (const { head, index } of sorted) pairs += `${head}${JSON.stringify(values[index] ?? null)}]`;
    return `[${pairs}]`;
  };
});
