/** Limits as text that operators edit: notation, or JSON. */
import type { FullLimit, Policy, Rule, WrittenLimits } from "../api/answers.ts";
import { writtenLimit } from "../keys/boost.ts";
import { commonStrategy } from "../keys/plan.ts";
import { writtenLimitsText } from "../parts/rule-text.ts";
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

/** Limits as text, and the strategy of those that name none; "" for that of the configuration. */
export interface EditedLimits {
  readonly text: string;
  readonly strategy: string;
}

/** The limits in effect, as text to begin with. */
export function editedLimits({ name, limits, rules }: Pick<Policy, "name" | "limits" | "rules">): EditedLimits {
  const edited = limitsAsText(limits.value, name);
  const rule = rules.find(({ id }) => id === limits.rule);
  if (rule === undefined) return edited;
  return { text: writtenText(rule), strategy: rule.strategy ?? edited.strategy };
}

export function limitsAsText(limits: readonly FullLimit[], policy: string): EditedLimits {
  const strategy = commonStrategy(limits) ?? "";
  return { text: configuredText(limits, policy, strategy), strategy };
}

/** Notation if it says all, else JSON. */
function configuredText(limits: readonly FullLimit[], policy: string, common: string): string {
  const written = limits.map((limit) => writtenLimit(limit, policy));
  const isPlain = written.every((limit) => limit["strategy"] === common && Object.keys(limit).length === plainFields);
  return isPlain
    ? written.map(({ limit, window }) => `${String(limit)}/${String(window)}`).join("; ")
    : JSON.stringify(written, null, 2);
}

/** The number of units, the window and the strategy. */
const plainFields = 3;

/** The limits of a rule as the operator wrote them. */
const writtenText = ({ limits = "" }: Pick<Rule, "limits">): string =>
  typeof limits === "string" ? limits : JSON.stringify(limits, null, 2);

/** Shown for a policy whose limits a function of the Worker returns. */
export const limitsOfRequests = "those that the Worker's code states for each request";

/** "5 per 10 min, sliding-log" or "50 per minute, token-bucket, burst 60". */
export function limitLine(limit: FullLimit): string {
  const { limit: _l, window: _w, strategy, ...options } = writtenLimit(limit, limit.name);
  const named = Object.entries(options).map(([name, value]) => `${name} ${String(value)}`);
  const ofStrategy = strategy === "concurrency" ? [] : [String(strategy)];
  return [limitText(limit), ...ofStrategy, ...named].join(", ");
}

/** Reads limits as the engine does. */
export type LimitsReader = (
  written: unknown,
  strategy: string,
  policy: string,
) => { readonly limits: readonly FullLimit[]; readonly problems: readonly string[] };

/**
 * The limits that would be in effect, or the problems of the text.
 * @param reader null while it is not loaded
 */
export function previewOf(
  content: { readonly limits: WrittenLimits; readonly strategy?: string },
  policy: string,
  reader: LimitsReader | null,
): { readonly problem: string; readonly effect: string } {
  const { limits: written, strategy } = content;
  // The page does not have the strategy of the configuration, by which options are checked. Notation has no options.
  const isChecked = strategy !== undefined || typeof written === "string";
  if (reader === null || !isChecked) return { problem: "", effect: writtenLimitsText(content) };
  const { limits, problems } = reader(written, strategy ?? "sliding-window-counter", policy);
  if (problems.length > 0) return { problem: problems.join(" "), effect: "…" };
  const effect =
    strategy === undefined
      ? `${limits.map(limitText).join("; ")}, with the strategy of the configuration`
      : limits.map(limitLine).join("; ");
  return { problem: "", effect };
}
