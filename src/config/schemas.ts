/** Schemas of what is read by a function. */
import * as v from "valibot";
import { parseDuration } from "../strategies/index.ts";
import { asText } from "../validation/problems.ts";

/** What a function has read, or what it would have accepted. */
export type ReadResult<Value> = { readonly value: Value } | { readonly accepted: string };

/** A schema that reads a value with one function. */
export function schemaOf<Value>(
  read: (value: unknown) => ReadResult<Value>,
): v.GenericSchema<unknown, Value> {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, Value>(({ dataset, addIssue, NEVER }) => {
      const result = read(dataset.value);
      if ("value" in result) return result.value;
      addIssue({ message: result.accepted });
      return NEVER;
    }),
  );
}

/**
 * The same of a function whose null stands for all that is not accepted.
 * @param accepted may depend on the value, which is wrong
 */
export function schemaOfNullable<Value>(
  read: (value: unknown) => Value | null,
  accepted: string | ((value: unknown) => string),
): v.GenericSchema<unknown, Value> {
  return schemaOf((written) => {
    const value = read(written);
    if (value !== null) return { value };
    return { accepted: typeof accepted === "string" ? accepted : accepted(written) };
  });
}

/** Null for what is no duration, or none within the bounds. */
export function durationMsBetween(value: unknown, leastMs: number, mostMs: number): number | null {
  const milliseconds = parseDuration(asText(value)) ?? 0;
  return milliseconds >= leastMs && milliseconds <= mostMs ? milliseconds : null;
}

/** Milliseconds, of a duration within bounds. */
export function durationBetween(leastMs: number, mostMs: number, accepted: string) {
  return schemaOfNullable((value) => durationMsBetween(value, leastMs, mostMs), accepted);
}
