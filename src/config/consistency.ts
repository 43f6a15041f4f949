/** Who decides: the object alone, or isolates on what it has told them. */
import * as v from "valibot";
import { changesByDenial, isQueue, type Limit, holdsSlots } from "../strategies/index.ts";
import { durationBetween } from "./schemas.ts";
import { asText, type ConfigProblem, isRecord } from "../validation/problems.ts";

/**
 * `strict`: the object decides each request. `leased`: an isolate borrows a part of what is left for a moment, and spends
 * it by itself. `eventual`: an isolate decides on what the object has last told it and on what it has spent since, which
 * it tells the object every `syncEveryMs`.
 */
export type Consistency =
  | { readonly kind: "strict" }
  | { readonly kind: "leased" }
  | { readonly kind: "eventual"; readonly syncEveryMs: number };

const shortestSyncMs = 100;
/** Work goes on after an answer for 30 s at the most (Cloudflare, `waitUntil`), and what fails is tried again. */
const longestSyncMs = 10_000;
const defaultSyncMs = 1_000;

const kinds = ["strict", "leased", "eventual"] as const;

/** As fields of a policy. */
export const consistencyFields = {
  consistency: v.optional(v.picklist(kinds, 'one of "strict", "leased", "eventual"'), "strict"),
  syncEvery: v.optional(
    durationBetween(
      shortestSyncMs,
      longestSyncMs,
      'a duration from 100 ms to 10 s such as "500ms" or "2s"',
    ),
  ),
};

/** @param written its fields, once each is fine */
export const consistencyOf = (written: {
  readonly consistency: Consistency["kind"];
  readonly syncEvery?: number | undefined;
}): Consistency =>
  written.consistency === "eventual"
    ? { kind: "eventual", syncEveryMs: written.syncEvery ?? defaultSyncMs }
    : { kind: written.consistency };

/** What needs the object's own decision: each is named that a policy has. */
export function reportConsistencyConflicts(
  policy: unknown,
  limits: readonly Limit[],
  report: (problem: Omit<ConfigProblem, "variable">) => void,
): void {
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
