/** A key as it was read last, its rules and its boosts, how to bring a rule into effect, and sentences about what decides. */
import type { AuditPage, ExplainedStep, Explanation, FullLimit, Policy, Rule, WrittenLimits } from "../api/answers.ts";
import { changeBy, isOutdated, type KeyReference, type RulePlan, Sender, type Term } from "../api/rules.ts";
import { contentOf, type RuleChange } from "../api/undo-plan.ts";
import { readChanges } from "../api/changes.ts";
import { read } from "../api/client.ts";
import { changeText, ruleText, termMs } from "../parts/rule-text.ts";
import { durationText, limitsText, limitText, wholeUnits } from "../parts/text.ts";
import { now } from "../clock.ts";

type KeyRuleKind = "limits" | "block" | "allow";

export interface KeyRuleContent extends Term {
  readonly kind: KeyRuleKind;
  readonly limits?: WrittenLimits;
  readonly strategy?: string;
}

const endMsOf = ({ expiresAt }: Rule): number =>
  expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt);

/** The rules that can be in effect, of one kind. The first has precedence. */
const liveRules = (rules: readonly Rule[], kind: KeyRuleKind): readonly Rule[] =>
  rules.filter((rule) => rule.kind === kind && rule.state !== "orphan");

/**
 * The rule that a new one of the same kind replaces; null for none. A rule of limits that lasts longer is kept: it is in effect
 * again when the new one has ended.
 * @param rules of the key, the newest first
 * @param endMs the end of the new rule; null for none
 */
export function replacedRule(rules: readonly Rule[], kind: KeyRuleKind, endMs: number | null): Rule | null {
  const [first = null] = liveRules(rules, kind);
  const isKept = first !== null && kind === "limits" && endMsOf(first) > (endMs ?? Number.POSITIVE_INFINITY);
  return isKept ? null : first;
}

/** The rule of limits that is in effect at a later instant; null when no rule of the key gives it limits then. */
export const laterLimitsRule = (rules: readonly Rule[], without: Pick<Rule, "id"> | null, atMs: number): Rule | null =>
  liveRules(rules, "limits").find((rule) => rule.id !== without?.id && endMsOf(rule) > atMs) ?? null;

/** The rule of the key that decides at a later instant; null for none. */
export const laterRule = (rules: readonly Rule[], without: Pick<Rule, "id"> | null, atMs: number): Rule | null =>
  (["block", "allow"] as const)
    .flatMap((kind) => liveRules(rules, kind))
    .find((rule) => rule.id !== without?.id && endMsOf(rule) > atMs) ?? laterLimitsRule(rules, without, atMs);

export const planOf = (key: KeyReference, content: KeyRuleContent, replaced: Rule | null): RulePlan =>
  replaced === null ? { kind: "create", rule: { ...key, ...content } } : { kind: "replace", before: replaced, content };

/** Gives a rule another end, from now on. The note stays unless a new one is given. */
export function extension(rule: Rule, term: Term): RulePlan {
  const { kind, limits, strategy } = contentOf(rule);
  if (kind !== "limits" && kind !== "block" && kind !== "allow") {
    throw new Error(`expected a rule of a key, got one of the kind ${kind}`);
  }
  const note = term.note ?? rule.note ?? undefined;
  return {
    kind: "replace",
    before: rule,
    content: {
      kind,
      ...(limits !== undefined && { limits }),
      ...(strategy !== undefined && { strategy }),
      ...(term.for !== undefined && { for: term.for }),
      ...(note !== undefined && { note }),
    },
  };
}

/** The strategy of limits that are written as text: that of the present ones, if they have one in common. */
export function commonStrategy(limits: readonly FullLimit[]): string | undefined {
  const names = new Set(limits.map(({ strategy }) => strategy));
  const [only] = names;
  return names.size === 1 && only !== "concurrency" ? only : undefined;
}

export const factors = [2, 5, 10] as const;

export interface Scaling {
  readonly factor: number;
  /** Whether concurrency limits are multiplied, too. Their slots are often a capacity of the origin. */
  readonly scalesSlots: boolean;
}

export const holdsSlots = ({ strategy }: FullLimit): boolean => strategy === "concurrency";

/** The most units that the admin API accepts. */
const mostUnits = 999_999_999_999_999;
const product = (amount: number, factor: number): number => Math.min(mostUnits, amount * factor);

export const scaledLimits = (limits: readonly FullLimit[], { factor, scalesSlots }: Scaling): readonly FullLimit[] =>
  limits.map((limit) => {
    if (holdsSlots(limit) && !scalesSlots) return limit;
    return {
      ...limit,
      limit: product(limit.limit, factor),
      ...(limit.burst !== undefined && { burst: product(limit.burst, factor) }),
    };
  });

/** The options that an answer shows as they are written, and their defaults. */
const options: Readonly<Record<string, unknown>> = {
  align: "first-request",
  timezone: undefined,
  elastic: false,
  buckets: undefined,
  edge: "keep",
  burst: undefined,
  refill: "continuous",
  mode: "queue",
};

/** A limit as the admin API reads it: counters of the same window, strategy and options are kept. */
export function writtenLimit(limit: FullLimit, policy: string): Readonly<Record<string, unknown>> {
  const { name, limit: units, windowMs, strategy, period, precision } = limit;
  const kept = Object.entries(limit).filter(
    ([option, value]) => option in options && value !== undefined && value !== options[option],
  );
  return {
    limit: units,
    window: period === undefined ? durationNotation(windowMs) : periodNotation[period],
    strategy,
    ...(isDerivedName(name, policy) ? {} : { name }),
    ...Object.fromEntries(kept),
    ...(precision !== undefined && { precision: durationNotation(precision) }),
  };
}

/** Unnamed limits get the name of the policy, or one that begins with it and has the limit in it. */
const isDerivedName = (name: string, policy: string): boolean =>
  name === policy || (name.startsWith(`${policy}.`) && name.includes("-per-"));

const periodNotation = { day: "1d", week: "1w", month: "1mo", year: "1y" } as const;

function durationNotation(durationMs: number): string {
  const [count, unit] = wholeUnits(durationMs);
  return `${count}${unit === "min" ? "m" : unit}`;
}

/** The limits that still count what was spent during a boost when it has ended. */
export const outlastingLimits = (limits: readonly FullLimit[], lengthMs: number | null): readonly FullLimit[] =>
  lengthMs === null ? [] : limits.filter((limit) => !holdsSlots(limit) && limit.windowMs > lengthMs);

export interface KeyState {
  readonly policy: Policy;
  readonly id: string;
  readonly explanation: Explanation;
  /** The newest first. */
  readonly rules: readonly Rule[];
  readonly readAgain: () => void;
}

export type Opened =
  | { readonly kind: "boost" | "allow" | "block" | "reset" }
  | { readonly kind: "extend" | "remove"; readonly rule: Rule };

export interface KeyDialogProps {
  readonly state: KeyState;
  readonly onClose: () => void;
}

/** @throws Error that names the other operator when a rule has changed since it was read */
export async function sendPlan(sender: Sender<RuleChange>, typed: string, plan: RulePlan): Promise<RuleChange> {
  try {
    return await sender.send(typed, changeBy(plan));
  } catch (error) {
    throw await namingOperator(error, plan);
  }
}

/** Names the operator who has changed the rule of a plan. */
async function namingOperator(error: unknown, plan: RulePlan): Promise<unknown> {
  if (plan.kind === "create" || !isOutdated(error)) return error;
  const { entries } = await read<AuditPage>("audit?limit=50");
  const newest = entries.find(({ rule }) => rule === plan.before.id);
  readChanges();
  const change = newest === undefined ? "Another operator changed the rule" : `${newest.actor} ${changeText(newest)}`;
  return new Error(`${change}. Nothing of yours was sent. Check the effect, and confirm again.`);
}

/** "5 per 10 s, from the configuration". */
export const sourcedLimits = (limits: readonly FullLimit[], from: string): string =>
  `${limitsText(limits)}, from ${from}`;

/** The limits of the key without rules of its own. */
export const limitsWithoutRules = ({ limitsWithoutKeyRules, lines }: Explanation): string =>
  sourcedLimits(limitsWithoutKeyRules, lines.limitsWithoutKeyRulesFrom);

/** The rule or the limits that decide a key at an instant, without one of its rules. */
export function keyWithout(
  { rules, explanation }: Pick<KeyState, "rules" | "explanation">,
  without: Pick<Rule, "id"> | null,
  atMs: number,
): string {
  const later = laterRule(rules, without, atMs);
  if (later === null) return limitsWithoutRules(explanation);
  return `${ruleText(later)}, from the rule of ${later.actor}`;
}

const stepOf = (kind: KeyRuleKind): string => `key-rule-${kind}`;

/** The steps that come before a rule of this kind, and decide in its place. */
const earlierSteps = (kind: KeyRuleKind, steps: readonly ExplainedStep[]): readonly ExplainedStep[] =>
  steps.slice(
    0,
    steps.findIndex(({ step }) => step === stepOf(kind)),
  );

/** Why a rule of this kind would not decide, although it is in effect. */
export function obstacles(kind: KeyRuleKind, explanation: Explanation): readonly string[] {
  const { steps, mode } = explanation;
  const earlier = earlierSteps(kind, steps);
  const first = earlier.find(({ matches }) => matches === true);
  const isOpen = earlier.some(({ matches }) => matches === null);
  return [
    ...(first === undefined ? [] : [obstacleText(first.step, explanation)]),
    ...(mode === "dry-run" && kind !== "allow"
      ? ["The policy is in dry run: it denies nothing, and only counts what it would deny."]
      : []),
    ...(isOpen && first === undefined
      ? ["An entry of a list that is not known here may come first and decide instead."]
      : []),
  ];
}

function obstacleText(step: string, { bannedForMs }: Explanation): string {
  switch (step) {
    case "mode":
      return "The policy is off: it limits no key, whatever its rules say.";
    case "missing-key":
      return "A part of the key is missing, so the policy's onMissingKey decides first.";
    case "ban":
      return `The key is banned for ${durationText(bannedForMs)} more, and its requests are denied until then. “Reset usage” lifts the ban.`;
    case "key-rule-block":
      return "A rule blocks this key, and still does. Remove that rule to let the key in.";
    case "key-rule-allow":
      return "A rule allows this key without charge, so its limits do not matter.";
    default:
      return step.endsWith("deny")
        ? "An entry of a deny list comes first, and still denies this key."
        : "An entry of an allow list comes first, and still allows this key.";
  }
}

/** Warns that spends during a boost count afterwards. */
export function afterBoost(limits: readonly FullLimit[], lengthMs: number | null): readonly string[] {
  const outlasting = outlastingLimits(limits, lengthMs);
  if (outlasting.length === 0) return [];
  const named = outlasting.map(limitText).join(" and ");
  return [
    `What the key spends meanwhile counts afterwards, too: against ${named}. It may then be denied until that window has passed.`,
  ];
}

/** " for 10 min", or "" without an end. */
export function termText(term: Term): string {
  const lengthMs = termMs(term);
  return lengthMs === null ? "" : ` for ${durationText(lengthMs)}`;
}

export const replacementNotes = (replaced: Rule | null): readonly string[] =>
  replaced === null
    ? []
    : [`This replaces the rule of ${replaced.actor}: ${ruleText(replaced)}, ${endText(replaced)}.`];

export const endText = ({ expiresAt }: Rule): string =>
  expiresAt === null ? "without an end" : `which ends in ${durationText(Date.parse(expiresAt) - now())}`;
