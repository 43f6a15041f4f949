/** The ways to decide traffic that a dialog compares: the present one, and the one after the change. */
import type { AuditedRule, FullLimit, PolicyMode, PolicyView, RuleView, WrittenLimits } from "../../../admin/wire.ts";
import { commonStrategy, type KeyState, laterRule } from "../keys/rules.ts";
import type { Decider } from "../replay/compare.ts";
import type { RuleChange } from "../api/rules.ts";
import { now } from "../clock.ts";

/** A decider, or limits as text that the engine must still read. */
type WrittenDecider =
  | Decider
  | {
      readonly kind: "written";
      readonly limits: WrittenLimits;
      /** The strategy of limits that name none. */
      readonly strategy: string;
    };

interface Way {
  readonly title: string;
  readonly decider: WrittenDecider;
}

export interface Change {
  readonly policy: string;
  /** The last two are compared. */
  readonly ways: readonly Way[];
  /** Only this key. */
  readonly key?: string;
  /** Whether the statistics of all keys have the numbers of a dry run. */
  readonly isDryRun?: boolean;
}

const allowed: Decider = { kind: "all-allowed" };
const denied: Decider = { kind: "all-denied" };

export const underLimits = (limits: readonly FullLimit[]): Decider => ({ kind: "limits", limits });

export const underMode = (mode: PolicyMode, limits: readonly FullLimit[]): Decider =>
  mode === "enforce" ? underLimits(limits) : allowed;

const defaultStrategy = "sliding-window-counter";

/** @param policy has the strategy of limits that name none */
export const underWritten = (
  { limits, strategy }: { readonly limits: WrittenLimits; readonly strategy?: string | undefined },
  { configured }: Pick<PolicyView, "configured">,
): WrittenDecider => ({
  kind: "written",
  limits,
  strategy: strategy ?? commonStrategy(configured.limits) ?? defaultStrategy,
});

/** The comparison for a change of a policy. In a dry run, it includes the observed outcomes. */
export const changeOfPolicy = (
  { name, mode }: Pick<PolicyView, "name" | "mode">,
  before: WrittenDecider,
  then: WrittenDecider,
): Change => ({
  policy: name,
  ways: [
    ...(mode.value === "dry-run" ? [observed] : []),
    { title: "Now", decider: before },
    { title: "Then", decider: then },
  ],
  isDryRun: mode.value === "dry-run",
});

const observed: Way = { title: "Observed", decider: { kind: "recorded" } };

/** The comparison of what a dry run observed with a replay of its limits. */
export const dryRunOf = ({ name, limits }: PolicyView): Change => ({
  policy: name,
  ways: [observed, { title: "Replayed", decider: underLimits(limits.value) }],
  isDryRun: true,
});

/** How a rule for one key, or an entry with one key, decides its traffic. */
export function underRule(
  { kind, limits = "", strategy }: Pick<AuditedRule, "kind" | "limits"> & { readonly strategy?: string | undefined },
  policy: Pick<PolicyView, "configured">,
): WrittenDecider {
  if (kind === "block" || kind === "deny") return denied;
  return kind === "allow" ? allowed : underWritten({ limits, strategy }, policy);
}

/** Shown for list entries whose requests the samples cannot identify. */
export const listObstacle =
  "Samples have ids of keys only, no plain keys and no addresses, so that they cannot show which requests the entries match.";

/** The rules of a policy. The first rule of each kind has precedence. */
type Rules = readonly AuditedRule[];

const firstOf = ({ refused }: PolicyView, rules: Rules, kind: "limits" | "mode") =>
  rules.find((rule) => rule.kind === kind && !refused.some(({ rule: id }) => id === rule.id));

const modeUnder = (policy: PolicyView, rules: Rules): PolicyMode =>
  firstOf(policy, rules, "mode")?.mode ?? policy.configured.mode;

function limitsUnder(policy: PolicyView, rules: Rules): WrittenDecider {
  const rule = firstOf(policy, rules, "limits");
  if (rule?.limits === undefined) return underLimits(policy.configured.limits);
  return underWritten({ limits: rule.limits, strategy: rule.strategy }, policy);
}

/**
 * The change from the present rules to these. If the mode stays the same, the limits are compared, in a dry run by
 * their would-be denials.
 */
export function changeOfRules(policy: PolicyView, rules: Rules): Change {
  const { mode, limits } = policy;
  const then = modeUnder(policy, rules);
  const before = underLimits(limits.value);
  if (then === mode.value) return changeOfPolicy(policy, before, limitsUnder(policy, rules));
  return changeOfPolicy(
    policy,
    underMode(mode.value, limits.value),
    then === "enforce" ? limitsUnder(policy, rules) : underMode(then, []),
  );
}

/** The rules of a policy after the steps of an undo or a rollback. A restored rule is the newest. */
export function rulesAfter({ rules }: PolicyView, steps: readonly RuleChange[]): Rules {
  const restored = steps.flatMap(({ before, after }) => (before === null ? (after ?? []) : []));
  const kept = rules.flatMap((rule): Rules => {
    const step = steps.find(({ before }) => before?.id === rule.id);
    if (step === undefined) return [rule];
    return step.after === null ? [] : [{ ...step.after, id: rule.id }];
  });
  return [...restored.toReversed(), ...kept];
}

export function withoutRule({ rules, explanation, policy }: KeyState, without: RuleView | null): WrittenDecider {
  const later = laterRule(rules, without, now());
  if (later === null) return underLimits(explanation.limitsWithoutKeyRules);
  return underRule(later, policy);
}

export const changeOfKey = ({ policy, id }: KeyState, ways: readonly Way[]): Change => ({
  policy: policy.name,
  ways,
  key: id,
});

/** Null while the new rule is not complete. */
export const newRuleOfKey = (state: KeyState, then: WrittenDecider | null): Change | null =>
  then === null
    ? null
    : changeOfKey(state, [
        { title: "Now", decider: withoutRule(state, null) },
        { title: "Then", decider: then },
      ]);

/** Why a rule of a key or an entry would not have denied anything. */
export const modeObstacle = ({ mode }: Pick<PolicyView, "mode">): string | undefined =>
  mode.value === "enforce"
    ? undefined
    : `The mode of the policy is ${mode.value}, so it denies nothing, whatever the rule is.`;

/** A change whose ways have become deciders, because the engine has read their limits. */
export interface DecidedChange extends Omit<Change, "ways"> {
  readonly titles: readonly string[];
  readonly deciders: readonly Decider[];
}

/** Reads the limits of a change. Returns null when limits have a problem. */
export async function readWays({ ways, ...change }: Change): Promise<DecidedChange | null> {
  const deciders = await Promise.all(ways.map(({ decider }) => readDecider(decider, change.policy)));
  const known = deciders.filter((decider) => decider !== null);
  if (known.length < deciders.length) return null;
  return { ...change, titles: ways.map(({ title }) => title), deciders: known };
}

async function readDecider(decider: WrittenDecider, policy: string): Promise<Decider | null> {
  if (decider.kind !== "written") return decider;
  const { limitsWritten } = await import("../policies/written-limits.ts");
  const { limits, problems } = limitsWritten(decider.limits, decider.strategy, policy);
  return problems.length > 0 ? null : { kind: "limits", limits };
}
