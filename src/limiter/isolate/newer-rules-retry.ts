/**
 * The retry of a request under newer rules. An object that has newer policy rules than a call decides nothing and replies with
 * the newer rules. The isolate adopts them, and the request is resolved and decided once more, within the time that the first
 * attempt had left.
 */
import type { StaleRules } from "../protocol.ts";
import type { WaitUntil } from "../clock.ts";

/** Puts newer policy rules into effect in this isolate. */
export interface RulesAdopter {
  adopt(rules: readonly StaleRules[], waitUntil: WaitUntil): void;
}

/** One request in the limiter: its work that outlasts the response, and its attempts to decide. */
export class RequestScope {
  /** Keeps the Worker running for work that continues after the response. */
  readonly waitUntil: WaitUntil;
  readonly #adopter: RulesAdopter | null;
  #isLastAttempt: boolean;
  #isStale = false;
  /** When the last call of a first attempt times out, in milliseconds since the Unix epoch. */
  #untilMs: number;

  /** @param adopter null where no policy has runtime rules, or when the request must not be decided a second time */
  constructor(waitUntil: WaitUntil, adopter: RulesAdopter | null = null, isLastAttempt = adopter === null) {
    this.waitUntil = waitUntil;
    this.#adopter = adopter;
    this.#isLastAttempt = isLastAttempt;
    this.#untilMs = isLastAttempt ? Number.POSITIVE_INFINITY : 0;
  }

  /**
   * Whether an object has newer rules than this attempt. A second attempt then decides the spends that the object did
   * not decide.
   */
  get isStale(): boolean {
    return this.#isStale;
  }

  /** The time until the last call of the first attempt times out, in milliseconds. */
  timeLeftMs(nowMs: number): number {
    return this.#untilMs - nowMs;
  }

  /**
   * The timeout of a call in milliseconds. A second attempt has only the time that the first one has left.
   * @param wholeMs the timeout without a first attempt
   */
  callTime(wholeMs: number, nowMs: number): { readonly timeoutMs: number; readonly isShortened: boolean } {
    if (!this.#isLastAttempt) {
      this.#untilMs = Math.max(this.#untilMs, nowMs + wholeMs);
      return { timeoutMs: wholeMs, isShortened: false };
    }
    const timeoutMs = Math.min(wholeMs, this.timeLeftMs(nowMs));
    return { timeoutMs, isShortened: timeoutMs < wholeMs };
  }

  /**
   * Adopts the newer rules of a stale reply.
   * @returns whether a second attempt decides the spends of the call; otherwise their failure mode does
   */
  takeStale(rules: readonly StaleRules[]): boolean {
    this.#adopter?.adopt(rules, this.waitUntil);
    if (!this.#isLastAttempt) this.#isStale = true;
    return this.#isStale;
  }

  /** Begins the second attempt. */
  repeat(): this {
    this.#isLastAttempt = true;
    this.#isStale = false;
    return this;
  }

  /** The scope of work that continues after the response. It adopts newer rules, and is not repeated. */
  inBackground(): RequestScope {
    return new RequestScope(this.waitUntil, this.#adopter, true);
  }
}

/**
 * Decides by the rules in effect, and a second time when an object has newer ones.
 * @param adopter null where no policy has runtime rules
 * @param decide resolves and decides
 */
export async function decideByNewestRules<Result>(
  adopter: RulesAdopter | null,
  waitUntil: WaitUntil,
  decide: (scope: RequestScope) => Result | Promise<Result>,
): Promise<Result> {
  const scope = new RequestScope(waitUntil, adopter);
  const result = await decide(scope);
  return scope.isStale ? decide(scope.repeat()) : result;
}
