/** Reads the options of `rateLimit`, or reports every problem at once. */
import type { Context } from "hono";
import { isRecord } from "../../validation/json.ts";
import {
  type ConfigProblem,
  ConfigProblems,
  type ReportProblem,
  acceptedFields,
  asText,
  jsonOf,
} from "../../validation/problems.ts";
import { greatestCost } from "../../policy/cost.ts";
import { policyFields, readPolicy } from "../../policy/policy.ts";
import { scalarText } from "../../policy/request.ts";
import { asParent, type Parent } from "../../policy/within.ts";
import type { MaybePromise, PolicyDecision } from "./options.ts";

/** One policy of a `rateLimit`. */
export interface StatedPolicy {
  readonly name: string;
  /** The fields of the policy as in `POLICIES`, except that `key` may be a function. */
  readonly written: Readonly<Record<string, unknown>>;
  /** Two policies with equal texts are equal. Functions are not compared. */
  readonly text: string;
  /** The function that the app calls, such as `rateLimit`. */
  readonly caller: string;
  /** Whether the app states no name. */
  readonly isUnnamed: boolean;
  readonly isReserved: boolean;
  /** Whether requests go on although the policy denies them. */
  readonly continuesDenied: boolean;
  /** The functions of the options; null where a fixed value, or nothing, is stated. */
  readonly functions: PolicyFunctions;
}

/** The results of the functions are checked where they are used. */
export interface PolicyFunctions {
  readonly key: ((c: Context) => unknown) | null;
  readonly limits: ((c: Context) => unknown) | null;
  readonly cost: ((c: Context) => unknown) | null;
  readonly skip: ((c: Context) => unknown) | null;
  readonly onDeny: ((c: Context, decision: PolicyDecision) => MaybePromise<Response>) | null;
}

const functionNames: readonly (keyof PolicyFunctions)[] = ["key", "limits", "cost", "skip", "onDeny"];

/** The fields of a policy, and the options that `POLICIES` does not have. */
const optionNames = [...policyFields, "limit", "windowMs", "reserve", "skip"];

/** The text to write instead of an option of hono-rate-limiter or express-rate-limit. */
const replacements: Readonly<Record<string, string>> = {
  max: "limit",
  keyGenerator: "key",
  identifier: "name",
  handler: "onDeny",
  message: "onDeny: { body }",
  statusCode: "onDeny: { status }",
  skipFailedRequests: 'count: { exceptStatus: ["4xx", "5xx"] }',
  skipSuccessfulRequests: 'count: { status: ["4xx", "5xx"] }',
  requestWasSuccessful: "count",
  ipv6Subnet: "ipv6Prefix",
  passOnStoreError: 'onError: "open"',
  requestPropertyName: 'c.get("headgate")',
  requestStorePropertyName: "nothing: the admin API resets keys",
  standardHeaders: "nothing: responses always have the RateLimit fields",
  legacyHeaders: "the variable LEGACY_HEADERS",
  headers: "the variable LEGACY_HEADERS",
  retryAfter: "nothing: Retry-After is exact; or onDeny",
  store: "nothing: the Durable Object RATE_LIMITER stores the counters",
  binding: "limits, because Headgate does not read those of the binding",
  rateLimitBinding: "limits, because Headgate does not read those of the binding",
  validate: "nothing: every problem is an error",
  logger: "nothing: events are lines of JSON in the log",
};

/** @throws ConfigProblems with every problem in the options */
export function readOptions(all: readonly unknown[], caller = "rateLimit"): readonly StatedPolicy[] {
  const problems: ConfigProblem[] = [];
  const earlier = new Map<string, Parent | null>();
  const policies = all.map((options, index) => {
    const variable = all.length === 1 ? caller : `${caller}[${index}]`;
    return readOne(options, { caller, earlier }, (problem) => problems.push({ ...problem, variable }));
  });
  if (all.length === 0) {
    const accepted = 'at least one policy such as { limits: "100/minute" }';
    problems.push({ variable: caller, field: "", value: undefined, accepted });
  }
  for (const [index, { name }] of policies.entries()) {
    if (policies.findIndex((each) => each.name === name) === index) continue;
    const accepted = "a name that no other policy has";
    problems.push({ variable: `${caller}[${index}]`, field: "name", value: name, accepted });
  }
  if (problems.length > 0) throw new ConfigProblems(problems);
  return policies;
}

/** @param earlier the policies before this one, to which it is added */
function readOne(
  options: unknown,
  { caller, earlier }: { readonly caller: string; readonly earlier: Map<string, Parent | null> },
  report: ReportProblem,
): StatedPolicy {
  const isObject = typeof options === "object" && options !== null;
  const stated: Readonly<Record<string, unknown>> = isObject ? { ...options } : {};
  const { name = "default", cost, skip, onDeny, reserve = false, ...others } = stated;
  const { limit, windowMs, ...fields } = others;
  const isShort = limit !== undefined || windowMs !== undefined;
  const limits = isShort
    ? [{ limit, window: typeof windowMs === "number" ? `${windowMs}ms` : windowMs }]
    : others["limits"];
  const written = {
    name,
    ...definedIn({
      ...fields,
      limits,
      onMissingKey: others["onMissingKey"] ?? defaultMissingKey(others["key"]),
      ...(typeof cost !== "function" && { cost }),
      ...(typeof onDeny !== "function" && onDeny !== "continue" && { onDeny }),
    }),
  };
  const reportOption: ReportProblem = (problem) =>
    report(withHints({ ...problem, value: namedNumber(problem.value) }, stated, { caller, isShort }));
  const reportField = (field: string, value: unknown, accepted: string): void =>
    report({ variable: "", field, value, accepted });
  const policy = isObject ? readPolicy("", "", written, reportOption, earlier) : null;
  // A policy without a name may get another one than "default".
  if (stated["name"] !== undefined && !earlier.has(asText(name))) {
    earlier.set(asText(name), policy === null ? null : asParent(policy));
  }
  if (!isObject) reportField("", options, 'an object such as { limits: "100/minute" }');
  if (isShort && others["limits"] !== undefined) {
    reportField("limits", others["limits"], "nothing beside limit and windowMs");
  }
  if (typeof reserve !== "boolean") reportField("reserve", reserve, "true or false");
  if (skip !== undefined && typeof skip !== "function") {
    reportField("skip", skip, "a function (c) => boolean");
  }
  reportReservationConflicts(stated, reportField);
  return {
    name: asText(name),
    written,
    text: textOf(stated),
    caller,
    isUnnamed: stated["name"] === undefined,
    isReserved: reserve === true,
    continuesDenied: onDeny === "continue",
    functions: functionsIn(stated),
  };
}

/**
 * If the function `key` returns nothing, for example after a change of the app's variables, clients must not all share
 * one counter. A key in `POLICIES` is no function, and its default is `"shared"`.
 */
const defaultMissingKey = (key: unknown): unknown => (typeof key === "function" ? "deny" : undefined);

function definedIn(fields: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/**
 * Reports options that exclude `reserve`: only the object can keep a reservation, and a reservation can be settled only
 * once.
 */
function reportReservationConflicts(
  { reserve, consistency, cost, count }: Readonly<Record<string, unknown>>,
  report: (field: string, value: unknown, accepted: string) => void,
): void {
  if (reserve !== true) return;
  if (consistency === "leased" || consistency === "eventual") {
    report("consistency", consistency, '"strict", because the policy has reserve');
  }
  const isOfResponse = typeof cost === "object" && cost !== null && "reserve" in cost && cost.reserve !== undefined;
  if (isOfResponse) report("reserve", reserve, "nothing beside a cost from the response");
  if (count !== undefined) report("reserve", reserve, "nothing beside count");
}

/** Adds hints to a problem: the names of valid options, or the option that replaces one of another library. */
function withHints(
  problem: ConfigProblem,
  stated: Readonly<Record<string, unknown>>,
  { caller, isShort }: { readonly caller: string; readonly isShort: boolean },
): ConfigProblem {
  const { field, accepted } = problem;
  if (isShort && field === "limits[0].limit") {
    const isFunction = typeof stated["limit"] === "function";
    const hint = isFunction
      ? '; limits may be a function such as (c) => "100/minute", and overrides has those of single keys'
      : "";
    return { ...problem, field: "limit", accepted: accepted + hint };
  }
  if (isShort && field === "limits[0].window") {
    const value = namedNumber(stated["windowMs"]);
    return { ...problem, field: "windowMs", value, accepted: "an integer of milliseconds from 1" };
  }
  const replacement = Object.hasOwn(replacements, field) ? replacements[field] : undefined;
  if (replacement !== undefined) return { ...problem, accepted: replacement };
  const unknown = acceptedFields(field, policyFields);
  if (accepted.startsWith(unknown)) {
    const hints = accepted.slice(unknown.length);
    return { ...problem, accepted: acceptedFields(field, optionNames) + hints };
  }
  if (field === "limits" && problem.value === undefined) {
    return {
      ...problem,
      accepted: `${accepted}; or limit and windowMs`,
    };
  }
  // Only a route has a context for functions, and a request that can continue.
  const otherForm = caller === "rateLimit" ? (otherForms[field] ?? "") : "";
  return { ...problem, accepted: inJavaScript(accepted) + otherForm };
}

const orFunction = "; or a function of the context";

/** Values that options may have in addition to those of the fields of `POLICIES`. */
const otherForms: Readonly<Record<string, string>> = {
  key: orFunction,
  limits: orFunction,
  cost: orFunction,
  onDeny: `${orFunction}; "continue" lets the request go on`,
};

/** The notation of TOML, as JavaScript writes it. */
const inJavaScript = (accepted: string): string => accepted.replaceAll(" = ", ": ");

/**
 * A text that identifies the options in any order. All functions have the same text, because an instance that is
 * constructed for each request has new functions each time.
 */
function textOf(stated: Readonly<Record<string, unknown>>): string {
  try {
    return JSON.stringify(stated, (_, value: unknown) => {
      if (typeof value === "function") return "(function)";
      return isRecord(value) ? Object.fromEntries(Object.entries(value).toSorted(byName)) : value;
    });
  } catch {
    // A bigint, or an object that contains itself, for which a problem is reported.
    return "";
  }
}

const byName = ([a]: readonly [string, unknown], [b]: readonly [string, unknown]): number => (a < b ? -1 : 1);

function functionsIn(stated: Readonly<Record<string, unknown>>): PolicyFunctions {
  const functions = functionNames.map((name) => [name, typeof stated[name] === "function" ? stated[name] : null]);
  // Cast because TypeScript cannot know the parameters of a function.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  return Object.fromEntries(functions) as PolicyFunctions;
}

/**
 * The text of the key that a function returned. Null when there is no key, when a list is empty, or when a part is
 * missing. A list never has the same text as a single string.
 */
export function customKeyText(value: unknown, policy: string): string | null {
  const items: readonly unknown[] = Array.isArray(value) ? value : [value];
  if (items.length === 0 || items.some(isMissing)) return null;
  const parts = items
    .filter(isKeyPart)
    .map(scalarText)
    .filter((part) => part !== null);
  if (parts.length < items.length) {
    throw new TypeError(
      `the function key of the policy "${policy}" returned ${kindOf(value)}; expected a text, or a list of texts`,
    );
  }
  const [only = ""] = parts;
  return parts.length === 1 && !only.startsWith("[") ? only : JSON.stringify(parts);
}

const isMissing = (part: unknown): boolean => part === null || part === undefined || part === "";

const isKeyPart = (part: unknown): boolean =>
  typeof part === "string" || (typeof part === "number" && Number.isFinite(part));

/** The kind of an invalid key, for an error. The key itself may be a secret or personal data. */
function kindOf(value: unknown): string {
  if (Array.isArray(value)) return "a list that has other items than texts";
  if (typeof value === "object") return "an object";
  return typeof value === "number" ? String(value) : `a ${typeof value}`;
}

/** @throws TypeError for anything but true and false */
export function checkedSkip(value: unknown, policy: string): boolean {
  if (typeof value === "boolean") return value;
  throw new TypeError(
    `the function skip of the policy "${policy}" returned ${described(value)}; expected true or false`,
  );
}

/** @throws TypeError for anything but an integer from 0 to 1,000,000 */
export function checkedCost(value: unknown, place: string): number {
  if (Number.isInteger(value) && Number(value) >= 0 && Number(value) <= greatestCost) {
    return Number(value);
  }
  throw new TypeError(`${place} ${described(value)}; expected an integer from 0 to ${greatestCost}`);
}

/** A value that a function returned, for an error. */
export const described = (value: unknown): string =>
  typeof value === "function" ? "a function" : jsonOf(namedNumber(value));

/** JSON has null for NaN and the infinities, which an error would quote. */
export const namedNumber = (value: unknown): unknown =>
  typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
