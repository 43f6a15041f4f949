/** Reads rules that operators write: bodies of `POST /api/rules`, `PUT /api/rules/{id}` and `PATCH /api/policies/{name}`. */
import * as v from "valibot";
import type { Policy } from "../policy/policy.ts";
import { readKeyRule, readPolicyRule, type RuleContext } from "../policy/read-runtime-rules.ts";
import type { RuleBody, RuleInput, RuleKind } from "../control/protocol.ts";
import { parseDuration } from "../strategies/index.ts";
import { problemsFromIssues } from "../validation/problems.ts";
import type { FieldError } from "../http/wire/problems.ts";
import { instant } from "./context.ts";

const longestNote = 1_024;
const longestLifeMs = 3_650 * 86_400_000;

const acceptedNote = `a text of 1 to ${longestNote} characters`;
const note = v.pipe(
  v.string(acceptedNote),
  v.check((text) => text.trim() !== "" && text.isWellFormed(), acceptedNote),
  v.maxLength(longestNote, acceptedNote),
);

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
  mode: v.optional(v.unknown()),
  entries: v.optional(v.unknown()),
  overrides: v.optional(v.unknown()),
};

type KindFields = Readonly<Partial<Record<keyof typeof contentEntries, unknown>>>;

const contentOf: Readonly<Record<RuleKind, readonly (keyof KindFields)[]>> = {
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

/** Collects the errors of a body. */
export class Errors {
  readonly list: FieldError[] = [];

  add(field: string, accepted: string): void {
    // Errors of several limits in one text name the same field: equal errors are reported once.
    if (this.list.some((each) => each.field === field && each.accepted === accepted)) return;
    this.list.push({ field, accepted });
  }

  addIssues(field: string, issues: readonly v.BaseIssue<unknown>[]): void {
    for (const problem of problemsFromIssues("", field, issues)) {
      this.add(problem.field, problem.accepted);
    }
  }
}

/** The body of a rule as it is enforced, and what the operator wrote. */
export type ReadRule = RuleBody & Pick<RuleInput, "written">;

/** Null when the rule has errors. */
export function readRule(
  scope: RuleBody["scope"],
  kind: RuleKind,
  content: KindFields,
  policy: Policy,
  context: RuleContext,
  errors: Errors,
): ReadRule | null {
  if (!hasKind(scope, kind)) {
    errors.add("kind", `${kindsOf[scope].map((each) => `"${each}"`).join(", ")} for a rule of one ${scope}`);
    return null;
  }
  const used = scope === "key" && kind !== "limits" ? [] : contentOf[kind];
  const entries = Object.entries(content).filter(([, value]) => value !== undefined);
  for (const [name] of entries) {
    if (!used.some((each) => each === name)) errors.add(name, `no value with the kind "${kind}"`);
  }
  const written = Object.fromEntries(entries);
  const input = { kind, ...written };
  const report = ({ field, accepted }: FieldError): void => errors.add(field, accepted);
  if (scope === "key") {
    const rule = readKeyRule(policy, input, context, report);
    return rule === null ? null : { scope, rule, written };
  }
  const rule = readPolicyRule(policy, input, context, report);
  return rule === null ? null : { scope, rule, written };
}

export type RuleEnd = Pick<RuleInput, "expiresAtMs" | "note">;

/** Reads when a rule ends, and its note. */
export function readEnd(
  written: { readonly for?: unknown; readonly expiresAt?: unknown; readonly note?: unknown },
  kinds: readonly RuleKind[],
  nowMs: number,
  errors: Errors,
): RuleEnd {
  const read = v.safeParse(v.nullish(note), written.note);
  if (!read.success) errors.addIssues("note", read.issues);
  const needing = kinds.find((kind) => kind === "block" || kind === "deny");
  if (needing !== undefined && (written.note ?? null) === null) {
    errors.add("note", `${acceptedNote}, which the kind "${needing}" requires`);
  }
  const expiresAtMs = readExpiry(written, nowMs, errors);
  return { expiresAtMs, note: read.success ? (read.output ?? null) : null };
}

function readExpiry(
  written: { readonly for?: unknown; readonly expiresAt?: unknown },
  nowMs: number,
  errors: Errors,
): number | null {
  const length = written.for ?? null;
  const end = written.expiresAt ?? null;
  if (length !== null && end !== null) {
    errors.add("expiresAt", "no value together with for");
    return null;
  }
  if (length !== null) {
    const lengthMs = typeof length === "string" ? parseDuration(length) : null;
    if (lengthMs !== null && lengthMs >= 1_000) return nowMs + lengthMs;
    errors.add("for", acceptedDuration);
    return null;
  }
  if (end === null) return null;
  const read = v.safeParse(instant, end);
  if (!read.success) errors.addIssues("expiresAt", read.issues);
  else if (read.output <= nowMs || read.output > nowMs + longestLifeMs) {
    errors.add("expiresAt", "an instant in the future, at most 3650 days from now");
  } else return read.output;
  return null;
}
