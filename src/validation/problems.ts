/** Validation of values from outside. Each problem names the place, the value found and the values accepted there. */
import { closestMatch } from "leven";
import * as v from "valibot";
import { isRecord } from "./json.ts";

/** One invalid value. */
export interface ConfigProblem {
  /** The variable or function, such as `rateLimit`. Empty for limits that are parsed on their own. */
  readonly variable: string;
  /** The path within it, such as `limits[1].window`. Empty for the whole value. */
  readonly field: string;
  /** The name of the policy whose field it is, in a list of policies with valid names. */
  readonly policy?: string;
  /** The invalid value; undefined if it is missing. */
  readonly value: unknown;
  /** The values that are accepted in its place. */
  readonly accepted: string;
}

/** Collects a problem. Readers continue afterwards, so that all problems are reported at once. */
export type ReportProblem = (problem: ConfigProblem) => void;

/** Replaces values in problems that are, or may be, secret. */
export const hidden = "(hidden)";

/** Collects a problem within a variable that the caller knows. */
export type ReportField = (problem: Omit<ConfigProblem, "variable">) => void;

/** All problems of one input. */
export class ConfigProblems extends Error {
  override readonly name = "ConfigProblems";
  /** The problems, in the order of the input. */
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super(problems.map(describeProblem).join("\n"));
    this.problems = problems;
  }
}

/** One line for people, such as `POLICIES[0] (api) limits[1].window: expected a duration such as "30s", got "soon"`. */
export function describeProblem({ value, accepted, ...problem }: ConfigProblem): string {
  const place = describePlace(problem) || "the input";
  if (value === undefined) return `${place} is missing: expected ${accepted}`;
  const [, expected = accepted, hints = ""] = withHints.exec(accepted) ?? [];
  return `${place}: expected ${expected}, got ${quote(value)}${hints}`;
}

/** The path of a field. The name of its policy, if there is one, follows the number of the policy. */
export function describePlace({
  variable,
  field,
  policy,
}: Pick<ConfigProblem, "variable" | "field" | "policy">): string {
  const path = joinPath(variable, field);
  return policy === undefined ? path : path.replace(/\]\.?/, (end) => `] (${policy})${end.length > 1 ? " " : ""}`);
}

/** An accepted form, and the hints after it. Each hint begins with a semicolon outside quotation marks. */
const withHints = /^((?:[^";]|"[^"]*"|; or\b)*)((?:;.*)?)$/s;

/** Joins two paths: `limits[0]` and `window` make `limits[0].window`. */
export function joinPath(a: string, b: string): string {
  return a === "" || b === "" || b.startsWith("[") ? a + b : `${a}.${b}`;
}

const longestQuote = 200;

function quote(value: unknown): string {
  const text = jsonOf(value);
  return text.length > longestQuote ? `${text.slice(0, longestQuote)}…` : text;
}

/** The value as JSON; the name of its type if it has no JSON form. */
export function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return typeof value;
  }
}

/**
 * A schema of objects with exactly these fields. It reports every unknown field (valibot's `strictObject` reports only the
 * first) and one problem for each field. For a missing field, the problem has the message of the field's own schema.
 */
export function fields<const Entries extends v.ObjectEntries>(
  entries: Entries,
): v.GenericSchema<unknown, v.InferOutput<v.ObjectSchema<Entries, undefined>>> {
  const names = Object.keys(entries);
  const schema = v.object(entries, (issue) => {
    const missing = entries[String(issue.path?.at(-1)?.key)];
    const issues = missing === undefined ? [] : (v.safeParse(missing, undefined).issues ?? []);
    return issues[0]?.message ?? "a value";
  });
  return v.pipe(
    v.custom<Record<string, unknown>>(isRecord, "an object"),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }) => {
      const parsed = v.safeParse(schema, value, { abortPipeEarly: true });
      for (const { message, path } of parsed.issues ?? []) {
        addIssue({ message, ...(path && { path }) });
      }
      for (const [key, each] of Object.entries(value)) {
        if (Object.hasOwn(entries, key)) continue;
        addIssue({
          message: acceptedFields(key, names),
          path: [{ type: "object", origin: "value", input: value, key, value: each }],
        });
      }
      return parsed.success ? parsed.output : NEVER;
    }),
  );
}

/** The accepted values for an unknown field: the known fields, with a suggestion. */
export const acceptedFields = (name: string, known: readonly string[]): string =>
  known.length === 0 ? "no fields" : `one of the fields ${known.join(", ")}${didYouMean(name, known)}`;

/** A suggestion such as `; did you mean limits?`; "" if no known name is near. */
export function didYouMean(name: string, known: readonly string[]): string {
  const near = nearestName(name, known);
  return near === null ? "" : `; did you mean ${near}?`;
}

/** The first suggestion for an unknown field of an object; "" if there is none. */
export const didYouMeanField = (value: unknown, known: readonly string[]): string =>
  Object.keys(isRecord(value) ? value : {})
    .filter((name) => !known.includes(name))
    .map((name) => didYouMean(name, known))
    .find((suggestion) => suggestion !== "") ?? "";

/** Longer names get no suggestion. */
const longestName = 64;

/**
 * The known name that was probably meant: the nearest one that differs in at most a third of its letters; null if there is
 * none. Case, separators and plurals are ignored.
 */
export function nearestName(name: string, known: readonly string[]): string | null {
  if (name.length > longestName) return null;
  const names = new Map(known.toReversed().map((each) => [letters(each), each]));
  const written = letters(name);
  const candidates = [...names.keys()].toReversed();
  const maxDistance = Math.max(1, Math.floor((written.length + 1) / 3));
  const near =
    candidates.find((each) => sortedLetters(each) === sortedLetters(written)) ??
    closestMatch(written, candidates, { maxDistance });
  return near === undefined ? null : (names.get(near) ?? null);
}

/** The letters of a text in sorted order: the same if letters are swapped, which the edit distance counts twice. */
const sortedLetters = (text: string): string => text.split("").toSorted().join("");

const letters = (name: string): string =>
  name.toLowerCase().replace(/[_-]/g, "").replace(/ies$/, "y").replace(/s$/, "");

/** The value if it is a string; otherwise "". */
export const asText = (value: unknown): string => (typeof value === "string" ? value : "");

/** The issues of a schema as problems. The messages of the schema are the accepted values. */
export function problemsFromIssues(
  variable: string,
  field: string,
  issues: readonly v.BaseIssue<unknown>[],
): ConfigProblem[] {
  return issues.map((issue) => ({
    variable,
    field: (issue.path ?? [])
      .map(({ key }) => (typeof key === "number" ? `[${key}]` : String(key)))
      .reduce(joinPath, field),
    // The input of an issue about a missing field is the whole object.
    value: issue.path === undefined ? issue.input : issue.path.at(-1)?.value,
    accepted: issue.message,
  }));
}

/** A schema of integers within bounds. */
export const integerFrom = (least: number, most: number, accepted = `an integer from ${least} to ${most}`) =>
  v.pipe(v.number(accepted), v.safeInteger(accepted), v.minValue(least, accepted), v.maxValue(most, accepted));

/** A regular expression for a text in any case, since those of JSON schemas have no flags. */
export const anyCase = (text: string): string =>
  text.replace(/[a-z]/gi, (letter) => `[${letter.toLowerCase()}${letter.toUpperCase()}]`);

/** A regular expression for any of these names, in any case. A plural that is among the names is an optional `s`. */
export const anyName = (names: readonly string[]): string =>
  names
    .filter((name) => !names.some((singular) => name === `${singular}s`))
    .map((name) => anyCase(name) + (names.includes(`${name}s`) ? "[sS]?" : ""))
    .join("|");
