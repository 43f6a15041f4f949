/** Every variable that Headgate reads, and the problems of unknown ones. */
import { limitFields } from "../../strategies/index.ts";
import { matchFields } from "../match.ts";
import { policyFields } from "../policy.ts";
import { isPolicyList, isSet, jsonErrorNote, typedList, type Variables } from "./variables.ts";
import { asText, nearestName } from "../../validation/problems.ts";

/** The table is complete. `POLICIES` includes `POLICIES_2`, `POLICIES_3`, … */
export const variableNames = [
  "ORIGIN",
  "ORIGIN_TIMEOUT",
  "ORIGIN_SECRET",
  "LIMITS",
  "STRATEGY",
  "KEY",
  "POLICIES",
  "PREFLIGHT_LIMITS",
  "CORS_ORIGINS",
  "LEGACY_HEADERS",
  "LOG_DENIALS",
  "CHECK_PATH",
  "CHECK_AUTH",
  "CHECK_TOKENS",
  "ADMIN_PATH",
  "ADMIN_HOST",
  "ADMIN_TOKENS",
  "ACCESS_TEAM",
  "ACCESS_AUDIENCE",
  "REVEAL",
  "SAMPLE",
  "DENIALS",
  "ALERT_WEBHOOK",
  "ALERT_SECRET",
  "ALERT_DENIED_SHARE",
  "ALERT_KEYS",
  "KEY_SECRET",
  "JWT_KEY",
  "JWT_JWKS_URL",
  "JWT_ISSUER",
  "JWT_AUDIENCE",
  "EXTRA_VARS",
] as const;

export type VariableName = (typeof variableNames)[number];

/** Variables by name. Reading one that is not in the table is a type error. */
export type KnownVariables = Readonly<Partial<Record<VariableName, unknown>>>;

/** Whether Headgate reads a variable of this name. */
export const isKnownVariable = (name: string): boolean =>
  variableNames.some((known) => known === name) || isPolicyList(name);

/** A line about a variable. */
export interface VariableNote {
  readonly variable: string;
  readonly text: string;
}

/**
 * A line for each unknown variable, since a misspelt name would silently leave a default in effect. No line quotes a
 * value, since the value of a misspelt secret is still secret.
 */
export function unknownVariables(env: Variables): VariableNote[] {
  const { EXTRA_VARS: extra }: KnownVariables = env;
  const own = readNames(extra);
  const unknown = Object.keys(env).filter(
    (name) =>
      !isKnownVariable(name) &&
      // Tools add variables with this prefix, such as __STATIC_CONTENT_MANIFEST.
      !name.startsWith("__") &&
      // `policies.ts` reports a misnamed list of policies.
      !name.startsWith("POLICIES") &&
      own?.has(name) !== true &&
      isVariable(env[name]),
  );
  return [
    ...(own === null
      ? [
          {
            variable: "EXTRA_VARS",
            text:
              'EXTRA_VARS: expected the names of your own variables such as "REGION, BUILD_ID", or a list of names' +
              jsonErrorNote(extra),
          },
        ]
      : []),
    ...unknown.map((variable) => ({ variable, text: `unknown variable ${variable}; ${suggestionFor(variable)}` })),
  ];
}

/** A list of names, or names separated by commas; null for anything else. */
function readNames(value: unknown): ReadonlySet<string> | null {
  if (!isSet(value)) return new Set();
  const names = typedList(value)
    .flatMap((each) => (typeof each === "string" ? each.split(",") : [""]))
    .map((name) => name.trim());
  return names.every((name) => /^[a-z_$][\w$]*$/i.test(name)) ? new Set(names) : null;
}

/**
 * Whether a value is a JSON value, as those of variables are. Bindings are instances of classes, except for the version
 * metadata of the Worker.
 */
function isVariable(value: unknown): boolean {
  if (value === undefined || value === null || typeof value === "function") return false;
  if (typeof value !== "object" || Array.isArray(value)) return true;
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === null || prototype === Object.prototype;
  return isPlain && Object.keys(value).toSorted().join() !== "id,tag,timestamp";
}

/** Field names that users take for variables, and where they belong. */
const fieldPlaces: readonly (readonly [fields: readonly string[], place: string])[] = [
  [policyFields, "a field of a policy: write the policy as an entry of [[vars.POLICIES]]"],
  [matchFields, "a field of match, in a policy under [[vars.POLICIES]]"],
  [limitFields, "a field of a limit, in LIMITS or in the limits of a policy"],
];

function suggestionFor(name: string): string {
  const fields = fieldPlaces.flatMap(([names]) => names);
  const near = nearestName(name, [...variableNames, ...fields]);
  const [, place] = fieldPlaces.find(([names]) => names.includes(asText(near))) ?? [];
  if (near === null) return "if it is your own, add its name to EXTRA_VARS";
  return place === undefined ? `did you mean ${near}?` : `${near} is ${place}`;
}
