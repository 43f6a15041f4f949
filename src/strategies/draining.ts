/**
 * What is owed drains away at a steady rate: the arithmetic of token and leaky buckets. What a bucket lacks is counted
 * rather than what it holds, so that a key never seen owes nothing, and no idle time can bank more than the capacity.
 *
 * Counted in credits, so that everything is an integer: with W and L divided by their greatest common divisor, a unit
 * costs W credits and a millisecond drains L. Of a bucket that is refilled by interval a unit is one credit, and L drain
 * at once with each whole W.
 */
import * as v from "valibot";
import { greatestCommonDivisor, isCount, unitsSchema } from "./integers.ts";
import type { Limit, LimitProblem } from "./strategy.ts";

export interface DrainingLimit extends Limit {
  /** Units that may be owed, before any waiting. */
  readonly burst: number;
  readonly creditsPerUnit: number;
  readonly creditsPerStep: number;
  readonly stepMs: number;
}

/** What was owed just before the first spend of an instant. */
interface Mark {
  readonly atMs: number;
  readonly owed: number;
}

/** What is owed as of an instant that steps are counted from, in credits. */
export interface Level {
  readonly atMs: number;
  readonly owed: number;
  /**
   * For refunds: before some of the latest instants at which anything was spent, the last among them. Times and amounts
   * grow; an earlier spend of more is left out, since the later mark bounds a refund as well.
   */
  readonly marks: readonly Mark[];
}

/** A debt that takes longer than this to drain is not told apart from it: its end is still an exact integer. */
const longestDrainMs = 2 ** 53 - 2 ** 45;

function mostOwed(limit: DrainingLimit): number {
  const steps = Math.floor(longestDrainMs / limit.stepMs);
  return Math.min(longestDrainMs, steps * limit.creditsPerStep);
}

/** Three marks keep a stored state small. */
const mostMarks = 3;

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
 * @param markAs what a refund of anything spent before may give back at most
 */
export function owing(
  limit: DrainingLimit,
  before: Level,
  units: number,
  spentAtMs: number,
  nowMs: number,
  markAs: (owed: number) => number,
): Level {
  // What is drained by now is forgotten, be it by a meter that kept it or by one that did not.
  const level = owedAt(limit, before, nowMs) === 0 ? nothingOwed : before;
  const latest = level.marks.at(-1);
  const atMs = Math.max(spentAtMs, level.atMs, latest?.atMs ?? 0);
  const owed = owedAt(limit, level, atMs);
  // Steps are counted from the spend that finds nothing owed; until then they keep their beat.
  const beatMs = owed === 0 ? atMs : level.atMs + stepsUntil(limit, level, atMs) * limit.stepMs;
  return {
    atMs: beatMs,
    owed: Math.min(mostOwed(limit), owed + units * limit.creditsPerUnit),
    marks: latest?.atMs === atMs ? level.marks : marked(level.marks, { atMs, owed: markAs(owed) }),
  };
}

/** A mark more: of those before it only the lesser amounts bound a refund further. */
function marked(marks: readonly Mark[], mark: Mark): readonly Mark[] {
  const kept: Mark[] = [];
  for (const each of marks) if (each.owed < mark.owed) kept.push(each);
  kept.push(mark);
  const [first, second, third, fourth] = kept;
  return first && second && third && fourth ? joined(first, second, third, fourth) : kept;
}

/** Three of four: of the neighbours that differ the least, the later time goes with the lesser amount. */
function joined(a: Mark, b: Mark, c: Mark, d: Mark): readonly Mark[] {
  const [toB, toC, toD] = [b.owed / a.owed, c.owed / b.owed, d.owed / c.owed];
  if (toD <= toC && toD <= toB) return [a, b, { atMs: d.atMs, owed: c.owed }];
  if (toC <= toB) return [a, { atMs: c.atMs, owed: b.owed }, d];
  return [{ atMs: b.atMs, owed: a.owed }, c, d];
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
  const least = level.marks.find(({ atMs }) => atMs > spentAtMs)?.owed ?? owed;
  const credits = Math.min(units * limit.creditsPerUnit, owed, least);
  if (credits === 0) return level;
  if (credits === level.owed) return nothingOwed;
  const before = level.marks.filter(({ atMs }) => atMs <= spentAtMs);
  const after = level.marks.filter(({ atMs }) => atMs > spentAtMs);
  const lowest = least - credits;
  return {
    atMs: level.atMs,
    owed: level.owed - credits,
    marks: [
      ...(after.length > 0 ? before.filter((mark) => mark.owed < lowest) : before),
      ...after.map((mark) => ({ atMs: mark.atMs, owed: mark.owed - credits })),
    ],
  };
}

/** When nothing is owed any more. */
export function drainedAtMs(limit: DrainingLimit, { atMs, owed }: Level): number {
  return owed === 0 ? 0 : atMs + Math.ceil(owed / limit.creditsPerStep) * limit.stepMs;
}

/**
 * Age, units and the rest of a unit in 1/W, which stay what they are when the number of the limit changes; then the same
 * of each mark.
 */
export function storedLevel(limit: DrainingLimit, level: Level, nowMs: number): number[] {
  const scale = limit.stepMs === 1 ? limit.windowMs / limit.creditsPerUnit : 1;
  return [level, ...level.marks].flatMap(({ atMs, owed }) => [
    nowMs - atMs,
    Math.floor(owed / limit.creditsPerUnit),
    (owed % limit.creditsPerUnit) * scale,
  ]);
}

export function revivedLevel(limit: DrainingLimit, stored: unknown, nowMs: number): Level | null {
  if (!Array.isArray(stored) || stored.length % 3 !== 0 || stored.length > 3 * (mostMarks + 1)) {
    return null;
  }
  const numbers: unknown[] = stored;
  if (stored.length === 0 || !numbers.every(isCount)) return null;
  const scale = limit.stepMs === 1 ? limit.windowMs / limit.creditsPerUnit : 1;
  const read: Mark[] = [];
  for (let index = 0; index < numbers.length; index += 3) {
    const [ageMs = 0, units = 0, rest = 0] = numbers.slice(index, index + 3).map(Number);
    const owed = units * limit.creditsPerUnit + Math.ceil(rest / scale);
    if (ageMs > nowMs || rest >= limit.windowMs) return null;
    read.push({ atMs: nowMs - ageMs, owed: Math.min(mostOwed(limit), owed) });
  }
  const [level, ...marks] = read;
  return level === undefined ? null : { atMs: level.atMs, owed: level.owed, marks };
}
