/** Who may use `/check`: bearer tokens, as written, and what each of them is for. */
import * as v from "valibot";
import {
  hidden,
  isBrokenJson,
  isSet,
  jsonErrorNote,
  typedList,
  type ReportProblem,
  typedValue,
} from "./variables.ts";
import { didYouMeanField, fields, isRecord } from "../validation/problems.ts";

/** What a token may be for. */
export type Right = (typeof rights)[number];
const rights = ["check", "look", "forget", "adhoc"] as const;

export interface CheckToken {
  readonly token: string;
  /** Whose keys it speaks of; null: the proxy's. */
  readonly tenant: string | null;
  readonly may: ReadonlySet<Right>;
}

const tokenFields = ["token", "tenant", "may"];
const longestTenant = 128;

/** Of visible characters of ASCII, as a header carries them. */
export const isVisible = (value: unknown): value is string =>
  typeof value === "string" && /^[\x21-\x7e]+$/.test(value);

const token = v.custom<string>(isVisible);

const holderSchema = fields({
  token,
  tenant: v.optional(
    v.pipe(
      v.string(),
      v.check((text) => text.trim() !== "" && text.isWellFormed() && text.length <= longestTenant),
    ),
  ),
  may: v.optional(v.pipe(v.array(v.picklist(rights)), v.minLength(1)), [...rights]),
});

const tokenSchema = v.union([
  v.pipe(
    token,
    v.transform((text) => ({ token: text, tenant: undefined, may: [...rights] })),
  ),
  holderSchema,
]);

/** Whether looks are open to all: `CHECK_AUTH = "none"`. */
export function readCheckAuth(value: unknown, report: ReportProblem): boolean {
  if (!isSet(value)) return false;
  if (value === "none") return true;
  const accepted = '"none", which lets anyone look, or nothing';
  report({ variable: "CHECK_AUTH", field: "", value, accepted });
  return false;
}

/** The tokens in a value that may be wrong. */
export function tokenTexts(value: unknown): string[] {
  return typedList(value).flatMap((each) => {
    const text = isRecord(each) ? each["token"] : each;
    return typeof text === "string" && text !== "" ? [text] : [];
  });
}

/** Empty when `/check` is closed. Nothing of what is written is quoted in a problem. */
export function readCheckTokens(value: unknown, report: ReportProblem): readonly CheckToken[] {
  if (!isSet(value)) return [];
  // A holder stands in a list only.
  const isList = !isRecord(typedValue(value));
  const parsed = v.safeParse(v.pipe(v.array(tokenSchema), v.minLength(1)), typedList(value));
  const tokens = parsed.success ? parsed.output : [];
  const isDistinct = new Set(tokens.map((each) => each.token)).size === tokens.length;
  if (parsed.success && isList && isDistinct && !isBrokenJson(value)) {
    return tokens.map((each) => ({
      token: each.token,
      tenant: each.tenant ?? null,
      may: new Set(each.may),
    }));
  }
  report({
    variable: "CHECK_TOKENS",
    field: "",
    value: hidden,
    accepted:
      "a bearer token of visible ASCII characters, or a JSON list of different tokens, each a text or " +
      `{"token": …, "tenant": …, "may": […]}, where may is any of ${rights.join(", ")}` +
      jsonErrorNote(value) +
      (typedList(value)
        .map((each) => didYouMeanField(each, tokenFields))
        .find((suggestion) => suggestion !== "") ?? ""),
  });
  return [];
}
