/** The fields that determine where a request is decided: in an isolate or an object, and in which object. */
import * as v from "valibot";
import { changesByDenial, holdsSlots, isQueue, type Limit } from "../strategies/index.ts";
import { isRecord } from "../validation/json.ts";
import { asText, type ReportField } from "../validation/problems.ts";
import { choice, durationBetween, type WrittenFields } from "./schemas.ts";

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

export const defaultShards = 32;
export const mostShards = 4096;

const shortestSyncMs = 100;
/** `waitUntil` keeps a Worker running for 30 s at most. This bound leaves time to repeat a failed sync. */
const longestSyncMs = 10_000;
const defaultSyncMs = 1_000;

export const placementEntries = {
  objects: v.optional(choice(["per-key", "sharded"])),
  // `readShards` validates it, since its meaning depends on `objects`.
  shards: v.optional(v.unknown()),
  locationHint: v.optional(choice(locationHints)),
  jurisdiction: v.optional(choice(jurisdictions)),
  consistency: v.optional(choice(["strict", "leased", "eventual"]), "strict"),
  syncEvery: v.optional(
    durationBetween(shortestSyncMs, longestSyncMs, 'a duration from 100 ms to 10 s such as "500ms" or "2s"'),
  ),
};

type PlacementOutput = v.InferOutput<v.ObjectSchema<typeof placementEntries, undefined>>;

/**
 * Settings that determine the object of a key: another setting selects another object. Stated here, because the npm package
 * declares it: an inferred type would name the schema library.
 */
export interface ObjectSettings {
  /** The number of objects that all keys share; null: one object for each key. */
  readonly shards: number | null;
  readonly locationHint: LocationHint | null;
  readonly jurisdiction: Jurisdiction | null;
}

export const objectsOf = ({ locationHint, jurisdiction }: PlacementOutput, shards: number | null): ObjectSettings => ({
  shards,
  locationHint: locationHint ?? null,
  jurisdiction: jurisdiction ?? null,
});

export function readShards({ objects = "per-key", shards }: WrittenFields, report: ReportField): number | null {
  if (shards === undefined) return objects === "sharded" ? defaultShards : null;
  const isOutOfPlace = objects === "per-key";
  const isCount = typeof shards === "number" && Number.isInteger(shards) && shards >= 1 && shards <= mostShards;
  if (isCount && !isOutOfPlace) return shards;
  const accepted = isOutOfPlace ? 'nothing unless objects is "sharded"' : `an integer from 1 to ${mostShards}`;
  report({ field: "shards", value: shards, accepted });
  return null;
}

/**
 * `strict`: the object decides each request. `leased`: an isolate borrows a slice of the remaining units and spends it
 * locally. `eventual`: an isolate decides on the object's last snapshot plus its own spends, which it sends to the object
 * every `syncEveryMs`.
 */
type Consistency = { readonly kind: "strict" | "leased" } | { readonly kind: "eventual"; readonly syncEveryMs: number };

export const consistencyOf = ({ consistency: kind, syncEvery = defaultSyncMs }: PlacementOutput): Consistency =>
  kind === "eventual" ? { kind, syncEveryMs: syncEvery } : { kind };

/**
 * Reports a consistency other than `strict` in a policy with fields that need the object's decision, and names these
 * fields.
 */
export function reportConsistencyConflicts(
  { consistency, syncEvery, count, cost, ban }: WrittenFields,
  limits: readonly Limit[],
  report: ReportField,
): void {
  const isOther = consistency === undefined || consistency === "strict" || consistency === "leased";
  if (syncEvery !== undefined && isOther) {
    report({ field: "syncEvery", value: syncEvery, accepted: 'nothing unless consistency is "eventual"' });
  }
  if (consistency !== "eventual" && consistency !== "leased") return;
  const isOfResponse = isRecord(cost) && asText(cost["from"]).startsWith("response-header:");
  const needing = Object.entries({
    "a concurrency limit": limits.some(holdsSlots),
    "a leaky-bucket queue": limits.some(isQueue),
    "an elastic window": limits.some(changesByDenial),
    count: count !== undefined,
    "a cost from the response": isOfResponse,
    ban: ban !== undefined,
  }).flatMap(([name, isPresent]) => (isPresent ? [name] : []));
  if (needing.length === 0) return;
  const accepted = `"strict", because the policy has ${needing.join(", ")}`;
  report({ field: "consistency", value: consistency, accepted });
}
