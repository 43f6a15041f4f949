/** What is wrong with a value from outside: each problem names the place, the value and what is accepted there. */
import { closestMatch } from "leven";
import * as v from "valibot";

export interface ConfigProblem {
  /** The variable, as in `POLICIES`; empty where limits were parsed on their own. */
  readonly variable: string;
  /** The place within it, as in `[0].limits[1].window`; empty for the whole. */
  readonly field: string;
  readonly value: unknown;
  readonly accepted: string;
}

/** All that is wrong, at once. */
export class ConfigProblems extends Error {
  override readonly name = "ConfigProblems";
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super(problems.map(describeProblem).join("\n"));
    this.problems = problems;
  }
}

/** One line for a person: `POLICIES[0].limits[1].window is "soon": accepted is a duration such as "30s"`. */
export function describeProblem({ variable, field, value, accepted }: ConfigProblem): string {
  const place = joinPath(variable, field) || "the input";
  const state = value === undefined ? "is missing" : `is ${quote(value)}`;
  return `${place} ${state}: accepted is ${accepted}`;
}

/** `a` and `b` as one path: `limits[0]` and `window` make `limits[0].window`. */
export function joinPath(a: string, b: string): string {
  return a === "" || b === "" || b.startsWith("[") ? a + b : `${a}.${b}`;
}

const longestQuote = 200;

function quote(value: unknown): string {
  const text = jsonOf(value);
  return text.length > longestQuote ? `${text.slice(0, longestQuote)}…` : text;
}

/** As JSON, which nearly everything that a variable can hold has. */
export function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return typeof value;
  }
}

/**
 * An object of exactly these fields. Every field too many is a problem, where valibot's own strict objects tell of the
 * first; a field has one problem, and one that is missing is asked for in the words of its own schema.
 */
export function fields<const Entries extends v.ObjectEntries>(
  entries: Entries,
): v.GenericSchema<unknown, v.InferOutput<v.ObjectSchema<Entries, undefined>>> {
  const names = Object.keys(entries);
  const schema = v.object(entries, (issue) => {
    const missing = entries[String(issue.path?.at(-1)?.key)];
    const [asked] = missing === undefined ? [] : (v.safeParse(missing, undefined).issues ?? []);
    return asked?.message ?? "a value";
  });
  return v.pipe(
    v.custom<Record<string, unknown>>(isRecord, "an object of fields"),
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

/** What is accepted instead of a field of an unknown name. */
export const acceptedFields = (name: string, known: readonly string[]): string =>
  `one of the fields ${known.join(", ")}${didYouMean(name, known)}`;

/** `; did you mean limits?`, or nothing where no known name is near. */
export function didYouMean(name: string, known: readonly string[]): string {
  const near = nearestName(name, known);
  return near === null ? "" : `; did you mean ${near}?`;
}

/** The same for the first field of an object that is near a known one without being it. */
export const didYouMeanField = (value: unknown, known: readonly string[]): string =>
  Object.keys(isRecord(value) ? value : {})
    .filter((name) => !known.includes(name))
    .map((name) => didYouMean(name, known))
    .find((suggestion) => suggestion !== "") ?? "";

/** No name is longer. */
const longestName = 64;

/**
 * The known name that was probably meant: the nearest of those that differ in a third of their letters at most. Case,
 * separators and plurals do not count. Null where none is near.
 */
export function nearestName(name: string, known: readonly string[]): string | null {
  if (name.length > longestName) return null;
  const names = new Map(known.toReversed().map((each) => [letters(each), each]));
  const written = letters(name);
  const candidates = [...names.keys()].toReversed();
  const maxDistance = Math.max(1, Math.floor((written.length + 1) / 3));
  const near =
    candidates.find((each) => inOrder(each) === inOrder(written)) ??
    closestMatch(written, candidates, { maxDistance });
  return near === undefined ? null : (names.get(near) ?? null);
}

/** The same for texts that differ in the order of their letters only: swapped letters are two changes to the distance. */
const inOrder = (text: string): string => text.split("").toSorted().join("");

const letters = (name: string): string =>
  name.toLowerCase().replace(/[_-]/g, "").replace(/ies$/, "y").replace(/s$/, "");

/** Whether a value has fields, as a list has not. */
export const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** A text as it is, and no text of anything else. */
export const asText = (value: unknown): string => (typeof value === "string" ? value : "");

/** The issues of a schema as problems. The schema's messages say what is accepted. */
export function problemsFromIssues(
  variable: string,
  field: string,
  issues: readonly v.BaseIssue<unknown>[],
): ConfigProblem[] {
  return issues.map((issue) => ({
    variable,
    field: joinPath(field, pathOf(issue)),
    // Of a field that is missing the input is the whole object.
    value: issue.path === undefined ? issue.input : issue.path.at(-1)?.value,
    accepted: issue.message,
  }));
}

function pathOf(issue: v.BaseIssue<unknown>): string {
  let path = "";
  for (const { key } of issue.path ?? []) {
    path = joinPath(path, typeof key === "number" ? `[${key}]` : String(key));
  }
  return path;
}

/** A schema of integers within bounds. */
export const integerFrom = (
  least: number,
  most: number,
  accepted = `an integer from ${least} to ${most}`,
) =>
  v.pipe(
    v.number(accepted),
    v.safeInteger(accepted),
    v.minValue(least, accepted),
    v.maxValue(most, accepted),
  );
