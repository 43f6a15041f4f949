/**
 * What is owed drains away at a steady rate: the arithmetic of token and leaky buckets. What a bucket lacks is counted
 * rather than what it holds, so that a key never seen owes nothing, and no idle time can bank more than the capacity.
 *
 * Counted in credits, so that everything is an integer: with W and L divided by their greatest common divisor, a unit
 * costs W credits and a millisecond drains L. Of a bucket that is refilled by interval a unit is one credit, and L drain
 * at once with each whole W.
 */
import * as v from "valibot";
import { greatestCommonDivisor, unitsSchema } from "./integers.ts";
import { packed, packedDates, unpacked, unpackedDates } from "./packing.ts";
import type { Limit, LimitProblem } from "./strategy.ts";

export interface DrainingLimit extends Limit {
  /** Units that may be owed, before any waiting. */
  readonly burst: number;
  readonly creditsPerUnit: number;
  readonly creditsPerStep: number;
  readonly stepMs: number;
}

/** How many whole units were owed just before the first spend of an instant; the one before it had fewer. */
interface Mark {
  readonly atMs: number;
  readonly units: number;
  readonly older: Mark | null;
  readonly depth: number;
}

/** What is owed as of an instant that steps are counted from, in credits. */
export interface Level {
  readonly atMs: number;
  readonly owed: number;
  /**
   * For refunds: some of the instants at which anything was spent, the last among them. Times and units grow: where a
   * later mark has fewer, it bounds every refund that the earlier one does.
   */
  readonly newest: Mark | null;
}

/** A debt that takes longer than this to drain is not told apart from it: its end is still an exact integer. */
const longestDrainMs = 2 ** 53 - 2 ** 45;

function mostOwed(limit: DrainingLimit): number {
  const steps = Math.floor(longestDrainMs / limit.stepMs);
  return Math.min(longestDrainMs, steps * limit.creditsPerStep);
}

/** So many keep a stored state under 100 bytes; what late refunds lose by there being no more is a matter of degree. */
const mostMarks = 4;

export const nothingOwed: Level = { atMs: 0, owed: 0, newest: null };

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
export function creditsProblem(limit: DrainingLimit): LimitProblem | null {
  const divisor = greatestCommonDivisor(limit.limit, limit.windowMs);
  const units = Math.max(limit.limit / divisor, limit.burst);
  if (2 * units * (limit.windowMs / divisor) <= Number.MAX_SAFE_INTEGER) return null;
  return {
    field: limit.burst > limit.limit ? "burst" : "limit",
    accepted: `fewer units or a shorter window: for the strategy ${limit.strategy} the burst × the window in milliseconds, divided by the greatest common divisor of limit and window, must stay below 2^52`,
  };
}

const stepsUntil = (limit: DrainingLimit, level: Level, nowMs: number): number =>
  Math.floor((nowMs - level.atMs) / limit.stepMs);

/** Credits owed. A product beyond 2^53 is not exact, and more than anything owed. */
export function owedAt(limit: DrainingLimit, level: Level, nowMs: number): number {
  return Math.max(0, level.owed - stepsUntil(limit, level, nowMs) * limit.creditsPerStep);
}

/** Units owed, rounded up: a unit of which a part has drained cannot be spent again yet. */
export function unitsOwed(limit: DrainingLimit, level: Level, nowMs: number): number {
  return Math.ceil(owedAt(limit, level, nowMs) / limit.creditsPerUnit);
}

/** The least wait until at most `units` are owed, less than now, rounded up to the millisecond. */
export function waitUntilOwed(
  limit: DrainingLimit,
  level: Level,
  units: number,
  nowMs: number,
): number {
  const excess = level.owed - units * limit.creditsPerUnit;
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
  const wholeUnits = isLastOnly ? 0 : Math.floor(owed / limit.creditsPerUnit);
  return {
    atMs: beatMs,
    owed: Math.min(mostOwed(limit), owed + units * limit.creditsPerUnit),
    newest: newest?.atMs === atMs ? newest : marked(newest, atMs, wholeUnits),
  };
}

/** A mark more: of those before it only those of fewer units bound a refund further. */
function marked(newest: Mark | null, atMs: number, units: number): Mark | null {
  let older = newest;
  while (older !== null && older.units >= units) older = older.older;
  const mark = { atMs, units, older, depth: older === null ? 1 : older.depth + 1 };
  return mark.depth > mostMarks ? without(mark, closest(mark)) : mark;
}

/** The oldest first. */
function listed(newest: Mark | null): Mark[] {
  const marks: Mark[] = [];
  for (let mark = newest; mark !== null; mark = mark.older) marks.unshift(mark);
  return marks;
}

function linked(marks: readonly Pick<Mark, "atMs" | "units">[]): Mark | null {
  return marks.reduce<Mark | null>((newest, { atMs, units }) => marked(newest, atMs, units), null);
}

/** The mark that lies closest to the one before it, in units and in time. */
function closest(newest: Mark): Mark {
  let found = newest;
  let least = Number.POSITIVE_INFINITY;
  for (let mark = newest; mark.older !== null; mark = mark.older) {
    const area = (mark.units - mark.older.units) * (mark.atMs - mark.older.atMs);
    if (area < least) [found, least] = [mark, area];
  }
  return found;
}

/** One mark less: the later time of two neighbours goes with the fewer units, which makes no refund greater. */
function without(newest: Mark, later: Mark): Mark {
  const { older } = newest;
  if (older === null) return newest;
  const depth = newest.depth - 1;
  return newest === later
    ? { atMs: newest.atMs, units: older.units, older: older.older, depth }
    : { atMs: newest.atMs, units: newest.units, older: without(older, later), depth };
}

/**
 * Of `units` spent at an instant, no more is given back than has not drained since: as much as was owed at the least at
 * any time after. What drained while that little was owed would have had nothing to drain, had they not been spent.
 */
export function returned(
  limit: DrainingLimit,
  level: Level,
  units: number,
  spentAtMs: number,
  nowMs: number,
): Level {
  const owed = owedAt(limit, level, nowMs);
  const marks = listed(level.newest);
  const least = marks.find(({ atMs }) => atMs > spentAtMs)?.units ?? units;
  const credits = Math.min(Math.min(units, least) * limit.creditsPerUnit, owed);
  if (credits === 0) return level;
  if (credits === level.owed) return nothingOwed;
  const fewer = Math.ceil(credits / limit.creditsPerUnit);
  // Marks that come after have fewer units now; those that no longer have more than an earlier one take its place.
  const lowered = marks.map(({ atMs, units: noted }) => ({
    atMs,
    units: atMs > spentAtMs ? noted - fewer : noted,
  }));
  return { atMs: level.atMs, owed: level.owed - credits, newest: linked(lowered) };
}

/** When nothing is owed any more. */
export function drainedAtMs(limit: DrainingLimit, { atMs, owed }: Level): number {
  return owed === 0 ? 0 : atMs + Math.ceil(owed / limit.creditsPerStep) * limit.stepMs;
}

/** The rest of a unit is stored in 1/W, which stays what it is when the number of the limit changes. */
const restScale = (limit: DrainingLimit): number =>
  limit.stepMs === 1 ? limit.windowMs / limit.creditsPerUnit : 1;

/** Age, units and the rest of a unit; then the marks. */
export function storedLevel(limit: DrainingLimit, level: Level, nowMs: number): string {
  const { atMs, owed, newest } = level;
  const units = Math.floor(owed / limit.creditsPerUnit);
  const rest = (owed % limit.creditsPerUnit) * restScale(limit);
  return packed([nowMs - atMs, units, rest]) + packedDates(listed(newest), nowMs);
}

export function revivedLevel(limit: DrainingLimit, stored: unknown, nowMs: number): Level | null {
  const [ageMs, units, rest, ...integers] = unpacked(stored) ?? [];
  if (ageMs === undefined || units === undefined || rest === undefined) return null;
  const marks = unpackedDates(integers, nowMs);
  if (marks === null || marks.length > mostMarks) return null;
  if (ageMs > nowMs || rest >= limit.windowMs) return null;
  const credits = units * limit.creditsPerUnit + Math.ceil(rest / restScale(limit));
  const owed = Math.min(mostOwed(limit), credits);
  return { atMs: nowMs - ageMs, owed, newest: linked(marks) };
}
