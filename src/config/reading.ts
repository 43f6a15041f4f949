/** Schemas of what is read by a function. */
import * as v from "valibot";
import { parseDuration } from "../strategies/index.ts";

export const asText = (value: unknown): string => (typeof value === "string" ? value : "");

/** A schema that reads a value with one function, whose null stands for all that is not accepted. */
export function readBy<Value>(
  read: (value: unknown) => Value | null,
  accepted: string,
): v.GenericSchema<unknown, Value> {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, Value>(({ dataset, addIssue, NEVER }) => {
      const value = read(dataset.value);
      if (value !== null) return value;
      addIssue({ message: accepted });
      return NEVER;
    }),
  );
}

/** Milliseconds, of a duration within bounds. */
export function durationFrom(leastMs: number, mostMs: number, accepted: string) {
  return readBy((value) => {
    const milliseconds = parseDuration(asText(value)) ?? 0;
    return milliseconds >= leastMs && milliseconds <= mostMs ? milliseconds : null;
  }, accepted);
}
