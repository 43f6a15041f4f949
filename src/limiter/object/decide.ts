/**
 * Decides the charges of one key together: every enforced policy allows, and then all spend; otherwise none does. A ban or a
 * key rule can deny in addition to the limits. A dry run never changes what is decided for the other policies.
 */
import { changesByDenial, type Decision, holdsSlots } from "../../strategies/index.ts";
import type { Charge, CheckReply } from "../protocol.ts";
import {
  type ChargedMeter,
  chargedMeters,
  isBlocked,
  isExempt,
  type KeyTurn,
  lookOf,
  spend,
  type TtlOf,
  withBan,
  withSliceWait,
} from "./charged-meter.ts";
import { firstEndMs } from "./key-rule-sets.ts";

/**
 * How long a denial is firm while a provisional spend is open, in milliseconds. That spend may be given back at any
 * time, and isolates do not learn of it. With 0, every request of a flood would reach the object.
 */
const provisionalFirmMs = 100;

/** How long a denial is firm without `firmForMs`, in milliseconds. */
const defaultFirmMs = 1_000;

/** Returns what `decide` would decide for each charge alone. Spends nothing. */
export const lookAt = (turn: KeyTurn, charges: readonly Charge[]): CheckReply =>
  looksOf(chargedMeters(turn, charges), turn);

const looksOf = (all: readonly ChargedMeter[], turn: KeyTurn): CheckReply =>
  replyOf(
    all,
    all.map((each) => withBan(each.bannedForMs, lookOf(each, turn))),
    turn,
  );

/** Spends every charge if all enforced policies allow theirs. A dry run then spends if its own limits allow it. */
export function decide(turn: KeyTurn, charges: readonly Charge[], ttlMsOf: TtlOf): CheckReply {
  const { keyState, nowMs } = turn;
  const all = chargedMeters(turn, charges);
  const enforced = all.filter(({ charge }) => charge.isDryRun !== true);
  // Like a request on the blocklist: it changes no state, and is no strike.
  if (enforced.some(isBlocked)) return { ...looksOf(all, turn), ...firmFor(firstChangeMs(all, turn)) };
  const isBanned = enforced.some(({ bannedForMs }) => bannedForMs > 0);
  // A single policy needs no look: its spend decides.
  const isAllowed = !isBanned && (enforced.length === 1 || enforced.every((each) => lookOf(each, turn).allowed));
  const decided = new Map<ChargedMeter, Decision>();
  for (const each of enforced) {
    // The request counts as denied under all policies, and a denial restarts elastic windows.
    if (!isAllowed && !isExempt(each)) each.meter.deny(nowMs);
    decided.set(each, isAllowed ? spend(each, turn, ttlMsOf) : lookOf(each, turn));
  }
  const isSpent = isAllowed && enforced.every((each) => decided.get(each)?.allowed === true);
  const decisions = all.map((each) => {
    const enforcedDecision = decided.get(each);
    const decision = enforcedDecision ?? (isSpent ? spend(each, turn, ttlMsOf) : lookOf(each, turn));
    return withStrike(each, decision, turn);
  });
  const reply = replyOf(all, decisions, turn);
  if (isSpent || !keyState.isSettled(nowMs) || !enforced.every(isFirmFor)) return reply;
  const changeMs = firstChangeMs(all, turn);
  const isProvisional = keyState.hasProvisional(nowMs);
  return { ...reply, ...firmFor(isProvisional ? Math.min(changeMs, provisionalFirmMs) : changeMs) };
}

/** Whether every enforced policy allowed its charge. */
export const isAdmitted = (charges: readonly Charge[], { decisions }: CheckReply): boolean =>
  decisions.every(({ allowed }, index) => allowed || charges[index]?.isDryRun === true);

function replyOf(all: readonly ChargedMeter[], decisions: Decision[], { nowMs }: KeyTurn): CheckReply {
  // The instant to which a charge is booked: the latest that its meter has seen.
  const spentAtMs = all.map((each) => (isExempt(each) ? 0 : Math.max(nowMs, each.meter.seenMs)));
  const hasRules = all.some(({ rule }) => rule !== null);
  return { decisions, spentAtMs, ...(hasRules && { keyRules: all.map(({ rule }) => rule) }) };
}

/** The time until the first key rule of the charges expires, in milliseconds. */
const firstChangeMs = (all: readonly ChargedMeter[], { nowMs }: KeyTurn): number =>
  Math.min(...all.map(({ rules }) => firstEndMs(rules))) - nowMs;

const firmFor = (firmForMs: number): Pick<CheckReply, "isFirm" | "firmForMs"> => ({
  isFirm: true,
  ...(firmForMs < defaultFirmMs && { firmForMs }),
});

/**
 * A denial is not firm under limits with slots, elastic windows or a ban: slots become free at any time, and each
 * denial changes an elastic window and the count of denials towards a ban.
 */
const isFirmFor = (charged: ChargedMeter): boolean =>
  isExempt(charged) ||
  ((charged.charge.ban === undefined || charged.bannedForMs > 0) &&
    !charged.limits.some((limit) => holdsSlots(limit) || changesByDenial(limit)));

/** The decision under the ban that denies the key, or under the ban that this denial brings. */
function withStrike(charged: ChargedMeter, decision: Decision, { keyState, nowMs }: KeyTurn): Decision {
  const { charge, bannedForMs } = charged;
  const { policy, ban } = charge;
  const isStrike = ban !== undefined && bannedForMs === 0 && !decision.allowed && !isBlocked(charged);
  return withBan(isStrike ? keyState.meters.strike(policy, ban, nowMs) : bannedForMs, decision);
}

/**
 * Lengthens the waits of a reply so that they suffice while slices are open. They assume that all lent units are spent when
 * the last slice ends.
 */
export function withSliceWaits(turn: KeyTurn, charges: readonly Charge[], reply: CheckReply): CheckReply {
  // The slices must have followed a mis-set clock that this turn has found.
  turn.keyState.followClock();
  if (!turn.keyState.hasSlices) return reply;
  const decisions = reply.decisions.map((decision, index) => {
    const charge = charges[index];
    return charge === undefined ? decision : withSliceWait(turn, charge, decision);
  });
  return { ...reply, decisions };
}
