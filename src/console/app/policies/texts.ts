/** Policies in words, and their limits and entries as text that operators edit. */
import type { FullLimit, PolicyMode, PolicyView, StatisticsView, WrittenLimits } from "../../../admin/wire.ts";
import { errorOf } from "../api/client.ts";
import { type Decisions, decisionsOf } from "../keys/denials.ts";
import { commonStrategy, writtenLimit } from "../keys/rules.ts";
import { lazy } from "../parts/lazy.ts";
import { entryText, writtenLimitsText } from "../parts/rule-text.ts";
import { countOf, limitText, numberText, percentText, timeText } from "../parts/text.ts";
import type { limitsWritten } from "./written-limits.ts";

/** A text that begins with a bracket or a brace is JSON; any other is notation, which the admin API reads. */
export function readLimits(text: string): { readonly limits: WrittenLimits } | { readonly problem: string } {
  const trimmed = text.trim();
  if (trimmed === "") return { problem: 'Expected limits, such as "100/minute".' };
  if (!/^[[{]/.test(trimmed)) return { limits: trimmed };
  try {
    return { limits: JSON.parse(trimmed) };
  } catch (error) {
    return { problem: `Expected JSON. ${errorOf(error).message}` };
  }
}

/** Limits as text, and the strategy of limits that name none. "" stands for the strategy of the configuration. */
interface EditedLimits {
  readonly text: string;
  readonly strategy: string;
}

/** The limits in effect, as text to begin with. */
export function editedLimits({ name, limits, rules }: Pick<PolicyView, "name" | "limits" | "rules">): EditedLimits {
  const edited = limitsAsText(limits.value, name);
  const rule = rules.find(({ id }) => id === limits.rule);
  if (rule === undefined) return edited;
  const { limits: written = "", strategy = edited.strategy } = rule;
  return { text: typeof written === "string" ? written : JSON.stringify(written, null, 2), strategy };
}

/** Notation if it says all, else JSON. */
export function limitsAsText(limits: readonly FullLimit[], policy: string): EditedLimits {
  const strategy = commonStrategy(limits) ?? "";
  const written = limits.map((limit) => writtenLimit(limit, policy));
  const isPlain = written.every((limit) => limit["strategy"] === strategy && Object.keys(limit).length === plainFields);
  const text = isPlain
    ? written.map(({ limit, window }) => `${String(limit)}/${String(window)}`).join("; ")
    : JSON.stringify(written, null, 2);
  return { text, strategy };
}

/** The number of units, the window and the strategy. */
const plainFields = 3;

/** Shown for a policy whose limits a function of the Worker returns. */
export const limitsOfRequests = "those that the Worker's code states for each request";

/** "5 per 10 min, sliding-log" or "50 per minute, token-bucket, burst 60". */
function limitLine(limit: FullLimit): string {
  const { limit: _l, window: _w, strategy, ...options } = writtenLimit(limit, limit.name);
  const named = Object.entries(options).map(([name, value]) => `${name} ${String(value)}`);
  const ofStrategy = strategy === "concurrency" ? [] : [String(strategy)];
  return [limitText(limit), ...ofStrategy, ...named].join(", ");
}

export const limitsLine = (limits: readonly FullLimit[]): string => limits.map(limitLine).join("; ");

interface Preview {
  /** Null while the text has a problem. */
  readonly content: { readonly limits: WrittenLimits; readonly strategy?: string } | null;
  readonly problem: string;
  readonly effect: string;
}

/** Loads the engine, which reads written limits. */
export const useReader = lazy(async () => (await import("./written-limits.ts")).limitsWritten);

/**
 * Reads a text as the Worker does.
 * @param strategy "" for that of the configuration
 * @param reader null while it is not loaded
 */
export function previewOf(
  text: string,
  strategy: string,
  policy: string,
  reader: typeof limitsWritten | null,
): Preview {
  const read = readLimits(text);
  if ("problem" in read) return { content: null, problem: read.problem, effect: "…" };
  const content = { limits: read.limits, ...(strategy !== "" && { strategy }) };
  // Which options are valid depends on the strategy, and the page does not know that of the configuration. Notation has
  // no options.
  const isChecked = strategy !== "" || typeof read.limits === "string";
  if (reader === null || !isChecked) return { content, problem: "", effect: writtenLimitsText(content) };
  const { limits, problems } = reader(read.limits, strategy || "sliding-window-counter", policy);
  if (problems.length > 0) return { content: null, problem: problems.join(" "), effect: "…" };
  const effect =
    strategy === ""
      ? `${limits.map(limitText).join("; ")}, with the strategy of the configuration`
      : limitsLine(limits);
  return { content, problem: "", effect };
}

export const linesOf = (entries: readonly unknown[]): string => entries.map(entryText).join("\n");

/** A line is JSON if it begins with a quotation mark, a bracket or a brace; otherwise it is a text. */
export function readLines(text: string): { readonly entries: readonly unknown[] } | { readonly problem: string } {
  const entries: unknown[] = [];
  for (const [index, line] of text.split("\n").entries()) {
    const trimmed = line.trim();
    if (trimmed === "") continue;
    try {
      entries.push(/^["[{]/.test(trimmed) ? JSON.parse(trimmed) : trimmed);
    } catch {
      return { problem: `Line ${index + 1}: expected JSON, such as ["a", "b"], got ${trimmed}` };
    }
  }
  return { entries };
}

/** Applies what was changed in a text since `base` to a newer list: no entry of either side is lost. */
export function mergeLines(base: string, typed: string, fresh: string): string {
  const known = new Set(linesIn(base));
  const wanted = new Set(linesIn(typed));
  const kept = linesIn(fresh).filter((line) => wanted.has(line) || !known.has(line));
  const added = linesIn(typed).filter((line) => !known.has(line) && !kept.includes(line));
  return [...kept, ...added].join("\n");
}

const linesIn = (text: string): string[] =>
  text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "");

export function changedEntries(
  before: readonly unknown[],
  after: readonly unknown[],
): { readonly added: readonly string[]; readonly removed: readonly string[] } {
  const old = before.map(entryText);
  const current = after.map(entryText);
  return {
    added: current.filter((entry) => !old.includes(entry)),
    removed: old.filter((entry) => !current.includes(entry)),
  };
}

export const requestsText = ({ all }: Pick<Decisions, "all">, span = "in the last hour"): string =>
  `${countOf(all, "request")} ${span}`;

/** For example "120 requests in the last hour, 12 (10 %) denied." */
export function decisionsText(decisions: Decisions, mode: PolicyMode, span?: string): string {
  const { all, denied, wouldBeDenied } = decisions;
  if (all === 0) return "No requests in the last hour.";
  const share = (part: number): string => `${numberText(part)} (${percentText(part, all)})`;
  const parts: string[] = [];
  if (denied > 0 || mode === "enforce") parts.push(`${share(denied)} denied`);
  if (wouldBeDenied > 0 || mode === "dry-run") {
    parts.push(`${share(wouldBeDenied)} would have been denied`);
  }
  return `${[requestsText(decisions, span), ...parts].join(", ")}.`;
}

const minuteMs = 60_000;
/** Running instances of the Worker decide by a new mode within this time. */
const propagationMs = 5_000;

/**
 * The decisions of the last hour, or only those since the dry run began: earlier real denials would make the share of
 * would-be denials too small. Statistics count whole minutes, so the share appears after the first whole minute.
 */
export function modeDecisionsText(
  statistics: Pick<StatisticsView, "points" | "from" | "to">,
  { name, mode, rules }: Pick<PolicyView, "name" | "mode" | "rules">,
): string {
  const rule = rules.find(({ id }) => id === mode.rule);
  const setMs = mode.value === "dry-run" ? Date.parse(rule?.appliedAt ?? "") : Number.NaN;
  if (!(setMs > Date.parse(statistics.from))) {
    return decisionsText(decisionsOf(statistics, name), mode.value);
  }
  const wholeMs = Math.ceil((setMs + propagationMs) / minuteMs) * minuteMs;
  const decisions = decisionsOf(statistics, name, wholeMs);
  if (decisions.all > 0) return decisionsText(decisions, mode.value, `since ${timeText(wholeMs)}`);
  const beganMs = Math.floor(setMs / minuteMs) * minuteMs;
  const { wouldBeDenied } = decisionsOf(statistics, name, beganMs);
  const share = Date.parse(statistics.to) <= wholeMs ? ` Their share is counted from ${timeText(wholeMs)}.` : "";
  return `${countOf(wouldBeDenied, "request")} would have been denied since ${timeText(beganMs)}.${share}`;
}
