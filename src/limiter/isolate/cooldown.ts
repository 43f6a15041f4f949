/** Remembers for a while that something has failed, so that not every request tries it again. */
import { type Clock, platformClock } from "../clock.ts";

export class Cooldown {
  readonly #lengthMs: number;
  readonly #now: Clock["now"];
  #beganAtMs = Number.POSITIVE_INFINITY;

  constructor(lengthMs: number, { now }: Pick<Clock, "now"> = platformClock) {
    this.#lengthMs = lengthMs;
    this.#now = now;
  }

  /** A clock that has stepped back ends the cooldown. */
  get isOn(): boolean {
    const sinceMs = this.#now() - this.#beganAtMs;
    return sinceMs >= 0 && sinceMs < this.#lengthMs;
  }

  begin(): void {
    this.#beganAtMs = this.#now();
  }
}
