/**
 * What is owed drains away at a steady rate: the arithmetic of token and leaky buckets. What a bucket lacks is counted
 * rather than what it holds, so that a key never seen owes nothing, and no idle time can bank more than the capacity.
 *
 * Counted in credits, so that everything is an integer: with W and L divided by their greatest common divisor, a unit
 * costs W credits and a millisecond drains L. Of a bucket that is refilled by interval a unit is one credit, and L drain
 * at once with each whole W.
 */
import * as v from "valibot";
import {
  type BucketReservations,
  closed,
  firstBegins,
  isOpenAt,
  leastSince,
  lowered,
  opened,
  passed,
  renewed,
  rescaled,
  revivedReservations,
  storedReservations,
  withFinal,
  withFixedPeriods,
} from "./bucket-reservations.ts";
import {
  greatestCommonDivisor,
  multiplyDivideCeil,
  multiplyDivideFloor,
  unitsSchema,
} from "./integers.ts";
import { packed, packedDates, unpacked, unpackedDates } from "./log/varint.ts";
import { sizeOfOpen } from "./open-reservations.ts";
import { constantSizeBytes, type Limit, type LimitProblem, type Settled } from "./strategy.ts";

export interface DrainingLimit extends Limit {
  /** Units that may be owed, before any waiting. */
  readonly burst: number;
  readonly creditsPerUnit: number;
  readonly creditsPerStep: number;
  readonly stepMs: number;
}

/** What was owed just before the first spend of an instant; more than at the mark before it. */
interface Mark {
  readonly atMs: number;
  readonly owed: number;
  readonly older: Mark | null;
  readonly depth: number;
}

/** What is owed as of an instant that steps are counted from, in credits. */
export interface Level {
  readonly atMs: number;
  readonly owed: number;
  /**
   * For refunds: some of the instants at which anything was spent, the last among them. Times and amounts grow: where
   * less was owed at a later one, it bounds every refund that the earlier one does.
   */
  readonly newest: Mark | null;
  /** Null where nothing is reserved, and for a queue. */
  readonly reserved: BucketReservations | null;
}

/** A debt that takes longer than this to drain is not told apart from it: its end is still an exact integer. */
const longestDrainMs = 2 ** 53 - 2 ** 47;

function mostOwed(limit: DrainingLimit): number {
  const steps = Math.floor(longestDrainMs / limit.stepMs);
  return Math.min(longestDrainMs, steps * limit.creditsPerStep);
}

/** So few keep a stored state under 100 bytes. A refund after more spends than that may give back too little. */
const mostMarks = 3;

const nothingOwed: Level = { atMs: 0, owed: 0, newest: null, reserved: null };

/** The field of a limit that says how much may be spent at once. */
export const burstOption = { burst: v.optional(unitsSchema) };

/** The limit with its burst, which is L when nothing is said, and with the rate at which it drains. */
export function draining<L extends DrainingLimit>(limit: L): L {
  const divisor = greatestCommonDivisor(limit.limit, limit.windowMs);
  return {
    ...limit,
    burst: limit.burst ?? limit.limit,
    creditsPerUnit: limit.windowMs / divisor,
    creditsPerStep: limit.limit / divisor,
    stepMs: 1,
  };
}

/** What is wrong with a limit whose credits would not all be exact integers. */
function creditsProblem(limit: DrainingLimit): LimitProblem | null {
  const divisor = greatestCommonDivisor(limit.limit, limit.windowMs);
  const units = Math.max(limit.limit / divisor, limit.burst);
  if (2 * units * (limit.windowMs / divisor) <= Number.MAX_SAFE_INTEGER) return null;
  const isOfBurst = limit.burst !== limit.limit && limit.burst > limit.limit / divisor;
  return {
    field: isOfBurst ? "burst" : "limit",
    accepted: `fewer units or a shorter window: for the strategy ${limit.strategy} limit × window in milliseconds without common divisors, and burst × window divided by the greatest of them, must stay below 2^52`,
  };
}

const stepsUntil = (limit: DrainingLimit, level: Level, nowMs: number): number =>
  Math.floor((nowMs - level.atMs) / limit.stepMs);

/** Credits owed. A product beyond 2^53 is not exact, and more than anything owed. */
export function owedAt(limit: DrainingLimit, level: Level, nowMs: number): number {
  return Math.max(0, level.owed - stepsUntil(limit, level, nowMs) * limit.creditsPerStep);
}

/** Units owed, rounded up: a unit of which a part has drained cannot be spent again yet. */
function unitsOwed(limit: DrainingLimit, level: Level, nowMs: number): number {
  return Math.ceil(owedAt(limit, level, nowMs) / limit.creditsPerUnit);
}

/** The least wait until at most `credits` are owed, less than now, rounded up to the millisecond. */
export function waitUntilOwed(
  limit: DrainingLimit,
  level: Level,
  credits: number,
  nowMs: number,
): number {
  const excess = level.owed - credits;
  return level.atMs + Math.ceil(excess / limit.creditsPerStep) * limit.stepMs - nowMs;
}

/**
 * `units` more are owed from an instant on; of one before the latest, from the latest: no more drains for it.
 * @param isLastOnly whether nothing that was spent before can be given back any more
 */
export function owing(
  limit: DrainingLimit,
  before: Level,
  units: number,
  spentAtMs: number,
  nowMs: number,
  isLastOnly: boolean,
): Level {
  // What is drained by now is forgotten, be it by a meter that kept it or by one that did not.
  const owedNow = owedAt(limit, before, nowMs);
  const level = owedNow === 0 ? nothingOwed : before;
  const { newest } = level;
  const atMs = Math.max(spentAtMs, level.atMs, newest === null ? 0 : newest.atMs);
  const owed = atMs === nowMs ? owedNow : owedAt(limit, level, atMs);
  // Steps are counted from the spend that finds nothing owed; until then they keep their beat.
  const beatMs = owed === 0 ? atMs : level.atMs + stepsUntil(limit, level, atMs) * limit.stepMs;
  return {
    atMs: beatMs,
    owed: Math.min(mostOwed(limit), owed + units * limit.creditsPerUnit),
    newest: newest?.atMs === atMs ? newest : marked(newest, atMs, isLastOnly ? 0 : owed),
    reserved:
      level.reserved === null ? null : passedBy(level.reserved, level.atMs, beatMs, atMs, owed),
  };
}

/** The reservations after a spend; in another refill period than the first one nothing moves the periods any more. */
function passedBy(
  reserved: BucketReservations,
  begunAtMs: number,
  beatMs: number,
  atMs: number,
  owed: number,
): BucketReservations | null {
  const next = passed(reserved, atMs, owed);
  return beatMs === begunAtMs ? next : withFixedPeriods(next);
}

/** The level with units spent for good. */
export function spentFor(
  limit: DrainingLimit,
  level: Level,
  units: number,
  atMs: number,
  nowMs: number,
): Level {
  const next = owing(limit, level, units, atMs, nowMs, false);
  const { reserved, newest } = next;
  if (reserved === null || reserved.firstFinalAtMs === null || newest === null) return next;
  return { ...next, reserved: withFinal(reserved, newest.atMs) };
}

/** Whether units come in at the end of refill periods, which the spend begins that finds the bucket full. */
const hasPeriods = ({ stepMs, windowMs }: DrainingLimit): boolean => stepMs === windowMs;

function reservedFor(
  limit: DrainingLimit,
  level: Level,
  units: number,
  expiresAtMs: number,
  nowMs: number,
): Level {
  const beginsPeriod = hasPeriods(limit) && owedAt(limit, level, nowMs) === 0;
  const next = owing(limit, level, units, nowMs, nowMs, false);
  const atMs = next.newest?.atMs ?? nowMs;
  const firstFinalAtMs = beginsPeriod ? Number.POSITIVE_INFINITY : null;
  return { ...next, reserved: opened(next.reserved, atMs, expiresAtMs, nowMs, firstFinalAtMs) };
}

/** Corrects an open reservation to its actual cost, as far as that is no more than it was, and closes it. */
function settledTo(
  limit: DrainingLimit,
  level: Level,
  { cost, actualCost, spentAtMs }: Settled,
  nowMs: number,
): Level {
  const isOpen = isOpenAt(level.reserved, spentAtMs);
  const units = cost - actualCost;
  const left = units > 0 ? returned(limit, level, units, spentAtMs, nowMs) : level;
  const { reserved } = left;
  if (!isOpen || reserved === null) return left;
  const final = actualCost > 0 ? withFinal(reserved, spentAtMs) : reserved;
  const others = closed(final, spentAtMs);
  const { firstFinalAtMs } = final;
  if (firstFinalAtMs === null) return { ...left, reserved: others };
  // A later settlement moves no refill period.
  const beginsAtMs = firstBegins(others, firstFinalAtMs);
  const isLate = stepsUntil(limit, left, nowMs) > 0 || beginsAtMs === Number.POSITIVE_INFINITY;
  if (isLate) return { ...left, reserved: withFixedPeriods(others) };
  const isFixed = beginsAtMs === firstFinalAtMs;
  return { ...left, atMs: beginsAtMs, reserved: isFixed ? withFixedPeriods(others) : others };
}

/** A mark more: of those before it only those of less bound a refund further. */
function marked(newest: Mark | null, atMs: number, owed: number): Mark | null {
  let older = newest;
  while (older !== null && older.owed >= owed) older = older.older;
  const mark = { atMs, owed, older, depth: older === null ? 1 : older.depth + 1 };
  return mark.depth > mostMarks ? without(mark, closest(mark)) : mark;
}

/** The oldest first. */
function listed(newest: Mark | null): Mark[] {
  const marks: Mark[] = [];
  for (let mark = newest; mark !== null; mark = mark.older) marks.unshift(mark);
  return marks;
}

function linked(marks: readonly Pick<Mark, "atMs" | "owed">[]): Mark | null {
  return marks.reduce<Mark | null>((newest, { atMs, owed }) => marked(newest, atMs, owed), null);
}

/** The mark that lies closest to the one before it, in amount and in time. */
function closest(newest: Mark): Mark {
  let found = newest;
  let least = Number.POSITIVE_INFINITY;
  for (let mark = newest; mark.older !== null; mark = mark.older) {
    const area = (mark.owed - mark.older.owed) * (mark.atMs - mark.older.atMs);
    if (area < least) [found, least] = [mark, area];
  }
  return found;
}

/** One mark less: the later time of two neighbours goes with the lesser amount, which makes no refund greater. */
function without(newest: Mark, later: Mark): Mark {
  const { older } = newest;
  if (older === null) return newest;
  const depth = newest.depth - 1;
  return newest === later
    ? { atMs: newest.atMs, owed: older.owed, older: older.older, depth }
    : { atMs: newest.atMs, owed: newest.owed, older: without(older, later), depth };
}

/**
 * Of `units` spent at an instant, no more is given back than has not drained since: as much as was owed at the least at
 * any time after. What drained while that little was owed would have had nothing to drain, had they not been spent.
 * For an open reservation that is known exactly, and otherwise no more of it than the marks show.
 */
function returned(
  limit: DrainingLimit,
  level: Level,
  units: number,
  spentAtMs: number,
  nowMs: number,
): Level {
  const owed = owedAt(limit, level, nowMs);
  const marks = listed(level.newest);
  const markedLeast = Math.min(owed, marks.find(({ atMs }) => atMs > spentAtMs)?.owed ?? owed);
  const least = Math.max(markedLeast, leastSince(level.reserved, spentAtMs, owed));
  const credits = Math.min(units * limit.creditsPerUnit, least);
  if (credits === 0) return level;
  if (credits === owed) return nothingOwed;
  // At what came after, so much less was owed; what was marked before with no less no longer counts.
  const marksLeft = marks.map((mark) => ({
    atMs: mark.atMs,
    owed: mark.atMs > spentAtMs ? Math.max(0, mark.owed - credits) : mark.owed,
  }));
  return {
    atMs: level.atMs,
    owed: level.owed - credits,
    newest: linked(marksLeft),
    reserved: lowered(level.reserved, spentAtMs, credits, least),
  };
}

/** When nothing is owed any more. */
function drainedAtMs(limit: DrainingLimit, { atMs, owed }: Level): number {
  return owed === 0 ? 0 : atMs + Math.ceil(owed / limit.creditsPerStep) * limit.stepMs;
}

/** Age, credits that a unit costs, and credits owed; then the marks. */
function storedLevel(limit: DrainingLimit, level: Level, nowMs: number): string {
  const marks = listed(level.newest).map(({ atMs, owed }) => ({ atMs, units: owed }));
  const head = [nowMs - level.atMs, limit.creditsPerUnit, level.owed];
  return packed(head) + packedDates(marks, nowMs);
}

/** Where the number of the limit has changed, and so what a unit costs, debts are rounded up and refunds down. */
function revivedLevel(
  limit: DrainingLimit,
  stored: unknown,
  nowMs: number,
  storedOpen = "",
): Level | null {
  const [ageMs, costThen, owedThen, ...integers] = unpacked(stored) ?? [];
  if (ageMs === undefined || costThen === undefined || owedThen === undefined) return null;
  const marks = unpackedDates(integers, nowMs);
  if (marks === null || marks.length > mostMarks) return null;
  if (ageMs > nowMs || costThen < 1 || costThen > limit.windowMs) return null;
  const atMs = nowMs - ageMs;
  const reserved = revivedReservations(storedOpen, atMs, nowMs);
  if (reserved === undefined || (reserved !== null && reserved.least > owedThen)) return null;
  const newest = linked(marks.map((mark) => ({ atMs: mark.atMs, owed: mark.units })));
  return withUnitCost(limit, { atMs, owed: owedThen, newest, reserved }, costThen, owedThen, nowMs);
}

/** The level of a limit of another number, for which a unit costs other credits. */
function adaptedLevel(
  limit: DrainingLimit,
  level: Level,
  before: DrainingLimit,
  nowMs: number,
): Level {
  const isSame = before.creditsPerUnit === limit.creditsPerUnit && level.reserved === null;
  if (isSame && level.owed <= mostOwed(limit)) return level;
  return withUnitCost(limit, level, before.creditsPerUnit, owedAt(before, level, nowMs), nowMs);
}

/** @param owedNow credits of the former cost that are owed at `nowMs` */
function withUnitCost(
  limit: DrainingLimit,
  level: Level,
  costThen: number,
  owedNow: number,
  nowMs: number,
): Level {
  const { creditsPerUnit } = limit;
  const owed = Math.min(mostOwed(limit), multiplyDivideCeil(level.owed, creditsPerUnit, costThen));
  const marks = listed(level.newest).map((mark) => ({
    atMs: mark.atMs,
    owed: Math.min(owed, multiplyDivideFloor(mark.owed, creditsPerUnit, costThen)),
  }));
  const reserved = rescaled(level.reserved, costThen, creditsPerUnit, owedNow, nowMs);
  return { atMs: level.atMs, owed, newest: linked(marks), reserved };
}

/** What all strategies that drain have in common. */
export const drainingParts = {
  problem: creditsProblem,
  mostStoredBytes: () => 200,
  fresh: () => nothingOwed,
  used: unitsOwed,
  refund: returned,
  idleAtMs: drainedAtMs,
  sizeBytes: ({ reserved }: Level) => constantSizeBytes + sizeOfOpen(reserved?.newest),
  store: storedLevel,
  revive: revivedLevel,
  adapt: adaptedLevel,
};

/** What those keep of open reservations in which any unit may be given back. */
export const drainingReservations = {
  reserve: reservedFor,
  isOpen: ({ reserved }: Level, spentAtMs: number) => isOpenAt(reserved, spentAtMs),
  settle: settledTo,
  renew: (level: Level, heldAtMs: number, ttlMs: number, nowMs: number): Level => {
    if (level.reserved === null) return level;
    const reserved = renewed(level.reserved, heldAtMs, ttlMs, nowMs);
    return reserved === level.reserved ? level : { ...level, reserved };
  },
  store: (limit: DrainingLimit, level: Level, nowMs: number): string =>
    storedReservations(level.reserved, owedAt(limit, level, nowMs), level.atMs, nowMs),
};
