/** Remembers for a while that something has failed, so that it is not asked again by every request. */
import { type Clock, platformClock } from "../clock.ts";

export class Cooldown {
  readonly #lengthMs: number;
  readonly #now: Clock["now"];
  #beganAtMs = Number.POSITIVE_INFINITY;

  constructor(lengthMs: number, { now }: Pick<Clock, "now"> = platformClock) {
    this.#lengthMs = lengthMs;
    this.#now = now;
  }

  get isOn(): boolean {
    const sinceMs = this.#now() - this.#beganAtMs;
    // By a clock that has stepped back nothing has just failed.
    return sinceMs >= 0 && sinceMs < this.#lengthMs;
  }

  begin(): void {
    this.#beganAtMs = this.#now();
  }
}
