/** Partition keys: pseudonyms of keys, which reveal nothing of the key without `KEY_SECRET`. */
import { type KeyPart, type KeyValue, partName } from "./key.ts";
import { BoundedMap, memoized } from "./caches.ts";
import type { Policy } from "./policy.ts";

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

/**
 * Stands between the levels of a partition key. A key within others begins with the keys of its ancestors, so that it leads
 * to the object of the root's key, and to the key of its parent.
 */
const separator = ".";

/** The keys of the ancestors of a key, the root first; none for a key within no other. */
export const ancestorsOfKey = (partitionKey: string): readonly string[] => {
  const levels = partitionKey.split(separator);
  return levels.slice(0, -1).map((_, index) => levels.slice(0, index + 1).join(separator));
};

/** The key of the root, in whose object a key is decided: the key itself if it is within no other. */
export function rootOfKey(partitionKey: string): string {
  const end = partitionKey.indexOf(separator);
  return end === -1 ? partitionKey : partitionKey.slice(0, end);
}

/** The HMAC of the whole key, without the keys of its ancestors. */
export const ownPartOf = (partitionKey: string): string => partitionKey.slice(partitionKey.lastIndexOf(separator) + 1);

/** Whether a key is within another one, at whatever level. */
export const isKeyWithin = (partitionKey: string, ancestor: string): boolean =>
  partitionKey.startsWith(`${ancestor}${separator}`);

/** The beginnings of a list of parts. One object for each, because encodings are cached by the list. */
const beginningsOf = memoized((parts: readonly KeyPart[]) => parts.map((_, index) => parts.slice(0, index + 1)));

export const beginningOf = (parts: readonly KeyPart[], count: number): readonly KeyPart[] =>
  beginningsOf(parts)[count - 1] ?? parts;

const noAncestors: readonly number[] = [];

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
   * HMAC-SHA-256 over the names and values of the parts, base64url: 43 characters. A key within others begins with the keys
   * of its ancestors.
   * @param tenant whose key it is; null: the proxy's, which tokens without a tenant share
   * @param ancestorParts with how many of the parts the key of each ancestor ends, the root first. Default: no ancestors
   * @returns no promise when the key is cached
   */
  partitionKey(
    parts: readonly KeyPart[],
    values: readonly KeyValue[],
    tenant: string | null = null,
    ancestorParts = noAncestors,
  ): string | Promise<string> {
    const key = encodingOf(parts)(values);
    const own = this.#keyOf(tenant === null ? key : `{"tenant":${JSON.stringify(tenant)},"key":${key}}`);
    if (ancestorParts.length === 0) return own;
    const above = ancestorParts.map((count) =>
      this.partitionKey(beginningOf(parts, count), values.slice(0, count), tenant),
    );
    return Promise.all([...above, own]).then((levels) => levels.join(separator));
  }

  /** The partition key of a policy's key, by one value for each part. */
  keyOf(
    { key, ancestors }: Pick<Policy, "key" | "ancestors">,
    values: readonly KeyValue[],
    tenant: string | null = null,
  ): string | Promise<string> {
    const ancestorParts = ancestors.map(({ keyParts }) => keyParts);
    return this.partitionKey(key, values, tenant, ancestorParts);
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
