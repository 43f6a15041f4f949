/** Spends as a check does, and opens a reservation so that `settle` can correct the cost. */
import type { ReserveCall, ReserveReply } from "../protocol.ts";
import { chargedMeters, isBlocked, isExempt, type KeyTurn } from "./charged-meter.ts";
import { decide, isAdmitted, lookAt, withSliceWaits } from "./decide.ts";

export function reserve(turn: KeyTurn, call: ReserveCall): ReserveReply {
  const { charges, id, ttlMs, isDryRun = false } = call;
  const { keyState, nowMs } = turn;
  const fullForMs = isReserving(turn, call) ? keyState.fullForMs(charges, isDryRun, nowMs) : 0;
  if (fullForMs > 0) {
    const reply = withSliceWaits(turn, charges, lookAt(turn, charges));
    return { ...reply, isOpen: false, fullForMs };
  }
  const reply = decide(turn, charges, () => ttlMs);
  const { decisions, keyRules } = reply;
  const isSpent = isAdmitted(charges, reply);
  const parts = charges.flatMap(({ policy, cost }, index) => {
    const isUncharged = keyRules?.[index]?.kind === "allow";
    if (!isSpent || isUncharged || decisions[index]?.allowed !== true) return [];
    const spentAtMs = reply.spentAtMs[index] ?? nowMs;
    const limits = keyState.meters.limitsOf(policy);
    return { policy, limits, cost, spentAtMs, heldAtMs: spentAtMs };
  });
  const isOpen = parts.length > 0;
  if (isOpen) {
    const expiresAtMs = Math.max(nowMs, ...reply.spentAtMs) + ttlMs;
    const isConfirmed = call.durability === "confirmed";
    keyState.openReservation({ id, ttlMs, expiresAtMs, isConfirmed, isDryRun, parts });
  }
  return { ...withSliceWaits(turn, charges, reply), isOpen, fullForMs: 0 };
}

/** Whether the call may open a reservation: no rule blocks it, and not all of its charges are allowed by rules. */
function isReserving(turn: KeyTurn, { charges }: ReserveCall): boolean {
  // Most keys have no rules.
  if (!charges.some(({ policy }) => turn.keyState.rulesOf(policy).length > 0)) return true;
  const all = chargedMeters(turn, charges);
  const isDenied = all.some((each) => each.charge.isDryRun !== true && isBlocked(each));
  return !isDenied && !all.every(isExempt);
}
