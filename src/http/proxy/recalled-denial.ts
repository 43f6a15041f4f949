/**
 * The answers to denials that the isolate remembers. They state waits and times in whole seconds, so an answer is kept with
 * its denial until one of them changes.
 */
import type { Policy } from "../../config/index.ts";
import type { RecalledDenial } from "../../limiter/client/admission.ts";
import type { ChargedRequest } from "../record-outcomes.ts";
import type { ProblemAnswer } from "../wire/problems.ts";

/** A request that a remembered denial has decided. */
export interface RecalledRequest extends ChargedRequest {
  readonly recalled: RecalledDenial;
}

const keptByDenial = new WeakMap<object, KeptAnswer>();

/**
 * @param denyStatus the status that the caller asks for, if any
 * @param answerNow builds the answer to the denial at its age
 */
export function recalledDenialAnswer(
  denied: RecalledRequest,
  denyStatus: number | undefined,
  answerNow: () => ProblemAnswer,
): ProblemAnswer {
  const { denial } = denied.recalled;
  const kept = keptByDenial.get(denial);
  if (kept?.isFor(denied, denyStatus) === true) return kept.answer;
  const answer = answerNow();
  // The current period of a calendar window can end while the denial is remembered.
  const hasPeriods = denied.spends.some(({ policy }) =>
    policy.limits.some(({ period }) => period !== undefined),
  );
  if (!hasPeriods) keptByDenial.set(denial, new KeptAnswer(answer, denied, denyStatus));
  return answer;
}

class KeptAnswer {
  readonly answer: ProblemAnswer;
  readonly #denyStatus: number | undefined;
  /** All policies of the request, because the answer lists their limits too. */
  readonly #policies: readonly Policy[];
  readonly #answeredAtMs: number;
  readonly #fromAgeMs: number;
  /** The age up to which no wait and no time in whole seconds, rounded up, changes. */
  readonly #untilAgeMs: number;

  constructor(answer: ProblemAnswer, denied: RecalledRequest, denyStatus: number | undefined) {
    const { ageMs, outcomes } = denied.recalled;
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
    this.#untilAgeMs =
      ageMs + Math.min(untilNextSecondMs, ...running.map((waitMs) => (waitMs - 1) % 1000));
  }

  isFor(denied: RecalledRequest, denyStatus: number | undefined): boolean {
    const { spends, recalled } = denied;
    return (
      recalled.ageMs >= this.#fromAgeMs &&
      recalled.ageMs <= this.#untilAgeMs &&
      denyStatus === this.#denyStatus &&
      answeredAtMs(denied) === this.#answeredAtMs &&
      spends.length === this.#policies.length &&
      spends.every(({ policy }, index) => policy === this.#policies[index])
    );
  }
}

/** The end of a wait in the legacy fields counts from the object's answer. */
const answeredAtMs = ({ admission, recalled }: RecalledRequest): number =>
  admission.decidedAtMs - recalled.ageMs;
