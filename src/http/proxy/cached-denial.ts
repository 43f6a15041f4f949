/**
 * Responses to denials from the deny cache. They state waits and times in whole seconds, so a response is cached with its
 * denial until one of these changes.
 */
import type { Policy } from "../../policy/policy.ts";
import type { CachedDenial } from "../../limiter/isolate/admission.ts";
import type { ChargedRequest } from "../record-outcomes.ts";
import type { ProblemAnswer } from "../wire/problems.ts";

/** A request that a cached denial has decided. */
export interface CacheDeniedRequest extends ChargedRequest {
  readonly cachedDenial: CachedDenial;
}

const cachedAnswers = new WeakMap<object, CachedAnswer>();

/**
 * @param denyStatus the status that the caller asks for, if any
 * @param answerNow builds the response from the decision
 */
export function cachedDenialProblem(
  denied: CacheDeniedRequest,
  denyStatus: number | undefined,
  answerNow: () => ProblemAnswer,
): ProblemAnswer {
  const { denial } = denied.cachedDenial;
  const cached = cachedAnswers.get(denial);
  if (cached?.isFor(denied, denyStatus) === true) return cached.answer;
  const answer = answerNow();
  // The current period of a calendar window can end while the denial is cached.
  const hasPeriods = denied.spends.some(({ policy }) => policy.limits.some(({ period }) => period !== undefined));
  if (!hasPeriods) cachedAnswers.set(denial, new CachedAnswer(answer, denied, denyStatus));
  return answer;
}

class CachedAnswer {
  readonly answer: ProblemAnswer;
  readonly #denyStatus: number | undefined;
  /** All policies of the request, because the answer lists their limits too. */
  readonly #policies: readonly Policy[];
  readonly #answeredAtMs: number;
  readonly #fromAgeMs: number;
  /** The age up to which no wait and no time in whole seconds, rounded up, changes. */
  readonly #untilAgeMs: number;

  constructor(answer: ProblemAnswer, denied: CacheDeniedRequest, denyStatus: number | undefined) {
    const { ageMs, outcomes } = denied.cachedDenial;
    this.answer = answer;
    this.#denyStatus = denyStatus;
    this.#policies = denied.spends.map(({ policy }) => policy);
    this.#answeredAtMs = answeredAtMs(denied);
    this.#fromAgeMs = ageMs;
    const waitsMs = outcomes.flatMap((outcome) =>
      "decision" in outcome
        ? outcome.decision.limits.flatMap(({ retryAfterMs, replenishAfterMs, resetAfterMs }) => [
            retryAfterMs ?? 0,
            replenishAfterMs,
            resetAfterMs,
            outcome.decision.bannedForMs,
          ])
        : [],
    );
    const running = waitsMs.filter((waitMs) => waitMs > 0);
    // Without a wait, the legacy fields state the time of the request in seconds, rounded up.
    const untilNextSecondMs = (1000 - (denied.admission.decidedAtMs % 1000)) % 1000;
    this.#untilAgeMs = ageMs + Math.min(untilNextSecondMs, ...running.map((waitMs) => (waitMs - 1) % 1000));
  }

  isFor(denied: CacheDeniedRequest, denyStatus: number | undefined): boolean {
    const { spends, cachedDenial } = denied;
    return (
      cachedDenial.ageMs >= this.#fromAgeMs &&
      cachedDenial.ageMs <= this.#untilAgeMs &&
      denyStatus === this.#denyStatus &&
      answeredAtMs(denied) === this.#answeredAtMs &&
      spends.length === this.#policies.length &&
      spends.every(({ policy }, index) => policy === this.#policies[index])
    );
  }
}

/** When the object replied. The legacy fields state the ends of waits, which count from this time. */
const answeredAtMs = ({ admission, cachedDenial }: CacheDeniedRequest): number =>
  admission.decidedAtMs - cachedDenial.ageMs;
