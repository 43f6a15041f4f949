/**
 * The rules and boosts of a key as it was last read, how to put a new rule into effect, and sentences about what
 * decides.
 */
import type { Explanation, FullLimit, PolicyView, RuleView } from "../../../admin/wire.ts";
import { contentOf, type RulePlan, type Term, termOf } from "../api/rules.ts";
import { ruleText, termMs } from "../parts/rule-text.ts";
import { durationText, limitsText, wholeUnits } from "../parts/text.ts";
import { now } from "../clock.ts";

export interface KeyState {
  readonly policy: PolicyView;
  readonly id: string;
  readonly explanation: Explanation;
  /** The newest first. */
  readonly rules: readonly RuleView[];
}

type KeyRuleKind = "limits" | "block" | "allow";

const endMsOf = ({ expiresAt }: RuleView): number =>
  expiresAt === null ? Number.POSITIVE_INFINITY : Date.parse(expiresAt);

/** The rules that can be in effect, of one kind. The first has precedence. */
const liveRules = (rules: readonly RuleView[], kind: KeyRuleKind): readonly RuleView[] =>
  rules.filter((rule) => rule.kind === kind && rule.state !== "orphan");

/**
 * The rule that a new one of the same kind replaces; null for none. A rule of limits that lasts longer is kept: it is in effect
 * again when the new one has ended.
 * @param rules of the key, the newest first
 * @param endMs the end of the new rule; null for none
 */
export function replacedRule(rules: readonly RuleView[], kind: KeyRuleKind, endMs: number | null): RuleView | null {
  const [first = null] = liveRules(rules, kind);
  const isKept = first !== null && kind === "limits" && endMsOf(first) > (endMs ?? Number.POSITIVE_INFINITY);
  return isKept ? null : first;
}

/** The rule of the key that decides at a later instant; null for none. @param kinds in the order of their precedence */
export const laterRule = (
  rules: readonly RuleView[],
  without: Pick<RuleView, "id"> | null,
  atMs: number,
  kinds: readonly KeyRuleKind[] = ["block", "allow", "limits"],
): RuleView | null =>
  kinds.flatMap((kind) => liveRules(rules, kind)).find((rule) => rule.id !== without?.id && endMsOf(rule) > atMs) ??
  null;

/** Changes the end of a rule from now on. The note stays unless a new one is given. */
export const extension = (rule: RuleView, term: Term): RulePlan => {
  const { note } = termOf(rule);
  return {
    kind: "replace",
    before: rule,
    content: { ...contentOf(rule), ...(note !== undefined && { note }), ...term },
  };
};

/** The strategy for limits that the operator types: the one that all present limits have; undefined if they differ. */
export function commonStrategy(limits: readonly FullLimit[]): string | undefined {
  const names = new Set(limits.map(({ strategy }) => strategy));
  const [only] = names;
  return names.size === 1 && only !== "concurrency" ? only : undefined;
}

export const holdsSlots = ({ strategy }: FullLimit): boolean => strategy === "concurrency";

/** The most units that the admin API accepts. */
const mostUnits = 999_999_999_999_999;
const product = (amount: number, factor: number): number => Math.min(mostUnits, amount * factor);

/** @param scalesSlots whether concurrency limits are multiplied, too: their slots are often a capacity of the origin */
export const scaledLimits = (
  limits: readonly FullLimit[],
  factor: number,
  scalesSlots: boolean,
): readonly FullLimit[] =>
  limits.map((limit) => {
    if (holdsSlots(limit) && !scalesSlots) return limit;
    return {
      ...limit,
      limit: product(limit.limit, factor),
      ...(limit.burst !== undefined && { burst: product(limit.burst, factor) }),
    };
  });

/** The options of limits that answers show as the configuration writes them, each with its default. */
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

/**
 * Writes a limit for the admin API with all its options. If its window, strategy and options are unchanged, its
 * counters continue.
 */
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

/**
 * Whether a name is the one that an unnamed limit gets: the name of the policy, or a name that begins with it and
 * contains the limit.
 */
const isDerivedName = (name: string, policy: string): boolean =>
  name === policy || (name.startsWith(`${policy}.`) && name.includes("-per-"));

const periodNotation = { day: "1d", week: "1w", month: "1mo", year: "1y" } as const;

function durationNotation(durationMs: number): string {
  const [count, unit] = wholeUnits(durationMs);
  return `${count}${unit === "min" ? "m" : unit}`;
}

export const limitsWithoutRules = ({ limitsWithoutKeyRules, lines }: Explanation): string =>
  `${limitsText(limitsWithoutKeyRules)}, from ${lines.limitsWithoutKeyRulesFrom}`;

/** The rule or the limits that decide the key at an instant if one of its rules is removed. */
export function keyWithout(
  { rules, explanation }: Pick<KeyState, "rules" | "explanation">,
  without: Pick<RuleView, "id"> | null,
  atMs: number,
): string {
  const later = laterRule(rules, without, atMs);
  if (later === null) return limitsWithoutRules(explanation);
  return `${ruleText(later)}, from the rule of ${later.actor}`;
}

/** Why a rule of this kind would not decide, although it is in effect. */
export function obstacles(kind: KeyRuleKind, explanation: Explanation): readonly string[] {
  const { steps, mode } = explanation;
  const earlier = steps.slice(
    0,
    steps.findIndex(({ step }) => step === `key-rule-${kind}`),
  );
  const first = earlier.find(({ matches }) => matches === true);
  const found: string[] = [];
  if (first !== undefined) found.push(obstacleText(first.step, explanation));
  if (mode === "dry-run" && kind !== "allow") {
    found.push("The policy is in dry run: it denies nothing, and only counts what it would deny.");
  }
  if (first === undefined && earlier.some(({ matches }) => matches === null)) {
    found.push("An entry of a list that is not known here may come first and decide instead.");
  }
  return found;
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

/** Warns that the units spent during a boost still count after it, in limits whose windows last longer. */
export function afterBoost(limits: readonly FullLimit[], lengthMs: number | null): readonly string[] {
  const outlasting = limits.filter((limit) => !holdsSlots(limit) && lengthMs !== null && limit.windowMs > lengthMs);
  if (outlasting.length === 0) return [];
  return [
    `What the key spends meanwhile counts afterwards, too: against ${limitsText(outlasting)}. It may then be denied until that window has passed.`,
  ];
}

/** " for 10 min", or "" without an end. */
export function termText(term: Term): string {
  const lengthMs = termMs(term);
  return lengthMs === null ? "" : ` for ${durationText(lengthMs)}`;
}

export const replacementNotes = (replaced: RuleView | null): readonly string[] =>
  replaced === null
    ? []
    : [`This replaces the rule of ${replaced.actor}: ${ruleText(replaced)}, ${endText(replaced)}.`];

export const endText = ({ expiresAt }: RuleView): string =>
  expiresAt === null ? "without an end" : `which ends in ${durationText(Date.parse(expiresAt) - now())}`;
