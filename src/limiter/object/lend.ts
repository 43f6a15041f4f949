/** Lends a part of what remains of a key's quota to an isolate. */
import type { Charge, CheckReply, SliceWanted } from "../protocol.ts";
import type { KeyTurn } from "./charged-meter.ts";
import { firstEndMs } from "./key-rule-sets.ts";

/** A slice gets at most this part of what remains. Near the limit nothing is lent, and every request calls the object. */
const lentPart = 8;

/**
 * Opens a slice, except for a key that a rule allows or blocks: the object must see every request to enforce the rule.
 * Opens none that would outlive a rule either, because the limits may change with the rule's end.
 * @returns the units that each policy lends; 0 when no slice is opened
 */
export function lend(
  { keyState, nowMs }: KeyTurn,
  charges: readonly Charge[],
  { decisions, spentAtMs, keyRules = [] }: CheckReply,
  { id, units: wantedUnits, leastUnits = 1, ttlMs }: SliceWanted,
): number {
  const isEnforced = charges.every(({ isDryRun }) => isDryRun !== true);
  if (!isEnforced || !decisions.every(({ allowed }) => allowed)) return 0;
  if (keyRules.some((rule) => rule !== null && rule.kind !== "limits")) return 0;
  const remaining = decisions.flatMap(({ limits }) => limits.map((limit) => limit.remaining));
  const units = Math.min(wantedUnits, Math.floor(Math.min(...remaining) / lentPart));
  if (units < leastUnits) return 0;
  const parts = charges.map(({ policy }, index) => ({
    policy,
    limits: keyState.meters.limitsOf(policy),
    endsAtMs: Math.max(nowMs, spentAtMs[index] ?? nowMs) + ttlMs,
  }));
  const outlivesRule = parts.some(({ policy, endsAtMs }) => endsAtMs > firstEndMs(keyState.rulesOf(policy)));
  return outlivesRule ? 0 : keyState.lend({ id, units, ttlMs, parts });
}
