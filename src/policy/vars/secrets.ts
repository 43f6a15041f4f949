/** Secrets: bearer tokens with the rights of each, and texts. No problem quotes the value of a secret. */
import * as v from "valibot";
import {
  hidden,
  type ReportProblem,
  asText,
  didYouMeanField,
  fields,
  isRecord,
  type ConfigProblem,
} from "../../validation/problems.ts";
import { isBrokenJson, isSet, jsonErrorNote, typedList, typedValue } from "./variables.ts";
import { writtenJson } from "../schemas.ts";
import type { KnownVariables, VariableName } from "./known-variables.ts";

export type Right = (typeof rights)[number];
const rights = ["check", "look", "forget", "adhoc"] as const;

export interface CheckToken {
  readonly token: string;
  /** The tenant whose keys the token accesses; null: the proxy's keys. */
  readonly tenant: string | null;
  readonly may: ReadonlySet<Right>;
}

/** A right that a token of the admin API may have. */
export type AdminRight = (typeof adminRights)[number];
export const adminRights = ["read", "write", "reveal"] as const;

export interface AdminToken {
  readonly token: string;
  /** Appears in audit entries. Default: `token <place in the list>`. */
  readonly name: string;
  readonly may: ReadonlySet<AdminRight>;
}

/** How a variable with tokens is written. */
interface TokenForm<Each extends string> {
  readonly variable: "CHECK_TOKENS" | "ADMIN_TOKENS";
  readonly rights: readonly Each[];
  /** The optional field with a text about the holder. */
  readonly label: "tenant" | "name";
}

const checkForm: TokenForm<Right> = { variable: "CHECK_TOKENS", rights, label: "tenant" };
const adminForm: TokenForm<AdminRight> = {
  variable: "ADMIN_TOKENS",
  rights: adminRights,
  label: "name",
};

interface WrittenToken<Each extends string> {
  readonly token: string;
  readonly label: string | null;
  readonly may: ReadonlySet<Each>;
}

const longestLabel = 128;

/** Whether a value consists of visible ASCII characters, so that a header can carry it. */
export const isVisible = (value: unknown): value is string => typeof value === "string" && /^[\x21-\x7e]+$/.test(value);

const token = v.custom<string>(isVisible);

const labelSchema = v.optional(
  v.pipe(
    v.string(),
    v.check((text) => text.trim() !== "" && text.isWellFormed() && text.length <= longestLabel),
  ),
);

function tokenSchema<Each extends string>({
  rights: known,
  label,
}: TokenForm<Each>): v.GenericSchema<unknown, WrittenToken<Each>> {
  const all: ReadonlySet<Each> = new Set(known);
  const may = v.optional(v.pipe(v.array(v.picklist(known)), v.minLength(1)), [...known]);
  const entries: { readonly token: typeof token; readonly may: typeof may } = {
    token,
    [label]: labelSchema,
    may,
  };
  return v.union([
    v.pipe(
      token,
      v.transform((text) => ({ token: text, label: null, may: all })),
    ),
    v.pipe(
      fields(entries),
      v.transform((holder) => ({
        token: holder.token,
        label: asText(Reflect.get(holder, label)) || null,
        may: new Set<Each>(holder.may),
      })),
    ),
  ]);
}

/** Whether looks (`GET /check`) need no token: `CHECK_AUTH = "none"`. */
export function readCheckAuth(value: unknown, report: ReportProblem): boolean {
  if (!isSet(value)) return false;
  if (value === "none") return true;
  const accepted = '"none" for checks of cost 0 without a token, or no value';
  report({ variable: "CHECK_AUTH", field: "", value, accepted });
  return false;
}

/** The token texts in a value that may be invalid. */
export function tokenTexts(value: unknown): string[] {
  return typedList(value).flatMap((each) => {
    const text = isRecord(each) ? each["token"] : each;
    return typeof text === "string" && text !== "" ? [text] : [];
  });
}

/** Empty when no tokens are configured, or invalid ones. No problem quotes the value. */
export const readCheckTokens = (value: unknown, report: ReportProblem): readonly CheckToken[] =>
  readTokens(checkForm, value, report).map(({ token: text, label, may }) => ({
    token: text,
    tenant: label,
    may,
  }));

/** Empty when no tokens are configured, or invalid ones. No problem quotes the value. */
export const readAdminTokens = (value: unknown, report: ReportProblem): readonly AdminToken[] =>
  readTokens(adminForm, value, report).map(({ token: text, label, may }, index) => ({
    token: text,
    name: label ?? `token ${index + 1}`,
    may,
  }));

function readTokens<Each extends string>(
  form: TokenForm<Each>,
  value: unknown,
  report: ReportProblem,
): readonly WrittenToken<Each>[] {
  if (!isSet(value)) return [];
  // A token in the form of a JSON object is valid only within a list.
  const isList = !isRecord(typedValue(value));
  const parsed = v.safeParse(v.pipe(v.array(tokenSchema(form)), v.minLength(1)), typedList(value));
  const tokens = parsed.success ? parsed.output : [];
  const isDistinct = new Set(tokens.map((each) => each.token)).size === tokens.length;
  if (parsed.success && isList && isDistinct && !isBrokenJson(value)) return tokens;
  const { variable, rights: known, label } = form;
  report({
    variable,
    field: "",
    value: hidden,
    accepted:
      "a bearer token of visible ASCII characters, or a JSON list of different tokens, each a text or " +
      `{"token": …, "${label}": …, "may": […]}, where "may" lists any of ${known.join(", ")}` +
      jsonErrorNote(value) +
      (typedList(value)
        .map((each) => didYouMeanField(each, ["token", label, "may"]))
        .find((suggestion) => suggestion !== "") ?? ""),
  });
  return [];
}

/** The value of `CHECK_TOKENS`, in the JSON schema. */
export const writtenCheckTokens = () => writtenTokens(checkForm);

/** The value of `ADMIN_TOKENS`, in the JSON schema. */
export const writtenAdminTokens = () => writtenTokens(adminForm);

function writtenTokens<Each extends string>({ rights: known, label }: TokenForm<Each>) {
  const text = v.pipe(v.string(), v.regex(/^[!-~]+$/));
  const holder = v.strictObject({
    token: text,
    [label]: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(longestLabel))),
    may: v.optional(v.pipe(v.array(v.picklist(known)), v.minLength(1))),
  });
  return v.union([text, v.pipe(v.array(v.union([text, holder])), v.minLength(1)), writtenJson()]);
}

/** The values in an earlier `.dev.vars.example`, which are public and which deploy buttons have offered. */
const placeholders: ReadonlySet<string> = new Set([
  "at least 32 random characters",
  "at least 32 random characters without spaces",
]);

const secretNames = [
  "KEY_SECRET",
  "CHECK_TOKENS",
  "ADMIN_TOKENS",
  "ORIGIN_SECRET",
  "JWT_KEY",
] as const satisfies VariableName[];

/** Secrets with lists of tokens. */
const tokenVariables = ["CHECK_TOKENS", "ADMIN_TOKENS"] as const;

const leastKeySecretLength = 32;
const leastTokenLength = 16;

const isPlaceholder = (text: unknown): boolean => typeof text === "string" && placeholders.has(text.trim());

/** A problem for each secret that is a public placeholder. */
export function placeholderProblems(env: KnownVariables): ConfigProblem[] {
  const wrong = secretNames.filter((variable) =>
    tokenVariables.some((each) => each === variable)
      ? tokenTexts(env[variable]).some(isPlaceholder)
      : isPlaceholder(env[variable]),
  );
  const accepted = "a secret of your own instead of the placeholder of .dev.vars.example";
  return wrong.map((variable) => ({ variable, field: "", value: hidden, accepted }));
}

/** A line for each secret that is short enough to guess. The Worker runs with it. */
export function shortSecrets(env: KnownVariables): string[] {
  const { KEY_SECRET: secret } = env;
  const lines: string[] = [];
  if (typeof secret === "string" && secret !== "" && secret.length < leastKeySecretLength) {
    lines.push(`KEY_SECRET: expected at least ${leastKeySecretLength} random characters, got ${secret.length}`);
  }
  for (const variable of tokenVariables) {
    const lengths = tokenTexts(env[variable]).map(({ length }) => length);
    const shortest = Math.min(...lengths);
    if (shortest >= leastTokenLength) continue;
    lines.push(
      `${variable}: expected tokens of at least ${leastTokenLength} random characters, got one with ${shortest} characters`,
    );
  }
  return lines;
}

export function readOriginSecret(value: unknown, report: ReportProblem): string | null {
  if (!isSet(value)) return null;
  if (isVisible(value)) return value;
  report({
    variable: "ORIGIN_SECRET",
    field: "",
    value: hidden,
    accepted: "a text of visible ASCII characters",
  });
  return null;
}

export function readKeySecret(value: unknown, report: ReportProblem): string {
  if (typeof value === "string" && value !== "") return value;
  report({
    variable: "KEY_SECRET",
    field: "",
    value: isSet(value) ? hidden : undefined,
    accepted:
      "a secret text, the same in every deployment; set it with `wrangler secret put KEY_SECRET`, or in .dev.vars locally",
  });
  return "";
}
