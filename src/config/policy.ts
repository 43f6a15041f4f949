/** One policy as written -> a policy that cannot be wrong. */
import * as v from "valibot";
import {
  acceptedName,
  acceptedNotation,
  acceptedStrategy,
  type ConfigProblem,
  fields,
  isRecord,
  joinPath,
  type Limit,
  namePattern,
  parseDuration,
  problemsOf,
  readLimits,
  strategies,
} from "../strategies/index.ts";
import { objectFields, type ObjectSettings, readShards } from "./objects.ts";
import { hostPattern, pathPattern } from "./path.ts";

/** Which requests a policy is for; what is null holds for every request. */
export interface Match {
  readonly methods: ReadonlySet<string> | null;
  readonly path: URLPattern | null;
  readonly host: URLPattern | null;
}

/** What a request is charged to: one part of a partition key. */
export type KeyPart =
  | { readonly kind: "ip" | "path" | "global" }
  | { readonly kind: "header"; readonly header: string };

/** What holds while the object gives no answer: limits of the isolate's own, everything in, or everything out. */
export type FailureMode = "local" | "open" | "closed";

/** Whether an answer waits until what it decided is on disk. */
export type Durability = "relaxed" | "confirmed";

export interface Policy {
  readonly name: string;
  readonly match: Match;
  readonly key: readonly KeyPart[];
  readonly limits: readonly Limit[];
  readonly onError: FailureMode;
  /** How long a decision may take before `onError` holds. */
  readonly timeoutMs: number;
  readonly objects: ObjectSettings;
  readonly durability: Durability;
}

/** RFC 9110, section 5.6.2. */
const token = /^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}$/;
const shortestTimeoutMs = 10;
const longestTimeoutMs = 30_000;
/** Parts of a key, and texts that a caller may name one by. */
export const mostKeyParts = 8;

const asText = (value: unknown): string => (typeof value === "string" ? value : "");

function readMethods(value: unknown): ReadonlySet<string> | null {
  if (!Array.isArray(value) || value.length === 0) return null;
  const methods: unknown[] = value;
  if (!methods.every((method) => token.test(asText(method)))) return null;
  return new Set(methods.map((method) => asText(method).toUpperCase()));
}

function readKeyPart(value: unknown): KeyPart | null {
  const text = asText(value).trim();
  if (text === "ip" || text === "path" || text === "global") return { kind: text };
  const header = /^header:(.*)$/i.exec(text)?.[1] ?? "";
  return token.test(header) ? { kind: "header", header: header.toLowerCase() } : null;
}

/** A part, or several as a list or separated by commas. */
function readKey(value: unknown): readonly KeyPart[] | null {
  const items: readonly unknown[] = Array.isArray(value) ? value : asText(value).split(",");
  const parts = items.map(readKeyPart).filter((part) => part !== null);
  const isWhole = parts.length === items.length && parts.length > 0 && parts.length <= mostKeyParts;
  return isWhole && new Set(parts.map(partName)).size === parts.length ? parts : null;
}

/** A part as it is written in the configuration. */
export const partName = (part: KeyPart): string =>
  part.kind === "header" ? `header:${part.header}` : part.kind;

function readTimeout(value: unknown): number | null {
  const milliseconds = parseDuration(asText(value)) ?? 0;
  return milliseconds >= shortestTimeoutMs && milliseconds <= longestTimeoutMs
    ? milliseconds
    : null;
}

/** A schema that reads a value with one function, whose null stands for all that is not accepted. */
function readBy<Value>(
  read: (value: unknown) => Value | null,
  accepted: string,
): v.GenericSchema<unknown, Value> {
  return v.pipe(
    v.unknown(),
    v.rawTransform<unknown, Value>(({ dataset, addIssue, NEVER }) => {
      const value = read(dataset.value);
      if (value !== null) return value;
      addIssue({ message: accepted });
      return NEVER;
    }),
  );
}

const acceptedFailureMode = 'one of "local", "open", "closed"';
const acceptedDurability = '"relaxed" or "confirmed"';

const policySchema = fields({
  name: v.pipe(v.string(acceptedName), v.regex(namePattern, acceptedName)),
  match: v.optional(
    fields({
      methods: v.optional(readBy(readMethods, 'a list of HTTP methods such as ["GET", "POST"]')),
      path: v.optional(
        readBy(
          (value) => pathPattern(asText(value)),
          'a path pattern such as "/login" or "/api/*"',
        ),
      ),
      host: v.optional(
        readBy(
          (value) => hostPattern(asText(value)),
          'a host such as "api.example.com" or "*.example.com"',
        ),
      ),
    }),
  ),
  key: v.optional(
    readBy(
      readKey,
      `one or several (up to ${mostKeyParts}) different parts from "ip", "path", "global" and "header:<name>"`,
    ),
    "ip",
  ),
  // What is in it is for `readLimits`, which knows each strategy's own fields.
  limits: readBy((value) => value ?? null, acceptedNotation),
  strategy: v.optional(v.picklist([...strategies.keys()], acceptedStrategy)),
  onError: v.optional(v.picklist(["local", "open", "closed"], acceptedFailureMode), "local"),
  timeout: v.optional(
    readBy(readTimeout, 'a duration from 10 ms to 30 s such as "500ms" or "1s"'),
    "1s",
  ),
  ...objectFields,
  durability: v.optional(v.picklist(["relaxed", "confirmed"], acceptedDurability), "relaxed"),
});

/** The policy in a value, or null if it has a problem; every problem is handed to `report`. */
export function readPolicy(
  variable: string,
  field: string,
  value: unknown,
  report: (problem: ConfigProblem) => void,
): Policy | null {
  const parsed = v.safeParse(policySchema, value);
  const problems = problemsOf(variable, field, parsed.issues ?? []);
  const limits = limitsOf(value, (problem) => {
    const within = joinPath("limits", problem.field);
    problems.push({ ...problem, variable, field: joinPath(field, within) });
  });
  const shards = readShards(value, (problem) => {
    problems.push({ ...problem, variable, field: joinPath(field, problem.field) });
  });
  for (const problem of problems) report(problem);
  if (!parsed.success || problems.length > 0) return null;
  const { name, match, key, onError, timeout, locationHint, jurisdiction, durability } =
    parsed.output;
  return {
    name,
    match: {
      methods: match?.methods ?? null,
      path: match?.path ?? null,
      host: match?.host ?? null,
    },
    key,
    limits,
    onError,
    timeoutMs: timeout,
    objects: { shards, locationHint: locationHint ?? null, jurisdiction: jurisdiction ?? null },
    durability,
  };
}

/** The limits of a policy whose other fields may be wrong: all problems are to be found at once. */
function limitsOf(value: unknown, report: (problem: ConfigProblem) => void): Limit[] {
  if (!isRecord(value)) return [];
  const { name, strategy, limits } = value;
  if (limits === undefined || limits === null) return [];
  return readLimits(
    limits,
    {
      ...(strategies.has(asText(strategy)) && { strategy: asText(strategy) }),
      ...(namePattern.test(asText(name)) && { policy: asText(name) }),
    },
    report,
  );
}
