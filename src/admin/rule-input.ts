/** Reads rules that operators write: bodies of `POST /api/rules`, `PUT /api/rules/{id}` and `PATCH /api/policies/{name}`. */
import * as v from "valibot";
import type { Policy } from "../policy/policy.ts";
import { readKeyRule, readPolicyRule, type RuleContext } from "../policy/read-runtime-rules.ts";
import type { RuleBody, RuleInput, RuleKind } from "../control/protocol.ts";
import { parseDuration } from "../strategies/index.ts";
import type { FieldError } from "../http/wire/problems.ts";
import { acceptedInstant, instant } from "./context.ts";

const longestNote = 1_024;
const longestLifeMs = 3_650 * 86_400_000;

const acceptedNote = `a text of 1 to ${longestNote} characters`;
export const note = v.nullish(
  v.pipe(
    v.string(acceptedNote),
    v.check((text) => text.trim() !== "" && text.isWellFormed(), acceptedNote),
    v.maxLength(longestNote, acceptedNote),
  ),
  null,
);

const acceptedExpiry = "an instant in the future, at most 3650 days from now";
const acceptedDuration = 'a duration from 1 s to 3650 days such as "30 minutes", "2h" or "90d"';

/** The fields that state when a rule ends, and why it is made. `readEnd` reads them. */
export const endEntries = {
  for: v.optional(v.unknown()),
  expiresAt: v.optional(v.unknown()),
  note: v.optional(v.unknown()),
};

/** The fields that state what a rule does. Their values depend on the kind. */
export const contentEntries = {
  limits: v.optional(v.unknown()),
  strategy: v.optional(v.unknown()),
  factor: v.optional(v.unknown()),
  mode: v.optional(v.unknown()),
  entries: v.optional(v.unknown()),
  overrides: v.optional(v.unknown()),
};

const mostFactor = 1_000_000;
const acceptedFactor = `a number above 0, at most ${mostFactor}`;
const factor = v.pipe(v.number(), v.gtValue(0), v.maxValue(mostFactor));

type Written<Entries> = Readonly<Partial<Record<keyof Entries, unknown>>>;
type WrittenEnd = Written<typeof endEntries>;
type WrittenContent = Written<typeof contentEntries>;

const contentFields = ["limits", "strategy", "factor", "mode", "entries", "overrides"] as const;
const contentOf: Readonly<Record<RuleKind, readonly (typeof contentFields)[number][]>> = {
  limits: ["limits", "strategy"],
  mode: ["mode"],
  allow: ["entries"],
  deny: ["entries"],
  overrides: ["overrides"],
  block: [],
};

export const keyKinds = ["limits", "allow", "block"] as const;
export const policyKinds = ["mode", "limits", "allow", "deny", "overrides"] as const;

const kindsOf: Readonly<Record<RuleBody["scope"], readonly RuleKind[]>> = {
  key: keyKinds,
  policy: policyKinds,
};

/** Whether rules of this kind exist for one key, or for a whole policy. */
export const hasKind = (scope: RuleBody["scope"], kind: RuleKind): boolean => kindsOf[scope].includes(kind);

/** A rule that allows or blocks a key has no content. */
const keyContentOf = (kind: RuleKind): readonly (typeof contentFields)[number][] =>
  kind === "limits" ? [...contentOf.limits, "factor"] : [];

type ReportError = (error: FieldError) => void;

/** The body of a rule as it is enforced, and what the operator wrote; null when the rule has errors. */
export function readRule(
  scope: RuleBody["scope"],
  kind: RuleKind,
  content: WrittenContent,
  policy: Policy,
  context: RuleContext,
  report: ReportError,
): (RuleBody & Pick<RuleInput, "written">) | null {
  if (!hasKind(scope, kind)) {
    report({
      field: "kind",
      accepted: `${kindsOf[scope].map((each) => `"${each}"`).join(", ")} for a rule of one ${scope}`,
    });
    return null;
  }
  const used = scope === "policy" ? contentOf[kind] : keyContentOf(kind);
  const given = contentFields.filter((name) => content[name] !== undefined);
  for (const field of given) {
    if (!used.includes(field)) report({ field, accepted: `no value with the kind "${kind}"` });
  }
  if (content.factor !== undefined && !v.is(factor, content.factor)) {
    report({ field: "factor", accepted: acceptedFactor });
    return null;
  }
  const written = Object.fromEntries(given.map((name) => [name, content[name]]));
  // The factor says how the operator chose the limits. It decides nothing.
  const { factor: _, ...enforced } = written;
  const input = { kind, ...enforced };
  const reportField = ({ field, accepted }: FieldError): void => report({ field, accepted });
  if (scope === "key") {
    const rule = readKeyRule(policy, input, context, reportField);
    return rule === null ? null : { scope, rule, written };
  }
  const rule = readPolicyRule(policy, input, context, reportField);
  return rule === null ? null : { scope, rule, written };
}

/** Reads when a rule of these kinds ends, and its note. */
export function readEnd(
  written: WrittenEnd,
  kinds: readonly RuleKind[],
  nowMs: number,
  report: ReportError,
): Pick<RuleInput, "expiresAtMs" | "note"> {
  const read = v.safeParse(note, written.note);
  if (!read.success) report({ field: "note", accepted: acceptedNote });
  const needing = kinds.find((kind) => kind === "block" || kind === "deny");
  if (needing !== undefined && (written.note ?? null) === null) {
    report({ field: "note", accepted: `${acceptedNote}, which the kind "${needing}" requires` });
  }
  return { expiresAtMs: readExpiry(written, nowMs, report), note: read.success ? read.output : null };
}

function readExpiry(
  { for: length = null, expiresAt = null }: WrittenEnd,
  nowMs: number,
  report: ReportError,
): number | null {
  if (length !== null && expiresAt !== null) {
    report({ field: "expiresAt", accepted: "no value together with for" });
  } else if (length !== null) {
    const lengthMs = typeof length === "string" ? parseDuration(length) : null;
    if (lengthMs !== null && lengthMs >= 1_000) return nowMs + lengthMs;
    report({ field: "for", accepted: acceptedDuration });
  } else if (expiresAt !== null) {
    const { success, output: atMs } = v.safeParse(instant, expiresAt);
    if (success && atMs > nowMs && atMs <= nowMs + longestLifeMs) return atMs;
    report({ field: "expiresAt", accepted: success ? acceptedExpiry : acceptedInstant });
  }
  return null;
}
