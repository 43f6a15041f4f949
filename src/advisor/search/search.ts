/** Finds, for each family at once, the first limit that meets a goal. */

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
export type Judge<Tried, Judged> = (tried: Tried, stricter: Tried | undefined) => Judged;

/** The limits of a family in the order in which the first that meets the goal is sought. */
export interface SearchSpace {
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
