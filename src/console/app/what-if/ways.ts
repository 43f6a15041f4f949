/** The ways to decide traffic that a dialog compares: what is in effect now, and what would be then. */
import type { AuditedRule, FullLimit, Mode, Policy, WrittenLimits } from "../api/answers.ts";
import { commonStrategy } from "../keys/plan.ts";
import type { Decider } from "../replay/comparison.ts";

/** A decider, or limits that the engine has to read first. */
export type WrittenDecider =
  | Decider
  | {
      readonly kind: "written";
      readonly limits: WrittenLimits;
      /** The strategy of limits that name none. */
      readonly strategy: string;
    };

/** A way to decide the traffic, and the title of its column. */
export interface Way {
  readonly title: string;
  readonly decider: WrittenDecider;
}

export interface Change {
  readonly policy: string;
  /** The last two are compared. */
  readonly ways: readonly Way[];
  /** The parts of the policy's key, to reveal the keys that are affected. */
  readonly parts?: readonly string[];
  /** Only this key. */
  readonly key?: string;
  /** Whether the statistics of all keys have the numbers of a dry run. */
  readonly isDryRun?: boolean;
}

export const allowed: Decider = { kind: "all-allowed" };
const denied: Decider = { kind: "all-denied" };

export const underLimits = (limits: readonly FullLimit[]): Decider => ({ kind: "limits", limits });

export const underMode = (mode: Mode, limits: readonly FullLimit[]): Decider =>
  mode === "enforce" ? underLimits(limits) : allowed;

const defaultStrategy = "sliding-window-counter";

/** @param policy has the strategy of limits that name none */
export const underWritten = (
  { limits, strategy }: { readonly limits: WrittenLimits; readonly strategy?: string },
  { configured }: Pick<Policy, "configured">,
): WrittenDecider => ({
  kind: "written",
  limits,
  strategy: strategy ?? commonStrategy(configured.limits) ?? defaultStrategy,
});

/** A change of a policy. In a dry run, its outcomes are observed, too. */
export const changeOfPolicy = (
  { name, key, mode }: Pick<Policy, "name" | "key" | "mode">,
  now: WrittenDecider,
  then: WrittenDecider,
): Change => ({
  policy: name,
  parts: key,
  ways: [
    ...(mode.value === "dry-run" ? [observed] : []),
    { title: "Now", decider: now },
    { title: "Then", decider: then },
  ],
  isDryRun: mode.value === "dry-run",
});

const observed: Way = { title: "Observed", decider: { kind: "recorded" } };

/** The outcomes that a dry run observed, beside a replay of its limits. */
export const dryRunOf = ({ name, key, limits }: Policy): Change => ({
  policy: name,
  parts: key,
  ways: [observed, { title: "Replayed", decider: underLimits(limits.value) }],
  isDryRun: true,
});

/** A rule of one key, or an entry with one key. */
export function underRule(
  rule: Pick<AuditedRule, "kind" | "limits" | "strategy">,
  policy: Pick<Policy, "configured">,
): WrittenDecider {
  if (rule.kind === "block" || rule.kind === "deny") return denied;
  if (rule.kind === "allow") return allowed;
  const { limits = "", strategy } = rule;
  return underWritten({ limits, ...(strategy !== undefined && { strategy }) }, policy);
}

/** Shown for entries of lists. */
export const listObstacle =
  "Samples have ids of keys only, no plain keys and no addresses, so that they cannot show which requests the entries match.";
