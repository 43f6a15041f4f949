/**
 * Opens, renews and settles reservations. In a tree, the state of each key has a reservation under the same id, and that of the
 * call's key names the other keys.
 */
import type { Charge, ReserveCall, ReserveReply, SettleCall, SettledCharge, SettleReply } from "../protocol.ts";
import { childPartsOf, renewParts, settleParts } from "./bounds.ts";
import { decide, isAdmitted, isBlocked, isExempt, lookAt, ruledCharges, withSliceWaits } from "./decide.ts";
import { type KeyTurn, stateOf } from "./key-turn.ts";
import type { KeyState } from "./key-state.ts";
import { isForgotten, type Reservation, type ReservedCharge } from "./open-entries.ts";

export function reserve(turn: KeyTurn, call: ReserveCall): ReserveReply {
  const { charges, isDryRun = false } = call;
  const { nowMs } = turn;
  const fullForMs = isReserving(turn, call) ? fullestMs(turn, charges, isDryRun) : 0;
  if (fullForMs > 0) {
    const reply = withSliceWaits(turn, charges, lookAt(turn, charges));
    return { ...reply, isOpen: false, fullForMs };
  }
  const reply = decide(turn, call);
  const { decisions, keyRules } = reply;
  const isSpent = isAdmitted(charges, reply);
  const spent = charges.flatMap((charge, index) => {
    const { policy, cost, key } = charge;
    const isUncharged = keyRules?.[index]?.kind === "allow";
    if (!isSpent || isUncharged || decisions[index]?.allowed !== true) return [];
    const spentAtMs = reply.spentAtMs[index] ?? nowMs;
    const keyState = stateOf(turn, key);
    const limits = keyState.limitsOf(policy);
    const part: ReservedCharge = { policy, limits, cost, spentAtMs, heldAtMs: spentAtMs };
    const children = childPartsOf(turn, charges, charge, limits);
    return { keyState, part: children.length === 0 ? part : { ...part, children } };
  });
  const isOpen = spent.length > 0;
  if (isOpen) openReservations(turn, call, Math.max(nowMs, ...reply.spentAtMs), spent);
  return { ...withSliceWaits(turn, charges, reply), isOpen, fullForMs: 0 };
}

/** The longest wait until each key has room for a reservation of its charges; 0 when all have. */
function fullestMs(turn: KeyTurn, charges: readonly Charge[], isDryRun: boolean): number {
  const { keyState, nowMs } = turn;
  if (!charges.some(({ key }) => key !== undefined)) return keyState.fullForMs(charges, isDryRun, nowMs);
  const byState = Map.groupBy(charges, ({ key }) => stateOf(turn, key));
  // The call's key has the reservation too if it has no charge of its own.
  if (!byState.has(keyState)) byState.set(keyState, []);
  return Math.max(...[...byState].map(([each, own]) => each.fullForMs(own, isDryRun, nowMs)));
}

/** Opens a reservation in the state of each key, under one id. That of the call's key names the other keys. */
function openReservations(
  { keyState }: KeyTurn,
  { id, ttlMs, durability, isDryRun = false }: ReserveCall,
  spentAtMs: number,
  spent: readonly { readonly keyState: KeyState; readonly part: ReservedCharge }[],
): void {
  const reservation = { id, ttlMs, expiresAtMs: spentAtMs + ttlMs, isConfirmed: durability === "confirmed", isDryRun };
  const byState = Map.groupBy(spent, (each) => each.keyState);
  const own = (byState.get(keyState) ?? []).map(({ part }) => part);
  byState.delete(keyState);
  if (byState.size === 0) {
    keyState.openReservation({ ...reservation, parts: own });
    return;
  }
  const others = [...byState].map(([{ key }, parts]) => ({ key, count: parts.length }));
  keyState.openReservation({ ...reservation, parts: own, others });
  for (const [other, parts] of byState) {
    other.openReservation({ ...reservation, parts: parts.map(({ part }) => part), others: [] });
  }
}

/** Whether the call may open a reservation: no rule blocks it, and not all of its charges are allowed by rules. */
function isReserving(turn: KeyTurn, { charges }: ReserveCall): boolean {
  // Most keys have no rules.
  if (!charges.some(({ policy, key }) => stateOf(turn, key).rulesOf(policy).length > 0)) return true;
  const all = ruledCharges(turn, charges);
  const isDenied = all.some((each) => each.charge.isDryRun !== true && isBlocked(each));
  return !isDenied && !all.every(isExempt);
}

/** Keeps a reservation open, and its slots held, for its ttl from now. @returns whether it is open */
export function renew(turn: KeyTurn, id: string): boolean {
  const { keyState } = turn;
  const others = keyState.reservations?.get(id)?.others ?? [];
  const isOpen = renewIn(turn, keyState, id);
  if (isOpen) for (const { key } of others) renewIn(turn, stateOf(turn, key), id);
  return isOpen;
}

function renewIn(turn: KeyTurn, keyState: KeyState, id: string): boolean {
  const before = keyState.reservations?.get(id) ?? null;
  const isOpen = keyState.renewReservation(id, turn.nowMs);
  if (!isOpen || before === null) return isOpen;
  for (const charge of before.parts) {
    if (charge.children === undefined || isForgotten(charge)) continue;
    renewParts(turn, { ...charge, keyState, meter: keyState.meterOf(charge) }, before.ttlMs);
  }
  return isOpen;
}

/** Ends a reservation and corrects it to its actual cost. */
export function settle(turn: KeyTurn, { id, cost, costs, wantsCharges = false }: SettleCall): SettleReply {
  const { keyState, nowMs } = turn;
  const reservation = keyState.takeReservation(id, nowMs);
  if (reservation === null) return { settled: false };
  const ownCosts = costs?.slice(0, reservation.parts.length) ?? null;
  const charges = corrected(turn, keyState, reservation, ownCosts, cost);
  let first = reservation.parts.length;
  for (const { key, count } of reservation.others ?? []) {
    const other = stateOf(turn, key);
    const taken = other.takeReservation(id, nowMs);
    const otherCosts = costs?.slice(first, first + count) ?? null;
    const settled = taken === null ? [] : corrected(turn, other, taken, otherCosts, cost);
    charges.push(...settled.map((each) => ({ ...each, key })));
    first += count;
  }
  if (reservation.isConfirmed) turn.durability = "confirmed";
  return wantsCharges ? { settled: true, charges } : { settled: true };
}

/** @param costs one for each charge of the reservation; null if `cost` is that of each */
function corrected(
  turn: KeyTurn,
  keyState: KeyState,
  { parts, ttlMs }: Reservation,
  costs: readonly number[] | null,
  cost: number,
): SettledCharge[] {
  const { nowMs } = turn;
  return parts.flatMap((charge, index) => {
    if (isForgotten(charge)) return [];
    const actualCost = costs?.[index] ?? cost;
    const meter = keyState.meterOf(charge);
    meter.settle({ ...charge, actualCost, ttlMs }, nowMs);
    if (charge.children !== undefined) settleParts(turn, { ...charge, keyState, meter }, actualCost, ttlMs);
    const { policy, spentAtMs } = charge;
    return { policy, cost: charge.cost, actualCost, spentAtMs, settledAtMs: Math.max(nowMs, meter.seenMs) };
  });
}
