/**
 * Attempts to decide a request. An object that has newer policy rules than a call decides nothing and replies with the newer
 * rules. The isolate adopts them, and the request is resolved and decided once more, within the time that the call had left.
 */
import type { StaleRules } from "../protocol.ts";
import type { WaitUntil } from "./object-caller.ts";
import type { Spend } from "./outcome.ts";

/** Puts newer policy rules into effect in this isolate. */
export interface RulesAdopter {
  adopt(rules: readonly StaleRules[], waitUntil: WaitUntil): void;
}

export class Attempt {
  readonly #adopt: (rules: readonly StaleRules[]) => void;
  readonly #stale: Spend[] = [];
  /** When the last call of a first attempt times out, in milliseconds since the Unix epoch. */
  #untilMs = 0;
  #isLast: boolean;

  constructor(adopt: (rules: readonly StaleRules[]) => void, isLast = false) {
    this.#adopt = adopt;
    this.#isLast = isLast;
    if (isLast) this.#untilMs = Number.POSITIVE_INFINITY;
  }

  /**
   * The spends that no object has decided, because its rules are newer. A second attempt decides them, and their
   * outcomes of the first one are ignored.
   */
  get stale(): readonly Spend[] {
    return this.#stale;
  }

  isStale(): boolean {
    return this.#stale.length > 0;
  }

  /** The time until the last call of the first attempt times out, in milliseconds. */
  timeLeftMs(nowMs: number): number {
    return this.#untilMs - nowMs;
  }

  /** The timeout of a call in milliseconds. A second attempt has the rest of the time of the first. */
  timeoutMs(wholeMs: number, nowMs: number): number {
    if (this.#isLast) return Math.min(wholeMs, this.timeLeftMs(nowMs));
    this.#untilMs = Math.max(this.#untilMs, nowMs + wholeMs);
    return wholeMs;
  }

  /**
   * Adopts the newer rules of a stale reply.
   * @returns whether a second attempt decides these spends; otherwise their failure mode does
   */
  takeStale(spends: readonly Spend[], rules: readonly StaleRules[]): boolean {
    this.#adopt(rules);
    if (!this.#isLast) this.#stale.push(...spends);
    return !this.#isLast;
  }

  /** Begins the second attempt. */
  repeat(): this {
    this.#isLast = true;
    this.#stale.length = 0;
    return this;
  }

  /** An attempt for work that continues after the response. It adopts newer rules, and is not repeated. */
  inBackground(): Attempt {
    return new Attempt(this.#adopt, true);
  }
}

/**
 * Decides by the rules in effect, and a second time when an object has newer ones.
 * @param decide resolves and decides; the attempt is null where no policy has runtime rules
 */
export function decideByNewestRules<Result>(
  control: RulesAdopter | null,
  waitUntil: WaitUntil,
  decide: (attempt: Attempt | null) => Result | Promise<Result>,
): Result | Promise<Result> {
  if (control === null) return decide(null);
  const attempt = new Attempt((rules) => control.adopt(rules, waitUntil));
  const deciding = decide(attempt);
  // Only objects report newer rules, so a decision without a call is never stale.
  return deciding instanceof Promise
    ? deciding.then((result) => (attempt.isStale() ? decide(attempt.repeat()) : result))
    : deciding;
}
