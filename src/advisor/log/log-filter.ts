/** Filters of log lines by method, path and status. */
import { token } from "../../policy/key.ts";
import { parsePath } from "../../policy/path-readings.ts";
import { type PathPattern, readPathPattern } from "../../policy/path-pattern.ts";
import { methodText, partFields, pathText, statusFields } from "./fields.ts";
import { missingField, quoted } from "./line-reader.ts";
import { firstField, type LogFieldName, type LogLine, remembered } from "./log-line.ts";

/** Whether a line is kept, or the reason why that is unknown. */
export type LineFilter = (line: LogLine) => boolean | string;

/** Selects requests with one of these methods and a path that fits. Null selects any. */
export interface RequestPattern {
  /** The pattern as the user wrote it. */
  readonly text: string;
  readonly methods: readonly string[] | null;
  readonly path: PathPattern | null;
}

export const acceptedMatch = 'a method, a path pattern or both, such as "POST /login", "/api/*" or "GET,HEAD"';
export const acceptedStatus = 'statuses such as "200", "4xx" or "2xx,401"';

/** Reads a method and a path as in `match` of a policy. Returns what is accepted if the text is invalid. */
export function readRequestPattern(text: string): RequestPattern | { readonly accepted: string } {
  const words = text.trim().split(/\s+/);
  const isPath = words.at(-1)?.startsWith("/") === true;
  const path = isPath ? readPathPattern(words.pop() ?? "") : null;
  if (path !== null && "accepted" in path) return path;
  const [written, ...others] = words;
  const methods = written === undefined || written === "*" ? null : written.split(",");
  const isValid = others.length === 0 && (methods ?? []).every((method) => token.test(method));
  if (!isValid || (methods === null && path === null)) return { accepted: acceptedMatch };
  return {
    text: text.trim(),
    methods: methods?.map((method) => method.toUpperCase()) ?? null,
    path: path?.value ?? null,
  };
}

/** Keeps lines that fit one of the patterns. */
export function requestFilter(patterns: readonly RequestPattern[]): LineFilter {
  const readsMethod = patterns.some(({ methods }) => methods !== null);
  const readsPath = patterns.some(({ path }) => path !== null);
  const fits = patterns.map(({ path }) =>
    path === null ? () => true : remembered((text) => path.matches(parsePath(text))),
  );
  return (line) => {
    const method = readsMethod ? firstText(line, partFields.method, methodText) : "";
    const path = readsPath ? firstText(line, partFields.path, pathText) : "";
    if (method === null) return missingField("method", line);
    if (path === null) return missingField("path", line);
    return patterns.some(
      ({ methods }, index) => (methods?.includes(method.toUpperCase()) ?? true) && fits[index]?.(path) === true,
    );
  };
}

function firstText(
  line: LogLine,
  names: readonly LogFieldName[],
  textOf: (value: unknown) => string | null,
): string | null {
  for (const name of names) {
    const value = line.valueOf(name);
    const text = value === undefined || value === "-" ? null : textOf(value);
    if (text !== null) return text;
  }
  return null;
}

/** Keeps lines with one of the statuses; null when the text has none. */
export function statusFilter(text: string): LineFilter | null {
  const statuses = text.split(",").map((each) => each.trim().toLowerCase());
  if (!statuses.every((each) => /^[1-5](?:xx|\d\d)$/.test(each))) return null;
  return (line) => {
    const field = firstField(line, statusFields);
    if (field === null) return missingField("status", line);
    const status = String(field.value);
    if (!/^-?\d{1,3}$/.test(status)) return `${field.name}: expected a status such as 200, got ${quoted(field.value)}`;
    return statuses.some((each) =>
      each.endsWith("xx") ? status.length === 3 && status[0] === each[0] : status === each,
    );
  };
}
