/** Schemas that parse a value with a function. */
import * as v from "valibot";
import { parseDuration } from "../strategies/index.ts";
import { asText } from "../validation/problems.ts";

/** The fields of a policy or of a rule as they are written, which may be invalid. */
export type WrittenFields = Readonly<Record<string, unknown>>;

/** The parsed value, or a description of the accepted values. */
export type ReadResult<Value> = { readonly value: Value } | { readonly accepted: string };

export function schemaOf<Value>(read: (value: unknown) => ReadResult<Value>): v.GenericSchema<unknown, Value> {
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
 * Like `schemaOf`, for a function that returns null for invalid values.
 * @param accepted describes the accepted values; may depend on the invalid one
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

/** The duration in ms; null for anything else, or outside the bounds. */
export function durationMsBetween(value: unknown, leastMs: number, mostMs: number): number | null {
  const milliseconds = parseDuration(asText(value)) ?? 0;
  return milliseconds >= leastMs && milliseconds <= mostMs ? milliseconds : null;
}

/** A schema of durations within bounds, which returns ms. */
export function durationBetween(leastMs: number, mostMs: number, accepted: string) {
  return schemaOfNullable((value) => durationMsBetween(value, leastMs, mostMs), accepted);
}

/** Describes a choice of texts. */
export const oneOf = (values: readonly string[]): string => `one of ${values.map((value) => `"${value}"`).join(", ")}`;

/** A schema that accepts one of these texts. */
export const choice = <const Values extends readonly string[]>(values: Values, accepted = oneOf(values)) =>
  v.picklist(values, accepted);
