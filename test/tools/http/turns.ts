/** The contest: rounds in which all take turns, in another order in each. */
import { setTimeout } from "node:timers/promises";
import { randomFrom } from "../../random.ts";
import { type Contestant, type Keys, requestOf } from "./contestants.ts";
import type { Apart } from "./platform.ts";
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
  readonly startApart: (socket: string) => Promise<Apart>;
  readonly generator: Generator;
  readonly settings: Settings;
  readonly tell: (text: string) => void;
}

/** Between two turns; and when rows are left to be written, not in the turn of the next. */
const pauseMs = { least: 50, rows: 1_500 };
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
      // They are warmed up in each turn.
      if (round === 0 && contest.contestant.leaves === "objects") continue;
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
    const response = await this.#ask(
      this.#loadOf(contestant, urls.get(contestant.socket), this.#keys("one"), 1, 1),
      0,
    );
    const text = await response.text();
    if (response.status !== 500) return undefined;
    return /variables have problems|configuration of Headgate is invalid/.test(text)
      ? "this Headgate does not know its configuration"
      : text.slice(0, 200);
  }

  async turnOf(contestant: Contestant): Promise<{ turn: Turn; fault?: string }> {
    const { urls, startApart, settings } = this.#course;
    const { socket, leaves } = contestant;
    if (leaves === "objects") {
      const { url, close } = await startApart(socket);
      try {
        if (!settings.isQuick) await this.#turnAt(url, contestant);
        return await this.#turnAt(url, contestant);
      } finally {
        await close();
      }
    }
    const turn = await this.#turnAt(urls.get(socket), contestant);
    if (!settings.isQuick) await setTimeout(leaves === "rows" ? pauseMs.rows : pauseMs.least);
    return turn;
  }

  async #turnAt(
    at: URL | undefined,
    contestant: Contestant,
  ): Promise<{ turn: Turn; fault?: string }> {
    const { generator, settings } = this.#course;
    const { connections, seconds } = settings;
    const fired = (keys: Load["keys"], clients: number, forSeconds: number): Promise<Measured> =>
      answered(generator, this.#loadOf(contestant, at, keys, clients, forSeconds));
    const keys = this.#keys(contestant.keys);
    await this.#warmUp(this.#loadOf(contestant, at, keys, 1, 1));
    const loaded = await fired(keys, connections, seconds);
    // New keys are new once.
    const others = contestant.keys === "new" ? this.#keys("new") : keys;
    const alone = await fired(others, 1, seconds * aloneShare);
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

  #loadOf(
    contestant: Contestant,
    at: URL | undefined,
    keys: Load["keys"],
    connections: number,
    seconds: number,
  ): Load {
    const url = new URL(contestant.path, at);
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
