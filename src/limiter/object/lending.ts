/** What slices change in decisions: how many units are lent, and the waits while units are lent. */
import { longestWaitMs } from "../../strategies/index.ts";
import type { Charge, ChargeDecision, CheckReply, SliceWanted } from "../protocol.ts";
import { ruledCharge, waitUnderRules } from "./decide.ts";
import { type KeyTurn, stateOf } from "./key-turn.ts";
import { firstEndMs, limitsUnder, rulesAt } from "./runtime-key-rules.ts";

/**
 * Lengthens the waits of a reply so that they suffice while slices are open. The lengthened waits assume that all lent
 * units are spent when the last slice ends.
 */
export function withSliceWaits(turn: KeyTurn, charges: readonly Charge[], reply: CheckReply): CheckReply {
  // If this turn has found a mis-set clock, the slices must be corrected first.
  turn.keyState.followClock();
  for (const { keyState } of turn.others?.values() ?? []) keyState.followClock();
  // Only keys of a single level have slices: trees are strict.
  if (turn.keyState.slices === null) return reply;
  const decisions = reply.decisions.map((decision, index) => {
    const charge = charges[index];
    return charge === undefined ? decision : withSliceWait(turn, charge, decision);
  });
  return { ...reply, decisions };
}

/** The decision with waits that suffice while slices of the policy are open. */
function withSliceWait(turn: KeyTurn, charge: Charge, decision: ChargeDecision): ChargeDecision {
  const { nowMs } = turn;
  const { policy, key } = charge;
  const keyState = stateOf(turn, key);
  if (keyState.heldUnits(policy) === 0) return decision;
  const { meter: after, endsAtMs } = keyState.meterAfterSlices(policy);
  const meter = after.withLimits(keyState.limitsOf(policy));
  const afterMs = endsAtMs - nowMs;
  const delayed = delayedBy(afterMs, decision, meter.look(decision.cost, endsAtMs));
  const rules = keyState.rulesOf(policy);
  if (rules.length === 0) return delayed;
  if (decision.allowed) return { ...delayed, retryAfterMs: 0 };
  const live = rulesAt(rules, endsAtMs);
  const limits = limitsUnder(live, charge.limits);
  const waitMs = waitUnderRules(
    { ...ruledCharge(turn, charge), meter: meter.withLimits(limits), rules: live, heldUnits: 0 },
    endsAtMs,
  );
  const waits = [{ retryAfterMs: waitMs === null ? null : afterMs + waitMs }];
  return {
    ...delayed,
    retryAfterMs: longestWaitMs([...waits, { retryAfterMs: decision.bannedForMs }]),
  };
}

/** The decision with the waits of `later`, a look made `afterMs` later. */
function delayedBy(afterMs: number, decision: ChargeDecision, later: ChargeDecision): ChargeDecision {
  const limits = decision.limits.map((limit, index) => {
    const laterLimit = later.limits[index] ?? limit;
    const hasGrown = laterLimit.remaining > limit.remaining;
    return {
      ...limit,
      retryAfterMs:
        limit.allowed || laterLimit.retryAfterMs === null ? limit.retryAfterMs : afterMs + laterLimit.retryAfterMs,
      replenishAfterMs: afterMs + (hasGrown ? 0 : laterLimit.replenishAfterMs),
      resetAfterMs: afterMs + laterLimit.resetAfterMs,
    };
  });
  const retryAfterMs = longestWaitMs([...limits, { retryAfterMs: decision.bannedForMs }]);
  return { ...decision, retryAfterMs, limits };
}

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
    limits: keyState.limitsOf(policy),
    endsAtMs: Math.max(nowMs, spentAtMs[index] ?? nowMs) + ttlMs,
  }));
  const outlivesRule = parts.some(({ policy, endsAtMs }) => endsAtMs > firstEndMs(keyState.rulesOf(policy)));
  return outlivesRule ? 0 : keyState.lend({ id, units, ttlMs, parts });
}
