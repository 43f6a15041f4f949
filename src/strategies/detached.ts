/**
 * A snapshot whose sealed segments are kept elsewhere, each once: in place of its text stands the number that the keeper
 * knows it by. What is no snapshot is left as it is: `createMeter` refuses it.
 */
import { isCount } from "./integers.ts";
import { eachData } from "./snapshot.ts";

/** A copy of a snapshot, with a number in place of each text of a sealed segment. */
export function detachSegments(snapshot: unknown, numberOf: (text: string) => number): unknown {
  return eachData(snapshot, (data) =>
    withSegments(data, (segment) => (typeof segment === "string" ? numberOf(segment) : segment)),
  );
}

/** What `detachSegments` was given. Where a number has no text it stays, and its state is refused. */
export function attachSegments(
  stored: unknown,
  textOf: (number: number) => string | undefined,
): unknown {
  return eachData(stored, (data) =>
    withSegments(data, (segment) => (isCount(segment) ? (textOf(segment) ?? segment) : segment)),
  );
}

/** All but the last of a list are segments. */
function withSegments(data: unknown, change: (segment: unknown) => unknown): unknown {
  if (!Array.isArray(data)) return data;
  const parts: readonly unknown[] = data;
  return parts.map((part, index) => (index < parts.length - 1 ? change(part) : part));
}
