/** The fields of one line of a log: of a JSON object, or of a line in the common or combined log format. */
import { isRecord } from "../../validation/problems.ts";

/** The name of a field in lower case. `path` has several names for a field of a nested object. */
export interface LogFieldName {
  readonly text: string;
  readonly path: readonly string[];
}

export interface LogLine {
  /** The names of the fields, as written. */
  readonly names: readonly string[];
  /** The value of a field, in any letter case; undefined if the line has no such field, or null in it. */
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

/** Null when no format fits. */
export const parseLine = (line: string): LogLine | null =>
  line.startsWith("{") ? JsonLine.parse(line) : TextLine.parse(line);

/** Objects whose fields are read like those of the line. */
const holders = [nestedName("request"), nestedName("httprequest")];

interface Spellings {
  readonly names: readonly string[];
  readonly byLowerCase: ReadonlyMap<string, string>;
}

class JsonLine implements LogLine {
  /** Those of the latest line: most lines of a log have the same names. */
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
    const isSame =
      names.length === known.length && names.every((name, index) => name === known[index]);
    if (isSame) return byLowerCase;
    const spellings = new Map(names.map((name) => [name.toLowerCase(), name]));
    JsonLine.#latest = { names, byLowerCase: spellings };
    return spellings;
  }

  valueOf(name: LogFieldName): unknown {
    const own = this.#own(name);
    if (own !== undefined) return own;
    for (const holder of holders) {
      const held = this.#spellings.has(holder.text) ? this.#own(holder) : undefined;
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
      : Object.keys(nested).find(
          (each) => each.length === name.length && each.toLowerCase() === name,
        );
    nested = spelling === undefined ? undefined : nested[spelling];
  }
  return nested ?? undefined;
}

/**
 * The host, client, user and time. Some servers write the virtual host and its port first. A host with colons is in brackets,
 * because an IPv6 address can end like a port. The name of a user may have brackets, too, so that brackets around a day are
 * the time. The length of the time is bounded, so that a long line with many brackets takes linear time.
 */
const commonLog =
  /^(?:([^\s:]+|\[[^\s\]]+\]):\d+ (?!- ))?(\S+) \S+ (.*?(?=\[\d\d\/)|[^[]*)\[([^\]]{0,64})\]/;

/** The request, the status, the size, and in the combined format the referrer and the user agent. */
const restOfLog = /^ "((?:[^"\\]|\\.)*)" (\S+) (\S+)(?: "((?:[^"\\]|\\.)*)" "((?:[^"\\]|\\.)*)")?/;

/** A line in the common or combined log format. Its fields have the names that nginx gives them. */
class TextLine implements LogLine {
  readonly #line: string;
  readonly #head: RegExpExecArray;
  #rest: RegExpExecArray | null | undefined;

  private constructor(line: string, head: RegExpExecArray) {
    this.#line = line;
    this.#head = head;
  }

  static parse(line: string): TextLine | null {
    const head = commonLog.exec(line);
    return head === null ? null : new TextLine(line, head);
  }

  get names(): readonly string[] {
    return textFields.filter((text) => this.valueOf({ text, path: [] }) !== undefined);
  }

  valueOf({ text }: LogFieldName): string | undefined {
    switch (text) {
      case "host":
        return this.#head[1];
      case "remote_addr":
        return this.#head[2];
      case "remote_user":
        return this.#head[3]?.trim();
      case "time_local":
        return this.#head[4];
      case "request":
        return this.#restField(1);
      case "status":
        return this.#restField(2);
      case "body_bytes_sent":
        return this.#restField(3);
      case "http_referer":
        return this.#restField(4);
      case "http_user_agent":
        return this.#restField(5);
      default:
        return undefined;
    }
  }

  #restField(group: number): string | undefined {
    this.#rest ??= restOfLog.exec(this.#line.slice(this.#head[0].length));
    return this.#rest?.[group];
  }
}

const textFields = [
  "host",
  "remote_addr",
  "remote_user",
  "time_local",
  "request",
  "status",
  "body_bytes_sent",
  "http_referer",
  "http_user_agent",
];
