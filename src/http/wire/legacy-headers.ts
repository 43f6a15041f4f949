/**
 * The `X-RateLimit-*` fields, which no standard defines. Their form is GitHub's: `Reset` is in seconds since the Unix epoch.
 * They describe one limit: a violated one, otherwise the one with the least remaining.
 */
import type { Decision } from "../../strategies/index.ts";
import { byLeastRemaining, advertisedRemaining, advertisedWaitMs } from "./rate-limit-fields.ts";

export const legacyNames = ["X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"] as const;

export type LegacyFields = Readonly<Record<(typeof legacyNames)[number], string>>;

/**
 * @param decisions at least one
 * @param nowMs the time of the decisions, since the Unix epoch
 * @throws RangeError when the decisions have no limits
 */
export function legacyFields(decisions: readonly Decision[], nowMs: number): LegacyFields {
  const all = decisions.flatMap(({ limits }) => limits);
  const violated = all.filter(({ allowed }) => !allowed);
  const [first] = (violated.length > 0 ? violated : all).toSorted(byLeastRemaining);
  if (first === undefined) throw new RangeError("a decision has no limits");
  const isDenied = decisions.some(({ allowed }) => !allowed);
  const isBanned = decisions.some(({ bannedForMs }) => bannedForMs > 0);
  const waitMs = isDenied ? advertisedWaitMs(decisions) : first.replenishAfterMs;
  const resetMs = nowMs + (waitMs ?? first.resetAfterMs);
  return {
    "X-RateLimit-Limit": String(first.limit),
    "X-RateLimit-Remaining": String(isBanned ? 0 : advertisedRemaining(first)),
    "X-RateLimit-Reset": String(Math.ceil(resetMs / 1000)),
  };
}

/** Adds nothing where the origin has sent any of the fields: clients read the three together. */
export function addLegacyFields(headers: Headers, fields: LegacyFields): void {
  if (legacyNames.some((name) => headers.has(name))) return;
  for (const [name, value] of Object.entries(fields)) headers.set(name, value);
}
