/** Which object a key lives in. Every isolate derives it from the key and the settings of its objects alone. */
import type { Jurisdiction, LocationHint, ObjectSettings } from "../policy/placement.ts";

export interface ObjectLocation {
  readonly name: string;
  /** Where a new object is created. An existing object does not move. */
  readonly locationHint: LocationHint | null;
  /** The same name in another jurisdiction is another object. */
  readonly jurisdiction: Jurisdiction | null;
}

/**
 * An object for one key has the partition key as its name; a shard is named `<shard>-of-<shards>`. A location hint adds
 * `@<hint>`. These names must never change: what is stored under the old names would be lost.
 */
export function objectLocation(settings: ObjectSettings, partitionKey: string): ObjectLocation {
  const { shards, locationHint, jurisdiction } = settings;
  const base = shards === null ? partitionKey : `${shardOf(partitionKey, shards)}-of-${shards}`;
  const name = locationHint === null ? base : `${base}@${locationHint}`;
  return { name, locationHint, jurisdiction };
}

/** Identifies an object among those of all jurisdictions. */
export const objectId = ({ name, jurisdiction }: ObjectLocation): string => `${jurisdiction ?? ""} ${name}`;

/** 48 bits in base64. */
const hashedCharacters = 8;

/**
 * The shard of a key, from 0: the first 48 bits of its partition key modulo the number of shards. The partition key is an
 * HMAC-SHA-256 in base64url.
 */
export function shardOf(partitionKey: string, shards: number): number {
  const base64 = partitionKey
    .slice(0, hashedCharacters)
    .replaceAll("-", "+")
    .replaceAll("_", "/")
    .padEnd(hashedCharacters, "A");
  let hash = 0;
  for (const character of atob(base64)) hash = hash * 256 + character.charCodeAt(0);
  return hash % shards;
}
