/** Matches a client against the allowlist, the blocklist and the overrides of a policy. */
import {
  type Address,
  type Condition,
  hasPieces,
  isWithin,
  type KeyPart,
  type SubjectPattern,
  type Override,
  type Pattern,
} from "../config/index.ts";
import type { KeyValue } from "./key.ts";

/** The client that a policy would charge. */
export interface Subject {
  /** Null when it is unknown. */
  readonly address: Address | null;
  readonly key: readonly KeyPart[];
  readonly values: readonly KeyValue[];
  /** All values of a part, which need not be in the key. A repeated header or a list claim has several. */
  readonly textsOf: (part: KeyPart) => readonly string[];
}

export const isAllowlisted = (list: readonly SubjectPattern[], subject: Subject): boolean =>
  list.some((pattern) => matchesSubject(pattern, subject));

/**
 * Compares every value of each part, not only the one that is charged: a client must not evade the blocklist by sending
 * a second value.
 */
export const isBlocklisted = (list: readonly SubjectPattern[], subject: Subject): boolean =>
  list.some(
    (entry) =>
      matchesSubject(entry, subject) ||
      (entry.kind === "key" &&
        entry.patterns.every((pattern, index) => {
          const part = subject.key[index];
          return (
            part === undefined ||
            part.kind === "global" ||
            matchesCondition({ part, pattern }, subject)
          );
        })),
  );

/** The first matching override; undefined without one. */
export const overrideFor = (
  overrides: readonly Override[],
  subject: Subject,
): Override | undefined =>
  overrides.find((override) =>
    override.for.kind === "condition"
      ? matchesCondition(override.for.condition, subject)
      : matchesSubject(override.for, subject),
  );

function matchesSubject(entry: SubjectPattern, { address, key, values }: Subject): boolean {
  if (entry.kind === "address") return matchesAddress(entry.pattern, address);
  return entry.patterns.every((pattern, index) => {
    const part = key[index];
    const value = values[index] ?? null;
    if (part?.kind === "global") return true;
    if (part?.kind === "ip") return matchesAddress(pattern, address);
    return value !== null && matchesText(pattern, value);
  });
}

function matchesCondition({ part, pattern }: Condition, { address, textsOf }: Subject): boolean {
  if (part.kind === "ip") return matchesAddress(pattern, address);
  return textsOf(part).some((text) => matchesText(pattern, text));
}

function matchesAddress(pattern: Pattern, address: Address | null): boolean {
  if (address === null) return false;
  return pattern.kind === "network"
    ? isWithin(address, pattern.network)
    : matchesText(pattern, address.toString());
}

function matchesText(pattern: Pattern, text: string): boolean {
  switch (pattern.kind) {
    case "text":
      return text === pattern.text;
    case "network":
      return false;
    case "wildcard":
      return hasPieces(text, pattern.pieces);
    default:
      return pattern satisfies never;
  }
}
