/** The decision of a key's meter for a request that may use its limits only in part: see `shares.ts` and classes. */
import { multiplyDivideFloor } from "./integers.ts";
import type { Meter } from "./meter.ts";
import { longestWaitMs } from "./metered-limit.ts";
import type { Shares } from "./shares.ts";
import type { Decision, LimitDecision } from "./strategy.ts";

/** A limit that the key shares among its children. */
export interface SharedPart {
  /** The index of the limit. */
  readonly index: number;
  readonly shares: Shares;
  /** The child that sends the request; null if no child of these shares does. */
  readonly child: string | null;
  readonly weight: number;
  /** Whether the shares may not change, because the request is not noted as one of the child. */
  readonly isLook: boolean;
}

/** How much of its limits a request may use. */
export interface Bounds {
  /** The part of each capacity in percent, rounded down to units; 100 for a request of no class. */
  readonly upTo: number;
  readonly parts: readonly SharedPart[];
  /** Units that are lent, and count as spent. Default: 0. */
  readonly heldUnits?: number;
}

export interface BoundedDecision {
  readonly decision: Decision;
  /** The bound that denies the request, or makes its wait longer than that of the limits; null if they alone decide. */
  readonly bound: "share" | "class" | null;
}

/** Returns the decision of a cost within the bounds. Spends nothing. */
export function boundedDecision(meter: Meter, cost: number, nowMs: number, bounds: Bounds): BoundedDecision {
  const { upTo, parts, heldUnits = 0 } = bounds;
  const plain = meter.look(cost, nowMs, heldUnits);
  let bound: BoundedDecision["bound"] = null;
  const limits = plain.limits.map((limit, index): LimitDecision => {
    const ofClass = upTo === 100 ? limit : belowClass(meter, limit, index, cost, bounds, nowMs);
    if (ofClass.retryAfterMs !== limit.retryAfterMs) bound ??= "class";
    const part = parts.find((each) => each.index === index);
    if (part === undefined) return ofClass;
    const ofShare = besideShares(part, ofClass, limit.remaining, cost, nowMs);
    // The wait is the limit's own, and exact, unless the share makes it longer.
    if (ofShare.retryAfterMs !== ofClass.retryAfterMs) bound = "share";
    return ofShare;
  });
  const allowed = limits.every((limit) => limit.allowed);
  const delayMs = allowed ? plain.delayMs : 0;
  return { decision: { ...plain, allowed, delayMs, retryAfterMs: longestWaitMs(limits), limits }, bound };
}

/**
 * The decision below the part of a limit that a class may use. The rest is added to the cost, not lent: lent units count as
 * spent now and would drain, so that waits would be too short.
 */
function belowClass(
  meter: Meter,
  limit: LimitDecision,
  index: number,
  cost: number,
  { upTo, heldUnits }: Bounds,
  nowMs: number,
): LimitDecision {
  const withheld = limit.capacity - multiplyDivideFloor(limit.capacity, upTo, 100);
  const lookAt = (units: number): LimitDecision => meter.look(units, nowMs, heldUnits).limits[index] ?? limit;
  const remaining = Math.max(0, limit.remaining - withheld);
  const { allowed, retryAfterMs } = cost === 0 ? limit : lookAt(cost + withheld);
  const replenishAfterMs = remaining > 0 ? limit.replenishAfterMs : (lookAt(withheld + 1).retryAfterMs ?? 0);
  return { ...limit, allowed, remaining, retryAfterMs, replenishAfterMs };
}

/** The decision beside the units that other children are guaranteed. @param free the units that the limit has left */
function besideShares(
  { shares, child, weight, isLook }: SharedPart,
  limit: LimitDecision,
  free: number,
  cost: number,
  nowMs: number,
): LimitDecision {
  const room = isLook ? shares.look(child, weight, free, nowMs) : shares.roomOf(child, free, nowMs);
  const isDenied = cost > room.units;
  const retryAfterMs = isDenied ? shares.waitMs(child, cost, room, limit.retryAfterMs, nowMs) : limit.retryAfterMs;
  return {
    ...limit,
    allowed: limit.allowed && !isDenied,
    remaining: Math.min(limit.remaining, room.units),
    retryAfterMs,
  };
}
