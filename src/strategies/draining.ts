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

/** How many whole units were owed just before the first spend of an instant. */
interface Mark {
  readonly atMs: number;
  readonly units: number;
}

/** What is owed as of an instant that steps are counted from, in credits. */
export interface Level {
  readonly atMs: number;
  readonly owed: number;
  /**
   * For refunds: some of the instants at which anything was spent, the last among them. Times and units grow: where a
   * later mark has fewer, it bounds every refund that the earlier one does.
   */
  readonly marks: readonly Mark[];
}

/** A debt that takes longer than this to drain is not told apart from it: its end is still an exact integer. */
const longestDrainMs = 2 ** 53 - 2 ** 45;

function mostOwed(limit: DrainingLimit): number {
  const steps = Math.floor(longestDrainMs / limit.stepMs);
  return Math.min(longestDrainMs, steps * limit.creditsPerStep);
}

/** So many keep a stored state under 100 bytes; what late refunds lose by there being no more is a matter of degree. */
const mostMarks = 4;

export const nothingOwed: Level = { atMs: 0, owed: 0, marks: [] };

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
  const latest = level.marks.at(-1);
  const atMs = Math.max(spentAtMs, level.atMs, latest?.atMs ?? 0);
  const owed = atMs === nowMs ? owedNow : owedAt(limit, level, atMs);
  // Steps are counted from the spend that finds nothing owed; until then they keep their beat.
  const beatMs = owed === 0 ? atMs : level.atMs + stepsUntil(limit, level, atMs) * limit.stepMs;
  const wholeUnits = isLastOnly ? 0 : Math.floor(owed / limit.creditsPerUnit);
  return {
    atMs: beatMs,
    owed: Math.min(mostOwed(limit), owed + units * limit.creditsPerUnit),
    marks: latest?.atMs === atMs ? level.marks : marked(level.marks, { atMs, units: wholeUnits }),
  };
}

/** A mark more: of those before it only those of fewer units bound a refund further. */
function marked(marks: readonly Mark[], mark: Mark): readonly Mark[] {
  const kept: Mark[] = [];
  for (const each of marks) if (each.units < mark.units) kept.push(each);
  kept.push(mark);
  return kept.length > mostMarks ? joined(kept) : kept;
}

/**
 * One mark less: of the two neighbours that lie closest, in units and in time, the later time goes with the fewer units.
 * That makes no refund greater, and the fewest of them smaller.
 */
function joined(marks: readonly Mark[]): readonly Mark[] {
  let closest = 0;
  let least = Number.POSITIVE_INFINITY;
  let previous: Mark | null = null;
  for (const [index, mark] of marks.entries()) {
    const apart = previous === null ? least : areaBetween(previous, mark);
    if (apart < least) [least, closest] = [apart, index - 1];
    previous = mark;
  }
  const { atMs } = marks[closest + 1] ?? { atMs: 0 };
  const { units } = marks[closest] ?? { units: 0 };
  return [...marks.slice(0, closest), { atMs, units }, ...marks.slice(closest + 2)];
}

const areaBetween = (a: Mark, b: Mark): number => (b.units - a.units) * (b.atMs - a.atMs);

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
  const least = level.marks.find(({ atMs }) => atMs > spentAtMs)?.units ?? units;
  const credits = Math.min(Math.min(units, least) * limit.creditsPerUnit, owed);
  if (credits === 0) return level;
  if (credits === level.owed) return nothingOwed;
  const fewer = Math.ceil(credits / limit.creditsPerUnit);
  const before = level.marks.filter(({ atMs }) => atMs <= spentAtMs);
  const after = level.marks
    .filter(({ atMs }) => atMs > spentAtMs)
    .map((mark) => ({ atMs: mark.atMs, units: mark.units - fewer }));
  const lowest = after[0]?.units ?? Number.POSITIVE_INFINITY;
  return {
    atMs: level.atMs,
    owed: level.owed - credits,
    marks: [...before.filter((mark) => mark.units < lowest), ...after],
  };
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
  const { atMs, owed, marks } = level;
  const units = Math.floor(owed / limit.creditsPerUnit);
  const rest = (owed % limit.creditsPerUnit) * restScale(limit);
  return packed([nowMs - atMs, units, rest]) + packedDates(marks, nowMs);
}

export function revivedLevel(limit: DrainingLimit, stored: unknown, nowMs: number): Level | null {
  const [ageMs, units, rest, ...integers] = unpacked(stored) ?? [];
  if (ageMs === undefined || units === undefined || rest === undefined) return null;
  const marks = unpackedDates(integers, nowMs);
  if (marks === null || marks.length > mostMarks) return null;
  if (ageMs > nowMs || rest >= limit.windowMs) return null;
  const credits = units * limit.creditsPerUnit + Math.ceil(rest / restScale(limit));
  return { atMs: nowMs - ageMs, owed: Math.min(mostOwed(limit), credits), marks };
}
