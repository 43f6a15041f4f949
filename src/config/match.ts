/** Which requests a policy is for, as written. */
import * as v from "valibot";
import { hasPieces, piecesOf } from "./wildcard.ts";
import { token } from "./key.ts";
import { type PathPattern, readPathPattern } from "./path-pattern.ts";
import { schemaOfNullable, schemaOf } from "./schemas.ts";
import { asText, type ConfigProblem, fields, isRecord } from "../validation/problems.ts";

/** Whether a path is compared in all readings of origins, or as it is received. */
export type PathMatching = (typeof pathMatchings)[number];
const pathMatchings = ["lenient", "exact"] as const;

/** What is null holds for every request. */
export interface Match {
  readonly methods: ReadonlySet<string> | null;
  readonly path: PathPattern | null;
  readonly pathMatching: PathMatching;
  readonly host: HostPattern | null;
  /** The values that headers must have, by their names in lower case; true where any will do. */
  readonly headers: ReadonlyMap<string, string | true> | null;
}

/** Which hosts are meant. */
interface HostPattern {
  readonly hostname: string;
  /** @param host a normalized one, without a port */
  readonly test: (host: string) => boolean;
}

/** Host names in any case, and with the dot that may end them, are the same. */
export const normalizedHost = (host: string): string => host.toLowerCase().replace(/\.$/, "");

/** A pattern of a host name, with `*` for any characters; null when the text is none. */
function hostPattern(text: string): HostPattern | null {
  const hostname = normalizedHost(text);
  const [first = "", ...others] = piecesOf(hostname);
  if (!/^[a-z0-9*.-]+$/.test(hostname)) return null;
  if (others.length > 0) return { hostname, test: (host) => hasPieces(host, [first, ...others]) };
  return URL.canParse(`http://${hostname}`)
    ? { hostname, test: (host) => host === hostname }
    : null;
}

/** What a header field can hold, without what is trimmed of it. */
const fieldValue = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;

function readMethods(value: unknown): ReadonlySet<string> | null {
  const methods: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (methods.length === 0) return null;
  if (!methods.every((method) => token.test(asText(method)))) return null;
  return new Set(methods.map((method) => asText(method).toUpperCase()));
}

/** Names in any case, each once; of each its exact value, or true for its presence. A name alone stands for its presence. */
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

/** A field of `match` and of its policy alike: it stands in one of them. */
export const pathMatchingSchema = v.optional(v.picklist(pathMatchings, '"lenient" or "exact"'));

const matchEntries = {
  methods: v.optional(
    schemaOfNullable(
      readMethods,
      'a list of HTTP methods such as ["GET", "POST"], or one method such as "POST"',
    ),
  ),
  path: v.optional(schemaOf((value) => readPathPattern(asText(value)))),
  host: v.optional(
    schemaOfNullable(
      (value) => hostPattern(asText(value)),
      'a host such as "api.example.com" or "*.example.com"',
    ),
  ),
  header: v.optional(
    schemaOfNullable(
      readHeaders,
      'an object of header names and their values, or true for any value, such as { "X-Plan" = "free", "X-Beta" = true }; or the name of one header',
    ),
  ),
  pathMatching: pathMatchingSchema,
};

/** The names of its fields. */
export const matchFields: readonly string[] = Object.keys(matchEntries);

export const matchSchema = v.pipe(
  fields(matchEntries),
  v.transform(({ methods, path, pathMatching, host, header }): Match => ({
    methods: methods ?? null,
    path: path ?? null,
    pathMatching: pathMatching ?? "lenient",
    host: host ?? null,
    headers: header ?? null,
  })),
);

const everything: Match = {
  methods: null,
  path: null,
  pathMatching: "lenient",
  host: null,
  headers: null,
};

/** What a policy matches; everything without a `match`. */
export function matchOf(
  match: Match | undefined = everything,
  pathMatching: PathMatching = match.pathMatching,
): Match {
  return { ...match, pathMatching };
}

/** Reports a `pathMatching` of the policy beside one of its `match`. */
export function reportSecondPathMatching(
  policy: unknown,
  report: (problem: Omit<ConfigProblem, "variable">) => void,
): void {
  const { pathMatching: value, match } = isRecord(policy) ? policy : {};
  if (value === undefined || !isRecord(match) || match["pathMatching"] === undefined) return;
  report({ field: "pathMatching", value, accepted: "nothing, because match.pathMatching is set" });
}

/** The pattern of a policy as written, whatever else is wrong with it; null without one. */
export function writtenPathPattern(policy: unknown): PathPattern | null {
  const match = isRecord(policy) ? policy["match"] : undefined;
  const pattern = readPathPattern(asText(isRecord(match) ? match["path"] : undefined));
  return "value" in pattern ? pattern.value : null;
}
