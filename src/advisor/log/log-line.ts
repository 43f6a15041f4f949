/** The fields of one record of a log, in any format. */
import { isRecord } from "../../validation/json.ts";

/** The name of a field in lower case. `path` has several names for a field of a nested object. */
export interface LogFieldName {
  readonly text: string;
  readonly path: readonly string[];
}

export interface LogLine {
  /** The names of the fields, as written. */
  readonly names: readonly string[];
  /**
   * The value of a field, whose name may be in any letter case. Undefined if the line has no such field, or null in it.
   */
  valueOf(name: LogFieldName): unknown;
}

/** `user.id` names a field with this name, or the field `id` of the object `user`. */
export const fieldName = (text: string): LogFieldName => nestedName(...text.split("."));

export const nestedName = (...path: readonly string[]): LogFieldName => {
  const names = path.map((name) => name.toLowerCase());
  return { text: names.join("."), path: names };
};

/** A field that a line has, with its name. */
export interface StatedField {
  readonly name: string;
  readonly value: unknown;
}

/** The first of the fields that the line has. */
export function firstField(line: LogLine, names: readonly LogFieldName[]): StatedField | null {
  for (const name of names) {
    const value = line.valueOf(name);
    if (value !== undefined) return { name: name.text, value };
  }
  return null;
}

/** The addresses of a list such as `203.0.113.7, 198.51.100.1`; null for any other value. CloudFront escapes spaces. */
export function addressesIn(value: unknown): readonly string[] | null {
  const texts: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (!texts.every((text) => typeof text === "string")) return null;
  return texts.flatMap((text) => text.split(",")).map((member) => member.replace(/^(?:\s|%20|\+)+/, "").trimEnd());
}

/** A line of a format whose fields are known by their names, in lower case. */
export const lineOf = (fields: ReadonlyMap<string, string>): LogLine => ({
  names: [...fields.keys()],
  valueOf: ({ text }) => fields.get(text),
});

/**
 * Objects in the line whose fields count as fields of the line. The last two occur in `wrangler tail` and Workers Logs.
 */
const holders = [
  nestedName("request"),
  nestedName("httprequest"),
  nestedName("event", "request"),
  nestedName("$workers", "event", "request"),
];

interface Spellings {
  readonly names: readonly string[];
  readonly byLowerCase: ReadonlyMap<string, string>;
}

export class JsonLine implements LogLine {
  /** The field names of the latest line, kept because most lines of a log have the same ones. */
  static #latest: Spellings = { names: [], byLowerCase: new Map() };
  readonly names: readonly string[];
  readonly #fields: Readonly<Record<string, unknown>>;
  readonly #spellings: ReadonlyMap<string, string>;

  private constructor(fields: Readonly<Record<string, unknown>>) {
    this.#fields = fields;
    this.names = Object.keys(fields);
    this.#spellings = JsonLine.#spellingsOf(this.names);
  }

  static parse(line: string): JsonLine | null {
    try {
      const fields: unknown = JSON.parse(line);
      return isRecord(fields) ? new JsonLine(fields) : null;
    } catch {
      return null;
    }
  }

  static #spellingsOf(names: readonly string[]): ReadonlyMap<string, string> {
    const { names: known, byLowerCase } = JsonLine.#latest;
    const isSame = names.length === known.length && names.every((name, index) => name === known[index]);
    if (isSame) return byLowerCase;
    const spellings = new Map(names.map((name) => [name.toLowerCase(), name]));
    JsonLine.#latest = { names, byLowerCase: spellings };
    return spellings;
  }

  valueOf(name: LogFieldName): unknown {
    const own = this.#own(name);
    if (own !== undefined) return own;
    for (const holder of holders) {
      const [outer = ""] = holder.path;
      const held = this.#spellings.has(outer) ? this.#own(holder) : undefined;
      const value = held === undefined ? undefined : nestedValue(held, name.path);
      if (value !== undefined) return value;
    }
    return undefined;
  }

  #own({ text, path: [first = "", ...rest] }: LogFieldName): unknown {
    const whole = this.#spellings.get(text);
    if (whole !== undefined) return this.#fields[whole] ?? undefined;
    const spelling = rest.length === 0 ? undefined : this.#spellings.get(first);
    return spelling === undefined ? undefined : nestedValue(this.#fields[spelling], rest);
  }
}

function nestedValue(value: unknown, path: readonly string[]): unknown {
  let nested = value;
  for (const name of path) {
    if (!isRecord(nested)) return undefined;
    const spelling = Object.hasOwn(nested, name)
      ? name
      : Object.keys(nested).find((each) => each.length === name.length && each.toLowerCase() === name);
    nested = spelling === undefined ? undefined : nested[spelling];
  }
  return nested ?? undefined;
}

const mostKept = 65_536;

/** A function that keeps its results. Logs have the same texts again and again. */
export function remembered<Result>(resultOf: (text: string) => Result): (text: string) => Result {
  const known = new Map<string, Result>();
  return (text) => {
    const kept = known.get(text);
    if (kept !== undefined) return kept;
    const result = resultOf(text);
    if (known.size === mostKept) known.clear();
    known.set(text, result);
    return result;
  };
}
