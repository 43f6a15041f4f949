/** The limits and the mode of a policy under other rules than those of now. */
import type { AuditedRule, Mode, Policy } from "../api/answers.ts";
import type { UndoStep } from "../api/undo-plan.ts";
import { type Change, changeOfPolicy, underLimits, underMode, underWritten, type WrittenDecider } from "./ways.ts";

/** Rules of a policy. The first of a kind has precedence. */
type Rules = readonly AuditedRule[];

const firstOf = ({ refused }: Policy, rules: Rules, kind: "limits" | "mode") =>
  rules.find((rule) => rule.kind === kind && !refused.some(({ rule: id }) => id === rule.id));

const modeUnder = (policy: Policy, rules: Rules): Mode =>
  firstOf(policy, rules, "mode")?.mode ?? policy.configured.mode;

function limitsUnder(policy: Policy, rules: Rules): WrittenDecider {
  const rule = firstOf(policy, rules, "limits");
  if (rule?.limits === undefined) return underLimits(policy.configured.limits);
  const { limits, strategy } = rule;
  return underWritten({ limits, ...(strategy !== undefined && { strategy }) }, policy);
}

/** The change from the rules of now to others. Denials of a dry run are compared with those of a dry run. */
export function changeOfRules(policy: Policy, rules: Rules): Change {
  const { mode, limits } = policy;
  const then = modeUnder(policy, rules);
  const now = underLimits(limits.value);
  if (then === mode.value) return changeOfPolicy(policy, now, limitsUnder(policy, rules));
  return changeOfPolicy(
    policy,
    underMode(mode.value, limits.value),
    then === "enforce" ? limitsUnder(policy, rules) : underMode(then, []),
  );
}

/** The rules of a policy after the steps of an undo or a rollback. A restored rule is the newest. */
export function rulesAfter({ rules }: Policy, steps: readonly UndoStep[]): Rules {
  const stepOf = ({ id }: AuditedRule): UndoStep | undefined =>
    steps.find(({ kind, rule }) => kind !== "restore" && rule.id === id);
  const restored = steps.filter(({ kind }) => kind === "restore").map(({ rule }) => rule);
  const kept = rules.flatMap((rule): Rules => {
    const step = stepOf(rule);
    if (step === undefined) return [rule];
    return step.kind === "replace" ? [{ ...step.former, id: rule.id }] : [];
  });
  return [...restored.toReversed(), ...kept];
}
