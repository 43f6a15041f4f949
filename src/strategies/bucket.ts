/**
 * The arithmetic of token and leaky buckets: what is owed drains at a steady rate. Counting what a bucket lacks rather
 * than what it holds means that a new key owes nothing, and that idle time never banks more than the capacity.
 *
 * Everything is counted in integer credits. With W and L divided by their greatest common divisor, a unit costs W credits
 * and a millisecond drains L. With `refill = "interval"`, a unit is one credit, and L drain at once after each whole W.
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
import {
  greatestCommonDivisor,
  multiplyDivideCeil,
  multiplyDivideFloor,
  unitsSchema,
} from "./integers.ts";
import { decodeDated, decodeIntegers, encodeDated, encodeIntegers } from "./log/varint.ts";
import { openBytes } from "./open-reservations.ts";
import {
  constantSizeBytes,
  type Limit,
  type LimitProblem,
  type Renewal,
  type ReservedUnits,
  type Settlement,
} from "./strategy.ts";

export interface BucketLimit extends Limit {
  /** Units that may be owed. */
  readonly burst: number;
  readonly creditsPerUnit: number;
  readonly creditsPerStep: number;
  readonly stepMs: number;
}

/** What was owed just before the first spend of an instant; more than at the next older mark. */
interface Mark {
  readonly atMs: number;
  readonly owed: number;
  readonly older: Mark | null;
  readonly depth: number;
}

/** A bucket: the credits owed at an instant from which steps are counted. */
export interface Level {
  readonly atMs: number;
  readonly owed: number;
  /**
   * Instants of spends, which bound refunds; the newest is always the last spend. Times and amounts increase: a later
   * mark that owed less bounds every refund that an earlier one does.
   */
  readonly newest: Mark | null;
  /** Null when nothing is reserved, and for a queue. */
  readonly reserved: BucketReservations | null;
}

/** Debts are capped at this time to drain, so that their end is an exact integer. */
const longestDrainMs = 2 ** 53 - 2 ** 47;

function mostOwed(limit: BucketLimit): number {
  const steps = Math.floor(longestDrainMs / limit.stepMs);
  return Math.min(longestDrainMs, steps * limit.creditsPerStep);
}

/** Keeps a stored state below 100 bytes. After more spends, a refund may give back less than was spent. */
const mostMarks = 3;

const nothingOwed: Level = { atMs: 0, owed: 0, newest: null, reserved: null };

export const burstOption = { burst: v.optional(unitsSchema) };

/** The limit with its burst (L by default) and its rate of drain. */
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
    accepted: `fewer units or a shorter window: for the strategy ${limit.strategy} limit × window in milliseconds without common divisors, and burst × window divided by the greatest of them, must stay below 2^52`,
  };
}

const stepsUntil = (limit: BucketLimit, level: Level, nowMs: number): number =>
  Math.floor((nowMs - level.atMs) / limit.stepMs);

/** Credits owed. A product beyond 2^53 is inexact, but greater than any debt. */
export function creditsOwed(limit: BucketLimit, level: Level, nowMs: number): number {
  return Math.max(0, level.owed - stepsUntil(limit, level, nowMs) * limit.creditsPerStep);
}

/** Units owed, rounded up: a partly drained unit cannot be spent again yet. */
function unitsOwed(limit: BucketLimit, level: Level, nowMs: number): number {
  return Math.ceil(creditsOwed(limit, level, nowMs) / limit.creditsPerUnit);
}

/** The least wait, rounded up, until at most `credits` are owed, which must be less than now. */
export function waitUntilOwed(limit: BucketLimit, level: Level, credits: number, nowMs: number) {
  const excess = level.owed - credits;
  return level.atMs + Math.ceil(excess / limit.creditsPerStep) * limit.stepMs - nowMs;
}

/** Adds units at an instant. A spend from before the latest one counts from the latest, so that no more drains for it. */
function addOwed(
  limit: BucketLimit,
  before: Level,
  units: number,
  spentAtMs: number,
  nowMs: number,
): Level {
  // A drained level is forgotten here, so that it makes no difference whether a meter still had it.
  const owedNow = creditsOwed(limit, before, nowMs);
  const level = owedNow === 0 ? nothingOwed : before;
  const { newest } = level;
  const atMs = Math.max(spentAtMs, level.atMs, newest === null ? 0 : newest.atMs);
  const owed = atMs === nowMs ? owedNow : creditsOwed(limit, level, atMs);
  // A spend that finds nothing owed starts the steps. Until the level has drained, they stay on that grid.
  const stepAtMs = owed === 0 ? atMs : level.atMs + stepsUntil(limit, level, atMs) * limit.stepMs;
  const reserved = level.reserved === null ? null : recordSpend(level.reserved, atMs, owed);
  return {
    atMs: stepAtMs,
    owed: Math.min(mostOwed(limit), owed + units * limit.creditsPerUnit),
    newest: newest?.atMs === atMs ? newest : pushMark(newest, atMs, owed),
    // After the first refill period, settlements no longer move the periods.
    reserved: stepAtMs === level.atMs ? reserved : fixPeriods(reserved),
  };
}

/** The state of a queue after a spend. Later slots are promised to others, so only the last spend can be given back. */
export function enqueue(
  limit: BucketLimit,
  level: Level,
  units: number,
  atMs: number,
  nowMs: number,
): Level {
  const next = addOwed(limit, level, units, atMs, nowMs);
  const lastAtMs = next.newest?.atMs ?? atMs;
  return { ...next, newest: { atMs: lastAtMs, owed: 0, older: null, depth: 1 } };
}

/** The state after a final spend. */
export function spendFinal(
  limit: BucketLimit,
  level: Level,
  units: number,
  atMs: number,
  nowMs: number,
): Level {
  const next = addOwed(limit, level, units, atMs, nowMs);
  const { reserved, newest } = next;
  if (reserved === null || reserved.firstFinalAtMs === null || newest === null) return next;
  return { ...next, reserved: recordFinalSpend(reserved, newest.atMs) };
}

function reserveUnits(
  limit: BucketLimit,
  level: Level,
  { units, expiresAtMs }: ReservedUnits,
  nowMs: number,
): Level {
  const hasPeriods = limit.stepMs === limit.windowMs;
  // A spend that finds the bucket full begins the first refill period.
  const beginsPeriod = hasPeriods && creditsOwed(limit, level, nowMs) === 0;
  const next = addOwed(limit, level, units, nowMs, nowMs);
  const atMs = next.newest?.atMs ?? nowMs;
  const firstFinalAtMs = beginsPeriod ? Number.POSITIVE_INFINITY : null;
  const opened = { atMs, expiresAtMs, firstFinalAtMs };
  return { ...next, reserved: addReservation(next.reserved, opened, nowMs) };
}

function settleReservation(
  limit: BucketLimit,
  level: Level,
  { cost, actualCost, spentAtMs }: Settlement,
  nowMs: number,
): Level {
  const isOpen = isOpenAt(level.reserved, spentAtMs);
  const units = cost - actualCost;
  const left = units > 0 ? refundUnits(limit, level, units, spentAtMs, nowMs) : level;
  const { reserved } = left;
  if (!isOpen || reserved === null) return left;
  const final = actualCost > 0 ? recordFinalSpend(reserved, spentAtMs) : reserved;
  const others = closeReservation(final, spentAtMs);
  const { firstFinalAtMs } = final;
  if (firstFinalAtMs === null) return { ...left, reserved: others };
  const startMs = firstPeriodStartMs(others, firstFinalAtMs);
  // A settlement after the first refill period moves no period.
  const isLate = stepsUntil(limit, left, nowMs) > 0 || startMs === Number.POSITIVE_INFINITY;
  if (isLate) return { ...left, reserved: fixPeriods(others) };
  const isFixed = startMs === firstFinalAtMs;
  return { ...left, atMs: startMs, reserved: isFixed ? fixPeriods(others) : others };
}

/** Adds a mark, and drops older ones that owed as much: they bound no refund further. */
function pushMark(newest: Mark | null, atMs: number, owed: number): Mark | null {
  let older = newest;
  while (older !== null && older.owed >= owed) older = older.older;
  const mark = { atMs, owed, older, depth: older === null ? 1 : older.depth + 1 };
  return mark.depth > mostMarks ? mergeMark(mark, closestMark(mark)) : mark;
}

/** All marks, the oldest first. */
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

/** Merges a mark with its older neighbour: the later time with the lesser amount, which increases no refund. */
function mergeMark(newest: Mark, later: Mark): Mark {
  const { older } = newest;
  if (older === null) return newest;
  const depth = newest.depth - 1;
  return newest === later
    ? { atMs: newest.atMs, owed: older.owed, older: older.older, depth }
    : { atMs: newest.atMs, owed: newest.owed, older: mergeMark(older, later), depth };
}

/**
 * Gives back units, at most the least amount that was owed at any time since their spend. Whatever drained beyond that
 * would have had nothing to drain without them. The least amount is exact for an open reservation, and a lower bound
 * from the marks otherwise.
 */
function refundUnits(
  limit: BucketLimit,
  level: Level,
  units: number,
  spentAtMs: number,
  nowMs: number,
): Level {
  const owed = creditsOwed(limit, level, nowMs);
  const marks = listMarks(level.newest);
  const leastMarked = Math.min(owed, marks.find(({ atMs }) => atMs > spentAtMs)?.owed ?? owed);
  const least = Math.max(leastMarked, leastOwedSince(level.reserved, spentAtMs, owed));
  const credits = Math.min(units * limit.creditsPerUnit, least);
  if (credits === 0) return level;
  if (credits === owed) return nothingOwed;
  // Later spends found that much less owed.
  const marksLeft = marks.map((mark) => ({
    atMs: mark.atMs,
    owed: mark.atMs > spentAtMs ? Math.max(0, mark.owed - credits) : mark.owed,
  }));
  return {
    atMs: level.atMs,
    owed: level.owed - credits,
    newest: linkMarks(marksLeft),
    reserved: lowerLeastOwed(level.reserved, { atMs: spentAtMs, credits }, least),
  };
}

/** When nothing is owed any more. */
function drainedAtMs(limit: BucketLimit, { atMs, owed }: Level): number {
  return owed === 0 ? 0 : atMs + Math.ceil(owed / limit.creditsPerStep) * limit.stepMs;
}

/** Age, credits per unit, credits owed, then the marks. */
function encodeLevel(limit: BucketLimit, level: Level, nowMs: number): string {
  const marks = listMarks(level.newest).map(({ atMs, owed }) => ({ atMs, units: owed }));
  const head = [nowMs - level.atMs, limit.creditsPerUnit, level.owed];
  return encodeIntegers(head) + encodeDated(marks, nowMs);
}

function decodeLevel(
  limit: BucketLimit,
  stored: unknown,
  nowMs: number,
  storedOpen = "",
): Level | null {
  const [ageMs, creditsPerUnit, owed, ...integers] = decodeIntegers(stored) ?? [];
  if (ageMs === undefined || creditsPerUnit === undefined || owed === undefined) return null;
  const marks = decodeDated(integers, nowMs);
  if (marks === null || marks.length > mostMarks) return null;
  if (ageMs > nowMs || creditsPerUnit < 1 || creditsPerUnit > limit.windowMs) return null;
  const atMs = nowMs - ageMs;
  const reserved = decodeReservations(storedOpen, atMs, nowMs);
  if (reserved === undefined || (reserved !== null && reserved.least > owed)) return null;
  const newest = linkMarks(marks.map((mark) => ({ atMs: mark.atMs, owed: mark.units })));
  const level = { atMs, owed, newest, reserved };
  return rescaleLevel(limit, level, { creditsPerUnit, owedNow: owed }, nowMs);
}

/** The level for a limit of another number of units, for which a unit costs other credits. */
function adaptLevel(limit: BucketLimit, level: Level, before: BucketLimit, nowMs: number): Level {
  const { creditsPerUnit } = before;
  const isSame = creditsPerUnit === limit.creditsPerUnit && level.reserved === null;
  if (isSame && level.owed <= mostOwed(limit)) return level;
  const owedNow = creditsOwed(before, level, nowMs);
  return rescaleLevel(limit, level, { creditsPerUnit, owedNow }, nowMs);
}

/** Converts a level to the limit's credits per unit. Debts are rounded up, and bounds of refunds down. */
function rescaleLevel(
  limit: BucketLimit,
  level: Level,
  before: { readonly creditsPerUnit: number; readonly owedNow: number },
  nowMs: number,
): Level {
  const { creditsPerUnit } = limit;
  const creditsBefore = before.creditsPerUnit;
  const scaledUp = multiplyDivideCeil(level.owed, creditsPerUnit, creditsBefore);
  const owed = Math.min(mostOwed(limit), scaledUp);
  const marks = listMarks(level.newest).map((mark) => ({
    atMs: mark.atMs,
    owed: Math.min(owed, multiplyDivideFloor(mark.owed, creditsPerUnit, creditsBefore)),
  }));
  const rate = { creditsBefore, creditsPerUnit };
  const reserved = rescaleReservations(level.reserved, rate, before.owedNow, nowMs);
  return { atMs: level.atMs, owed, newest: linkMarks(marks), reserved };
}

/** The parts of `Strategy` that are the same for all buckets. */
export const bucketParts = {
  problem: creditsProblem,
  mostStoredBytes: () => 200,
  fresh: () => nothingOwed,
  used: unitsOwed,
  refund: refundUnits,
  idleAtMs: drainedAtMs,
  sizeBytes: ({ reserved }: Level) => constantSizeBytes + openBytes(reserved?.newest),
  store: encodeLevel,
  restore: decodeLevel,
  adapt: adaptLevel,
};

/** The reservations of buckets in which every unit may be given back. */
export const bucketReservations = {
  reserve: reserveUnits,
  isOpen: ({ reserved }: Level, spentAtMs: number) => isOpenAt(reserved, spentAtMs),
  settle: settleReservation,
  renew: (level: Level, renewal: Renewal, nowMs: number): Level => {
    if (level.reserved === null) return level;
    const reserved = renewBucketReservations(level.reserved, renewal, nowMs);
    return reserved === level.reserved ? level : { ...level, reserved };
  },
  store: (limit: BucketLimit, level: Level, nowMs: number): string =>
    encodeReservations(level.reserved, creditsOwed(limit, level, nowMs), level.atMs, nowMs),
};
