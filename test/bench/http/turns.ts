/** The contest: rounds in which all take turns, in another order in each. */
import { setTimeout } from "node:timers/promises";
import { randomFrom } from "../../random.ts";
import { type Contestant, type Keys, requestOf } from "./contestants.ts";
import { faultOf, type Generator, keyMark, keyText, type Load, type Measured } from "./load.ts";

export interface Settings {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  /**
   * Whether it is only to be seen that all works: else a round before those that count has all code compiled, and what a
   * turn leaves behind is waited for.
   */
  readonly isQuick: boolean;
}

export interface Turn {
  /** By all connections at once. */
  readonly loaded: Measured;
  /** By one connection, which waits for nobody else. */
  readonly alone: Measured;
}

export interface Outcome {
  readonly contestant: Contestant;
  readonly turns: readonly Turn[];
  /** Why there are no turns, or why they count for nothing. */
  readonly fault?: string;
  /** Whether the fault is that it is not there at all. */
  readonly isSkipped: boolean;
}

export interface Course {
  readonly urls: ReadonlyMap<string, URL>;
  readonly missing: ReadonlyMap<string, string>;
  readonly generator: Generator;
  readonly settings: Settings;
  readonly tell: (text: string) => void;
}

/** What many keys leave behind is written after a second: not in the turn of the next. */
const pausesMs: Readonly<Record<Keys, number>> = { one: 50, thousand: 1_500, new: 1_500 };
/** A turn alone takes this share of one under load: there is but one answer at a time to wait for. */
const aloneShare = 0.5;
/** How many requests are made before a turn, and how many of them at once. */
const warmUp = { requests: 32, atOnce: 8 };

interface Contest {
  readonly contestant: Contestant;
  readonly turns: Turn[];
  fault?: string;
  isSkipped: boolean;
}

export async function compete(
  contestants: readonly Contestant[],
  course: Course,
): Promise<Outcome[]> {
  const { settings, tell } = course;
  const contests = contestants.map((contestant): Contest => ({
    contestant,
    turns: [],
    isSkipped: false,
  }));
  const random = randomFrom(1);
  const runs = new Runs(course);
  for (const contest of contests) {
    const missing = await runs.whyMissing(contest.contestant);
    if (missing === undefined) continue;
    Object.assign(contest, { fault: missing, isSkipped: true });
    tell(`skipped: ${contest.contestant.id}: ${missing}`);
  }
  for (let round = settings.isQuick ? 1 : 0; round <= settings.rounds; round++) {
    tell(round === 0 ? "warming up" : `round ${round} of ${settings.rounds}`);
    for (const contest of shuffled(contests, random)) {
      if (contest.fault !== undefined) continue;
      const { turn, fault } = await runs.turnOf(contest.contestant);
      if (fault !== undefined) {
        contest.fault = fault;
        tell(`void: ${contest.contestant.id}: ${fault}`);
      } else if (round > 0) contest.turns.push(turn);
    }
  }
  return contests;
}

/** A disk that is waited for can keep all of a short turn without an answer: it is made longer. */
async function answered(generator: Generator, load: Load, attempts = 3): Promise<Measured> {
  const measured = await generator.fire(load);
  if (measured.requests > 0 || attempts === 1) return measured;
  return answered(generator, { ...load, seconds: 2 * load.seconds }, attempts - 1);
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

class Runs {
  readonly #course: Course;
  /** The first key that nobody has asked for. */
  #nextKey = 1_000;

  constructor(course: Course) {
    this.#course = course;
  }

  /** A configuration that this Headgate does not know answers 500 to everything. */
  async whyMissing(contestant: Contestant): Promise<string | undefined> {
    const { urls, missing } = this.#course;
    if (!urls.has(contestant.socket)) {
      return missing.get(contestant.socket) ?? "it has not been started";
    }
    const response = await this.#ask(this.#loadOf(contestant, this.#keys("one"), 1, 1), 0);
    const text = await response.text();
    if (response.status !== 500) return undefined;
    return text.includes("variables have problems")
      ? "this Headgate does not know its configuration"
      : text.slice(0, 200);
  }

  async turnOf(contestant: Contestant): Promise<{ turn: Turn; fault?: string }> {
    const { generator, settings } = this.#course;
    const firedAt = (load: Load): Promise<Measured> => answered(generator, load);
    const { connections, seconds } = settings;
    const keys = this.#keys(contestant.keys);
    await this.#warmUp(this.#loadOf(contestant, keys, 1, 1));
    // Under load new keys are used up, and alone there are others.
    const loaded = await firedAt(this.#loadOf(contestant, keys, connections, seconds));
    const others = contestant.keys === "new" ? this.#keys("new") : keys;
    const alone = await firedAt(this.#loadOf(contestant, others, 1, seconds * aloneShare));
    if (!settings.isQuick) await setTimeout(pausesMs[contestant.keys]);
    const { status, strays = 0 } = contestant;
    const fault = faultOf(loaded, status, strays) ?? faultOf(alone, status, strays);
    return { turn: { loaded, alone }, ...(fault !== undefined && { fault }) };
  }

  /** A thousand are the same in each turn: to make their objects takes longer than a turn. */
  #keys(keys: Keys): Load["keys"] {
    if (keys === "thousand") return { first: 0, count: 1_000 };
    const count = keys === "one" ? 1 : 10_000_000;
    const first = this.#nextKey;
    this.#nextKey += count;
    return { first, count };
  }

  #loadOf(contestant: Contestant, keys: Load["keys"], connections: number, seconds: number): Load {
    const url = new URL(contestant.path, this.#course.urls.get(contestant.socket));
    return { url, ...requestOf(contestant), keys, connections, seconds };
  }

  /** Meets every key of a thousand, and of one spends what there is where it is to be denied. */
  async #warmUp(load: Load): Promise<void> {
    const { count } = load.keys;
    const isWhole = count === 1_000 && !this.#course.settings.isQuick;
    const requests = isWhole ? count : warmUp.requests;
    let next = 0;
    const asking = Array.from({ length: warmUp.atOnce }, async () => {
      while (next < requests) {
        const response = await this.#ask(load, next++ % count);
        await response.arrayBuffer();
      }
    });
    await Promise.all(asking);
  }

  #ask({ url, method, fields, body, keys }: Load, offset: number): Promise<Response> {
    const key = keyText(keys.first + offset);
    const headers = Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [name, value.replace(keyMark, key)]),
    );
    return fetch(url, {
      method,
      headers,
      ...(body !== "" && { body: body.replace(keyMark, key) }),
    });
  }
}
