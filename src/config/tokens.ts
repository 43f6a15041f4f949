/** The variables `CHECK_TOKENS` and `CHECK_AUTH`: the bearer tokens of `/check`, and the rights of each. */
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
import { writtenJson } from "./schemas.ts";
import { didYouMeanField, fields, isRecord } from "../validation/problems.ts";

export type Right = (typeof rights)[number];
const rights = ["check", "look", "forget", "adhoc"] as const;

export interface CheckToken {
  readonly token: string;
  /** The tenant whose keys the token accesses; null: the proxy's keys. */
  readonly tenant: string | null;
  readonly may: ReadonlySet<Right>;
}

const tokenFields = ["token", "tenant", "may"];
const longestTenant = 128;

/** Whether a value consists of visible ASCII characters, so that a header can carry it. */
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
export function readCheckTokens(value: unknown, report: ReportProblem): readonly CheckToken[] {
  if (!isSet(value)) return [];
  // A token in the form of a JSON object is valid only within a list.
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
      `{"token": …, "tenant": …, "may": […]}, where "may" lists any of ${rights.join(", ")}` +
      jsonErrorNote(value) +
      (typedList(value)
        .map((each) => didYouMeanField(each, tokenFields))
        .find((suggestion) => suggestion !== "") ?? ""),
  });
  return [];
}

/** The value of `CHECK_TOKENS`, in the JSON schema. */
export function writtenTokens() {
  const text = v.pipe(v.string(), v.regex(/^[!-~]+$/));
  const holder = v.strictObject({
    token: text,
    tenant: v.optional(v.pipe(v.string(), v.minLength(1), v.maxLength(longestTenant))),
    may: v.optional(v.pipe(v.array(v.picklist(rights)), v.minLength(1))),
  });
  return v.union([text, v.pipe(v.array(v.union([text, holder])), v.minLength(1)), writtenJson()]);
}
