/** What is wrong with a value from outside: each problem names the place, the value and what is accepted there. */
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
  const place = joinPath(variable, field) || "the limits";
  const state = value === undefined ? "is missing" : `is ${quote(value)}`;
  return `${place} ${state}: accepted is ${accepted}`;
}

/** `a` and `b` as one path: `limits[0]` and `window` make `limits[0].window`. */
export function joinPath(a: string, b: string): string {
  return a === "" || b === "" || b.startsWith("[") ? a + b : `${a}.${b}`;
}

const longestQuote = 200;

function quote(value: unknown): string {
  const text = JSON.stringify(value) ?? String(value);
  return text.length > longestQuote ? `${text.slice(0, longestQuote)}…` : text;
}

/** An object of exactly these fields; a field too many is a problem that names those there are. */
// oxlint-disable-next-line typescript/explicit-function-return-type -- the entries' types are the point
export function fields<const Entries extends v.ObjectEntries>(entries: Entries) {
  return v.pipe(
    v.custom<object>(isRecord, "an object of fields"),
    v.strictObject(entries, (issue) => {
      if (issue.expected === "never") return `one of the fields ${Object.keys(entries).join(", ")}`;
      // A field that is missing is asked for in the words of its own schema.
      const missing = entries[String(issue.path?.at(-1)?.key)];
      const [asked] = missing === undefined ? [] : (v.safeParse(missing, undefined).issues ?? []);
      return asked?.message ?? "a value";
    }),
  );
}

const isRecord = (value: unknown): boolean =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The issues of a schema as problems. The schema's messages say what is accepted. */
export function problemsOf(
  variable: string,
  field: string,
  issues: readonly v.BaseIssue<unknown>[],
): ConfigProblem[] {
  return issues.map((issue) => ({
    variable,
    field: joinPath(field, pathOf(issue)),
    // Of a field too many valibot's input is the name: its value stands in the path.
    value: issue.path?.at(-1)?.value ?? issue.input,
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
