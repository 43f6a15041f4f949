/** A key as it was read last, its rules and its boosts, and how to bring a rule of the key into effect. */
import type { AuditPage, Explanation, FullLimit, Policy, Rule, WrittenLimits } from "../api/answers.ts";
import { changeBy, isOutdated, type KeyReference, type RulePlan, Sender, type Term } from "../api/rules.ts";
import { contentOf, type RuleChange } from "../api/undo-plan.ts";
import { readChanges } from "../api/changes.ts";
import { read } from "../api/client.ts";
import { changeText } from "../parts/rule-text.ts";
import { wholeUnits } from "../parts/text.ts";

export type KeyRuleKind = "limits" | "block" | "allow";

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
    throw await named(error, plan);
  }
}

/** Names the operator who has changed the rule of a plan. */
async function named(error: unknown, plan: RulePlan): Promise<unknown> {
  if (plan.kind === "create" || !isOutdated(error)) return error;
  const { entries } = await read<AuditPage>("audit?limit=50");
  const newest = entries.find(({ rule }) => rule === plan.before.id);
  readChanges();
  const change = newest === undefined ? "Another operator changed the rule" : `${newest.actor} ${changeText(newest)}`;
  return new Error(`${change}. Nothing of yours was sent. Check the effect, and confirm again.`);
}
