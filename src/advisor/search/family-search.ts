/** The search for the first limit of each family that meets a goal. */
import type { LimitInput } from "../../strategies/index.ts";
import { scaled } from "../replay/replay.ts";
import { greatest, peaks } from "../replay/timelines.ts";
import { admittedFlood, familiesWithin, type Family, unfamiliarity } from "./families.ts";
import type { Goal } from "./goal.ts";
import { type Bound, judged, type JudgedLimit, type Traffic, type TriedLimit, tryLimits } from "./trial.ts";

export interface SearchOutcome {
  /**
   * The first limit that meets the goal; without one, the first that is near the goal; without that, the last limit.
   */
  readonly best: JudgedLimit;
  /** The last limit that was judged. */
  readonly last: JudgedLimit;
}

/** Judges a limit. `stricter`: the limit before it, if that was tried. */
type Judge = (tried: TriedLimit, stricter: TriedLimit | undefined) => JudgedLimit;

/** One family: by bisection to the first limit that is near, then step by step to the first that meets the goal. */
class Search {
  /** In an order in which the limits after a near one are near, too. */
  readonly limits: readonly LimitInput[];
  readonly #guess: number;
  readonly #judge: Judge;
  readonly #tried = new Map<number, TriedLimit>();
  /** The greatest index that is not near. */
  #far = -1;
  /** The least index that is near; the number of limits while none is known. */
  #near: number;
  #step = 1;
  /** The limits from the first that is near, in their order. */
  readonly #judged: JudgedLimit[] = [];

  /** @param guess the index to try first */
  constructor(limits: readonly LimitInput[], guess: number, judge: Judge) {
    this.limits = limits;
    this.#guess = guess;
    this.#judge = judge;
    this.#near = limits.length;
  }

  /** The next index to try; null at the end of the search. */
  next(): number | null {
    const { length } = this.limits;
    if (this.#far === length - 1) return null;
    if (this.#near > this.#far + 1) return this.#between();
    for (;;) {
      const last = this.#judged.at(-1);
      const index = this.#near + this.#judged.length;
      if (last?.candidate.meetsGoal === true || last?.isLast === true || index >= length) return null;
      const tried = this.#tried.get(index);
      if (tried === undefined) return index;
      this.#judged.push(this.#judge(tried, this.#tried.get(index - 1)));
    }
  }

  /** The next index for the bisection: steps from the guess that double, then the middle of the untried range. */
  #between(): number {
    const { length } = this.limits;
    const [far, near, step] = [this.#far, this.#near, this.#step];
    if (far === -1 && near === length) return this.#guess;
    this.#step *= 2;
    if (near === length) return Math.min(length - 1, far + step);
    return far === -1 ? Math.max(0, near - step) : (far + near) >> 1;
  }

  add(index: number, tried: TriedLimit): void {
    this.#tried.set(index, tried);
    if (tried.isNear) this.#near = Math.min(this.#near, index);
    else if (index < this.#near) this.#far = Math.max(this.#far, index);
  }

  found(): SearchOutcome {
    const far = this.#tried.get(this.#far);
    const all = this.#judged.length === 0 && far !== undefined ? [this.#judge(far, undefined)] : this.#judged;
    const [near, last] = [all[0], all.at(-1)];
    if (near === undefined || last === undefined) throw new RangeError("a search needs at least one limit to try");
    return { best: last.candidate.meetsGoal ? last : near, last };
  }
}

/**
 * Searches the families of the default strategy first. The search of all other families starts at the units found
 * there.
 */
export function* foundInFamilies(
  traffic: Traffic,
  goal: Goal,
  bound: Bound = "high",
): Generator<number, readonly SearchOutcome[]> {
  const { timelines } = traffic;
  const periodMs = timelines.source.toMs - traffic.recordedFromMs;
  const mostUnits = (windowMs: number): number => greatest(peaks(timelines, 2 * windowMs));
  const families = familiesWithin(periodMs, mostUnits, goal.kind !== "origin-rate");
  const first = families.filter(({ strategy }) => strategy === families[0]?.strategy);
  const firstUnits = (family: Family): number => firstGuess(traffic, goal, family);
  const foundFirst = yield* scaled(searchFamilies(traffic, goal, first, firstUnits, bound), [0, 0.5]);
  const unitsOf = new Map(
    foundFirst.map(({ best: { candidate } }) => [candidate.limits[0]?.windowMs, candidate.limits[0]?.limit]),
  );
  const bestWindowMs = foundFirst[nearestIndex(goal, foundFirst)]?.best.candidate.limits[0]?.windowMs;
  const others = families.filter(
    (family) =>
      !first.includes(family) &&
      // Limits that protect the origin deny most keys, so each replay takes long. Only the best window is searched.
      (goal.kind !== "origin-rate" || family.windowMs === bestWindowMs),
  );
  const sameUnits = ({ windowMs, units }: Family): number =>
    units.findIndex((each) => each >= (unitsOf.get(windowMs) ?? 1));
  const foundOthers = yield* scaled(searchFamilies(traffic, goal, others, sameUnits, bound), [0.5, 0.99]);
  return [...foundFirst, ...foundOthers];
}

/**
 * Searches in ascending order of units for a goal about denials, else in descending order. All families take part in each round,
 * so that one replay serves them all.
 * @param guess the index of the units to try first
 */
function* searchFamilies(
  traffic: Traffic,
  goal: Goal,
  families: readonly Family[],
  guess: (family: Family) => number,
  bound: Bound,
): Generator<number, readonly SearchOutcome[]> {
  const isDescending = goal.kind === "origin-rate";
  const judge: Judge = (tried, stricter) => {
    const judgement = judged(traffic, goal, tried, isDescending ? undefined : stricter);
    return { ...judgement, isLast: judgement.isLast || bound === "value" };
  };
  const searches = families.map((family) => {
    const limits = family.units.map(family.written);
    const index = Math.max(0, guess(family));
    return isDescending
      ? new Search(limits.toReversed(), limits.length - 1 - index, judge)
      : new Search(limits, index, judge);
  });
  for (let round = 0; ; round++) {
    const attempts = searches.flatMap((search) => {
      const index = search.next();
      const limit = index === null ? undefined : search.limits[index];
      return index === null || limit === undefined ? [] : [{ search, index, limit }];
    });
    if (attempts.length === 0) return searches.map((search) => search.found());
    const limits = attempts.map(({ limit }) => limit);
    // The number of rounds is not known in advance, so each round advances the progress by a quarter of what is left.
    const shares = [1 - 0.75 ** round, 1 - 0.75 ** (round + 1)] as const;
    const tried = yield* scaled(tryLimits(traffic, goal, limits, bound), shares);
    for (const [place, each] of tried.entries()) {
      const attempt = attempts[place];
      attempt?.search.add(attempt.index, each);
    }
  }
}

/**
 * The index of the first limit to try. A sliding log denies at least what a key sends in its busiest window beyond the limit; the
 * guess is the greatest limit for which this is as much as the goal allows.
 */
function firstGuess({ timelines }: Traffic, goal: Goal, { units, windowMs }: Family): number {
  if (goal.kind === "origin-rate" || goal.kind === "key-rate") return units.length - 1;
  const busiest = peaks(timelines, windowMs);
  const isOfKeys = goal.kind === "denied-keys";
  const total = isOfKeys ? timelines.keys.length : timelines.atMs.length;
  const least = Math.max(1, goal.mostShare * total);
  return units.findLastIndex((limit) => {
    let denied = 0;
    for (const peak of busiest) {
      if (peak > limit) denied += isOfKeys ? 1 : peak - limit;
    }
    return denied >= least;
  });
}

/** The index of the recommended candidate, or of the closest if none meets the goal. */
export function nearestIndex(goal: Goal, found: readonly SearchOutcome[]): number {
  const meeting = found.filter(({ best }) => best.candidate.meetsGoal);
  const near = found.filter(({ best }) => best.isNear);
  const [of = []] = [meeting, near, found].filter((each) => each.length > 0);
  const [preferred] = of.toSorted((a, b) => {
    const [x, y] = [rank(goal, a.best), rank(goal, b.best)];
    const differing = x.findIndex((each, index) => each !== y[index]);
    return (x[differing] ?? 0) - (y[differing] ?? 0);
  });
  return preferred === undefined ? 0 : found.indexOf(preferred);
}

/** The measures that rank a limit. The first measure that differs decides; smaller is better. */
function rank(goal: Goal, { candidate, isNear }: JudgedLimit): readonly number[] {
  const [limit] = candidate.limits;
  const factor = limit === undefined ? 1 : unfamiliarity(limit);
  const flood = strictness(candidate);
  const denied = candidate.deniedShare.value;
  if (goal.kind === "key-rate") return [denied, -(limit?.limit ?? 0)];
  if (goal.kind !== "origin-rate") return [factor * flood];
  return isNear ? [factor * denied, factor * flood] : [candidate.worstBurst.value, denied];
}

export const strictness = ({ limits }: JudgedLimit["candidate"]): number => Math.min(...limits.map(admittedFlood));
