/** Runs the contest: rounds in which all contestants take turns, in a random order. */
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
   * A quick run only shows that everything works. Otherwise an uncounted first round compiles the code, and the work
   * after each turn is waited for.
   */
  readonly isQuick: boolean;
}

export interface MeasuredTurn {
  /** Measured with all connections. */
  readonly loaded: MeasuredResponses;
  /** Measured with a single connection. */
  readonly alone: MeasuredResponses;
}

export interface ContestantOutcome {
  readonly contestant: Contestant;
  readonly turns: readonly MeasuredTurn[];
  /** The reason why there are no turns or why they are void. */
  readonly fault?: string;
  /** Whether the contestant could not be started. */
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

/** Pauses between turns. The longer one keeps pending writes out of the next turn. */
const pauseMs = { least: 50, rows: 1_500 };
/** The duration of a turn with a single connection, relative to one under load. */
const aloneShare = 0.5;
/** The requests before a turn, and how many of them are concurrent. */
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
      // Contestants with a process of their own are warmed up in each turn.
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

/** Waiting for a disk can leave a short turn without a response. Repeats such a turn with twice the duration. */
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
  /** The first key that has not been used. */
  #nextKey = 1_000;

  constructor(contest: Contest) {
    this.#contest = contest;
  }

  /** A Headgate that does not support a configuration answers 500 to every request. */
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
    // A key is new only at its first request, so keys of the loaded turn cannot be used again.
    const others = contestant.keys === "new" ? this.#keys("new") : keys;
    const alone = await fired(others, 1, seconds * aloneShare);
    const { status, strays = 0 } = contestant;
    const fault = faultOf(loaded, status, strays) ?? faultOf(alone, status, strays);
    return { turn: { loaded, alone }, ...(fault !== undefined && { fault }) };
  }

  /** The thousand keys are the same in each turn, because creating their objects takes longer than a turn. */
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

  /**
   * Sends a request for each of the thousand keys. For a single key, spends the whole limit if the contestant must
   * deny.
   */
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
