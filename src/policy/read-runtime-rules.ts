/**
 * Reads runtime rules and applies them to a policy. A rule is validated by reading the written policy again with the rule's
 * fields in place of the configured ones, so that both accept the same values with the same messages.
 */
import * as v from "valibot";
import { acceptedNotation, holdsSlots, isQueue, type Limit } from "../strategies/index.ts";
import { acceptedOverrides, conditionParts, type Lists } from "./lists.ts";
import { limitLists, namesOf, type Policy, readPolicy } from "./policy.ts";
import { type PolicyMode, policyModes, type PolicyRule, type PolicyRules, type RuleEntry } from "./runtime-rules.ts";
import { oneOf, type WrittenFields } from "./schemas.ts";
import { type KeyPart, traitsOf } from "./key.ts";
import { unmatchedText } from "./key-text.ts";
import { acceptedList, type Pattern } from "./subject-pattern.ts";
import { parentOf } from "./within.ts";
import { isRecord, jsonOrNull } from "../validation/json.ts";
import { type ConfigProblem, type ReportField } from "../validation/problems.ts";

/** The most text of all rules of a policy together. Each call to an object may carry it. */
export const mostRulesBytes = 32 * 1024;

/** The content of a rule. All its lists are empty except the one of its kind. */
type RuleContent =
  | { readonly kind: "mode"; readonly mode: PolicyMode }
  | { readonly kind: "limits"; readonly limits: readonly Limit[] }
  | { readonly kind: keyof Lists; readonly lists: Lists };

/** A rule that the current configuration does not accept. It has no effect. */
export interface RefusedRule {
  /** Null when the text of the rules could not be read. */
  readonly id: string | null;
  /** States what is expected, and quotes no value, since it may be a key. */
  readonly reason: string;
}

/** The rules of a policy, read once. Their effect at an instant is derived from them. */
export interface ReadRules {
  readonly rules: PolicyRules;
  /** The newest first. `expiresAtMs` is `Infinity` for a rule that does not expire. */
  readonly parts: readonly (RuleContent & { readonly id: string; readonly expiresAtMs: number })[];
  readonly refused: readonly RefusedRule[];
}

/** A policy with its live rules applied. */
export interface RuledPolicy {
  readonly policy: Policy;
  /** When the first of the live rules expires; `Infinity` when none does. */
  readonly changesAtMs: number;
}

const storedRules = v.array(
  v.looseObject({ id: v.string(), expiresAtMs: v.optional(v.pipe(v.number(), v.integer())) }),
);

export function readRules(base: Policy, rules: PolicyRules): ReadRules {
  const stored = v.safeParse(storedRules, jsonOrNull(rules.text));
  if (!stored.success) {
    const reason = "expected the rules as JSON: a list of objects, each with an id";
    return { rules, parts: [], refused: [{ id: null, reason }] };
  }
  const parts: ReadRules["parts"][number][] = [];
  const refused: RefusedRule[] = [];
  for (const { id, expiresAtMs = Number.POSITIVE_INFINITY, ...input } of stored.output) {
    const problems: string[] = [];
    const content = contentOf(base, input, ({ field, accepted }) => problems.push(`${field}: expected ${accepted}`));
    if (content === null) refused.push({ id, reason: problems.join("; ") });
    else parts.push({ id, expiresAtMs, ...content });
  }
  return { rules, parts, refused };
}

/**
 * The policy that is in effect at an instant. The newest rule for the mode and the newest for the limits win. The
 * entries of all rules add up, the newest rule's first.
 */
export function applyRules(base: Policy, { rules, parts }: ReadRules, nowMs: number): RuledPolicy {
  const live = parts.filter(({ expiresAtMs }) => expiresAtMs > nowMs);
  const changesAtMs = Math.min(...live.map(({ expiresAtMs }) => expiresAtMs));
  const mode = live.find((part) => part.kind === "mode");
  const limits = live.find((part) => part.kind === "limits");
  const lists = live.flatMap((part) => ("lists" in part ? part : []));
  const policy: Policy = {
    ...base,
    rules,
    ...(limits !== undefined && { limits: limits.limits }),
    ...(mode !== undefined && { isOff: mode.mode === "off" }),
    ...(mode !== undefined && mode.mode !== "off" && { isDryRun: mode.mode === "dry-run" }),
    modeRule: mode?.id ?? null,
    limitsRule: limits?.id ?? null,
    ruleLists: {
      allow: lists.flatMap((part) => entriesOf(part.id, part.lists.allow)),
      deny: lists.flatMap((part) => entriesOf(part.id, part.lists.deny)),
      overrides: lists.flatMap((part) => entriesOf(part.id, part.lists.overrides)),
    },
  };
  return { policy, changesAtMs };
}

/** The policy that is in effect at an instant, and the rules that the configuration refuses. */
export function policyWithRules(
  base: Policy,
  rules: PolicyRules,
  nowMs: number,
): RuledPolicy & Pick<ReadRules, "refused"> {
  const read = readRules(base, rules);
  return { ...applyRules(base, read, nowMs), refused: read.refused };
}

const entriesOf = <Entry extends object>(rule: string, entries: readonly Entry[]): (Entry & RuleEntry)[] =>
  entries.map((entry, index) => ({ ...entry, rule, index }));

/** The parts of the configuration with which a new rule must not conflict. */
export interface RuleContext {
  readonly policies: readonly Policy[];
  /** Null when no key that verifies tokens is configured. */
  readonly jwt: object | null;
}

type WrittenRule<Rule> = Rule extends unknown ? Omit<Rule, "id" | "expiresAtMs"> : never;

/**
 * Validates a new policy rule. Null when it has problems, which are passed to `report`.
 * @param input its kind, and the fields of that kind. Other fields are ignored
 */
export function readPolicyRule(
  policy: Policy,
  input: WrittenFields,
  context: RuleContext,
  report: ReportField,
): WrittenRule<PolicyRule> | null {
  const content = contentOf(policy, input, report);
  if (content === null || !isAccepted(policy, content, context, report)) return null;
  const rule = writtenRule(content, input);
  const sizeBytes = new TextEncoder().encode(JSON.stringify(rule)).length;
  if (sizeBytes <= mostRulesBytes) return rule;
  const accepted = `a rule of at most ${mostRulesBytes / 1024} KB`;
  report({ field: fieldOf[content.kind], value: `${sizeBytes} bytes`, accepted });
  return null;
}

/** The field of a rule with its content, by the kind of the rule. */
const fieldOf = { mode: "mode", limits: "limits", allow: "entries", deny: "entries", overrides: "overrides" } as const;

/** The rule as it is stored: its kind, and the fields of the input that belong to this kind. */
function writtenRule(content: RuleContent, input: WrittenFields): WrittenRule<PolicyRule> {
  const { kind } = content;
  if (kind === "mode") return content;
  const { limits, strategy, entries, overrides } = input;
  if (kind === "limits") {
    return { kind, limits, ...(typeof strategy === "string" && strategy !== "" && { strategy }) };
  }
  return kind === "overrides" ? { kind, overrides: asList(overrides) } : { kind, entries: asList(entries) };
}

const asList = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);

/** A key rule without its id and expiry. */
export type KeyRuleContent =
  | { readonly kind: "limits"; readonly limits: readonly Limit[] }
  | { readonly kind: "allow" | "block" };

const keyRuleKinds = ["limits", "allow", "block"] as const;

/** Validates a new key rule. Null when it has problems, which are passed to `report`. */
export function readKeyRule(
  policy: Policy,
  input: WrittenFields,
  context: RuleContext,
  report: ReportField,
): KeyRuleContent | null {
  const kind = keyRuleKinds.find((each) => each === input["kind"]);
  if (kind === undefined) {
    report({ field: "kind", value: input["kind"], accepted: oneOf(keyRuleKinds) });
    return null;
  }
  if (kind !== "limits") return { kind };
  const limits = limitsIn(policy, input, report);
  if (limits === null) return null;
  if (limits.some(holdsSlots) && !policy.limits.some(holdsSlots)) {
    // An isolate learns of the rule only from the decision: too late to make the spend a reservation.
    const accepted = "no concurrency limit, because the policy has none: its requests release no slots";
    report({ field: kind, value: input["limits"], accepted });
    return null;
  }
  const content = { kind, limits } as const;
  return isAccepted(policy, content, context, report) ? content : null;
}

function contentOf(base: Policy, input: WrittenFields, report: ReportField): RuleContent | null {
  const { kind } = input;
  switch (kind) {
    case "mode": {
      const mode = policyModes.find((each) => each === input["mode"]);
      if (mode !== undefined) return { kind, mode };
      report({ field: "mode", value: input["mode"], accepted: oneOf(policyModes) });
      return null;
    }
    case "limits": {
      const limits = limitsIn(base, input, report);
      return limits === null ? null : { kind, limits };
    }
    case "allow":
    case "deny":
    case "overrides": {
      const lists = listsIn(base, kind, input[fieldOf[kind]], report);
      return lists === null ? null : { kind, lists };
    }
    default:
      report({ field: "kind", value: kind, accepted: oneOf(Object.keys(fieldOf)) });
      return null;
  }
}

/** The policy with limits that the Worker's code states for one request, in place of its own; or their problems. */
export function readStatedLimits(
  policy: Policy,
  limits: unknown,
  policies: readonly Policy[],
): Policy | readonly ConfigProblem[] {
  if (typeof limits === "function") {
    return [{ variable: "", field: "limits", value: "a function", accepted: acceptedNotation }];
  }
  const problems: ConfigProblem[] = [];
  const report: ReportField = (problem) => problems.push({ ...problem, variable: "" });
  const read = limitsIn(policy, { limits }, report);
  const isValid =
    read !== null && isAccepted(policy, { kind: "limits", limits: read }, { policies, jwt: null }, report);
  return isValid ? { ...policy, limits: read } : problems;
}

function limitsIn(base: Policy, { limits, strategy }: WrittenFields, report: ReportField): readonly Limit[] | null {
  const own = strategy === undefined ? {} : { strategy };
  return reread(base, { limits, ...own }, report)?.limits ?? null;
}

/** A rule with an empty list would have no effect. */
function listsIn(base: Policy, kind: keyof Lists, list: unknown, report: ReportField): Lists | null {
  const field = fieldOf[kind];
  if (list === undefined || (Array.isArray(list) && list.length === 0)) {
    report({ field, value: list, accepted: kind === "overrides" ? acceptedOverrides : acceptedList });
    return null;
  }
  const read = reread(base, { [kind]: list }, (problem) =>
    report({ ...problem, field: problem.field.replace(kind, field) }),
  );
  return read?.lists ?? null;
}

/** The written policy without the entries and shares of the configuration, which need not fit a rule. */
function withoutEntries({ written }: Policy): WrittenFields {
  const {
    overrides: _o,
    allow: _a,
    deny: _d,
    guaranteed: _g,
    weight: _w,
    classes: _c,
    ...fields
  } = isRecord(written) ? written : {};
  return fields;
}

/** Reads the written policy again, with some fields replaced. */
function reread(base: Policy, replaced: WrittenFields, report: ReportField): Policy | null {
  // A policy without a queue must not have the field `maxDelay`.
  const { maxDelay, ...fields } = { ...withoutEntries(base), ...replaced };
  const parent = parentOf(base);
  const earlier = new Map(parent === null ? [] : [[parent.name, parent]]);
  const read = (written: WrittenFields): Policy | null =>
    readPolicy("", "", written, ({ field, value, accepted }) => report({ field, value, accepted }), earlier);
  const policy = read(fields);
  if (policy === null || maxDelay === undefined) return policy;
  return limitLists(policy).flat().some(isQueue) ? read({ ...fields, maxDelay }) : policy;
}

/** Whether the rule fits the rest of the configuration. Otherwise, its problems are passed to `report`. */
function isAccepted(
  policy: Policy,
  content: RuleContent | KeyRuleContent,
  { policies, jwt }: RuleContext,
  report: ReportField,
): boolean {
  const problems: Parameters<ReportField>[0][] = [];
  const overrides = "lists" in content ? content.lists.overrides : [];
  const own = content.kind === "limits" ? content.limits : [];
  const owners = namesOfOthers(policy, policies);
  for (const { name } of [...own, ...overrides.flatMap(({ limits }) => limits)]) {
    const owner = owners.get(name);
    if (owner === undefined) continue;
    const accepted = `a name that no other policy or limit has; the policy "${owner}" has the same`;
    problems.push({ field: content.kind, value: name, accepted });
  }
  for (const [place, part, pattern] of textsIn(policy, content)) {
    const accepted = pattern.kind === "text" && isLocation(part) ? unmatchedText(part, policy, pattern.text) : null;
    if (accepted !== null) problems.push({ field: place, value: "", accepted });
  }
  if (jwt === null && conditionParts(overrides).some(({ kind }) => kind === "jwt")) {
    const accepted = "no condition on a claim, because no key that verifies tokens is configured";
    problems.push({ field: content.kind, value: "jwt:", accepted });
  }
  for (const problem of problems) report(problem);
  return problems.length === 0;
}

/** The patterns for key parts in a rule's entries, each with its position. */
function textsIn(
  { key }: Policy,
  content: RuleContent | KeyRuleContent,
): [place: string, part: KeyPart, pattern: Pattern][] {
  if (!("lists" in content)) return [];
  const { allow, deny, overrides } = content.lists;
  return [...allow, ...deny, ...overrides].flatMap((entry, index) => {
    const place = `${fieldOf[content.kind]}[${index}]`;
    const target = "for" in entry ? entry.for : entry;
    if (target.kind === "condition") return [[place, target.condition.part, target.condition.pattern]];
    const patterns = target.kind === "key" ? target.patterns : [];
    return patterns.flatMap((pattern, at) => {
      const part = key[at];
      return part === undefined ? [] : [[place, part, pattern]];
    });
  });
}

/**
 * Whether only Cloudflare sets the values of a part. An entry with a text that Cloudflare never sets is then a mistake.
 */
const isLocation = (part: KeyPart): boolean => traitsOf(part).isVerified === true && !("name" in part);

/** The names of the other policies and of their limits, each with the name of its policy. */
function namesOfOthers(policy: Policy, policies: readonly Policy[]): ReadonlyMap<string, string> {
  const others = policies.filter(({ name }) => name !== policy.name);
  return new Map(others.flatMap((other) => namesOf(other).map((each) => [each, other.name] as const)));
}
