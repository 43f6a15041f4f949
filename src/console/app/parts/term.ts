/** The lengths of terms that a change can have. */
import type { Term } from "../api/rule-input.ts";

const minuteMs = 60_000;
const dayMs = 86_400_000;

export const durations = [
  ["10m", "10 minutes", 10 * minuteMs],
  ["1h", "1 hour", 60 * minuteMs],
  ["1d", "1 day", dayMs],
  ["7d", "7 days", 7 * dayMs],
  ["30d", "30 days", 30 * dayMs],
  ["", "Until it is removed", null],
] as const;

/** The length of such a term; null for one without an end. */
export const termMs = (term: Term): number | null =>
  durations.find(([value]) => value === (term.for ?? ""))?.[2] ?? null;
