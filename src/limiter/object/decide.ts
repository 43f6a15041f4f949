/**
 * Charges on one key, decided together: allowed by all, or spent by none. A ban refuses beside the limits; a dry run has
 * no say in what is decided for the others.
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

export type MeterOf = (keyState: KeyState, charge: Pick<Charge, "policy" | "limits">) => Meter;
export type Spending = (meter: Meter, charge: Charge, nowMs: number, heldUnits: number) => Decision;

/**
 * A provisional spend may be given back at any time, which isolates do not hear of: a denial beside one is remembered only
 * for so long. Not to remember it at all would let a flood reach the object.
 */
const provisionalFirmMs = 100;

/** A charge, and what is counted for it. */
interface Asked {
  readonly charge: Charge;
  readonly meter: Meter;
  /** Lent, and not settled yet. */
  readonly heldUnits: number;
  /** More than 0 while a ban refuses the key. */
  readonly bannedForMs: number;
}

/** What `decide` would answer to each charge by itself. */
export function lookAt(
  keyState: KeyState,
  charges: readonly Charge[],
  nowMs: number,
  meterOf: MeterOf,
): CheckReply {
  const asked = askedOf(keyState, charges, nowMs, meterOf);
  const decisions = asked.map((each) => refusedFor(each.bannedForMs, lookOf(each, nowMs)));
  return { decisions, spentAtMs: asked.map(({ meter }) => Math.max(nowMs, meter.seenMs)) };
}

/** @param spend by which each is spent */
export function decide(
  keyState: KeyState,
  charges: readonly Charge[],
  nowMs: number,
  meterOf: MeterOf,
  spend: Spending,
): CheckReply {
  const asked = askedOf(keyState, charges, nowMs, meterOf);
  const enforced = asked.filter(({ charge }) => charge.isDryRun !== true);
  const isBanned = enforced.some(({ bannedForMs }) => bannedForMs > 0);
  const decided = new Map<Asked, Decision>();
  // One alone need not be asked before.
  const isAllowed =
    !isBanned && (enforced.length === 1 || enforced.every((each) => lookOf(each, nowMs).allowed));
  const spendOf = ({ charge, meter, heldUnits }: Asked): Decision =>
    spend(meter, charge, nowMs, heldUnits);
  for (const each of enforced) {
    if (isAllowed) decided.set(each, spendOf(each));
    else {
      // Whichever of them denies, the request is denied to all.
      each.meter.deny(nowMs);
      decided.set(each, lookOf(each, nowMs));
    }
  }
  const isAdmitted = isAllowed && enforced.every((each) => decided.get(each)?.allowed === true);
  for (const each of asked) {
    if (decided.has(each)) continue;
    decided.set(each, isAdmitted ? spendOf(each) : lookOf(each, nowMs));
  }
  const decisions = asked.flatMap((each) => {
    const decision = decided.get(each);
    return decision === undefined ? [] : banned(keyState, each, decision, nowMs);
  });
  const isFirm = !isAdmitted && keyState.isSettled(nowMs) && enforced.every(isFirmFor);
  return {
    decisions,
    spentAtMs: asked.map(({ meter }) => Math.max(nowMs, meter.seenMs)),
    ...(isFirm && { isFirm }),
    ...(isFirm && keyState.hasProvisional(nowMs) && { firmForMs: provisionalFirmMs }),
  };
}

/**
 * The verdict, with waits that suffice while slices are open: until the last of them ends, and from then on as long as if
 * all that is lent had been spent at that instant.
 */
export function withSlices(
  keyState: KeyState,
  charges: readonly Charge[],
  reply: CheckReply,
  nowMs: number,
): CheckReply {
  if (!keyState.hasSlices) return reply;
  const decisions = reply.decisions.map((decision, index) => {
    const policy = charges[index]?.policy ?? "";
    if (keyState.heldUnits(policy) === 0) return decision;
    const { meter, endsAtMs } = keyState.whenAllSpent(policy);
    const waitUntil = meter.withLimits(keyState.limitsOf(policy)).look(decision.cost, endsAtMs);
    return delayed(decision, waitUntil, endsAtMs - nowMs);
  });
  return { ...reply, decisions };
}

/** The decision, with what it says of other instants as a look so much later says it. */
function delayed(decision: Decision, waitUntil: Decision, afterMs: number): Decision {
  const limits = decision.limits.map((limit, index) => {
    const then = waitUntil.limits[index] ?? limit;
    const hasGrown = then.remaining > limit.remaining;
    return {
      ...limit,
      retryAfterMs:
        limit.allowed || then.retryAfterMs === null
          ? limit.retryAfterMs
          : afterMs + then.retryAfterMs,
      replenishAfterMs: afterMs + (hasGrown ? 0 : then.replenishAfterMs),
      resetAfterMs: afterMs + then.resetAfterMs,
    };
  });
  const retryAfterMs = longestWaitMs([...limits, { retryAfterMs: decision.bannedForMs }]);
  return { ...decision, retryAfterMs, limits };
}

/** Slots come free at any time; an elastic window, and what is not banned yet, are changed by each denial. */
const isFirmFor = ({ charge: { ban, limits }, bannedForMs }: Asked): boolean =>
  (ban === undefined || bannedForMs > 0) &&
  !limits.some((limit) => holdsSlots(limit) || changesByDenial(limit));

const askedOf = (
  keyState: KeyState,
  charges: readonly Charge[],
  nowMs: number,
  meterOf: MeterOf,
): Asked[] =>
  charges.map((charge) => ({
    charge,
    meter: meterOf(keyState, charge),
    heldUnits: keyState.heldUnits(charge.policy),
    bannedForMs:
      charge.ban === undefined ? 0 : keyState.bannedForMs(charge.policy, charge.ban, nowMs),
  }));

const lookOf = ({ charge, meter, heldUnits }: Asked, nowMs: number): Decision =>
  meter.look(charge.cost, nowMs, heldUnits);

/** The decision with the ban that refuses it, or that it is the last strike for. */
function banned(
  keyState: KeyState,
  { charge: { policy, ban }, bannedForMs }: Asked,
  decision: Decision,
  nowMs: number,
): Decision {
  const isStrike = ban !== undefined && bannedForMs === 0 && !decision.allowed;
  return refusedFor(isStrike ? keyState.strike(policy, ban, nowMs) : bannedForMs, decision);
}

function refusedFor(bannedForMs: number, decision: Decision): Decision {
  if (bannedForMs === 0) return decision;
  const retryAfterMs = longestWaitMs([decision, { retryAfterMs: bannedForMs }]);
  return { ...decision, allowed: false, delayMs: 0, retryAfterMs, bannedForMs };
}
