/**
 * The limits that the advisor compares, as families of one strategy and window with round numbers of units, and the search for
 * the first limit of each family that meets a goal.
 */
import { compiledLimit } from "../../strategies/compiled-limit.ts";
import { defaultStrategy, formatDuration, type Limit, type LimitInput, parseLimits } from "../../strategies/index.ts";

/** Limits that differ only in their units. */
export interface Family {
  readonly strategy: string;
  readonly windowMs: number;
  /** Round units, ascending. */
  readonly units: readonly number[];
  written(units: number): LimitInput;
}

const secondMs = 1_000;
const minuteMs = 60 * secondMs;
const hourMs = 60 * minuteMs;

interface Window {
  readonly windowMs: number;
  /** The number of windows that a burst of a token bucket holds. */
  readonly burstWindows: number;
  /**
   * The fewest units of a limit for a goal about denials. Where keys send a few requests a day, one request per hour
   * would meet the goal, but deny everybody who opens a second page.
   */
  readonly leastUnits: number;
}

/** Familiar windows. */
const windows: readonly Window[] = [
  { windowMs: secondMs, burstWindows: 10, leastUnits: 1 },
  { windowMs: 10 * secondMs, burstWindows: 5, leastUnits: 3 },
  { windowMs: minuteMs, burstWindows: 1, leastUnits: 5 },
  { windowMs: 10 * minuteMs, burstWindows: 1, leastUnits: 15 },
  { windowMs: hourMs, burstWindows: 1, leastUnits: 30 },
  { windowMs: 24 * hourMs, burstWindows: 1, leastUnits: 100 },
];

/** Whether this limit is the strictest of its window that the advisor considers for a goal about denials. */
export const isLeast = ({ limit, windowMs }: Limit): boolean =>
  windows.some((window) => window.windowMs === windowMs && limit <= window.leastUnits);

/** The default first, since the first of equal candidates is preferred. */
const familyStrategies = [
  defaultStrategy,
  ...["sliding-log", "token-bucket", "fixed-window"].filter((name) => name !== defaultStrategy),
];
const leading = [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
/** A sliding log keeps the time of each unit. */
const mostUnitsOfLog = 100_000;

/**
 * The families whose windows fit into the period at least twice, and those of the shortest window in any case.
 * @param mostUnits the units from which on a limit with this window denies nothing
 * @param isOfDenials whether the goal is about denials
 */
export function familiesWithin(
  periodMs: number,
  mostUnits: (windowMs: number) => number,
  isOfDenials: boolean,
): Family[] {
  const fitting = windows.filter(({ windowMs }, index) => index === 0 || 2 * windowMs <= periodMs);
  return familyStrategies.flatMap((strategy) =>
    fitting.map(({ windowMs, burstWindows, leastUnits }) => ({
      strategy,
      windowMs,
      units: roundUnits(
        strategy === "sliding-log" ? Math.min(mostUnits(windowMs), mostUnitsOfLog) : mostUnits(windowMs),
        isOfDenials ? leastUnits : 1,
      ),
      written: (units: number) => ({
        limit: units,
        window: formatDuration(windowMs),
        strategy,
        ...(strategy === "token-bucket" ? { burst: burstWindows * units } : {}),
      }),
    })),
  );
}

/** Round numbers from `least` to the first that is at least `most`. */
export function roundUnits(most: number, least = 1): number[] {
  const units: number[] = [];
  for (let scale = 1; ; scale *= 10) {
    for (const digit of leading) {
      const each = Math.round(digit * scale * 10) / 10;
      if (!Number.isInteger(each) || each < least) continue;
      units.push(each);
      if (each >= most) return units;
    }
  }
}

export const limitsOf = (written: readonly LimitInput[]): readonly Limit[] => parseLimits(written);

/** The most units that the limit admits of one key in any span of its window, by the bound of its strategy. */
export function mostPerWindow(limit: Limit): number {
  const { strategy, limit: completed } = compiledLimit(limit);
  return strategy.mostPerWindow(completed);
}

/** The most units that the limit admits of one key within any second. */
export function mostPerSecond(limit: Limit): number {
  if (limit.windowMs < secondMs) return Math.ceil(secondMs / limit.windowMs) * mostPerWindow(limit);
  const { capacity } = compiledLimit(limit);
  return limit.strategy === "token-bucket"
    ? capacity + Math.ceil((limit.limit * secondMs) / limit.windowMs)
    : mostPerWindow(limit);
}

const floodSpansMs = [secondMs, minuteMs, hourMs];

/**
 * How much one key gets admitted that was idle and begins to flood: the geometric mean of what it gets in the first second, minute
 * and hour. The limit with the least is the strictest.
 */
export function admittedFlood(limit: Limit): number {
  const { capacity, units, windowMs } = compiledLimit(limit);
  const logs = floodSpansMs.map((spanMs) =>
    Math.log(
      limit.strategy === "token-bucket" ? capacity + (units * spanMs) / windowMs : units * Math.ceil(spanMs / windowMs),
    ),
  );
  return Math.exp(logs.reduce((sum, each) => sum + each, 0) / logs.length);
}

/** Candidates of another strategy than the default, or of a less common window, are preferred only when they are this much better. */
const tolerance = 1.25;
const commonWindowsMs = new Set([secondMs, minuteMs, hourMs, 24 * hourMs]);

/** The factor by which a measure of a candidate, of which less is better, counts as greater. */
export const unfamiliarity = ({ strategy, windowMs }: Limit): number =>
  (strategy === defaultStrategy ? 1 : tolerance) * (commonWindowsMs.has(windowMs) ? 1 : tolerance);

/** A limit that was replayed. */
export interface Trial {
  /** Whether the goal is met by the best estimate. If an index is near, those after it must be. */
  readonly isNear: boolean;
}

/** A limit whose intervals are known. */
export interface Judgement {
  /** Whether the goal is met with confidence. */
  readonly meetsGoal: boolean;
  /** Whether later limits give no other result. */
  readonly isLast: boolean;
}

/** Judges a limit. `stricter`: the limit before it, if that was tried. */
type Judge<Tried, Judged> = (tried: Tried, stricter: Tried | undefined) => Judged;

/** The limits of a family in the order in which the first that meets the goal is sought. */
interface SearchSpace {
  readonly length: number;
  /** The index to try first. */
  readonly guess: number;
}

export interface LimitTry {
  readonly space: number;
  readonly index: number;
}

export interface SearchOutcome<Judged> {
  /** The first limit that meets the goal; else the first that is near; else the last limit. */
  readonly best: Judged;
  /** The last limit that was judged. */
  readonly last: Judged;
}

/** One family: by bisection to the first limit that is near, then step by step to the first that meets the goal. */
class Search<Tried extends Trial, Judged extends Judgement> {
  readonly #space: SearchSpace;
  readonly #judge: Judge<Tried, Judged>;
  readonly #tried = new Map<number, Tried>();
  /** The greatest index that is not near. */
  #far = -1;
  /** The least index that is near; `length` while none is known. */
  #near: number;
  #step = 1;
  /** The limits from the first that is near, in their order. */
  readonly #judged: Judged[] = [];

  constructor(space: SearchSpace, judge: Judge<Tried, Judged>) {
    this.#space = space;
    this.#judge = judge;
    this.#near = space.length;
  }

  /** The next index to try; null when the search has ended. */
  next(): number | null {
    const { length } = this.#space;
    if (this.#far === length - 1) return null;
    if (this.#near > this.#far + 1) return this.#between();
    for (;;) {
      const last = this.#judged.at(-1);
      const index = this.#near + this.#judged.length;
      if (last?.meetsGoal === true || last?.isLast === true || index >= length) return null;
      const tried = this.#tried.get(index);
      if (tried === undefined) return index;
      this.#judged.push(this.#judge(tried, this.#tried.get(index - 1)));
    }
  }

  /** In growing steps from the guess, then in the middle of what is left. */
  #between(): number {
    const { length, guess } = this.#space;
    const [far, near, step] = [this.#far, this.#near, this.#step];
    if (far === -1 && near === length) return Math.min(length - 1, Math.max(0, guess));
    this.#step *= 2;
    if (near === length) return Math.min(length - 1, far + step);
    return far === -1 ? Math.max(0, near - step) : (far + near) >> 1;
  }

  add(index: number, tried: Tried): void {
    this.#tried.set(index, tried);
    if (tried.isNear) this.#near = Math.min(this.#near, index);
    else if (index < this.#near) this.#far = Math.max(this.#far, index);
  }

  found(): SearchOutcome<Judged> {
    const far = this.#tried.get(this.#far);
    const judged = this.#judged.length === 0 && far !== undefined ? [this.#judge(far, undefined)] : this.#judged;
    const [near, last] = [judged[0], judged.at(-1)];
    if (near === undefined || last === undefined) throw new RangeError("a search needs at least one limit to try");
    return { best: last.meetsGoal ? last : near, last };
  }
}

/**
 * Searches all spaces in rounds, so that one replay serves them all.
 * @param tryAll tries one index of each unfinished space
 */
export function* firstThatMeets<Tried extends Trial, Judged extends Judgement>(
  spaces: readonly SearchSpace[],
  tryAll: (attempts: readonly LimitTry[]) => Generator<number, readonly Tried[]>,
  judge: Judge<Tried, Judged>,
): Generator<number, readonly SearchOutcome<Judged>[]> {
  const searches = spaces.map((space) => new Search(space, judge));
  for (let round = 0; ; round++) {
    const attempts = searches.flatMap((search, space) => {
      const index = search.next();
      return index === null ? [] : [{ space, index }];
    });
    if (attempts.length === 0) return searches.map((search) => search.found());
    const steps = tryAll(attempts);
    let step = steps.next();
    // The number of rounds is not known before. Each takes the same part of what is left.
    for (; step.done !== true; step = steps.next()) yield 1 - 0.75 ** (round + step.value);
    for (const [place, { space, index }] of attempts.entries()) {
      const tried = step.value[place];
      if (tried !== undefined) searches[space]?.add(index, tried);
    }
  }
}
