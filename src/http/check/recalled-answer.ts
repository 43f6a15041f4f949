/**
 * The answers to denials that the isolate remembers. For as long as the waits in seconds do not change, such an answer
 * changes only in its waits in milliseconds: the text around them is kept with the denial.
 */
import type { RecalledDenial } from "../../limiter/client/admission.ts";
import type { CheckAnswer } from "./answers.ts";
import { written, type WrittenAnswer } from "./written-answer.ts";
import { type Failure, isFailure } from "../wire/problems.ts";

const keptByDenial = new WeakMap<object, KeptAnswer>();

/** @param answerNow builds the answer to the denial at its age */
export function recalledAnswer(
  { denial, ageMs }: Pick<RecalledDenial, "denial" | "ageMs">,
  answerNow: () => CheckAnswer | Failure,
): WrittenAnswer | Failure {
  const kept = keptByDenial.get(denial);
  if (kept?.coversAge(ageMs) === true) return kept.atAge(ageMs);
  const answer = answerNow();
  if (isFailure(answer)) return answer;
  const now = written(answer);
  keptByDenial.set(denial, new KeptAnswer(now, ageMs));
  return now;
}

/** A wait that is not 0. No text of a caller can look like one, because JSON escapes its quotation marks. */
const runningWait =
  /(?<="(?:retryAfterMs|bannedForMs|replenishAfterMs|resetAfterMs)":)([1-9]\d*)(?=[,}])/;

class KeptAnswer {
  readonly #answer: WrittenAnswer;
  readonly #fromAgeMs: number;
  /** The age up to which no wait in whole seconds, rounded up, changes. */
  readonly #untilAgeMs: number;
  /** The texts before, between and after the waits. */
  readonly #texts: readonly string[];
  readonly #waitsMs: readonly number[];

  constructor(answer: WrittenAnswer, ageMs: number) {
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

  atAge(ageMs: number): WrittenAnswer {
    const sinceMs = ageMs - this.#fromAgeMs;
    let json = "";
    for (const [index, text] of this.#texts.entries()) {
      const waitMs = this.#waitsMs[index];
      json += waitMs === undefined ? text : `${text}${waitMs - sinceMs}`;
    }
    return { ...this.#answer, json };
  }
}
