/** Parses and validates limits as written in configuration. All problems are reported at once. */
import * as v from "valibot";
import { unitsSchema } from "./integers.ts";
import {
  acceptedNotation,
  acceptedWindow,
  formatWindow,
  parseWindow,
  splitNotation,
  parseUnits,
  type WrittenWindow,
  writtenNotation,
  writtenWindow,
} from "./notation.ts";
import { isRecord } from "../validation/json.ts";
import {
  asText,
  type ConfigProblem,
  ConfigProblems,
  fields,
  joinPath,
  problemsFromIssues,
} from "../validation/problems.ts";
import { defaultStrategy, mostStoredBytesOf, compiledLimit, strategies, strategyNames } from "./compiled-limit.ts";
import type { Limit } from "./strategy.ts";

/** A limit as written: the fields that all limits have, and those of its strategy. */
export interface LimitInput {
  /** Units per window, from 1. */
  readonly limit: number;
  /** A duration such as `"30s"`, or `"month"` or `"year"`. */
  readonly window: string;
  /**
   * How the limit counts.
   * @default that of the policy
   */
  readonly strategy?: string;
  /**
   * The name in the RateLimit fields.
   * @default derived from the policy's
   */
  readonly name?: string;
  readonly [option: string]: unknown;
}

/** The strategy and the name of limits that state none. */
export interface LimitDefaults {
  /**
   * The strategy of limits that name none.
   * @default "sliding-window-counter"
   */
  readonly strategy?: string;
  /**
   * The name of the policy, from which the names of limits derive.
   * @default "default"
   */
  readonly policy?: string;
}

const mostLimits = 16;
const acceptedLimits = `from 1 to ${mostLimits} limits`;
/** All states of a policy share one storage row of at most 2 MB, which holds other data too. */
const mostStoredBytes = 1_900_000;
export const namePattern = /^[a-z][a-z0-9_.-]{0,63}$/;
export const acceptedName = "a name of 1 to 64 characters from a-z, 0-9, '_', '.' and '-' that begins with a letter";
export const acceptedStrategy = `one of ${strategyNames.map((name) => `"${name}"`).join(", ")}`;

const limitEntries = {
  limit: unitsSchema,
  window: v.pipe(
    v.string(acceptedWindow),
    v.check((text) => parseWindow(text) !== null, acceptedWindow),
  ),
  strategy: v.picklist(strategyNames, acceptedStrategy),
  name: v.optional(v.pipe(v.string(acceptedName), v.regex(namePattern, acceptedName))),
};

/** The names of all fields of limits, of every strategy. */
export const limitFields: readonly string[] = [
  ...new Set([
    ...Object.keys(limitEntries),
    ...[...strategies.values()].flatMap(({ options }) => Object.keys(options)),
  ]),
];

interface WrittenLimit {
  readonly field: string;
  readonly written: unknown;
  readonly value: unknown;
}

/** A valid limit that may have no name yet. */
interface LimitDraft {
  readonly field: string;
  readonly written: unknown;
  readonly limit: Omit<Limit, "name"> & { readonly name: string | undefined };
}

export type ReportAt = (field: string, value: unknown, accepted: string) => void;

/**
 * Reads limits in notation such as `"100/minute; 10/second"`, as objects, or as a list of either.
 * @param input notation, fields, or a list of either
 * @throws ConfigProblems with every problem found
 */
export function parseLimits(
  input: string | LimitInput | readonly (string | LimitInput)[],
  defaults: LimitDefaults = {},
): Limit[] {
  const problems: ConfigProblem[] = [];
  const limits = readLimits(input, defaults, (problem) => problems.push(problem));
  if (problems.length > 0) throw new ConfigProblems(problems);
  return limits;
}

/** Like `parseLimits`, but accepts any value, passes problems to `report`, and returns the valid limits. */
export function readLimits(input: unknown, defaults: LimitDefaults, report: (problem: ConfigProblem) => void): Limit[] {
  const reportAt: ReportAt = (field, value, accepted) => report({ variable: "", field, value, accepted });
  const items: readonly unknown[] = Array.isArray(input) ? input : [input];
  if (items.length === 0 || items.length > mostLimits) {
    reportAt("", input, acceptedLimits);
    return [];
  }
  const { strategy = defaultStrategy } = defaults;
  if (!strategies.has(strategy)) reportAt("strategy", strategy, acceptedStrategy);
  const known = strategies.has(strategy) ? strategy : defaultStrategy;
  // `flatMap` skips the empty places of a sparse array; a copy has none.
  const drafts = Array.from(items).flatMap((item, index) => {
    const field = Array.isArray(input) ? `[${index}]` : "";
    return typeof item === "string"
      ? readNotation(item, field, known, reportAt)
      : readFields({ field, written: item, value: item }, known, reportAt);
  });
  if (drafts.length > mostLimits) {
    reportAt("", input, acceptedLimits);
    return [];
  }
  const storedBytes = drafts.reduce((sum, { limit }) => sum + mostStoredBytesOf({ ...limit, name: "" }), 0);
  if (storedBytes > mostStoredBytes) {
    const accepted = `limits whose states together take at most ${mostStoredBytes} bytes; these take ${storedBytes}`;
    reportAt("", input, accepted);
  }
  return nameLimits(drafts, defaults.policy ?? "default", reportAt);
}

function readNotation(text: string, field: string, defaultName: string, reportAt: ReportAt): LimitDraft[] {
  const parts = splitNotation(text);
  if (parts.includes(null)) reportAt(field, text, acceptedNotation + unlimitedHint(text));
  return parts.flatMap((part) => {
    if (part === null) return [];
    const limit = parseUnits(part.limit);
    const hint = Number.isNaN(limit) ? `, in digits such as 100 or 1_000${unlimitedHint(part.limit)}` : "";
    const reportPart: ReportAt = (place, value, accepted) =>
      reportAt(place, value, accepted + (place === joinPath(field, "limit") ? hint : ""));
    const value = { limit, window: part.window };
    return readFields({ field, written: part.text, value }, defaultName, reportPart);
  });
}

/** The advice for a text such as "unlimited"; "" for any other text. */
const unlimitedHint = (text: string): string =>
  /^\s*(?:unlimited|infinity|inf|none|off)\s*$/i.test(text)
    ? "; to limit nothing, leave the policy out, or put exempt keys in allow"
    : "";

function readFields({ field, written, value }: WrittenLimit, defaultName: string, reportAt: ReportAt): LimitDraft[] {
  if (!isRecord(value)) {
    reportAt(field, written, `${acceptedNotation}, or an object`);
    return [];
  }
  // A problem in notation quotes the whole part, because its pieces mean little on their own.
  const reportField = (within: string, wrong: unknown, accepted: string): void =>
    reportAt(joinPath(field, within), value === written ? wrong : written, accepted);
  const isCalendar = isCalendarOnly(parseWindow(asText(value["window"])));
  const impliedName = isCalendar ? calendarStrategy : defaultName;
  const { strategy: strategyName = impliedName, align = "calendar" } = value;
  const isMisnamed = isCalendar && strategyName !== calendarStrategy;
  if (isMisnamed) reportField("strategy", strategyName, acceptedForCalendar);
  const input: Record<string, unknown> = isCalendar
    ? { ...value, align, strategy: calendarStrategy }
    : { ...value, strategy: strategyName };
  const strategy = strategies.get(asText(input["strategy"]));
  // For an unknown strategy, no option can be called invalid.
  const options = strategy?.options ?? anyOption(input);
  const parsed = v.safeParse(fields({ ...limitEntries, ...options }), input);
  for (const problem of problemsFromIssues("", "", parsed.issues ?? [])) {
    reportField(problem.field, problem.value, problem.accepted);
  }
  if (!parsed.success || strategy === undefined || isMisnamed) return [];
  const { name, window, ...rest } = parsed.output;
  const limit = unnamedLimit(rest, window);
  const problem = strategy.problem(strategy.complete(limit));
  if (problem === null) return [{ field, written, limit: { ...limit, name } }];
  reportField(problem.field, input[problem.field], problem.accepted);
  return [];
}

const calendarStrategy = "fixed-window";
const acceptedForCalendar = `"${calendarStrategy}", which months and years imply`;

/** Whether a window can only be a calendar period, because months and years have no fixed length. */
const isCalendarOnly = (window: WrittenWindow | null): boolean =>
  window?.period === "month" || window?.period === "year";

/**
 * A limit that has no name yet. A window such as "1d" keeps its calendar period only if it is aligned to the calendar.
 */
function unnamedLimit(options: { readonly limit: number; readonly strategy: string }, window: string): Limit {
  const parsed = parseWindow(window);
  const { windowMs, period } = parsed ?? { windowMs: 0 };
  const isCalendar = isCalendarOnly(parsed) || Reflect.get(options, "align") === "calendar";
  const periodOfCalendar = isCalendar && period !== undefined ? { period } : {};
  return { ...options, name: "", windowMs, ...periodOfCalendar };
}

function anyOption(input: object): v.ObjectEntries {
  const others = Object.keys(input).filter((name) => !Object.hasOwn(limitEntries, name));
  return Object.fromEntries(others.map((name) => [name, v.unknown()]));
}

/**
 * Names the limits, and reports those with equal identity or name. An unnamed limit gets the policy's name if it is the only
 * one, else `<policy>.<limit>-per-<window>`, and with the strategy's name where that is not unique.
 */
function nameLimits(drafts: readonly LimitDraft[], policy: string, reportAt: ReportAt): Limit[] {
  const shortName = ({ limit }: LimitDraft): string =>
    limit.name ?? (drafts.length === 1 ? policy : `${policy}.${limit.limit}-per-${formatWindow(limit)}`);
  const shortNames = drafts.map(shortName);
  const names = new Set<string>();
  const identities = new Set<string>();
  return drafts.map((draft, index) => {
    const short = shortName(draft);
    const isShared = shortNames.some((name, other) => other !== index && name === short);
    const name =
      isShared && draft.limit.name === undefined ? freeName(`${short}.${draft.limit.strategy}`, names) : short;
    const limit: Limit = { ...draft.limit, name };
    const { identity } = compiledLimit(limit);
    if (identities.has(identity)) {
      const accepted = "limits that differ from one another in window, strategy or options";
      reportAt(draft.field, draft.written, accepted);
    } else if (names.has(name)) {
      reportAt(joinPath(draft.field, "name"), name, "a name that no other limit of the policy has");
    }
    names.add(name);
    identities.add(identity);
    return limit;
  });
}

/** The name, with a number if it is taken: limits that differ only in options have no other distinction. */
function freeName(name: string, taken: ReadonlySet<string>): string {
  let free = name;
  for (let number = 2; taken.has(free); number++) free = `${name}.${number}`;
  return free;
}

/** The options of all strategies. An option of several strategies accepts the values of each. */
function writtenOptions(): v.ObjectEntries {
  const all = [...strategies.values()].flatMap(({ options }) => Object.entries(options));
  const byName = Map.groupBy(all, ([name]) => name);
  return Object.fromEntries(
    [...byName].map(([name, same]) => [name, v.optional(v.union(same.map(([, option]) => option)))]),
  );
}

/** A limit as an object, in the JSON schema. */
export const writtenLimit = () =>
  v.strictObject({
    ...limitEntries,
    window: writtenWindow(),
    strategy: v.optional(limitEntries.strategy),
    ...writtenOptions(),
  });

/** The value of `limits`, in the JSON schema. */
export function writtenLimits() {
  const one = v.union([writtenNotation(), writtenLimit()]);
  return v.union([...one.options, v.pipe(v.array(one), v.minLength(1), v.maxLength(mostLimits))]);
}
