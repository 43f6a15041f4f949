/** How long a client waits that obeys `Retry-After`. */
import { type Decision, strategies } from "../../strategies/index.ts";

/** A slot can become free long before its lease ends: the response states this wait. */
const slotWaitMs = 1_000;

/** The wait after a denial: as exact as the limits know it, and 1 s for a slot. Null: the request never fits. */
export function denialWaitMs({ limits }: Decision): number | null {
  let longestMs = 0;
  for (const { allowed, strategy, retryAfterMs } of limits) {
    if (allowed) continue;
    if (retryAfterMs === null) return null;
    const isSlot = strategies.get(strategy)?.holdsSlots === true;
    longestMs = Math.max(longestMs, isSlot ? slotWaitMs : retryAfterMs);
  }
  return longestMs;
}

/** `Retry-After` of the response to a denied request: whole seconds, at least one. */
export const obeyedWaitMs = (waitMs: number): number => Math.max(1, Math.ceil(waitMs / 1_000)) * 1_000;
