/**
 * Decides the charges of one key together: every enforced policy allows, and then all spend; otherwise none does. A
 * ban can deny in addition to the limits. A dry run never changes what is decided for the other policies.
 */
import {
  changesByDenial,
  type Decision,
  longestWaitMs,
  type Meter,
  holdsSlots,
} from "../../strategies/index.ts";
import type { KeyState } from "./key-state.ts";
import type { Charge, CheckReply } from "../protocol.ts";

/** The state of a key, and the one instant at which a call acts on it. */
export interface KeyTurn {
  readonly keyState: KeyState;
  readonly nowMs: number;
}

/** For how long a charge is reserved, in milliseconds; null when it is spent for good. */
export type TtlOf = (charge: Charge) => number | null;

/**
 * How long a denial is firm while a provisional spend is open, in milliseconds. That spend may be given back at any
 * time, and isolates do not learn of it. With 0, every request of a flood would reach the object.
 */
const provisionalFirmMs = 100;

interface ChargedMeter {
  readonly charge: Charge;
  readonly meter: Meter;
  readonly heldUnits: number;
  /** More than 0 while a ban denies the key. */
  readonly bannedForMs: number;
}

/** Returns what `decide` would decide for each charge alone. Spends nothing. */
export function lookAt(turn: KeyTurn, charges: readonly Charge[]): CheckReply {
  const all = chargedMeters(turn, charges);
  const decisions = all.map((each) => withBan(each.bannedForMs, lookOf(each, turn)));
  return { decisions, spentAtMs: spentAtMsOf(all, turn) };
}

/** Spends every charge if all enforced policies allow theirs. A dry run then spends if its own limits allow it. */
export function decide(turn: KeyTurn, charges: readonly Charge[], ttlMsOf: TtlOf): CheckReply {
  const { keyState, nowMs } = turn;
  const all = chargedMeters(turn, charges);
  const enforced = all.filter(({ charge }) => charge.isDryRun !== true);
  const isBanned = enforced.some(({ bannedForMs }) => bannedForMs > 0);
  // A single policy needs no look: its spend decides.
  const isAllowed =
    !isBanned && (enforced.length === 1 || enforced.every((each) => lookOf(each, turn).allowed));
  const decided = new Map<ChargedMeter, Decision>();
  for (const each of enforced) {
    // The request counts as denied under all policies, and a denial restarts elastic windows.
    if (!isAllowed) each.meter.deny(nowMs);
    decided.set(each, isAllowed ? spend(each, turn, ttlMsOf) : lookOf(each, turn));
  }
  const isAdmitted = isAllowed && enforced.every((each) => decided.get(each)?.allowed === true);
  const decisions = all.map((each) => {
    const enforcedDecision = decided.get(each);
    const decision =
      enforcedDecision ?? (isAdmitted ? spend(each, turn, ttlMsOf) : lookOf(each, turn));
    return withStrike(each, decision, turn);
  });
  const isFirm = !isAdmitted && keyState.isSettled(nowMs) && enforced.every(isFirmFor);
  return {
    decisions,
    spentAtMs: spentAtMsOf(all, turn),
    ...(isFirm && { isFirm }),
    ...(isFirm && keyState.hasProvisional(nowMs) && { firmForMs: provisionalFirmMs }),
  };
}

/**
 * Lengthens the waits of a reply so that they suffice while slices are open. They assume that all lent units are spent when
 * the last slice ends.
 */
export function withSliceWaits(
  { keyState, nowMs }: KeyTurn,
  charges: readonly Charge[],
  reply: CheckReply,
): CheckReply {
  if (!keyState.hasSlices) return reply;
  const decisions = reply.decisions.map((decision, index) => {
    const policy = charges[index]?.policy ?? "";
    if (keyState.heldUnits(policy) === 0) return decision;
    const { meter, endsAtMs } = keyState.meterAfterSlices(policy);
    const later = meter.withLimits(keyState.limitsOf(policy)).look(decision.cost, endsAtMs);
    return delayed(decision, later, endsAtMs - nowMs);
  });
  return { ...reply, decisions };
}

/** The decision with the waits of `later`, a look made `afterMs` later. */
function delayed(decision: Decision, later: Decision, afterMs: number): Decision {
  const limits = decision.limits.map((limit, index) => {
    const laterLimit = later.limits[index] ?? limit;
    const hasGrown = laterLimit.remaining > limit.remaining;
    return {
      ...limit,
      retryAfterMs:
        limit.allowed || laterLimit.retryAfterMs === null
          ? limit.retryAfterMs
          : afterMs + laterLimit.retryAfterMs,
      replenishAfterMs: afterMs + (hasGrown ? 0 : laterLimit.replenishAfterMs),
      resetAfterMs: afterMs + laterLimit.resetAfterMs,
    };
  });
  const retryAfterMs = longestWaitMs([...limits, { retryAfterMs: decision.bannedForMs }]);
  return { ...decision, retryAfterMs, limits };
}

/**
 * A denial is not firm under limits with slots, elastic windows or a ban: slots become free at any time, and each
 * denial changes an elastic window and the count of denials towards a ban.
 */
const isFirmFor = ({ charge: { ban, limits }, bannedForMs }: ChargedMeter): boolean =>
  (ban === undefined || bannedForMs > 0) &&
  !limits.some((limit) => holdsSlots(limit) || changesByDenial(limit));

const chargedMeters = (
  { keyState, nowMs }: KeyTurn,
  charges: readonly Charge[],
): readonly ChargedMeter[] =>
  charges.map((charge) => ({
    charge,
    meter: keyState.meterOf(charge),
    heldUnits: keyState.heldUnits(charge.policy),
    bannedForMs:
      charge.ban === undefined ? 0 : keyState.bannedForMs(charge.policy, charge.ban, nowMs),
  }));

/** The instant to which each charge is booked: the latest that its meter has seen. */
const spentAtMsOf = (all: readonly ChargedMeter[], { nowMs }: KeyTurn): number[] =>
  all.map(({ meter }) => Math.max(nowMs, meter.seenMs));

const lookOf = ({ charge, meter, heldUnits }: ChargedMeter, { nowMs }: KeyTurn): Decision =>
  meter.look(charge.cost, nowMs, heldUnits);

function spend(
  { charge, meter, heldUnits }: ChargedMeter,
  { nowMs }: KeyTurn,
  ttlMsOf: TtlOf,
): Decision {
  const { cost } = charge;
  const ttlMs = ttlMsOf(charge);
  return ttlMs === null
    ? meter.consume(cost, nowMs, heldUnits)
    : meter.reserve({ cost, ttlMs }, nowMs, heldUnits);
}

/** The decision under the ban that denies the key, or under the ban that this denial brings. */
function withStrike(
  { charge: { policy, ban }, bannedForMs }: ChargedMeter,
  decision: Decision,
  { keyState, nowMs }: KeyTurn,
): Decision {
  const isStrike = ban !== undefined && bannedForMs === 0 && !decision.allowed;
  return withBan(isStrike ? keyState.strike(policy, ban, nowMs) : bannedForMs, decision);
}

function withBan(bannedForMs: number, decision: Decision): Decision {
  if (bannedForMs === 0) return decision;
  const retryAfterMs = longestWaitMs([decision, { retryAfterMs: bannedForMs }]);
  return { ...decision, allowed: false, delayMs: 0, retryAfterMs, bannedForMs };
}
