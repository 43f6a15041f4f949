/** A simulated network: calls and answers arrive late, twice, in another order or never. */
import type { Random } from "../../random.ts";
import type { World } from "../world.ts";

export interface Faults {
  /** The longest delay of a message in one direction. */
  readonly maximumDelayMs: number;
  /** The shares of calls that never arrive, of calls whose answers never arrive, and of calls that arrive twice. */
  readonly lost: number;
  readonly unanswered: number;
  readonly repeated: number;
}

/** The longest delay of a message in one direction when the network has no faults. */
const calmDelayMs = 50;

const lostConnection = (): Error => new Error("Network connection lost.");

export class Wire {
  readonly #world: World;
  readonly #random: Random;
  readonly #faults: Faults;
  /** Whether calls and answers are slow, lost and repeated. */
  isDisturbed = true;

  constructor(world: World, random: Random, faults: Faults) {
    this.#world = world;
    this.#random = random;
    this.#faults = faults;
  }

  /** Makes a call. Every call draws the same number of random numbers, whatever happens to it. */
  send<Reply>(act: () => Reply | Promise<Reply>): Promise<Reply> {
    const { lost, unanswered, repeated } = this.#faults;
    const [isLost, isUnanswered, isRepeated] = [lost, unanswered, repeated].map(
      (share) => this.#random() < share && this.isDisturbed,
    );
    const thereMs = this.#delayMs();
    const backMs = this.#delayMs();
    const againMs = thereMs + this.#delayMs();
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const answer = (settle: () => void): void =>
      this.#later(backMs, isUnanswered === true ? () => reject(lostConnection()) : settle);
    this.#later(thereMs, () => {
      if (isLost === true) reject(lostConnection());
      else
        void attempt(act).then(
          (reply) => answer(() => resolve(reply)),
          (error: unknown) => answer(() => reject(error)),
        );
    });
    if (isRepeated === true) this.#later(againMs, () => void attempt(act).catch(() => undefined));
    return promise;
  }

  #delayMs(): number {
    const { maximumDelayMs } = this.#faults;
    const longestMs = this.isDisturbed ? maximumDelayMs : Math.min(maximumDelayMs, calmDelayMs);
    return Math.floor(this.#random() * (longestMs + 1));
  }

  #later(afterMs: number, act: () => void): void {
    this.#world.at(this.#world.nowMs + afterMs, act);
  }
}

const attempt = async <Reply>(act: () => Reply | Promise<Reply>): Promise<Reply> => act();
