/** The contest: rounds in which all take turns, in another order in each. */
import { setTimeout } from "node:timers/promises";
import { randomFrom } from "../../random.ts";
import { type Contestant, type Keys, requestOf } from "./contestants.ts";
import type { Apart } from "./platform.ts";
import {
  faultOf,
  type Generator,
  keyMark,
  keyText,
  type HttpLoad,
  type MeasuredResponses,
} from "./load.ts";

export interface ContestSettings {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  /**
   * Whether it is only to be seen that all works: else a round before those that count has all code compiled, and what a
   * turn leaves behind is waited for.
   */
  readonly isQuick: boolean;
}

export interface MeasuredTurn {
  /** By all connections at once. */
  readonly loaded: MeasuredResponses;
  /** By one connection, which waits for nobody else. */
  readonly alone: MeasuredResponses;
}

export interface ContestantOutcome {
  readonly contestant: Contestant;
  readonly turns: readonly MeasuredTurn[];
  /** Why there are no turns, or why they count for nothing. */
  readonly fault?: string;
  /** Whether the fault is that it is not there at all. */
  readonly isSkipped: boolean;
}

export interface Contest {
  readonly urls: ReadonlyMap<string, URL>;
  readonly missing: ReadonlyMap<string, string>;
  readonly startApart: (socket: string) => Promise<Apart>;
  readonly generator: Generator;
  readonly settings: ContestSettings;
  readonly print: (text: string) => void;
}

/** Between two turns; and when rows are left to be written, not in the turn of the next. */
const pauseMs = { least: 50, rows: 1_500 };
/** A turn alone takes this share of one under load: there is but one answer at a time to wait for. */
const aloneShare = 0.5;
/** How many requests are made before a turn, and how many of them at once. */
const warmUp = { requests: 32, atOnce: 8 };

interface ContestState {
  readonly contestant: Contestant;
  readonly turns: MeasuredTurn[];
  fault?: string;
  isSkipped: boolean;
}

export async function compete(
  contestants: readonly Contestant[],
  contest: Contest,
): Promise<ContestantOutcome[]> {
  const { settings, print } = contest;
  const states = contestants.map((contestant): ContestState => ({
    contestant,
    turns: [],
    isSkipped: false,
  }));
  const random = randomFrom(1);
  const runs = new TurnRunner(contest);
  for (const state of states) {
    const missing = await runs.whyMissing(state.contestant);
    if (missing === undefined) continue;
    Object.assign(state, { fault: missing, isSkipped: true });
    print(`skipped: ${state.contestant.id}: ${missing}`);
  }
  for (let round = settings.isQuick ? 1 : 0; round <= settings.rounds; round++) {
    print(round === 0 ? "warming up" : `round ${round} of ${settings.rounds}`);
    for (const state of shuffled(states, random)) {
      if (state.fault !== undefined) continue;
      // They are warmed up in each turn.
      if (round === 0 && state.contestant.leaves === "objects") continue;
      const { turn, fault } = await runs.turnOf(state.contestant);
      if (fault !== undefined) {
        state.fault = fault;
        print(`void: ${state.contestant.id}: ${fault}`);
      } else if (round > 0) state.turns.push(turn);
    }
  }
  return states;
}

/** A disk that is waited for can keep all of a short turn without an answer: it is made longer. */
async function fireUntilAnswered(
  generator: Generator,
  load: HttpLoad,
  attempts = 3,
): Promise<MeasuredResponses> {
  const measured = await generator.fire(load);
  if (measured.requests > 0 || attempts === 1) return measured;
  return fireUntilAnswered(generator, { ...load, seconds: 2 * load.seconds }, attempts - 1);
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

class TurnRunner {
  readonly #contest: Contest;
  /** The first key that nobody has asked for. */
  #nextKey = 1_000;

  constructor(contest: Contest) {
    this.#contest = contest;
  }

  /** A configuration that this Headgate does not know answers 500 to everything. */
  async whyMissing(contestant: Contestant): Promise<string | undefined> {
    const { urls, missing } = this.#contest;
    if (!urls.has(contestant.socket)) {
      return missing.get(contestant.socket) ?? "it has not been started";
    }
    const response = await this.#send(
      this.#loadOf(contestant, urls.get(contestant.socket), this.#keys("one"), 1, 1),
      0,
    );
    const text = await response.text();
    if (response.status !== 500) return undefined;
    return /variables have problems|configuration of Headgate is invalid/.test(text)
      ? "this Headgate does not know its configuration"
      : text.slice(0, 200);
  }

  async turnOf(contestant: Contestant): Promise<{ turn: MeasuredTurn; fault?: string }> {
    const { urls, startApart, settings } = this.#contest;
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
  ): Promise<{ turn: MeasuredTurn; fault?: string }> {
    const { generator, settings } = this.#contest;
    const { connections, seconds } = settings;
    const fired = (
      keys: HttpLoad["keys"],
      clients: number,
      forSeconds: number,
    ): Promise<MeasuredResponses> =>
      fireUntilAnswered(generator, this.#loadOf(contestant, at, keys, clients, forSeconds));
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
  #keys(keys: Keys): HttpLoad["keys"] {
    if (keys === "thousand") return { first: 0, count: 1_000 };
    const count = keys === "one" ? 1 : 10_000_000;
    const first = this.#nextKey;
    this.#nextKey += count;
    return { first, count };
  }

  #loadOf(
    contestant: Contestant,
    at: URL | undefined,
    keys: HttpLoad["keys"],
    connections: number,
    seconds: number,
  ): HttpLoad {
    const url = new URL(contestant.path, at);
    return { url, ...requestOf(contestant), keys, connections, seconds };
  }

  /** Meets every key of a thousand, and of one spends what there is where it is to be denied. */
  async #warmUp(load: HttpLoad): Promise<void> {
    const { count } = load.keys;
    const isWhole = count === 1_000 && !this.#contest.settings.isQuick;
    const requests = isWhole ? count : warmUp.requests;
    let next = 0;
    const clients = Array.from({ length: warmUp.atOnce }, async () => {
      while (next < requests) {
        const response = await this.#send(load, next++ % count);
        await response.arrayBuffer();
      }
    });
    await Promise.all(clients);
  }

  #send({ url, method, fields, body, keys }: HttpLoad, offset: number): Promise<Response> {
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
