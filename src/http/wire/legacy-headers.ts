/**
 * `X-RateLimit-*`, which no standard defines: as GitHub sends them, `Reset` being an instant in seconds since the Unix
 * epoch. There is one value of each, so they tell of one limit: the one that a client meets first.
 */
import type { Decision } from "../../strategies/index.ts";
import { byLeastRemaining, sentRemaining, toldWaitMs } from "./rate-limit-fields.ts";

export const legacyNames = [
  "X-RateLimit-Limit",
  "X-RateLimit-Remaining",
  "X-RateLimit-Reset",
] as const;

export type LegacyFields = Readonly<Record<(typeof legacyNames)[number], string>>;

/**
 * @param decisions at least one
 * @param nowMs when they were made, since the Unix epoch
 */
export function legacyFields(decisions: readonly Decision[], nowMs: number): LegacyFields {
  const all = decisions.flatMap(({ limits }) => limits);
  const violated = all.filter(({ allowed }) => !allowed);
  const [first] = (violated.length > 0 ? violated : all).toSorted(byLeastRemaining);
  if (first === undefined) throw new RangeError("a decision has no limits");
  const isDenied = decisions.some(({ allowed }) => !allowed);
  const isBanned = decisions.some(({ bannedForMs }) => bannedForMs > 0);
  const waitMs = isDenied ? toldWaitMs(decisions) : first.replenishAfterMs;
  const resetMs = nowMs + (waitMs ?? first.resetAfterMs);
  return {
    "X-RateLimit-Limit": String(first.limit),
    "X-RateLimit-Remaining": String(isBanned ? 0 : sentRemaining(first)),
    "X-RateLimit-Reset": String(Math.ceil(resetMs / 1000)),
  };
}

/** Clients read the three as one: where the origin has sent any, ours would tell of something else. */
export function addLegacyFields(headers: Headers, fields: LegacyFields): void {
  if (legacyNames.some((name) => headers.has(name))) return;
  for (const [name, value] of Object.entries(fields)) headers.set(name, value);
}
