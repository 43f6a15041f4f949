/**
 * Answers to denials from the deny cache. Until a wait in whole seconds changes, only the waits in milliseconds differ
 * between two answers. The text around these waits is therefore cached with the denial.
 */
import type { CachedDenial } from "../../limiter/isolate/admission.ts";
import type { CheckAnswer } from "./answers.ts";
import { serialized, type SerializedAnswer } from "./serialized-answer.ts";
import { type Failure, isFailure } from "../wire/problems.ts";

const cachedAnswers = new WeakMap<object, CachedAnswer>();

/** @param answerNow builds the answer from the decision */
export function cachedDenialAnswer(
  { denial, ageMs }: Pick<CachedDenial, "denial" | "ageMs">,
  answerNow: () => CheckAnswer | Failure,
): SerializedAnswer | Failure {
  const cached = cachedAnswers.get(denial);
  if (cached?.coversAge(ageMs) === true) return cached.atAge(ageMs);
  const answer = answerNow();
  if (isFailure(answer)) return answer;
  const now = serialized(answer);
  cachedAnswers.set(denial, new CachedAnswer(now, ageMs));
  return now;
}

/** A wait that is not 0. No text from a caller matches, because JSON escapes its quotation marks. */
const runningWait = /(?<="(?:retryAfterMs|bannedForMs|replenishAfterMs|resetAfterMs)":)([1-9]\d*)(?=[,}])/;

class CachedAnswer {
  readonly #answer: SerializedAnswer;
  readonly #fromAgeMs: number;
  /** The age up to which no wait in whole seconds, rounded up, changes. */
  readonly #untilAgeMs: number;
  /** The texts before, between and after the waits. */
  readonly #texts: readonly string[];
  readonly #waitsMs: readonly number[];

  constructor(answer: SerializedAnswer, ageMs: number) {
    const pieces = answer.json.split(runningWait);
    this.#answer = answer;
    this.#texts = pieces.filter((_, index) => index % 2 === 0);
    this.#waitsMs = pieces.filter((_, index) => index % 2 === 1).map(Number);
    this.#fromAgeMs = ageMs;
    this.#untilAgeMs = ageMs + Math.min(...this.#waitsMs.map((waitMs) => (waitMs - 1) % 1000));
  }

  coversAge(ageMs: number): boolean {
    return ageMs >= this.#fromAgeMs && ageMs <= this.#untilAgeMs;
  }

  atAge(ageMs: number): SerializedAnswer {
    const sinceMs = ageMs - this.#fromAgeMs;
    let json = "";
    for (const [index, text] of this.#texts.entries()) {
      const waitMs = this.#waitsMs[index];
      json += waitMs === undefined ? text : `${text}${waitMs - sinceMs}`;
    }
    return { ...this.#answer, json };
  }
}
