/** Which requests a policy is for, as written. */
import * as v from "valibot";
import { asText, fields, isRecord } from "../strategies/index.ts";
import { token } from "./key.ts";
import { hostPattern, type PathPattern, pathPattern } from "./path.ts";
import { readBy } from "./reading.ts";

/** What is null holds for every request. */
export interface Match {
  readonly methods: ReadonlySet<string> | null;
  readonly path: PathPattern | null;
  readonly host: URLPattern | null;
  /** The values that headers must have, by their names in lower case; true where any will do. */
  readonly headers: ReadonlyMap<string, string | true> | null;
}

/** What a header field can hold, without what is trimmed of it. */
const fieldValue = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

function readMethods(value: unknown): ReadonlySet<string> | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const methods: unknown[] = value;
  if (!methods.every((method) => token.test(asText(method)))) return null;
  return new Set(methods.map((method) => asText(method).toUpperCase()));
}

/** Names in any case, each once; of each its exact value, or true for its presence. */
function readHeaders(value: unknown): ReadonlyMap<string, string | true> | null {
  if (!isRecord(value)) return null;
  const entries = Object.entries(value);
  const headers = new Map<string, string | true>();
  for (const [name, wanted] of entries) {
    const isValue = typeof wanted === "string" && fieldValue.test(wanted);
    if (!token.test(name) || !(isValue || wanted === true)) return null;
    headers.set(name.toLowerCase(), wanted);
  }
  return headers.size > 0 && headers.size === entries.length ? headers : null;
}

const matchEntries = {
  methods: v.optional(readBy(readMethods, 'a list of HTTP methods such as ["GET", "POST"]')),
  path: v.optional(
    readBy((value) => pathPattern(asText(value)), 'a path pattern such as "/login" or "/api/*"'),
  ),
  host: v.optional(
    readBy(
      (value) => hostPattern(asText(value)),
      'a host such as "api.example.com" or "*.example.com"',
    ),
  ),
  header: v.optional(
    readBy(
      readHeaders,
      'headers and their values, or true for any value, such as { "X-Plan" = "free", "X-Beta" = true }',
    ),
  ),
};

/** The names of its fields. */
export const matchFields: readonly string[] = Object.keys(matchEntries);

export const matchSchema = v.pipe(
  fields(matchEntries),
  v.transform(({ methods, path, host, header }): Match => ({
    methods: methods ?? null,
    path: path ?? null,
    host: host ?? null,
    headers: header ?? null,
  })),
);

export const everything: Match = { methods: null, path: null, host: null, headers: null };
