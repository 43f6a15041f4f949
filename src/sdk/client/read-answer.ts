/** Verifies that an answer has the shape that its type promises. */
import type { BatchAnswer, CheckAnswer, Problem, ReserveAnswer, SettleAnswer } from "./messages.ts";

export interface Answers {
  check: CheckAnswer;
  look: CheckAnswer;
  forget: undefined;
  reserve: ReserveAnswer;
  settle: SettleAnswer;
  batch: BatchAnswer;
}

export type Operation = keyof Answers;

interface Accepted {
  readonly is: (value: unknown) => boolean;
  readonly text: string;
}

type Shape = Readonly<Record<string, Accepted>>;

const isRecord = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const aBoolean: Accepted = { is: (value) => typeof value === "boolean", text: "true or false" };
const aNumber: Accepted = { is: (value) => typeof value === "number", text: "a number" };
const aText: Accepted = { is: (value) => typeof value === "string", text: "a text" };
const anObject: Accepted = { is: isRecord, text: "an object" };
const orNull = ({ is, text }: Accepted): Accepted => ({
  is: (value) => value === null || is(value),
  text: `${text} or null`,
});
const listOf = ({ is, text }: Accepted): Accepted => ({
  is: (value) => Array.isArray(value) && value.every(is),
  text: `a list, each entry ${text}`,
});

const decision: Shape = {
  allowed: aBoolean,
  cost: aNumber,
  delayMs: aNumber,
  retryAfterMs: orNull(aNumber),
  bannedForMs: aNumber,
  limits: listOf(anObject),
  policy: aText,
  reason: aText,
  violated: listOf(aText),
  headers: anObject,
};

const shapes: Readonly<Record<Exclude<Operation, "forget">, Shape>> = {
  check: decision,
  look: decision,
  reserve: { ...decision, id: orNull(aText) },
  settle: { settled: aBoolean },
  batch: { results: listOf(anObject) },
};

const problemShape: Shape = { title: aText, detail: aText };

/** @returns the first field of the answer that is not as expected, what is expected and what came; null if there is none */
export function answerProblem(operation: Operation, answer: unknown): string | null {
  if (operation === "forget") return null;
  const problem = shapeProblem("", shapes[operation], answer);
  if (problem !== null || operation !== "batch") return problem;
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- its shape has just been verified
  const { results } = answer as BatchAnswer;
  for (const [index, result] of results.entries()) {
    const found =
      "problem" in result
        ? shapeProblem(`results[${index}].problem`, problemShape, result.problem)
        : shapeProblem(`results[${index}]`, decision, result);
    if (found !== null) return found;
  }
  return null;
}

function shapeProblem(path: string, shape: Shape, value: unknown): string | null {
  if (!isRecord(value)) return `expected ${path || "the answer"} to be an object, got ${shown(value)}`;
  for (const [name, { is, text }] of Object.entries(shape)) {
    const field = path === "" ? name : `${path}.${name}`;
    if (!is(value[name])) return `expected ${field} to be ${text}, got ${shown(value[name])}`;
  }
  return null;
}

export const isProblem = (value: unknown): value is Problem => shapeProblem("", problemShape, value) === null;

const longestShown = 80;

/** A value as JSON, shortened. */
export function shown(value: unknown): string {
  const isOtherNumber = typeof value === "number" && !Number.isFinite(value);
  const text = (isOtherNumber ? undefined : JSON.stringify(value)) ?? String(value);
  return text.length > longestShown ? `${text.slice(0, longestShown)}…` : text;
}
