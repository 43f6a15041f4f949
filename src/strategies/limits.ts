/** Limits as people write them -> limits that cannot be wrong. All problems are reported at once. */
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
} from "./notation.ts";
import {
  asText,
  type ConfigProblem,
  ConfigProblems,
  fields,
  isRecord,
  joinPath,
  problemsFromIssues,
} from "../validation/problems.ts";
import { defaultStrategy, mostStoredBytesOf, compiledLimit, strategies } from "./compiled-limit.ts";
import type { Limit } from "./strategy.ts";

/** A limit as written: the fields all limits have, and those of its strategy. */
export interface LimitInput {
  readonly limit: number;
  readonly window: string;
  readonly strategy?: string;
  readonly name?: string;
  readonly [option: string]: unknown;
}

export interface LimitDefaults {
  /** For limits that name no strategy; `sliding-window-counter` when left out. */
  readonly strategy?: string;
  /** The name of the policy, from which limits without a name take theirs; `default` when left out. */
  readonly policy?: string;
}

const mostLimits = 16;
const acceptedCount = `from 1 to ${mostLimits} limits`;
/** A row of storage holds 2 MB: a policy's states are one row, with some room for what stands around them. */
const mostStoredBytes = 1_900_000;
export const namePattern = /^[a-z][a-z0-9_.-]{0,63}$/;
export const acceptedName =
  "a name of 1 to 64 characters from a-z, 0-9, '_', '.' and '-' that begins with a letter";
export const acceptedStrategy = `one of ${[...strategies.keys()].map((name) => `"${name}"`).join(", ")}`;

const limitEntries = {
  limit: unitsSchema,
  window: v.pipe(
    v.string(acceptedWindow),
    v.check((text) => parseWindow(text) !== null, acceptedWindow),
  ),
  strategy: v.picklist([...strategies.keys()], acceptedStrategy),
  name: v.optional(v.pipe(v.string(acceptedName), v.regex(namePattern, acceptedName))),
};

/** The names of all fields of limits, of every strategy. */
export const limitFields: readonly string[] = [
  ...new Set(
    [limitEntries, ...[...strategies.values()].map(({ options }) => options)].flatMap((entries) =>
      Object.keys(entries),
    ),
  ),
];

/** A limit whose name is not settled yet, and where it was written. */
interface Draft {
  readonly field: string;
  readonly written: unknown;
  readonly limit: Omit<Limit, "name"> & { readonly name: string | undefined };
}

type ReportAt = (field: string, value: unknown, accepted: string) => void;

/**
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

/** Like `parseLimits`, for values of any shape: hands every problem to `report` and answers the limits without one. */
export function readLimits(
  input: unknown,
  defaults: LimitDefaults,
  report: (problem: ConfigProblem) => void,
): Limit[] {
  const reportAt: ReportAt = (field, value, accepted) =>
    report({ variable: "", field, value, accepted });
  const items: readonly unknown[] = Array.isArray(input) ? input : [input];
  if (items.length === 0 || items.length > mostLimits) {
    reportAt("", input, acceptedCount);
    return [];
  }
  const { strategy = defaultStrategy } = defaults;
  if (!strategies.has(strategy)) reportAt("strategy", strategy, acceptedStrategy);
  const known = strategies.has(strategy) ? strategy : defaultStrategy;
  // A copy has no empty places, which would be passed over.
  const drafts = Array.from(items).flatMap((item, index) => {
    const field = Array.isArray(input) ? `[${index}]` : "";
    return typeof item === "string"
      ? readNotation(item, field, known, reportAt)
      : readFields(item, item, field, known, reportAt);
  });
  if (drafts.length > mostLimits) {
    reportAt("", input, acceptedCount);
    return [];
  }
  const storedBytes = drafts.reduce(
    (sum, { limit }) => sum + mostStoredBytesOf({ ...limit, name: "" }),
    0,
  );
  if (storedBytes > mostStoredBytes) {
    const accepted = `limits whose states together take at most ${mostStoredBytes} bytes; these take ${storedBytes}`;
    reportAt("", input, accepted);
  }
  return named(drafts, defaults.policy ?? "default", reportAt);
}

function readNotation(
  text: string,
  field: string,
  defaultName: string,
  reportAt: ReportAt,
): Draft[] {
  const parts = splitNotation(text);
  if (parts.includes(null)) reportAt(field, text, acceptedNotation + withoutLimit(text));
  return parts.flatMap((part) => {
    if (part === null) return [];
    const limit = parseUnits(part.limit);
    const note = Number.isNaN(limit)
      ? `, in digits such as 100 or 1_000${withoutLimit(part.limit)}`
      : "";
    const reportPart: ReportAt = (place, value, accepted) =>
      reportAt(place, value, accepted + (place === joinPath(field, "limit") ? note : ""));
    // A problem in a part quotes the whole part: its pieces say little on their own.
    return readFields({ limit, window: part.window }, part.text, field, defaultName, reportPart);
  });
}

/** What to do instead of writing "unlimited"; nothing for any other text. */
const withoutLimit = (text: string): string =>
  /^\s*(?:unlimited|infinity|inf|none|off)\s*$/i.test(text)
    ? "; where nothing is to be limited, leave the policy out, or list in allow who is exempt"
    : "";

function readFields(
  value: unknown,
  written: unknown,
  field: string,
  defaultName: string,
  reportAt: ReportAt,
): Draft[] {
  if (!isRecord(value)) {
    reportAt(field, written, `${acceptedNotation}, or an object of fields`);
    return [];
  }
  const place = (within: string, wrong: unknown, accepted: string): void =>
    reportAt(joinPath(field, within), value === written ? wrong : written, accepted);
  const isOfCalendar = isOnlyOfCalendar(parseWindow(asText(value["window"])));
  const implied = isOfCalendar ? calendarStrategy : defaultName;
  const asked = value["strategy"] === undefined ? implied : value["strategy"];
  const isMisnamed = isOfCalendar && asked !== calendarStrategy;
  if (isMisnamed) place("strategy", asked, acceptedForCalendar);
  const align = value["align"] === undefined ? "calendar" : value["align"];
  const input: Record<string, unknown> = isOfCalendar
    ? { ...value, align, strategy: calendarStrategy }
    : { ...value, strategy: asked };
  const strategy = strategies.get(asText(input["strategy"]));
  // Of an unknown strategy no option can be called wrong.
  const options = strategy?.options ?? anyOption(input);
  const parsed = v.safeParse(fields({ ...limitEntries, ...options }), input);
  for (const problem of problemsFromIssues("", "", parsed.issues ?? [])) {
    place(problem.field, problem.value, problem.accepted);
  }
  if (!parsed.success || strategy === undefined || isMisnamed) return [];
  const { name, window, ...rest } = parsed.output;
  const limit = unnamed(rest, window);
  const problem = strategy.problem(strategy.complete(limit));
  if (problem === null) return [{ field, written, limit: { ...limit, name } }];
  place(problem.field, input[problem.field], problem.accepted);
  return [];
}

const calendarStrategy = "fixed-window";
const acceptedForCalendar = `"${calendarStrategy}", which months and years imply`;

/** Whether a window can be nothing but the calendar's: months and years have no fixed length. */
const isOnlyOfCalendar = (window: WrittenWindow | null): boolean =>
  window?.period === "month" || window?.period === "year";

/** A limit without its name yet. Only of a calendar window it matters what it is one of. */
function unnamed(
  fieldsOfLimit: { readonly limit: number; readonly strategy: string },
  window: string,
): Limit {
  const parsed = parseWindow(window);
  const { windowMs, period } = parsed ?? { windowMs: 0 };
  const isOfCalendar =
    isOnlyOfCalendar(parsed) || Reflect.get(fieldsOfLimit, "align") === "calendar";
  const ofCalendar = isOfCalendar && period !== undefined ? { period } : {};
  return { ...fieldsOfLimit, name: "", windowMs, ...ofCalendar };
}

function anyOption(input: object): v.ObjectEntries {
  const others = Object.keys(input).filter((name) => !Object.hasOwn(limitEntries, name));
  return Object.fromEntries(others.map((name) => [name, v.unknown()]));
}

/** Gives every limit its name (design: policy's own when alone) and refuses two that could not be told apart. */
function named(drafts: readonly Draft[], policy: string, reportAt: ReportAt): Limit[] {
  const short = ({ limit }: Draft): string =>
    limit.name ??
    (drafts.length === 1 ? policy : `${policy}.${limit.limit}-per-${formatWindow(limit)}`);
  const shortNames = drafts.map(short);
  const names = new Set<string>();
  const identities = new Set<string>();
  return drafts.map((draft, index) => {
    const isShared = shortNames.filter((name) => name === shortNames[index]).length > 1;
    const isDistinguished = isShared && draft.limit.name === undefined;
    const longer = isDistinguished ? `${short(draft)}.${draft.limit.strategy}` : short(draft);
    const name = isDistinguished ? untaken(longer, names) : longer;
    const limit: Limit = { ...draft.limit, name };
    const identity = compiledLimit(limit).identity;
    if (identities.has(identity)) {
      reportAt(
        draft.field,
        draft.written,
        "limits that differ in window, strategy or options from one another",
      );
    } else if (names.has(name)) {
      reportAt(joinPath(draft.field, "name"), name, "a name that no other limit of the policy has");
    }
    names.add(name);
    identities.add(identity);
    return limit;
  });
}

/** Limits of equal strategies differ in their options, which have no short name: they are numbered. */
function untaken(name: string, taken: ReadonlySet<string>): string {
  let free = name;
  for (let number = 2; taken.has(free); number++) free = `${name}.${number}`;
  return free;
}
