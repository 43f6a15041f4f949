/** The fields that determine where a request is decided: in an isolate or an object, and in which object. */
import * as v from "valibot";
import { changesByDenial, isQueue, type Limit, holdsSlots } from "../strategies/index.ts";
import { durationBetween } from "./schemas.ts";
import { asText, type ReportField, isRecord } from "../validation/problems.ts";

/**
 * `strict`: the object decides each request. `leased`: an isolate borrows a slice of the remaining units and spends it
 * locally. `eventual`: an isolate decides on the object's last snapshot plus its own spends, which it sends to the object
 * every `syncEveryMs`.
 */
export type Consistency =
  | { readonly kind: "strict" }
  | { readonly kind: "leased" }
  | { readonly kind: "eventual"; readonly syncEveryMs: number };

const shortestSyncMs = 100;
/** `waitUntil` keeps a Worker running for 30 s at most. This bound leaves time to repeat a failed sync. */
const longestSyncMs = 10_000;
const defaultSyncMs = 1_000;

const kinds = ["strict", "leased", "eventual"] as const;

/** Fields of a policy's schema. */
export const consistencyFields = {
  consistency: v.optional(v.picklist(kinds, 'one of "strict", "leased", "eventual"'), "strict"),
  syncEvery: v.optional(
    durationBetween(shortestSyncMs, longestSyncMs, 'a duration from 100 ms to 10 s such as "500ms" or "2s"'),
  ),
};

export const consistencyOf = (written: {
  readonly consistency: Consistency["kind"];
  readonly syncEvery?: number | undefined;
}): Consistency =>
  written.consistency === "eventual"
    ? { kind: "eventual", syncEveryMs: written.syncEvery ?? defaultSyncMs }
    : { kind: written.consistency };

/**
 * Reports a consistency other than `strict` in a policy with fields that need the object's decision, and names these
 * fields.
 */
export function reportConsistencyConflicts(policy: unknown, limits: readonly Limit[], report: ReportField): void {
  if (!isRecord(policy)) return;
  const { consistency, syncEvery, count, cost, ban } = policy;
  const isOther = consistency === undefined || consistency === "strict" || consistency === "leased";
  if (syncEvery !== undefined && isOther) {
    const accepted = 'nothing unless consistency is "eventual"';
    report({ field: "syncEvery", value: syncEvery, accepted });
  }
  if (consistency !== "eventual" && consistency !== "leased") return;
  const isOfResponse = isRecord(cost) && asText(cost["from"]).startsWith("response-header:");
  const needing = [
    ...(limits.some(holdsSlots) ? ["a concurrency limit"] : []),
    ...(limits.some(isQueue) ? ["a leaky-bucket queue"] : []),
    ...(limits.some(changesByDenial) ? ["an elastic window"] : []),
    ...(count === undefined ? [] : ["count"]),
    ...(isOfResponse ? ["a cost from the response"] : []),
    ...(ban === undefined ? [] : ["ban"]),
  ];
  if (needing.length === 0) return;
  const accepted = `"strict", because the policy has ${needing.join(", ")}`;
  report({ field: "consistency", value: consistency, accepted });
}

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
