/** The fields of a policy that determine which object stores a key. */
import * as v from "valibot";
import { integerFrom, type ReportField, isRecord } from "../validation/problems.ts";

/** Regions in which Cloudflare can create an object: https://developers.cloudflare.com/durable-objects/reference/data-location/ */
export const locationHints = [
  "wnam",
  "enam",
  "sam",
  "weur",
  "eeur",
  "apac",
  "apac-ne",
  "apac-se",
  "oc",
  "afr",
  "me",
] as const;
export const jurisdictions = ["eu", "us", "fedramp", "fedramp-high"] as const;

export type LocationHint = (typeof locationHints)[number];
export type Jurisdiction = (typeof jurisdictions)[number];

/** Settings that determine the object of a key: another setting selects another object. */
export interface ObjectSettings {
  /** The number of objects that all keys share; null: one object for each key. */
  readonly shards: number | null;
  readonly locationHint: LocationHint | null;
  readonly jurisdiction: Jurisdiction | null;
}

export const defaultShards = 32;
export const mostShards = 4096;

const oneOf = (values: readonly string[]): string => `one of ${values.map((value) => `"${value}"`).join(", ")}`;

export const objectFields = {
  objects: v.optional(v.picklist(["per-key", "sharded"], oneOf(["per-key", "sharded"]))),
  // `readShards` validates it, since its meaning depends on `objects`.
  shards: v.optional(v.unknown()),
  locationHint: v.optional(v.picklist(locationHints, oneOf(locationHints))),
  jurisdiction: v.optional(v.picklist(jurisdictions, oneOf(jurisdictions))),
};

/** @param policy a written policy, whose other fields may be invalid */
export function readShards(policy: unknown, report: ReportField): number | null {
  if (!isRecord(policy)) return null;
  const { objects = "per-key", shards } = policy;
  if (shards === undefined) return objects === "sharded" ? defaultShards : null;
  const isOutOfPlace = objects === "per-key";
  if (!isOutOfPlace && isShardCount(shards)) return shards;
  const accepted = isOutOfPlace ? 'nothing unless objects is "sharded"' : `an integer from 1 to ${mostShards}`;
  report({ field: "shards", value: shards, accepted });
  return null;
}

const isShardCount = (value: unknown): value is number =>
  typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= mostShards;

/** The value of `shards`, in the JSON schema. */
export const writtenShards = () => v.optional(integerFrom(1, mostShards), defaultShards);
