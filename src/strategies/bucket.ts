/**
 * The arithmetic of token and leaky buckets. A bucket counts the units it owes, which drain at a steady rate: a new key
 * owes nothing, and idle time never earns more than the capacity.
 *
 * Units are counted in integer credits. With W and L divided by their greatest common divisor, a unit costs W credits and
 * L credits drain in each millisecond. With `refill = "interval"`, a unit costs one credit, and L credits drain at the end
 * of each W.
 */
import * as v from "valibot";
import {
  addReservation,
  type BucketReservations,
  closeReservation,
  decodeReservations,
  encodeReservations,
  firstPeriodStartMs,
  fixPeriods,
  isOpenAt,
  leastOwedSince,
  lowerLeastOwed,
  recordFinalSpend,
  recordSpend,
  renewBucketReservations,
  rescaleReservations,
} from "./bucket-reservations.ts";
import { greatestCommonDivisor, multiplyDivideCeil, multiplyDivideFloor, unitsSchema } from "./integers.ts";
import { decodeDated, decodeIntegers, encodeDated, encodeIntegers } from "./log/varint.ts";
import { openBytes } from "./open-reservations.ts";
import {
  constantSizeBytes,
  type DatedUnits,
  type Limit,
  type LimitProblem,
  type Renewal,
  type ReservedUnits,
  type SettledUnits,
} from "./strategy.ts";
import type { BucketTerms } from "./usage.ts";

export interface BucketLimit extends Limit {
  /** The capacity in units; for a queue, the units that may wait. */
  readonly burst: number;
  readonly creditsPerUnit: number;
  readonly creditsPerStep: number;
  readonly stepMs: number;
}

/** The credits owed just before the first spend of an instant. Each mark records more than the next older one. */
interface Mark {
  readonly atMs: number;
  readonly owed: number;
  readonly older: Mark | null;
  readonly depth: number;
}

/** The state of a bucket: the credits owed at `atMs`. From then on, `creditsPerStep` of them drain every `stepMs`. */
export interface BucketState {
  readonly atMs: number;
  readonly owed: number;
  /**
   * Marks of earlier spends; the newest mark is that of the last spend. They bound refunds: a refund of an earlier
   * spend gives back no more than the credits that any later mark records. A mark is dropped when a later one records
   * as much or less.
   */
  readonly newest: Mark | null;
  /** Null if no reservation is open, and for queues. */
  readonly reserved: BucketReservations | null;
}

/** Debts are capped so that they drain within this time, which keeps instants exact integers. */
const longestDrainMs = 2 ** 53 - 2 ** 47;

function mostOwed(limit: BucketLimit): number {
  const steps = Math.floor(longestDrainMs / limit.stepMs);
  return Math.min(longestDrainMs, steps * limit.creditsPerStep);
}

/** More marks would make refunds more exact, but stored states longer than 100 bytes. */
const mostMarks = 3;

const nothingOwed: BucketState = { atMs: 0, owed: 0, newest: null, reserved: null };

export const burstOption = { burst: v.optional(unitsSchema) };

/** The limit with its burst (L by default) and its drain rate. */
export function withRate<L extends BucketLimit>(limit: L): L {
  const divisor = greatestCommonDivisor(limit.limit, limit.windowMs);
  return {
    ...limit,
    burst: limit.burst ?? limit.limit,
    creditsPerUnit: limit.windowMs / divisor,
    creditsPerStep: limit.limit / divisor,
    stepMs: 1,
  };
}

/** The problem of a limit whose credits would not all be exact integers. */
function creditsProblem(limit: BucketLimit): LimitProblem | null {
  const divisor = greatestCommonDivisor(limit.limit, limit.windowMs);
  const units = Math.max(limit.limit / divisor, limit.burst);
  if (2 * units * (limit.windowMs / divisor) <= Number.MAX_SAFE_INTEGER) return null;
  const isOfBurst = limit.burst !== limit.limit && limit.burst > limit.limit / divisor;
  return {
    field: isOfBurst ? "burst" : "limit",
    accepted: `fewer units or a shorter window: for the strategy ${limit.strategy}, with limit and window in milliseconds divided by their greatest common divisor, limit × window and burst × window must stay below 2^52`,
  };
}

const stepsUntil = (limit: BucketLimit, state: BucketState, nowMs: number): number =>
  Math.floor((nowMs - state.atMs) / limit.stepMs);

/** Credits owed. A product beyond 2^53 is inexact, but greater than any debt. */
export function creditsOwed(limit: BucketLimit, state: BucketState, nowMs: number): number {
  return Math.max(0, state.owed - stepsUntil(limit, state, nowMs) * limit.creditsPerStep);
}

/** Units owed, rounded up, because a partly drained unit cannot be spent again yet. */
function unitsOwed(limit: BucketLimit, state: BucketState, nowMs: number): number {
  return Math.ceil(creditsOwed(limit, state, nowMs) / limit.creditsPerUnit);
}

/** The least wait in milliseconds until at most `credits` are owed. Call it only if more are owed now. */
export function waitUntilOwed(limit: BucketLimit, state: BucketState, credits: number, nowMs: number) {
  const excess = state.owed - credits;
  return state.atMs + Math.ceil(excess / limit.creditsPerStep) * limit.stepMs - nowMs;
}

/** Adds units at an instant. If a later spend exists, they count from it, so that they drain no earlier. */
function addOwed(limit: BucketLimit, before: BucketState, spent: DatedUnits, nowMs: number): BucketState {
  // A drained bucket must decide like a new one, because storage may have discarded its state.
  const owedNow = creditsOwed(limit, before, nowMs);
  const state = owedNow === 0 ? nothingOwed : before;
  const { newest } = state;
  const atMs = Math.max(spent.atMs, state.atMs, newest === null ? 0 : newest.atMs);
  const owed = atMs === nowMs ? owedNow : creditsOwed(limit, state, atMs);
  // The refill periods begin with a spend that finds nothing owed, and stay the same until nothing is owed again.
  const stepAtMs = owed === 0 ? atMs : state.atMs + stepsUntil(limit, state, atMs) * limit.stepMs;
  const reserved = state.reserved === null ? null : recordSpend(state.reserved, atMs, owed);
  return {
    atMs: stepAtMs,
    owed: Math.min(mostOwed(limit), owed + spent.units * limit.creditsPerUnit),
    newest: newest?.atMs === atMs ? newest : pushMark(newest, atMs, owed),
    // Settlements move only the first refill period.
    reserved: stepAtMs === state.atMs ? reserved : fixPeriods(reserved),
  };
}

/** The state of a queue after a spend. Only the last spend can be refunded, because later slots are already promised. */
export function enqueue(limit: BucketLimit, state: BucketState, spent: DatedUnits, nowMs: number): BucketState {
  const next = addOwed(limit, state, spent, nowMs);
  const atMs = next.newest?.atMs ?? spent.atMs;
  return { ...next, newest: { atMs, owed: 0, older: null, depth: 1 } };
}

/** The state after a spend that is not a reservation. */
export function spendFinal(limit: BucketLimit, state: BucketState, spent: DatedUnits, nowMs: number) {
  const next = addOwed(limit, state, spent, nowMs);
  const { reserved, newest } = next;
  if (reserved === null || reserved.firstFinalAtMs === null || newest === null) return next;
  return { ...next, reserved: recordFinalSpend(reserved, newest.atMs) };
}

function reserveUnits(
  limit: BucketLimit,
  state: BucketState,
  { units, expiresAtMs }: ReservedUnits,
  nowMs: number,
): BucketState {
  const hasPeriods = limit.stepMs === limit.windowMs;
  // A spend that finds nothing owed begins the first refill period.
  const beginsPeriod = hasPeriods && creditsOwed(limit, state, nowMs) === 0;
  const next = addOwed(limit, state, { atMs: nowMs, units }, nowMs);
  const atMs = next.newest?.atMs ?? nowMs;
  const firstFinalAtMs = beginsPeriod ? Number.POSITIVE_INFINITY : null;
  const opened = { atMs, expiresAtMs, firstFinalAtMs };
  return { ...next, reserved: addReservation(next.reserved, opened, nowMs) };
}

function settleUnits(
  limit: BucketLimit,
  state: BucketState,
  { cost, actualCost, spentAtMs }: SettledUnits,
  nowMs: number,
): BucketState {
  const isOpen = isOpenAt(state.reserved, spentAtMs);
  const units = cost - actualCost;
  const left = units > 0 ? refundUnits(limit, state, { atMs: spentAtMs, units }, nowMs) : state;
  const { reserved } = left;
  if (!isOpen || reserved === null) return left;
  const final = actualCost > 0 ? recordFinalSpend(reserved, spentAtMs) : reserved;
  const others = closeReservation(final, spentAtMs);
  const { firstFinalAtMs } = final;
  if (firstFinalAtMs === null) return { ...left, reserved: others };
  const startMs = firstPeriodStartMs(others, firstFinalAtMs);
  // A settlement after the first refill period does not move the periods.
  const isLate = stepsUntil(limit, left, nowMs) > 0 || startMs === Number.POSITIVE_INFINITY;
  if (isLate) return { ...left, reserved: fixPeriods(others) };
  const isFixed = startMs === firstFinalAtMs;
  return { ...left, atMs: startMs, reserved: isFixed ? fixPeriods(others) : others };
}

/** Adds a mark, and drops older ones that record as much or more. */
function pushMark(newest: Mark | null, atMs: number, owed: number): Mark | null {
  let older = newest;
  while (older !== null && older.owed >= owed) older = older.older;
  const mark = { atMs, owed, older, depth: older === null ? 1 : older.depth + 1 };
  return mark.depth > mostMarks ? mergeMark(mark, closestMark(mark)) : mark;
}

function listMarks(newest: Mark | null): Mark[] {
  const marks: Mark[] = [];
  for (let mark = newest; mark !== null; mark = mark.older) marks.unshift(mark);
  return marks;
}

function linkMarks(marks: readonly Pick<Mark, "atMs" | "owed">[]): Mark | null {
  return marks.reduce<Mark | null>((newest, { atMs, owed }) => pushMark(newest, atMs, owed), null);
}

/** The mark that is closest to its older neighbour, in amount and in time. */
function closestMark(newest: Mark): Mark {
  let found = newest;
  let least = Number.POSITIVE_INFINITY;
  for (let mark = newest; mark.older !== null; mark = mark.older) {
    const area = (mark.owed - mark.older.owed) * (mark.atMs - mark.older.atMs);
    if (area < least) [found, least] = [mark, area];
  }
  return found;
}

/**
 * Merges a mark with its older neighbour into one with the later time and the lesser amount, so that no refund
 * becomes larger.
 */
function mergeMark(newest: Mark, later: Mark): Mark {
  const { older } = newest;
  if (older === null) return newest;
  const depth = newest.depth - 1;
  return newest === later
    ? { atMs: newest.atMs, owed: older.owed, older: older.older, depth }
    : { atMs: newest.atMs, owed: newest.owed, older: mergeMark(older, later), depth };
}

/**
 * Gives back units, but at most the least credits owed at any time since their spend, because all credits beyond that
 * have drained. The least credits are exact for an open reservation. Otherwise the marks give a lower bound.
 */
function refundUnits(limit: BucketLimit, state: BucketState, refunded: DatedUnits, nowMs: number): BucketState {
  const spentAtMs = refunded.atMs;
  const owed = creditsOwed(limit, state, nowMs);
  const marks = listMarks(state.newest);
  const leastMarked = Math.min(owed, marks.find(({ atMs }) => atMs > spentAtMs)?.owed ?? owed);
  const least = Math.max(leastMarked, leastOwedSince(state.reserved, spentAtMs, owed));
  const credits = Math.min(refunded.units * limit.creditsPerUnit, least);
  if (credits === 0) return state;
  if (credits === owed) return nothingOwed;
  const owedThen = state.owed - credits;
  // Without the refunded credits, later spends would have found less owed. Restoring a state lowers marks to the credits
  // owed, so that they must not be higher here.
  const marksLeft = marks.map((mark) => ({
    atMs: mark.atMs,
    owed: Math.min(owedThen, mark.atMs > spentAtMs ? Math.max(0, mark.owed - credits) : mark.owed),
  }));
  return {
    atMs: state.atMs,
    owed: owedThen,
    newest: linkMarks(marksLeft),
    reserved: lowerLeastOwed(state.reserved, { atMs: spentAtMs, credits }, least),
  };
}

function drainedAtMs(limit: BucketLimit, { atMs, owed }: BucketState): number {
  return owed === 0 ? 0 : atMs + Math.ceil(owed / limit.creditsPerStep) * limit.stepMs;
}

/** The state as text: its age, credits per unit, credits owed, and marks. */
function encodeState(limit: BucketLimit, state: BucketState, nowMs: number): string {
  const marks = listMarks(state.newest).map(({ atMs, owed }) => ({ atMs, units: owed }));
  const head = [nowMs - state.atMs, limit.creditsPerUnit, state.owed];
  return encodeIntegers(head) + encodeDated(marks, nowMs);
}

function decodeState(limit: BucketLimit, stored: unknown, nowMs: number, storedOpen = ""): BucketState | null {
  const [ageMs, creditsPerUnit, owed, ...integers] = decodeIntegers(stored) ?? [];
  if (ageMs === undefined || creditsPerUnit === undefined || owed === undefined) return null;
  const marks = decodeDated(integers, nowMs);
  if (marks === null || marks.length > mostMarks) return null;
  if (ageMs > nowMs || creditsPerUnit < 1 || creditsPerUnit > limit.windowMs) return null;
  const atMs = nowMs - ageMs;
  const reserved = decodeReservations(storedOpen, atMs, nowMs);
  if (reserved === undefined || (reserved !== null && reserved.least > owed)) return null;
  const newest = linkMarks(marks.map((mark) => ({ atMs: mark.atMs, owed: mark.units })));
  const state = { atMs, owed, newest, reserved };
  return rescaleState(limit, state, { creditsPerUnit, owedNow: owed }, nowMs);
}

/** The state for a limit with another number of units, and so with other credits per unit. */
function adaptState(limit: BucketLimit, state: BucketState, before: BucketLimit, nowMs: number): BucketState {
  const { creditsPerUnit } = before;
  const isSame = creditsPerUnit === limit.creditsPerUnit && state.reserved === null;
  if (isSame && state.owed <= mostOwed(limit)) return state;
  const owedNow = creditsOwed(before, state, nowMs);
  return rescaleState(limit, state, { creditsPerUnit, owedNow }, nowMs);
}

/** Converts the credits of a state to other credits per unit. Rounds credits owed up, and bounds of refunds down. */
function rescaleState(
  limit: BucketLimit,
  state: BucketState,
  before: { readonly creditsPerUnit: number; readonly owedNow: number },
  nowMs: number,
): BucketState {
  const { creditsPerUnit } = limit;
  const creditsBefore = before.creditsPerUnit;
  const scaledUp = multiplyDivideCeil(state.owed, creditsPerUnit, creditsBefore);
  const owed = Math.min(mostOwed(limit), scaledUp);
  const marks = listMarks(state.newest).map((mark) => ({
    atMs: mark.atMs,
    owed: Math.min(owed, multiplyDivideFloor(mark.owed, creditsPerUnit, creditsBefore)),
  }));
  const rate = { creditsBefore, creditsPerUnit };
  const reserved = rescaleReservations(state.reserved, rate, before.owedNow, nowMs);
  return { atMs: state.atMs, owed, newest: linkMarks(marks), reserved };
}

/** The parts of `Strategy` that are the same for all buckets. */
export const bucketParts = {
  problem: creditsProblem,
  mostStoredBytes: () => 200,
  fresh: () => nothingOwed,
  used: unitsOwed,
  refund: refundUnits,
  idleAtMs: drainedAtMs,
  sizeBytes: ({ reserved }: BucketState) => constantSizeBytes + openBytes(reserved?.newest),
  store: encodeState,
  restore: decodeState,
  adapt: adaptState,
};

/** The `ReservationParts` of all buckets except queues. */
export const bucketReservations = {
  reserve: reserveUnits,
  isOpen: ({ reserved }: BucketState, spentAtMs: number) => isOpenAt(reserved, spentAtMs),
  settle: settleUnits,
  renew: (state: BucketState, renewal: Renewal, nowMs: number): BucketState => {
    if (state.reserved === null) return state;
    const reserved = renewBucketReservations(state.reserved, renewal, nowMs);
    return reserved === state.reserved ? state : { ...state, reserved };
  },
  store: (limit: BucketLimit, state: BucketState, nowMs: number): string =>
    encodeReservations(state.reserved, creditsOwed(limit, state, nowMs), state.atMs, nowMs),
};

export function bucketTerms(limit: BucketLimit, state: BucketState, nowMs: number): BucketTerms {
  const { creditsPerUnit, creditsPerStep, stepMs } = limit;
  const owedCredits = creditsOwed(limit, state, nowMs);
  return {
    owedCredits,
    creditsPerUnit,
    creditsPerStep,
    stepMs,
    nextStepInMs: owedCredits === 0 ? 0 : stepMs - ((nowMs - state.atMs) % stepMs),
  };
}
