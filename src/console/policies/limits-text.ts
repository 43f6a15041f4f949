/** Limits as text that operators edit: notation, or JSON. */
import type { Limit, Rule, WrittenLimits } from "../api/answers.ts";
import { limitText } from "../parts/text.ts";

export type ReadLimits = { readonly limits: WrittenLimits } | { readonly problem: string };

/** A text that begins with a bracket or a brace is JSON; any other is notation, which the admin API reads. */
export function readLimits(text: string): ReadLimits {
  const trimmed = text.trim();
  if (trimmed === "") return { problem: 'Expected limits, such as "100/minute".' };
  if (!/^[[{]/.test(trimmed)) return { limits: trimmed };
  try {
    return { limits: JSON.parse(trimmed) };
  } catch (error) {
    return { problem: `Expected JSON. ${error instanceof Error ? error.message : ""}` };
  }
}

/** The limits of a rule as the operator wrote them. */
export const writtenText = ({ limits = "" }: Pick<Rule, "limits">): string =>
  typeof limits === "string" ? limits : JSON.stringify(limits, null, 2);

/** "5 per 10 min, sliding-log". */
export const limitLine = (limit: Limit): string =>
  limit.strategy === "concurrency" ? limitText(limit) : `${limitText(limit)}, ${limit.strategy}`;
