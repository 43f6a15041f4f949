/** The field `match`: which requests a policy applies to. */
import * as v from "valibot";
import { token } from "./key.ts";
import { type PathPattern, readPathPattern } from "./path-pattern.ts";
import { choice, schemaOf, schemaOfNullable, type WrittenFields } from "./schemas.ts";
import { isRecord } from "../validation/json.ts";
import { asText, type ReportField, fields } from "../validation/problems.ts";
import type { RequestAttributes } from "./request.ts";

/** Whether a text matches a pattern with `*`. @param pieces the texts between the `*` of the pattern */
export function hasPieces(text: string, pieces: readonly string[]): boolean {
  const first = pieces[0] ?? "";
  const last = pieces.at(-1) ?? "";
  if (pieces.length === 1) return text === first;
  if (text.length < first.length + last.length) return false;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let from = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const at = text.indexOf(piece, from);
    if (at < 0) return false;
    from = at + piece.length;
  }
  return from + last.length <= text.length;
}

/** Exported because the types of the policy schemas, which the npm package declares, name it. */
export interface HostPattern {
  readonly hostname: string;
  /** @param host normalized, without a port */
  readonly test: (host: string) => boolean;
}

/** In lower case and without the final dot, neither of which changes the meaning of a host name. */
export const normalizedHost = (host: string): string => host.toLowerCase().replace(/\.$/, "");

/** A host name in which `*` matches any characters; null when the text is not one. */
function hostPattern(text: string): HostPattern | null {
  const hostname = normalizedHost(text);
  const [first = "", ...others] = hostname.split("*");
  if (!/^[a-z0-9*.-]+$/.test(hostname)) return null;
  if (others.length > 0) return { hostname, test: (host) => hasPieces(host, [first, ...others]) };
  return URL.canParse(`http://${hostname}`) ? { hostname, test: (host) => host === hostname } : null;
}

/** A field value without surrounding white space, which HTTP trims (RFC 9110, section 5.5). */
export const fieldValue = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

function readMethods(value: unknown): ReadonlySet<string> | null {
  const methods: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (methods.length === 0) return null;
  if (!methods.every((method) => token.test(asText(method)))) return null;
  return new Set(methods.map((method) => asText(method).toUpperCase()));
}

/** An object of names and values, where true means any value, or one name; null for anything else. */
function readHeaders(value: unknown): ReadonlyMap<string, string | true> | null {
  const written = typeof value === "string" ? { [value]: true } : value;
  if (!isRecord(written)) return null;
  const entries = Object.entries(written);
  const headers = new Map<string, string | true>();
  for (const [name, wanted] of entries) {
    const isValue = typeof wanted === "string" && fieldValue.test(wanted);
    if (!token.test(name) || !(isValue || wanted === true)) return null;
    headers.set(name.toLowerCase(), wanted);
  }
  return headers.size > 0 && headers.size === entries.length ? headers : null;
}

/** Valid in `match` or in the policy itself, but not in both. */
export const pathMatchingSchema = v.optional(choice(["lenient", "exact"], '"lenient" or "exact"'));

export const matchEntries = {
  methods: v.optional(
    schemaOfNullable(readMethods, 'a list of HTTP methods such as ["GET", "POST"], or one method such as "POST"'),
  ),
  path: v.optional(schemaOf((value) => readPathPattern(asText(value)))),
  host: v.optional(
    schemaOfNullable((value) => hostPattern(asText(value)), 'a host such as "api.example.com" or "*.example.com"'),
  ),
  header: v.optional(
    schemaOfNullable(
      readHeaders,
      'an object of header names and their values, or true for any value, such as { "X-Plan" = "free", "X-Beta" = true }; or the name of one header',
    ),
  ),
  pathMatching: pathMatchingSchema,
};

export const matchFields: readonly string[] = Object.keys(matchEntries);

export const matchSchema = fields(matchEntries);

/** A condition that is null matches every request. */
export type Match = Readonly<ReturnType<typeof matchOf>>;

/** Defaults to every request. */
export const matchOf = (written: v.InferOutput<typeof matchSchema> = {}, pathMatching = written.pathMatching) => ({
  methods: written.methods ?? null,
  path: written.path ?? null,
  host: written.host ?? null,
  /** By lower-case name: the value that a header must have, or true for any value. */
  headers: written.header ?? null,
  /** Whether the path is compared in every form in which origins read it, or only as received. */
  pathMatching: pathMatching ?? "lenient",
});

/** Reports a `pathMatching` of the policy if its `match` has one too. */
export function reportSecondPathMatching({ pathMatching: value, match }: WrittenFields, report: ReportField): void {
  if (value === undefined || !isRecord(match) || match["pathMatching"] === undefined) return;
  report({ field: "pathMatching", value, accepted: "nothing, because match.pathMatching is set" });
}

/** Null without a valid pattern. */
export function pathPatternOf({ match }: WrittenFields): PathPattern | null {
  const pattern = readPathPattern(asText(isRecord(match) ? match["path"] : undefined));
  return "value" in pattern ? pattern.value : null;
}

type Test = (attributes: RequestAttributes) => boolean;

/** @param matches all of them must hold */
export function matcherOf(matches: readonly Match[]) {
  const target = matches
    .flatMap((match) => [pathTest(match), methodTest(match), hostTest(match)])
    .filter((test) => test !== null);
  const headers = matches.flatMap(({ headers: wanted }): readonly Test[] =>
    wanted === null ? [] : [(attributes) => matchesHeaders(wanted, attributes.headers)],
  );
  return {
    matches: allOf([...target, ...headers]),
    /** All conditions except those on headers. */
    matchesTarget: allOf(target),
  };
}

function allOf(tests: readonly Test[]): Test {
  const [only = () => true] = tests;
  return tests.length <= 1 ? only : (attributes) => tests.every((test) => test(attributes));
}

function pathTest({ path, pathMatching }: Match): Test | null {
  if (path === null) return null;
  const matches = pathMatching === "exact" ? path.matchesExactly : path.matches;
  return ({ target }) => matches(target.path);
}

/** A policy for GET also matches HEAD: otherwise a client could evade it with HEAD requests. */
function methodTest({ methods: written }: Match): Test | null {
  if (written === null) return null;
  const methods = written.has("GET") ? new Set([...written, "HEAD"]) : written;
  return ({ method }) => methods.has(method.toUpperCase());
}

const hostTest = ({ host }: Match): Test | null =>
  host === null ? null : ({ target }) => host.test(normalizedHost(target.hostname));

/** @param wanted by name, the value that a header must have, or true for any value */
export const matchesHeaders = (wanted: ReadonlyMap<string, string | true>, headers: Headers): boolean =>
  [...wanted].every(([name, value]) => (value === true ? headers.has(name) : headers.get(name) === value));
