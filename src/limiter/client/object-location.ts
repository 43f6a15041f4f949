/** Which object a key lives in: decided from the key and the settings of its objects alone, by every isolate alike. */
import type { Jurisdiction, LocationHint, ObjectSettings } from "../../config/index.ts";

export interface ObjectLocation {
  /** The object's name. */
  readonly name: string;
  /** Where an object is made that has not been there yet; one that has does not move. */
  readonly locationHint: LocationHint | null;
  /** The same name in another is another object. */
  readonly jurisdiction: Jurisdiction | null;
}

/**
 * An object of its own is named by the key; a shard, `<shard>-of-<shards>`; with a location hint, `@<hint>` follows. These
 * names must never change: what is stored under one would be lost.
 */
export function objectLocation(settings: ObjectSettings, partitionKey: string): ObjectLocation {
  const { shards, locationHint, jurisdiction } = settings;
  const own = shards === null ? partitionKey : `${shardOf(partitionKey, shards)}-of-${shards}`;
  const name = locationHint === null ? own : `${own}@${locationHint}`;
  return { name, locationHint, jurisdiction };
}

/** What tells an object from all others: the same name in another jurisdiction is another. */
export const objectId = ({ name, jurisdiction }: ObjectLocation): string =>
  `${jurisdiction ?? ""} ${name}`;

/** 48 bits in base64. */
const hashedCharacters = 8;

/**
 * The shard of a key, from 0: the first 48 bits of its partition key, an HMAC-SHA-256 in base64url, modulo the number of
 * shards.
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
