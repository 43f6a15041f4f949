/** Secrets: bearer tokens with the rights of each, and texts. No problem quotes the value of a secret. */
import * as v from "valibot";
import { isRecord } from "../../validation/json.ts";
import { asText, type ConfigProblem, didYouMeanField, hidden } from "../../validation/problems.ts";
import type { KnownVariables, VariableName, VariableNote } from "./known-variables.ts";
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

/** Empty when no tokens are configured, or invalid ones. */
export const readCheckTokens = (reader: VariableReader): readonly CheckToken[] =>
  readTokens(reader, "CHECK_TOKENS", rights, "tenant").map(({ label, ...token }) => ({ ...token, tenant: label }));

/** Empty when no tokens are configured, or invalid ones. */
export const readAdminTokens = (reader: VariableReader): readonly AdminToken[] =>
  readTokens(reader, "ADMIN_TOKENS", adminRights, "name").map(({ label, ...token }, index) => ({
    ...token,
    name: label ?? `token ${index + 1}`,
  }));

export const longestLabel = 128;

const visibleText = v.custom<string>((value) => typeof value === "string" && /^[\x21-\x7e]+$/.test(value));

const labelSchema = v.optional(
  v.pipe(
    v.string(),
    v.check((text) => text.trim() !== "" && text.isWellFormed() && text.length <= longestLabel),
  ),
);

/** @param label the optional field with a text about the holder */
function readTokens<Each extends string>(
  reader: VariableReader,
  variable: "CHECK_TOKENS" | "ADMIN_TOKENS",
  known: readonly Each[],
  label: "tenant" | "name",
) {
  const { [variable]: value } = reader.env;
  if (!isSet(value)) return [];
  const list = typedList(value);
  const may = v.optional(v.pipe(v.array(v.picklist(known)), v.minLength(1)), [...known]);
  const fields: { readonly token: typeof visibleText; readonly may: typeof may } = {
    token: visibleText,
    [label]: labelSchema,
    may,
  };
  const written = list.map((each) => (typeof each === "string" ? { token: each } : each));
  const holders = v.safeParse(v.pipe(v.array(v.strictObject(fields)), v.minLength(1)), written);
  const texts = holders.success ? holders.output.map(({ token }) => token) : [];
  // A token in the form of a JSON object is valid only within a list.
  const isList = !isRecord(typedValue(value)) && !isBrokenJson(value);
  if (holders.success && isList && new Set(texts).size === texts.length) {
    return holders.output.map((each) => ({
      token: each.token,
      label: asText(Reflect.get(each, label)) || null,
      may: new Set<Each>(each.may),
    }));
  }
  const accepted =
    "a bearer token of visible ASCII characters, or a JSON list of different tokens, each a text or " +
    `{"token": …, "${label}": …, "may": […]}, where "may" lists any of ${known.join(", ")}`;
  const suggestions = list.map((each) => didYouMeanField(each, ["token", label, "may"]));
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

/** The example values of an earlier `.dev.vars.example`. They are public, and deploy buttons have offered them. */
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
export function shortSecrets(env: KnownVariables): VariableNote[] {
  const length = asText(env.KEY_SECRET).length;
  const text = `KEY_SECRET: expected at least ${leastKeySecretLength} random characters, got ${length}`;
  const notes: VariableNote[] = length > 0 && length < leastKeySecretLength ? [{ variable: "KEY_SECRET", text }] : [];
  for (const variable of tokenVariables) {
    const shortest = Math.min(...tokenTexts(env[variable]).map((token) => token.length));
    if (shortest >= leastTokenLength) continue;
    const expected = `expected tokens of at least ${leastTokenLength} random characters`;
    notes.push({ variable, text: `${variable}: ${expected}, got one with ${shortest} characters` });
  }
  return notes;
}
