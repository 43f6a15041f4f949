/**
 * The bounds of charges by classes and shares, which are optional: most calls have none. A child's charge names its parent and
 * the limit that it has a share of. The shares bound the parent's charge, and count what it spends as the child's part.
 */
import { report } from "../../observability/events.ts";
import { type Limit, type Meter, openedAtMs, type Shares } from "../../strategies/index.ts";
import type { Charge, ChargeShare } from "../protocol.ts";
import { type BoundPart, type KeyTurn, type RuledCharge, stateOf } from "./key-turn.ts";
import type { KeyState } from "./key-state.ts";
import type { ChildPart, ReservedCharge } from "./open-entries.ts";
import { areOf, SharedParts, type SharedLimit } from "./shared-limits.ts";

/** Adds the bounds to the charges of a call. */
export function addBounds(turn: KeyTurn, all: readonly RuledCharge[]): void {
  const children = new Map<SharedLimit, RuledCharge>();
  for (const child of all) {
    const shared = sharedBy(turn, all, child);
    if (shared !== null) children.set(shared, child);
  }
  for (const each of all) {
    const { charge, keyState, meter } = each;
    const inEffect = turn.sharedLimits
      .of(keyState.key, charge.policy)
      .filter((shared) => areOf(shared, meter.limits[shared.index]));
    const parts = inEffect.map((shared) => boundPart(shared, children.get(shared)));
    const { upTo = 100 } = charge;
    if (parts.length > 0 || upTo !== 100) each.bounds = { upTo, parts };
  }
}

function boundPart(shared: SharedLimit, child: RuledCharge | undefined): BoundPart {
  const { index, shares } = shared;
  return {
    shared,
    index,
    shares,
    child: child?.keyState.key ?? null,
    childState: child?.keyState ?? null,
    childPolicy: child?.charge.policy ?? "",
    weight: child?.charge.share?.weight ?? 1,
    isLook: true,
  };
}

/** The parent's limit of which a charge has a share. Null without a share, or if the call does not charge the parent. */
function sharedBy(turn: KeyTurn, all: readonly RuledCharge[], { charge, keyState }: RuledCharge): SharedLimit | null {
  const { share, policy } = charge;
  if (share === undefined) return null;
  const parent = all.find((each) => hasShareIn(charge, each.charge));
  if (parent === undefined) return null;
  const { limits } = parent.meter;
  const index = indexInEffect(limits, parent.charge.limits, share);
  const parts = partsOf(parent.keyState);
  const shared = turn.sharedLimits.open({
    key: parent.keyState.key,
    policy: share.parent,
    generation: parts.generationOf(share.parent),
    index,
    limit: limits[index],
    guaranteed: share.guaranteed,
  });
  if (shared === null) return null;
  parts.keepGeneration(share.parent, shared);
  partsOf(keyState).bind(policy, shared);
  return shared;
}

function partsOf(keyState: KeyState): SharedParts {
  keyState.parts ??= new SharedParts(keyState.key);
  return keyState.parts;
}

/** Whether a child's share is one of this parent. A child in a dry run must not bound what is enforced. */
const hasShareIn = ({ share, isDryRun }: Charge, parent: Charge): boolean =>
  share?.parent === parent.policy && (isDryRun !== true || parent.isDryRun === true);

/** The index among the limits in effect. A rule may put the limit over the same window in another place. */
function indexInEffect(
  limits: readonly Limit[],
  written: readonly Limit[],
  { limit: index, windowMs = written[index]?.windowMs }: ChargeShare,
): number {
  return limits[index]?.windowMs === windowMs ? index : limits.findIndex((limit) => limit.windowMs === windowMs);
}

/** Notes the request as one of its children. Call it before the decision. */
export function noteRequest(all: readonly RuledCharge[], nowMs: number): void {
  // Costs of 0 only look.
  if (all.every(({ charge }) => charge.cost === 0)) return;
  for (const { charge, bounds } of all) {
    for (const part of bounds?.parts ?? []) {
      part.isLook = false;
      const isFull = part.child !== null && part.shares.touch(part.child, part.weight, nowMs);
      if (isFull) report({ event: "shares-full", policy: charge.policy });
    }
  }
}

/**
 * Counts what a charge has spent as parts of the children.
 * @param ttlMs null for a final spend
 */
export function spendParts({ charge, meter, bounds }: RuledCharge, ttlMs: number | null, nowMs: number): void {
  if (charge.cost === 0) return;
  for (const { shares, shared, child, childState, childPolicy } of bounds?.parts ?? []) {
    if (child === null || childState === null) continue;
    const spentAtMs = Math.max(nowMs, meter.seenMs);
    const atMs = openedAtMs(meter, shared, spentAtMs) ?? partAtMs(shares, ttlMs, spentAtMs);
    shares.spend(child, charge.cost, atMs, spentAtMs);
    childState.parts?.change(childPolicy);
  }
}

const partAtMs = (shares: Shares, ttlMs: number | null, spentAtMs: number): number =>
  ttlMs === null ? spentAtMs : shares.slotAtMs(ttlMs, spentAtMs);

/** The parts that children have of what a charge spends, as a later correction needs them. */
export function childPartsOf(
  { keyState }: KeyTurn,
  charges: readonly Charge[],
  parent: Charge,
  limits: readonly Limit[],
): ChildPart[] {
  return charges.flatMap((child) => {
    const { policy, key = keyState.key, share } = child;
    if (share === undefined || !hasShareIn(child, parent)) return [];
    const index = indexInEffect(limits, parent.limits, share);
    return limits[index] === undefined ? [] : { key, policy, index, guaranteed: share.guaranteed };
  });
}

/** A charge of a parent that is corrected. */
interface Corrected extends ReservedCharge {
  readonly keyState: KeyState;
  readonly meter: Meter;
}

/**
 * Gives back units of the children's parts.
 * @param ttlMs null for a final spend
 */
export function refundParts(turn: KeyTurn, charge: Corrected, units: number, ttlMs: number | null): void {
  correctParts(turn, charge, (shares, child, _shared, atMs) => {
    const refunded = shares.holdsSlots ? charge.cost : units;
    const { spentAtMs, heldAtMs } = charge;
    const bookedAtMs = shares.holdsSlots ? partAtMs(shares, ttlMs, heldAtMs) : spentAtMs;
    if (refunded > 0) shares.refund(child, refunded, bookedAtMs, atMs);
  });
}

/** Corrects the parts of a reservation that is settled. */
export function settleParts(turn: KeyTurn, charge: Corrected, actualCost: number, ttlMs: number): void {
  refundParts(turn, charge, Math.max(0, charge.cost - actualCost), ttlMs);
  const extra = actualCost - charge.cost;
  if (extra <= 0) return;
  correctParts(turn, charge, (shares, child, shared, atMs) => {
    if (!shares.holdsSlots) shares.spend(child, extra, openedAtMs(charge.meter, shared, atMs) ?? atMs, atMs);
  });
}

/** Holds the slots of the parts for another ttl. */
export function renewParts(turn: KeyTurn, charge: Corrected, ttlMs: number): void {
  correctParts(turn, charge, (shares, child, _shared, atMs) => {
    if (!shares.holdsSlots || charge.cost === 0) return;
    shares.refund(child, charge.cost, shares.slotAtMs(ttlMs, charge.heldAtMs), atMs);
    shares.spend(child, charge.cost, shares.slotAtMs(ttlMs, atMs), atMs);
  });
}

function correctParts(
  turn: KeyTurn,
  { policy, limits, keyState, meter, children = [] }: Corrected,
  correct: (shares: Shares, child: string, shared: SharedLimit, atMs: number) => void,
): void {
  for (const { key, policy: childPolicy, index, guaranteed } of children) {
    const named = { key: keyState.key, policy, index, limit: limits[index], guaranteed };
    const parts = partsOf(keyState);
    const shared = turn.sharedLimits.find({ ...named, generation: parts.generationOf(policy) });
    if (shared === null) continue;
    parts.keepGeneration(policy, shared);
    const child = stateOf(turn, key);
    // The child is counted under other limits since.
    if (child.parts?.isOf(childPolicy, shared) === false) continue;
    partsOf(child).bind(childPolicy, shared);
    correct(shared.shares, child.key, shared, Math.max(turn.nowMs, meter.seenMs));
    child.parts?.change(childPolicy);
  }
}
