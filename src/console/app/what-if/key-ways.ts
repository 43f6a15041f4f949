/** The ways to decide one key that its dialogs compare. */
import type { Policy, Rule } from "../api/answers.ts";
import { now } from "../clock.ts";
import type { KeyState } from "../keys/key-state.ts";
import { laterRule } from "../keys/plan.ts";
import { type Change, underLimits, underRule, type Way, type WrittenDecider } from "./ways.ts";

/** The decider of the key without one of its rules. */
export function withoutRule({ rules, explanation, policy }: KeyState, without: Rule | null): WrittenDecider {
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

/** Why no rule of a key and no entry would have denied anything. */
export const modeObstacle = ({ mode }: Pick<Policy, "mode">): string | undefined =>
  mode.value === "enforce"
    ? undefined
    : `The mode of the policy is ${mode.value}, so it denies nothing, whatever the rule is.`;
