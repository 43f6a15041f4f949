/** Remembers for a while that something has failed, so that it is not asked again by every request. */
import { type Clock, platformClock } from "./clock.ts";

export class Cooldown {
  readonly #lengthMs: number;
  readonly #now: Clock["now"];
  #untilMs = 0;

  constructor(lengthMs: number, { now }: Pick<Clock, "now"> = platformClock) {
    this.#lengthMs = lengthMs;
    this.#now = now;
  }

  get isOn(): boolean {
    return this.#now() < this.#untilMs;
  }

  begin(): void {
    this.#untilMs = this.#now() + this.#lengthMs;
  }
}
