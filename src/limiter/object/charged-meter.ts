/** One charge of a call with its meter, and everything that takes precedence over its limits: bans and key rules. */
import type { Decision, Limit, Meter } from "../../strategies/index.ts";
import { longestWaitMs } from "../../strategies/index.ts";
import type { Charge, KeyRule } from "../protocol.ts";
import type { KeyState } from "./key-state.ts";
import { decidingRule, firstEndMs, limitsUnder, rulesAt } from "./key-rule-sets.ts";

/** The state of a key, and the one instant at which a call acts on it. */
export interface KeyTurn {
  readonly keyState: KeyState;
  readonly nowMs: number;
}

/** For how long a charge under these limits is reserved, in milliseconds; null when it is spent for good. */
export type TtlOf = (limits: readonly Limit[]) => number | null;

export interface ChargedMeter {
  readonly charge: Charge;
  /** The limits in effect: those of a key rule, or of the charge. The meter has them. */
  readonly limits: readonly Limit[];
  readonly meter: Meter;
  readonly heldUnits: number;
  /** More than 0 while a ban denies the key. */
  readonly bannedForMs: number;
  /** The live key rules of the policy, the newest first. */
  readonly rules: readonly KeyRule[];
  /** The rule that decides the charge or gives its limits; null without one. */
  readonly rule: KeyRule | null;
}

export const chargedMeters = (turn: KeyTurn, charges: readonly Charge[]): readonly ChargedMeter[] =>
  charges.map((charge) => chargedMeter(turn, charge));

function chargedMeter({ keyState, nowMs }: KeyTurn, charge: Charge): ChargedMeter {
  const { policy, ban } = charge;
  const rules = keyState.rulesOf(policy);
  const limits = limitsUnder(rules, charge.limits);
  const bannedForMs = ban === undefined ? 0 : keyState.meters.bannedForMs(policy, ban, nowMs);
  return {
    charge,
    limits,
    meter: keyState.meterOf({ policy, limits }),
    heldUnits: keyState.heldUnits(policy),
    bannedForMs,
    rules,
    rule: decidingRule(rules, bannedForMs > 0),
  };
}

/** Whether a key rule denies the charge. */
export const isBlocked = ({ rule }: ChargedMeter): boolean => rule?.kind === "block";

/** Whether a key rule allows the charge, which then spends nothing. */
export const isExempt = ({ rule }: ChargedMeter): boolean => rule?.kind === "allow";

/** The decision by key rules and limits, without the ban. Spends nothing. */
export function lookOf(charged: ChargedMeter, { nowMs }: KeyTurn): Decision {
  const { charge, meter, heldUnits } = charged;
  const cost = isExempt(charged) ? 0 : charge.cost;
  return underRules(charged, meter.look(cost, nowMs, heldUnits), nowMs);
}

/** Spends the charge if its key rules and limits allow it. */
export function spend(charged: ChargedMeter, turn: KeyTurn, ttlMsOf: TtlOf): Decision {
  if (isBlocked(charged) || isExempt(charged)) return lookOf(charged, turn);
  const { charge, limits, meter, heldUnits } = charged;
  const { cost } = charge;
  const { nowMs } = turn;
  const ttlMs = ttlMsOf(limits);
  const decision =
    ttlMs === null ? meter.consume(cost, nowMs, heldUnits) : meter.reserve({ cost, ttlMs }, nowMs, heldUnits);
  return underRules(charged, decision, nowMs);
}

/** A decision by limits, changed by the key rules of the charge. */
function underRules(charged: ChargedMeter, decision: Decision, nowMs: number): Decision {
  if (charged.rules.length === 0) return decision;
  const { cost } = charged.charge;
  if (isExempt(charged)) return { ...decision, cost, allowed: true, delayMs: 0, retryAfterMs: 0 };
  if (decision.allowed && !isBlocked(charged)) return decision;
  const retryAfterMs = waitUnderRules(charged, nowMs);
  return { ...decision, allowed: false, delayMs: 0, retryAfterMs };
}

/**
 * The wait until the charge is allowed, if nothing else is spent. Rules that expire meanwhile change the limits, or end a
 * block.
 * @returns milliseconds from `fromMs`, at which the meter must have the limits in effect; null if the charge never fits
 */
function waitUnderRules({ charge, meter, rules, heldUnits }: ChargedMeter, fromMs: number): number | null {
  let atMs = fromMs;
  for (;;) {
    const live = rulesAt(rules, atMs);
    const untilMs = firstEndMs(live);
    const kind = decidingRule(live, false)?.kind;
    if (kind === "allow") return atMs - fromMs;
    if (kind !== "block") {
      const limits = limitsUnder(live, charge.limits);
      const later = live.length === rules.length ? meter : meter.withLimits(limits);
      const waitMs = later.look(charge.cost, atMs, heldUnits).retryAfterMs;
      if (waitMs !== null && atMs + waitMs < untilMs) return atMs + waitMs - fromMs;
    }
    if (untilMs === Number.POSITIVE_INFINITY) return null;
    atMs = untilMs;
  }
}

/** The decision while a ban denies the key for `bannedForMs`. */
export function withBan(bannedForMs: number, decision: Decision): Decision {
  if (bannedForMs === 0) return decision;
  const retryAfterMs = longestWaitMs([decision, { retryAfterMs: bannedForMs }]);
  return { ...decision, allowed: false, delayMs: 0, retryAfterMs, bannedForMs };
}

/** The decision with waits that suffice while slices of the policy are open. */
export function withSliceWait(turn: KeyTurn, charge: Charge, decision: Decision): Decision {
  const { keyState, nowMs } = turn;
  const { policy } = charge;
  if (keyState.heldUnits(policy) === 0) return decision;
  const { meter: after, endsAtMs } = keyState.meterAfterSlices(policy);
  const meter = after.withLimits(keyState.meters.limitsOf(policy));
  const afterMs = endsAtMs - nowMs;
  const delayed = delayedBy(afterMs, decision, meter.look(decision.cost, endsAtMs));
  const rules = keyState.rulesOf(policy);
  if (rules.length === 0) return delayed;
  if (decision.allowed) return { ...delayed, retryAfterMs: 0 };
  const live = rulesAt(rules, endsAtMs);
  const limits = limitsUnder(live, charge.limits);
  const waitMs = waitUnderRules(
    { ...chargedMeter(turn, charge), meter: meter.withLimits(limits), rules: live, heldUnits: 0 },
    endsAtMs,
  );
  const waits = [{ retryAfterMs: waitMs === null ? null : afterMs + waitMs }];
  return {
    ...delayed,
    retryAfterMs: longestWaitMs([...waits, { retryAfterMs: decision.bannedForMs }]),
  };
}

/** The decision with the waits of `later`, a look made `afterMs` later. */
function delayedBy(afterMs: number, decision: Decision, later: Decision): Decision {
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
