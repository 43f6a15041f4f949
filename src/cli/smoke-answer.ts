/** Checks of the smoke test on an answer: its status, problem details and RateLimit fields, and how it is shown. */
import { parseList } from "structured-headers";
import { isRecord, joinPath } from "../validation/problems.ts";
import { messageOf } from "./command.ts";
import type { ReceivedAnswer } from "./request.ts";

/** Ends a step before it passes. */
export class StepEnd extends Error {
  readonly outcome: "skipped" | "fail";

  constructor(outcome: "skipped" | "fail", message: string) {
    super(message);
    this.outcome = outcome;
  }
}

/** @throws StepEnd unless the condition holds */
export function require(isMet: boolean, message: string): asserts isMet {
  if (!isMet) throw new StepEnd("fail", message);
}

export const requireStatus = (answer: ReceivedAnswer, status: number): void =>
  require(answer.status === status, `expected the status ${status}, got ${shownAnswer(answer)}`);

export function requireProblem(answer: ReceivedAnswer, status: number): void {
  requireStatus(answer, status);
  const isProblem = answer.isProblem && answer.json["status"] === status;
  require(isProblem, `expected problem details with the status ${status}, got ${shownAnswer(answer)}`);
}

/** The status, the type of the content, and the detail of a problem. */
export function shownAnswer({ status, headers, json, isProblem }: ReceivedAnswer): string {
  const location = headers.get("Location");
  if (location !== null) return `${status} with a redirect to ${printable(location)}`;
  if (isProblem) return `${status} (${printable(String(json["detail"]))})`;
  return `${status} with ${printable(headers.get("Content-Type") ?? "no content type")}`;
}

/** The problems of a configuration, or of a request, in problem details. */
export const shownErrors = ({ json: { errors } }: ReceivedAnswer): string =>
  (Array.isArray(errors) ? errors.filter(isRecord) : [])
    .map(({ variable = "", field = "", accepted }) =>
      printable(`${joinPath(String(variable), String(field))}: expected ${String(accepted)}`),
    )
    .join("; ");

const mostPrinted = 300;

/** A server may send control characters, which a terminal would obey. */
export function printable(text: string): string {
  const visible = text.replace(/[^\x20-\x7e\u{a1}-\u{ffff}]/gu, "?");
  return visible.length > mostPrinted ? `${visible.slice(0, mostPrinted)}…` : visible;
}

export interface SentLimit {
  readonly name: string;
  readonly quota: number;
  readonly windowSeconds: number | null;
  /** Null if only `RateLimit-Policy` lists the limit. */
  readonly remaining: number | null;
}

/** The limits in the RateLimit fields. They must be well-formed, and must not contradict one another. */
export function sentLimits(headers: Headers): readonly SentLimit[] {
  const policies = itemsOf(headers, "RateLimit-Policy");
  const limits = itemsOf(headers, "RateLimit");
  for (const name of limits.keys()) {
    require(policies.has(name), `RateLimit lists "${name}", which RateLimit-Policy does not`);
  }
  return [...policies].map(([name, policy]) => {
    const limit = limits.get(name);
    const quota = count(policy, "q", name);
    const windowSeconds = policy.has("w") ? count(policy, "w", name) : null;
    const remaining = limit === undefined ? null : count(limit, "r", name);
    require((remaining ?? 0) <= quota, `"${name}" has r=${remaining}, which exceeds q=${quota}`);
    const resetSeconds = limit?.has("t") === true ? count(limit, "t", name) : 0;
    const isWithin = windowSeconds === null || resetSeconds <= windowSeconds;
    require(isWithin, `"${name}" has t=${resetSeconds}, which exceeds w=${windowSeconds}`);
    return { name, quota, windowSeconds, remaining };
  });
}

type Parameters = ReadonlyMap<string, unknown>;

function itemsOf(headers: Headers, field: string): Map<string, Parameters> {
  const items = listOf(headers.get(field) ?? "", field);
  return new Map(
    items.map(([item, parameters]) => {
      require(typeof item === "string", `${field} has an item that is not a string`);
      return [item, parameters];
    }),
  );
}

function listOf(text: string, field: string): ReturnType<typeof parseList> {
  try {
    return parseList(text);
  } catch (error) {
    throw new StepEnd("fail", `${field} is not a structured field: ${messageOf(error)}`);
  }
}

function count(parameters: Parameters, parameter: string, name: string): number {
  const value = parameters.get(parameter);
  const isCount = typeof value === "number" && Number.isInteger(value) && value >= 0;
  require(isCount, `"${name}" has no whole number ${parameter}`);
  return value;
}

/** The limits in a few words, such as `"default" 4 of 5 per 10 s`. */
export const shownLimits = (limits: readonly SentLimit[]): string =>
  limits
    .slice(0, 3)
    .map(({ name, quota, windowSeconds, remaining }) => {
      const units = remaining === null ? `${quota}` : `${remaining} of ${quota}`;
      return `"${name}" ${units}${windowSeconds === null ? "" : ` per ${windowSeconds} s`}`;
    })
    .join(", ");

/** The seconds in `Retry-After`, a whole number of at least 1. */
export function sentWaitSeconds(headers: Headers): number {
  const field = headers.get("Retry-After");
  const isSeconds = field !== null && /^[1-9]\d{0,9}$/.test(field);
  require(isSeconds, `expected Retry-After with seconds, got ${field === null ? "none" : `"${field}"`}`);
  return Number(field);
}
