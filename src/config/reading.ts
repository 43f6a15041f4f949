/** Schemas of what is read by a function. */
import * as v from "valibot";
import { asText, parseDuration } from "../strategies/index.ts";

/**
 * A schema that reads a value with one function, whose null stands for all that is not accepted.
 * @param accepted may depend on the value, which is wrong
 */
export function readBy<Value>(
  read: (value: unknown) => Value | null,
  accepted: string | ((value: unknown) => string),
): v.GenericSchema<unknown, Value> {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, Value>(({ dataset, addIssue, NEVER }) => {
      const value = read(dataset.value);
      if (value !== null) return value;
      addIssue({ message: typeof accepted === "string" ? accepted : accepted(dataset.value) });
      return NEVER;
    }),
  );
}

/** Null for what is no duration, or none within the bounds. */
export function millisecondsWithin(value: unknown, leastMs: number, mostMs: number): number | null {
  const milliseconds = parseDuration(asText(value)) ?? 0;
  return milliseconds >= leastMs && milliseconds <= mostMs ? milliseconds : null;
}

/** Milliseconds, of a duration within bounds. */
export function durationFrom(leastMs: number, mostMs: number, accepted: string) {
  return readBy((value) => millisecondsWithin(value, leastMs, mostMs), accepted);
}
