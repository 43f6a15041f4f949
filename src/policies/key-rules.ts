/** Whether an exception to a policy holds for whoever is charged. */
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

/** Whoever is charged, as far as it is known. */
export interface Subject {
  /** Null where there is none. */
  readonly address: Address | null;
  readonly key: readonly KeyPart[];
  /** One for each part of the key. */
  readonly values: readonly KeyValue[];
  /** All that are told for a part, be it of the key or not; more than one where it is told more than once. */
  readonly textsOf: (part: KeyPart) => readonly string[];
}

export const isAllowlisted = (list: readonly SubjectPattern[], subject: Subject): boolean =>
  list.some((listed) => matchesSubject(listed, subject));

/** The same by anything that is told: who is refused must not be let in for telling more. */
export const isBlocklisted = (list: readonly SubjectPattern[], subject: Subject): boolean =>
  list.some(
    (listed) =>
      matchesSubject(listed, subject) ||
      (listed.kind === "key" &&
        listed.patterns.every((pattern, index) => {
          const part = subject.key[index];
          return (
            part === undefined ||
            part.kind === "global" ||
            matchesCondition({ part, pattern }, subject)
          );
        })),
  );

/** The first that holds; undefined if none does. */
export const overrideFor = (
  overrides: readonly Override[],
  subject: Subject,
): Override | undefined =>
  overrides.find((override) =>
    override.for.kind === "condition"
      ? matchesCondition(override.for.condition, subject)
      : matchesSubject(override.for, subject),
  );

function matchesSubject(listed: SubjectPattern, { address, key, values }: Subject): boolean {
  if (listed.kind === "address") return matchesAddress(listed.pattern, address);
  return listed.patterns.every((pattern, index) => {
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

/** Of a text: only an address is within a network. */
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
