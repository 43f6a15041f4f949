/** One policy as written -> a policy that cannot be wrong. */
import * as v from "valibot";
import {
  acceptedName,
  acceptedNotation,
  acceptedStrategy,
  type ConfigProblem,
  fields,
  integerFrom,
  isRecord,
  joinPath,
  type Limit,
  namePattern,
  parseDuration,
  problemsOf,
  readLimits,
  strategies,
} from "../strategies/index.ts";
import {
  acceptedKey,
  type AddressSettings,
  type KeyPart,
  type MissingKey,
  missingKeys,
  readKey,
  token,
} from "./key.ts";
import { objectFields, type ObjectSettings, readShards } from "./objects.ts";
import { hostPattern, pathPattern } from "./path.ts";

/** Which requests a policy is for; what is null holds for every request. */
export interface Match {
  readonly methods: ReadonlySet<string> | null;
  readonly path: URLPattern | null;
  readonly host: URLPattern | null;
  /** The values that headers must have, by their names in lower case; true where any will do. */
  readonly headers: ReadonlyMap<string, string | true> | null;
}

/** What holds while the object gives no answer: limits of the isolate's own, everything in, or everything out. */
export type FailureMode = "local" | "open" | "closed";

/** Whether an answer waits until what it decided is on disk. */
export type Durability = "relaxed" | "confirmed";

export interface Policy {
  readonly name: string;
  readonly match: Match;
  readonly key: readonly KeyPart[];
  readonly onMissingKey: MissingKey;
  readonly addresses: AddressSettings;
  readonly limits: readonly Limit[];
  readonly onError: FailureMode;
  /** How long a decision may take before `onError` holds. */
  readonly timeoutMs: number;
  readonly objects: ObjectSettings;
  readonly durability: Durability;
}

/** What a header field can hold, without what is trimmed of it. */
const fieldValue = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const shortestTimeoutMs = 10;
const longestTimeoutMs = 30_000;
const asText = (value: unknown): string => (typeof value === "string" ? value : "");

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

const acceptedMissingKey = 'one of "shared", "ip", "deny", "skip"';
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
      header: v.optional(
        readBy(
          readHeaders,
          'headers and their values, or true for any value, such as { "X-Plan" = "free", "X-Beta" = true }',
        ),
      ),
    }),
  ),
  key: v.optional(readBy(readKey, acceptedKey), "ip"),
  onMissingKey: v.optional(v.picklist(missingKeys, acceptedMissingKey), "shared"),
  ipv6Prefix: v.optional(integerFrom(32, 128), 64),
  trustedProxies: v.optional(integerFrom(1, 10)),
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
  const { onMissingKey, ipv6Prefix, trustedProxies } = parsed.output;
  return {
    name,
    match: {
      methods: match?.methods ?? null,
      path: match?.path ?? null,
      host: match?.host ?? null,
      headers: match?.header ?? null,
    },
    key,
    onMissingKey,
    addresses: { ipv6Prefix, trustedProxies: trustedProxies ?? null },
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
