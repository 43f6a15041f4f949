/** Checks the RateLimit fields and Retry-After of a response, as a client reads them. */
import { parseList } from "structured-headers";
import { messageOf } from "../command.ts";
import { require, StepFailure } from "./smoke-step.ts";

export interface SentLimit {
  readonly name: string;
  readonly quota: number;
  readonly windowSeconds: number | null;
  /** Null if only `RateLimit-Policy` lists the limit. */
  readonly remaining: number | null;
}

type Parameters = ReadonlyMap<string, unknown>;

/**
 * The limits in the fields; empty if there are none.
 * @throws StepFailure when a field is not well-formed, or the two fields contradict one another
 */
export function sentLimits(headers: Headers): readonly SentLimit[] {
  const policies = itemsOf(headers, "RateLimit-Policy");
  const limits = itemsOf(headers, "RateLimit");
  for (const name of limits.keys()) {
    require(policies.has(name), `RateLimit lists "${name}", which RateLimit-Policy does not`);
  }
  return [...policies].map(([name, policy]) => {
    const quota = count(policy, "q", name);
    const windowSeconds = policy.has("w") ? count(policy, "w", name) : null;
    const limit = limits.get(name);
    const remaining = limit === undefined ? null : count(limit, "r", name);
    require((remaining ?? 0) <= quota, `"${name}" has r=${remaining}, which exceeds q=${quota}`);
    const resetSeconds = limit?.has("t") === true ? count(limit, "t", name) : 0;
    require(windowSeconds === null ||
      resetSeconds <= windowSeconds, `"${name}" has t=${resetSeconds}, which exceeds w=${windowSeconds}`);
    return { name, quota, windowSeconds, remaining };
  });
}

/**
 * The seconds in `Retry-After`.
 * @throws StepFailure unless it is a whole number of at least 1
 */
export function sentWaitSeconds(headers: Headers): number {
  const field = headers.get("Retry-After");
  require(field !== null &&
    /^[1-9]\d{0,9}$/.test(field), `expected Retry-After with seconds, got ${field === null ? "none" : `"${field}"`}`);
  return Number(field);
}

function itemsOf(headers: Headers, field: string): Map<string, Parameters> {
  const value = headers.get(field);
  if (value === null) return new Map();
  try {
    return new Map(
      parseList(value).map(([item, parameters]) => {
        require(typeof item === "string", `${field} has an item that is not a string`);
        return [item, parameters];
      }),
    );
  } catch (error) {
    if (error instanceof StepFailure) throw error;
    throw new StepFailure(`${field} is not a structured field: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

function count(parameters: Parameters, parameter: string, name: string): number {
  const value = parameters.get(parameter);
  require(typeof value === "number" &&
    Number.isInteger(value) &&
    value >= 0, `"${name}" has no whole number ${parameter}`);
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
