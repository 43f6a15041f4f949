/** Remembers for a while that something has failed, so that it is not asked again by every request. */
export class Cooldown {
  readonly #lengthMs: number;
  #untilMs = 0;

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs;
  }

  get isOn(): boolean {
    return Date.now() < this.#untilMs;
  }

  begin(): void {
    this.#untilMs = Date.now() + this.#lengthMs;
  }
}
