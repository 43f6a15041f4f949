/**
 * Runs the contest: each round contains all matches in a random order, and the contestants of a match take short turns
 * next to each other.
 */
import { setTimeout } from "node:timers/promises";
import { randomFrom } from "../../random.ts";
import { type Contestant, contestantOf, type Keys, requestOf } from "./contestants.ts";
import { type Counts, difference } from "./counts.ts";
import {
  faultOf,
  type Generator,
  keyMark,
  keyText,
  type LoadName,
  type HttpLoad,
  type MeasuredResponses,
} from "./load.ts";
import { type Match, participants } from "./matches.ts";

export interface ContestSettings {
  readonly rounds: number;
  readonly seconds: number;
  readonly connections: number;
  /**
   * A quick run only shows that everything works. Otherwise an uncounted first round compiles the code, and each turn
   * is followed by a wait for its remaining work.
   */
  readonly isQuick: boolean;
}

export interface MeasuredTurn extends MeasuredResponses {
  /** The processor time of all processes that answered; null on systems that do not report this time. */
  readonly cpuMs: number | null;
  /** Null if the contestant does not count its calls of objects. */
  readonly counts: Counts | null;
}

export interface MatchOutcome {
  readonly match: Match;
  /** The turns of each round, by contestant. */
  readonly rounds: readonly ReadonlyMap<string, MeasuredTurn>[];
}

/** The reason why a contestant has no figures. */
export interface Fault {
  readonly why: string;
  /** Whether the contestant could not be started. Otherwise its responses were wrong. */
  readonly isSkipped: boolean;
}

export interface ContestOutcome {
  readonly matches: readonly MatchOutcome[];
  readonly faults: ReadonlyMap<string, Fault>;
}

export interface Contest {
  readonly urls: ReadonlyMap<string, URL>;
  readonly missing: ReadonlyMap<string, string>;
  /** The processor time that the processes behind a socket have used. */
  readonly cpuMs: (socket: string) => number | null;
  /** The requests and calls of objects that the Worker behind a socket has counted. */
  readonly counts: (socket: string) => Promise<Counts | null>;
  readonly generator: Generator;
  readonly settings: ContestSettings;
  readonly print: (text: string) => void;
}

/** Pauses between turns. The longer pause keeps pending writes out of the next turn. */
const pauseMs = { least: 20, rows: 1_200 };
/** The number of requests before a turn, and how many of them are concurrent. */
const warmUp = { requests: 8, atOnce: 8 };

export async function compete(matches: readonly Match[], contest: Contest): Promise<ContestOutcome> {
  const { settings, print } = contest;
  const random = randomFrom(1);
  const runner = new TurnRunner(contest);
  const faults = new Map<string, Fault>();
  const give = (id: string, why: string, isSkipped: boolean): void => {
    faults.set(id, { why, isSkipped });
    print(`${isSkipped ? "skipped" : "void"}: ${id}: ${why}`);
  };
  for (const id of participants(matches)) {
    const why = await runner.whyMissing(contestantOf(id));
    if (why !== undefined) give(id, why, true);
  }
  const outcomes = matches.map((match) => ({ match, rounds: [] as Map<string, MeasuredTurn>[] }));
  for (let round = settings.isQuick ? 1 : 0; round <= settings.rounds; round++) {
    print(round === 0 ? "warming up" : `round ${round} of ${settings.rounds}`);
    for (const { match, rounds } of shuffled(outcomes, random)) {
      const turns = new Map<string, MeasuredTurn>();
      for (const id of shuffled([match.subject, ...match.others], random)) {
        if (faults.has(id)) continue;
        const { turn, fault } = await runner.turnOf(contestantOf(id), match.load);
        if (fault === undefined) turns.set(id, turn);
        else give(id, fault, false);
      }
      if (round > 0) rounds.push(turns);
    }
  }
  return { matches: outcomes, faults };
}

export const perSecond = ({ requests, seconds }: MeasuredResponses): number => requests / seconds;

/** A wait for a disk can leave a short turn without a response. Repeats such a turn with twice the duration. */
async function fireUntilAnswered(generator: Generator, load: HttpLoad, attempts = 3): Promise<MeasuredResponses> {
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
  /** The first key that has not yet been used. */
  #nextKey = 1_000;

  constructor(contest: Contest) {
    this.#contest = contest;
  }

  /** A Headgate version that does not support a configuration answers every request with 500. */
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

  async turnOf(contestant: Contestant, load: LoadName): Promise<{ turn: MeasuredTurn; fault?: string }> {
    const { urls, generator, settings, cpuMs, counts } = this.#contest;
    const { socket, status, strays, leavesRows = false } = contestant;
    const keys = this.#keys(contestant.keys);
    const clients = load === "loaded" ? settings.connections : 1;
    const fired = this.#loadOf(contestant, urls.get(socket), keys, clients, settings.seconds);
    await this.#warmUp(fired);
    const [countsBefore, cpuBefore] = [await counts(socket), cpuMs(socket)];
    const measured = await fireUntilAnswered(generator, fired);
    const [cpuAfter, countsAfter] = [cpuMs(socket), await counts(socket)];
    if (!settings.isQuick) await setTimeout(leavesRows ? pauseMs.rows : pauseMs.least);
    const fault = faultOf(measured, status, strays ?? 0);
    const turn = {
      ...measured,
      cpuMs: cpuBefore === null || cpuAfter === null ? null : cpuAfter - cpuBefore,
      counts: countsBefore && countsAfter && difference(countsAfter, countsBefore),
    };
    return { turn, ...(fault !== undefined && { fault }) };
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
