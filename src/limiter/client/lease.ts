/**
 * What an isolate has borrowed of one key for one set of policies: its slices, what is left of them, and what a request is
 * answered that is spent from one.
 */
import type { Decision } from "../../strategies/index.ts";
import { type Asked, timeoutOf } from "./key-group.ts";
import { aged, type Spend } from "./outcome.ts";
import type { ObjectLocation } from "./object-location.ts";
import type { ReturnReply, Settlement, SliceReturned, SliceWanted } from "../protocol.ts";

/** How long a slice is spent from, counted from when it was asked for. */
export const sliceMs = 1_000;
/** For so long the object holds it: what is left has time to go back. */
export const heldMs = 2 * sliceMs;
/**
 * For so long after its end a slice waits for requests that a later object may still deny. No longer: the object must
 * have what is left before it takes the whole slice for spent.
 */
export const undecidedMs = 75;
/** Lending is a call and a row: a slice of fewer units costs more than to ask for each. */
export const leastUnits = 8;
/** More is asked for before all is spent, and before its time is up. */
const refilledPart = 4;
const refilledMs = 200;

export interface Slice {
  readonly id: string;
  readonly units: number;
  used: number;
  readonly endsAtMs: number;
  /** When its time is up by the object's clock, by policy. */
  readonly ends: Settlement;
  /** The settlement of the slice, from the call that returns it; resolves to null when there is no answer. */
  told: Promise<Settlement | null> | null;
  /** Resolves when the slice has been returned, or need not be. */
  readonly returned: PromiseWithResolvers<void>;
  /** Whether a call without an answer may have booked the slice, at an unknown instant. */
  isUnsure: boolean;
  /** Units spent for requests that a later object may still deny: it is not returned before that is known. */
  provisional: number;
}

/** What is borrowed for a set of policies on a key. */
export interface Lease {
  readonly key: string;
  readonly location: ObjectLocation;
  readonly asked: readonly Asked[];
  /** What the object told with the last of the slices, and when the answer was there: its waits suffice. */
  told: readonly Decision[];
  toldAtMs: number;
  slices: Slice[];
  /** Of which nothing more is spent, and the object has not been told what was. */
  ended: Slice[];
  /** When more was asked for, of which there is no answer yet; null when it is not. */
  askedAtMs: number | null;
  seenMs: number;
  readonly demand: Demand;
}

/** Units asked for within the length of a slice: of the last whole one, and of the one that goes on. */
export interface Demand {
  beganAtMs: number;
  before: number;
  units: number;
}

/** A call that takes so much longer than it may has lost whoever asked. */
const lostAfterMs = 2_000;

/** All have the same: see `isLeased`. */
export const costOf = ([first]: readonly Spend[]): number => first?.cost ?? 0;

export const isAsking = ({ askedAtMs }: Lease, group: readonly Spend[], nowMs: number): boolean =>
  askedAtMs !== null && nowMs >= askedAtMs && nowMs - askedAtMs < timeoutOf(group) + lostAfterMs;

export const returned = ({ id, used }: Slice): SliceReturned => ({ id, used });

export const unreturned = (): Pick<Slice, "told" | "returned" | "isUnsure" | "provisional"> => ({
  told: null,
  returned: Promise.withResolvers(),
  isUnsure: false,
  provisional: 0,
});

/** Whether the object is to be told now what of it was used. */
export const isReturnable = ({ told, provisional, endsAtMs }: Slice, nowMs: number): boolean =>
  told === null && (provisional === 0 || nowMs >= endsAtMs + undecidedMs);

/** Each slice is told by one call at a time: of two, the first to arrive would settle it, and the other's answer be taken. */
export function telling<Answer extends ReturnReply>(
  slices: readonly Slice[],
  answer: Promise<Answer>,
): Promise<Answer> {
  for (const [index, slice] of slices.entries()) {
    slice.told = answer.then(
      // Objects of an older version do not say.
      (answered) => answered?.settled?.[index] ?? null,
      () => {
        slice.told = null;
        slice.isUnsure = true;
        return null;
      },
    );
    slice.returned.resolve();
  }
  return answer;
}

/** What the object has booked whole by now. */
export function dropOld(lease: Lease, nowMs: number): void {
  const isOld = ({ endsAtMs }: Slice): boolean => endsAtMs + heldMs <= nowMs;
  for (const slice of lease.ended.filter(isOld)) {
    slice.told ??= Promise.resolve([]);
    slice.returned.resolve();
  }
  lease.ended = lease.ended.filter((slice) => !isOld(slice));
}

export const instantOf = (settled: Settlement, { policy }: Spend): number | null =>
  settled.find((each) => each.policy === policy.name)?.atMs ?? null;

export function demanded(demand: Demand, units: number, nowMs: number): void {
  const sinceMs = nowMs - demand.beganAtMs;
  if (sinceMs >= sliceMs || sinceMs < 0) {
    demand.before = sinceMs < 2 * sliceMs && sinceMs >= 0 ? demand.units : 0;
    demand.units = 0;
    demand.beganAtMs = nowMs;
  }
  demand.units += units;
}

/** As many as are asked for in the time of a slice, and a quarter more. */
export const wantedUnits = ({ before, units }: Demand): number =>
  Math.ceil(1.25 * Math.max(before, units));

export const sliceOf = (units: number): SliceWanted => ({
  id: crypto.randomUUID(),
  units,
  ttlMs: heldMs,
  leastUnits,
});

/** Ends slices whose time is up or whose units are used, and all of them when the clock has stepped back. */
export function retire(lease: Lease, nowMs: number): void {
  const hasSteppedBack = nowMs < lease.seenMs;
  const isOver = ({ units, used, endsAtMs }: Slice): boolean =>
    nowMs >= endsAtMs || hasSteppedBack || used === units;
  lease.seenMs = nowMs;
  if (!lease.slices.some(isOver)) return;
  lease.ended.push(...lease.slices.filter(isOver));
  lease.slices = lease.slices.filter((slice) => !isOver(slice));
}

export function isLow({ slices }: Lease, nowMs: number): boolean {
  const borrowed = slices.reduce((sum, { units }) => sum + units, 0);
  const left = slices.reduce((sum, { units, used }) => sum + units - used, 0);
  const endsAtMs = Math.max(...slices.map((slice) => slice.endsAtMs));
  return left * refilledPart <= borrowed || nowMs >= endsAtMs - refilledMs;
}

/**
 * How many more units there are than the object has told: it held all that was lent before, and of the last slice nothing
 * was spent yet.
 */
export function spareOf({ slices }: Lease): number {
  const last = slices.at(-1);
  const others = slices.slice(0, -1).reduce((sum, { units, used }) => sum + units - used, 0);
  return others - (last?.used ?? 0);
}

/** As if the slice were booked whole at its end, which the waits that were told are for. */
export function spentFrom(
  told: Decision,
  cost: number,
  spareUnits: number,
  sinceMs: number,
): Decision {
  const decision = aged({ ...told, cost, allowed: true, retryAfterMs: 0 }, Math.max(0, sinceMs));
  return {
    ...decision,
    limits: decision.limits.map((limit) => ({
      ...limit,
      allowed: true,
      retryAfterMs: 0,
      remaining: Math.min(limit.capacity, Math.max(0, limit.remaining + spareUnits)),
    })),
  };
}
