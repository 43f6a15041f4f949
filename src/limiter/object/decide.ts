/**
 * Decides the charges of one key together: if every enforced policy allows its charge, all are spent; otherwise none
 * is. A ban or a key rule can deny in addition to the limits. A dry run never changes what is decided for the other
 * policies.
 */
import {
  boundedDecision,
  type Limit,
  type Meter,
  changesByDenial,
  holdsSlots,
  longestWaitMs,
  provisionalTtlMs,
} from "../../strategies/index.ts";
import {
  type Charge,
  type ChargeDecision,
  type CheckCall,
  type CheckReply,
  defaultFirmMs,
  type ReserveCall,
  type SliceWanted,
} from "../protocol.ts";
import { addBounds, noteRequest, spendParts } from "./bounds.ts";
import { type ChargeBounds, type KeyTurn, type RuledCharge, stateOf, statesOf } from "./key-turn.ts";
import { decidingRule, firstEndMs, limitsUnder, rulesAt } from "./runtime-key-rules.ts";

/**
 * How long a denial is firm while a provisional spend is open, in milliseconds. That spend may be given back at any
 * time, and isolates do not learn of it. With 0, every request of a flood would reach the object.
 */
const provisionalFirmMs = 100;

/** Returns what `decide` would decide for each charge alone. Spends nothing. */
export const lookAt = (turn: KeyTurn, charges: readonly Charge[]): CheckReply =>
  looksOf(ruledCharges(turn, charges), turn);

const looksOf = (all: readonly RuledCharge[], turn: KeyTurn): CheckReply =>
  replyOf(
    all,
    all.map((each) => withBan(each.bannedForMs, lookOf(each, turn))),
    turn,
  );

/** Spends every charge if all enforced policies allow theirs. A dry run then spends if its own limits allow it. */
export function decide(turn: KeyTurn, call: CheckCall | ReserveCall): CheckReply {
  const { nowMs } = turn;
  const all = ruledCharges(turn, call.charges);
  const enforced = all.filter(({ charge }) => charge.isDryRun !== true);
  // As with the blocklist, the denial changes no state and does not count towards a ban.
  if (enforced.some(isBlocked)) return { ...looksOf(all, turn), ...firmFor(firstChangeMs(all, turn)) };
  const isBanned = enforced.some(({ bannedForMs }) => bannedForMs > 0);
  const isBounded = all.some(({ bounds }) => bounds !== null);
  if (isBounded && isBanned) for (const each of all) each.bounds = null;
  else if (isBounded) noteRequest(all, nowMs);
  const isAllowed = !isBanned && (isOneUnbound(enforced) || enforced.every((each) => lookOf(each, turn).allowed));
  const decided = new Map<RuledCharge, ChargeDecision>();
  for (const each of enforced) {
    // The request counts as denied under all policies, and a denial restarts elastic windows.
    if (!isAllowed && !isExempt(each)) each.meter.deny(nowMs);
    decided.set(each, isAllowed ? spend(each, turn, call) : lookOf(each, turn));
  }
  const isSpent = isAllowed && enforced.every((each) => decided.get(each)?.allowed === true);
  const decisions = all.map((each) => {
    const enforcedDecision = decided.get(each);
    const decision = enforcedDecision ?? (isSpent ? spend(each, turn, call) : lookOf(each, turn));
    return withStrike(each, decision, turn);
  });
  const reply = replyOf(all, decisions, turn);
  if (isSpent || !enforced.every(isFirmFor) || isByBound(reply.decisions)) return reply;
  const states = statesOf(turn);
  if (!states.every((each) => each.isSettled(nowMs))) return reply;
  const changeMs = firstChangeMs(all, turn);
  const isProvisional = states.some((each) => each.hasProvisional(nowMs));
  return { ...reply, ...firmFor(isProvisional ? Math.min(changeMs, provisionalFirmMs) : changeMs) };
}

/** Whether there is a single policy and its limits alone bound it. It needs no look: its spend decides. */
const isOneUnbound = (enforced: readonly RuledCharge[]): boolean =>
  enforced.length === 1 && enforced[0]?.bounds === null;

/** Whether every enforced policy allowed its charge. */
export const isAdmitted = (charges: readonly Charge[], { decisions }: CheckReply): boolean =>
  decisions.every(({ allowed }, index) => allowed || charges[index]?.isDryRun === true);

function replyOf(all: readonly RuledCharge[], decisions: ChargeDecision[], { nowMs }: KeyTurn): CheckReply {
  // The instant to which a charge is booked: the latest that its meter has seen.
  const spentAtMs = all.map((each) => (isExempt(each) ? 0 : Math.max(nowMs, each.meter.seenMs)));
  const hasRules = all.some(({ rule }) => rule !== null);
  return { decisions, spentAtMs, ...(hasRules && { keyRules: all.map(({ rule }) => rule) }) };
}

/** The time until the first key rule of the charges expires, in milliseconds. */
const firstChangeMs = (all: readonly RuledCharge[], { nowMs }: KeyTurn): number =>
  Math.min(...all.map(({ rules }) => firstEndMs(rules))) - nowMs;

const firmFor = (firmForMs: number): Pick<CheckReply, "isFirm" | "firmForMs"> => ({
  isFirm: true,
  ...(firmForMs < defaultFirmMs && { firmForMs }),
});

/** Whether other children or a class deny, which other requests of the key may not meet. */
const isByBound = (decisions: readonly ChargeDecision[]): boolean =>
  decisions.some(({ reason }) => reason !== undefined);

/**
 * A denial is not firm under limits with slots, elastic windows or a ban: slots become free at any time, and each
 * denial changes an elastic window and the count of denials towards a ban.
 */
const isFirmFor = (charged: RuledCharge): boolean =>
  isExempt(charged) ||
  ((charged.charge.ban === undefined || charged.bannedForMs > 0) &&
    !charged.limits.some((limit) => holdsSlots(limit) || changesByDenial(limit)));

/** The decision under the ban that denies the key, or under the ban that this denial brings. */
function withStrike(charged: RuledCharge, decision: ChargeDecision, { nowMs }: KeyTurn): ChargeDecision {
  const { charge, bannedForMs, keyState } = charged;
  const { policy, ban } = charge;
  // A key is not to blame for what other children are guaranteed.
  const isDenial = !decision.allowed && decision.reason !== "share";
  const isStrike = ban !== undefined && bannedForMs === 0 && isDenial && !isBlocked(charged);
  return withBan(isStrike ? keyState.strike(policy, ban, nowMs) : bannedForMs, decision);
}

export function ruledCharges(turn: KeyTurn, charges: readonly Charge[]): readonly RuledCharge[] {
  const all = charges.map((charge) => ruledCharge(turn, charge));
  const isBounded = all.some(({ charge }) => charge.share !== undefined || charge.upTo !== undefined);
  if (isBounded || !turn.sharedLimits.isEmpty) addBounds(turn, all);
  return all;
}

function ruledCharge(turn: KeyTurn, charge: Charge): RuledCharge {
  const { policy, ban, key } = charge;
  const { nowMs } = turn;
  const keyState = stateOf(turn, key);
  const rules = keyState.rulesOf(policy);
  // Most keys have no rules.
  const hasRules = rules.length > 0;
  const limits = hasRules ? limitsUnder(rules, charge.limits) : charge.limits;
  const bannedForMs = ban === undefined ? 0 : keyState.bannedForMs(policy, ban, nowMs);
  return {
    charge,
    keyState,
    limits,
    meter: keyState.meterOf({ policy, limits }),
    heldUnits: keyState.heldUnits(policy),
    bounds: null,
    bannedForMs,
    rules,
    rule: hasRules ? decidingRule(rules, bannedForMs > 0) : null,
  };
}

/** Whether a key rule denies the charge. */
export const isBlocked = ({ rule }: RuledCharge): boolean => rule?.kind === "block";

/** Whether a key rule allows the charge, which then spends nothing. */
export const isExempt = ({ rule }: RuledCharge): boolean => rule?.kind === "allow";

/** The decision by key rules, limits and bounds, without the ban. Spends nothing. */
function lookOf(charged: RuledCharge, { nowMs }: KeyTurn): ChargeDecision {
  const { charge, meter, heldUnits, bounds } = charged;
  const cost = isExempt(charged) ? 0 : charge.cost;
  const decision =
    bounds === null ? meter.look(cost, nowMs, heldUnits) : withinBounds(meter, cost, nowMs, { ...bounds, heldUnits });
  return underRules(charged, decision, nowMs);
}

function withinBounds(meter: Meter, cost: number, nowMs: number, bounds: ChargeBounds): ChargeDecision {
  const { decision, bound } = boundedDecision(meter, cost, nowMs, bounds);
  return bound === null ? decision : { ...decision, reason: bound };
}

/** Spends the charge if its key rules, limits and bounds allow it. */
function spend(charged: RuledCharge, turn: KeyTurn, call: CheckCall | ReserveCall): ChargeDecision {
  const { charge, limits, meter, heldUnits, bounds } = charged;
  if (isBlocked(charged) || isExempt(charged)) return lookOf(charged, turn);
  const before = bounds === null ? null : lookOf(charged, turn);
  if (before?.allowed === false) return before;
  const { cost } = charge;
  const { nowMs } = turn;
  const ttlMs = ttlMsOf(call, limits);
  const decision =
    ttlMs === null ? meter.consume(cost, nowMs, heldUnits) : meter.reserve({ cost, ttlMs }, nowMs, heldUnits);
  if (bounds === null) return underRules(charged, decision, nowMs);
  spendParts(charged, ttlMs, nowMs);
  const { limits: left } = withinBounds(meter, 0, nowMs, { ...bounds, heldUnits });
  return { ...decision, limits: left };
}

/**
 * For how long a charge under these limits is reserved, in milliseconds; null when it is spent for good. A provisional
 * spend keeps the data of a reservation, so that `refund` can undo it exactly (law 10 in strategies/strategy.ts).
 */
function ttlMsOf(call: CheckCall | ReserveCall, limits: readonly Limit[]): number | null {
  if ("ttlMs" in call) return call.ttlMs;
  const { provisionalMs = 0 } = call;
  return provisionalMs === 0 ? null : provisionalTtlMs(limits, provisionalMs);
}

/** A decision by limits, changed by the key rules of the charge. */
function underRules(charged: RuledCharge, decision: ChargeDecision, nowMs: number): ChargeDecision {
  if (charged.rules.length === 0) return decision;
  const { cost } = charged.charge;
  if (isExempt(charged)) return { ...decision, cost, allowed: true, delayMs: 0, retryAfterMs: 0 };
  if (decision.allowed && !isBlocked(charged)) return decision;
  const ofRules = { retryAfterMs: waitUnderRules(charged, nowMs) };
  const retryAfterMs = longestWaitMs(decision.reason === undefined ? [ofRules] : [ofRules, decision]);
  return { ...decision, allowed: false, delayMs: 0, retryAfterMs };
}

/**
 * The wait until the charge is allowed, if nothing else is spent. Rules that expire meanwhile change the limits, or end a
 * block.
 * @returns milliseconds from `fromMs`, at which the meter must have the limits in effect; null if the charge never fits
 */
function waitUnderRules({ charge, meter, rules, heldUnits }: RuledCharge, fromMs: number): number | null {
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
function withBan(bannedForMs: number, decision: ChargeDecision): ChargeDecision {
  if (bannedForMs === 0) return decision;
  const retryAfterMs = longestWaitMs([decision, { retryAfterMs: bannedForMs }]);
  return { ...decision, allowed: false, delayMs: 0, retryAfterMs, bannedForMs };
}

/** Notes that a later object may still give back what this turn spends. */
export function noteProvisional(turn: KeyTurn, { charges, provisionalMs = 0 }: CheckCall, reply: CheckReply): void {
  if (provisionalMs === 0 || !isAdmitted(charges, reply)) return;
  for (const each of statesOf(turn)) each.noteProvisional(turn.nowMs, provisionalMs);
}

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
