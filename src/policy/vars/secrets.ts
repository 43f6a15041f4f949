/** Secrets: bearer tokens with the rights of each, and texts. No problem quotes the value of a secret. */
import * as v from "valibot";
import { asText, type ConfigProblem, didYouMeanField, fields, hidden, isRecord } from "../../validation/problems.ts";
import type { KnownVariables, VariableName } from "./known-variables.ts";
import { isBrokenJson, isSet, jsonErrorNote, typedList, typedValue, type VariableReader } from "./variables.ts";

export const rights = ["check", "look", "forget", "adhoc"] as const;
export type Right = (typeof rights)[number];

export interface CheckToken {
  readonly token: string;
  /** The tenant whose keys the token accesses; null: the proxy's keys. */
  readonly tenant: string | null;
  readonly may: ReadonlySet<Right>;
}

export const adminRights = ["read", "write", "reveal"] as const;
/** A right that a token of the admin API may have. */
export type AdminRight = (typeof adminRights)[number];

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
const adminForm: TokenForm<AdminRight> = { variable: "ADMIN_TOKENS", rights: adminRights, label: "name" };

/** Empty when no tokens are configured, or invalid ones. */
export const readCheckTokens = (reader: VariableReader): readonly CheckToken[] =>
  readTokens(reader, checkForm).map(({ token, label, may }) => ({ token, tenant: label, may }));

/** Empty when no tokens are configured, or invalid ones. */
export const readAdminTokens = (reader: VariableReader): readonly AdminToken[] =>
  readTokens(reader, adminForm).map(({ token, label, may }, index) => ({
    token,
    name: label ?? `token ${index + 1}`,
    may,
  }));

export const longestLabel = 128;

const visibleText = v.custom<string>((value) => typeof value === "string" && /^[\x21-\x7e]+$/.test(value));

const labelSchema = v.optional(
  v.pipe(
    v.string(),
    v.check((text) => text.trim() !== "" && text.isWellFormed() && text.length <= longestLabel),
  ),
);

function tokenSchema<Each extends string>({ rights: known, label }: TokenForm<Each>) {
  const may = v.optional(v.pipe(v.array(v.picklist(known)), v.minLength(1)), [...known]);
  const entries: { readonly token: typeof visibleText; readonly may: typeof may } = {
    token: visibleText,
    [label]: labelSchema,
    may,
  };
  return v.union([
    v.pipe(
      visibleText,
      v.transform((token) => ({ token, label: null, may: new Set<Each>(known) })),
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

function readTokens<Each extends string>(reader: VariableReader, form: TokenForm<Each>) {
  const { variable, rights: known, label } = form;
  const { [variable]: value } = reader.env;
  if (!isSet(value)) return [];
  // A token in the form of a JSON object is valid only within a list.
  const isList = !isRecord(typedValue(value));
  const parsed = v.safeParse(v.pipe(v.array(tokenSchema(form)), v.minLength(1)), typedList(value));
  const tokens = parsed.success ? parsed.output : [];
  const isDistinct = new Set(tokens.map(({ token }) => token)).size === tokens.length;
  if (parsed.success && isList && isDistinct && !isBrokenJson(value)) return tokens;
  const accepted =
    "a bearer token of visible ASCII characters, or a JSON list of different tokens, each a text or " +
    `{"token": …, "${label}": …, "may": […]}, where "may" lists any of ${known.join(", ")}`;
  const suggestions = typedList(value).map((each) => didYouMeanField(each, ["token", label, "may"]));
  const suggestion = suggestions.find((text) => text !== "") ?? "";
  reader.problem(variable, hidden, accepted + jsonErrorNote(value) + suggestion);
  return [];
}

/** The token texts in a value that may be invalid. */
export function tokenTexts(value: unknown): string[] {
  return typedList(value).flatMap((each) => {
    const text = isRecord(each) ? each["token"] : each;
    return typeof text === "string" && text !== "" ? [text] : [];
  });
}

export const readOriginSecret = (reader: VariableReader): string | null =>
  reader.setting("ORIGIN_SECRET", null, {
    read: (value) => (v.is(visibleText, value) ? value : undefined),
    accepted: "a text of visible ASCII characters",
    isSecret: () => true,
  });

export function readKeySecret(reader: VariableReader): string {
  const { KEY_SECRET: secret } = reader.env;
  if (typeof secret === "string" && secret !== "") return secret;
  const accepted =
    "a secret text, the same in every deployment; set it with `wrangler secret put KEY_SECRET`, or in .dev.vars locally";
  reader.problem("KEY_SECRET", isSet(secret) ? hidden : undefined, accepted);
  return "";
}

/** The values in an earlier `.dev.vars.example`, which are public and which deploy buttons have offered. */
const placeholders: ReadonlySet<string> = new Set([
  "at least 32 random characters",
  "at least 32 random characters without spaces",
]);

/** Secrets with lists of tokens. */
const tokenVariables = ["CHECK_TOKENS", "ADMIN_TOKENS"] as const;
const textVariables = ["ORIGIN_SECRET", "JWT_KEY"] as const satisfies VariableName[];

/** A problem for each secret that is a public placeholder. */
export function placeholderProblems(env: KnownVariables): ConfigProblem[] {
  const texts = [
    ["KEY_SECRET", [env.KEY_SECRET]] as const,
    ...tokenVariables.map((variable) => [variable, tokenTexts(env[variable])] as const),
    ...textVariables.map((variable) => [variable, [env[variable]]] as const),
  ];
  const accepted = "a secret of your own instead of the placeholder of .dev.vars.example";
  return texts
    .filter(([, secrets]) => secrets.some((secret) => placeholders.has(asText(secret).trim())))
    .map(([variable]) => ({ variable, field: "", value: hidden, accepted }));
}

const leastKeySecretLength = 32;
const leastTokenLength = 16;

/** A line for each secret that is short enough to guess. The Worker runs with it. */
export function shortSecrets(env: KnownVariables): string[] {
  const length = asText(env.KEY_SECRET).length;
  const lines =
    length > 0 && length < leastKeySecretLength
      ? [`KEY_SECRET: expected at least ${leastKeySecretLength} random characters, got ${length}`]
      : [];
  for (const variable of tokenVariables) {
    const shortest = Math.min(...tokenTexts(env[variable]).map((token) => token.length));
    if (shortest >= leastTokenLength) continue;
    lines.push(
      `${variable}: expected tokens of at least ${leastTokenLength} random characters, got one with ${shortest} characters`,
    );
  }
  return lines;
}
