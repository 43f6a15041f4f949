/** Changes on the condition that the rule or the policy is as it was read. */
import type { AuditedRule, Policy, Rule } from "./answers.ts";
import { read } from "./client.ts";
import { isResultOfPatch, type PatchedKind, type PolicyUpdate } from "./policy-plan.ts";
import type { PolicyChange } from "./rule-input.ts";
import { isResultOf, type RulePlan } from "./rule-plan.ts";
import { changePolicy, createRule, deleteRule, replaceRule } from "./rules.ts";
import { type ConditionalChange, isOutdated } from "./sender.ts";
import type { RuleChange } from "./undo-plan.ts";

export function changeBy(plan: RulePlan): ConditionalChange<RuleChange> {
  if (plan.kind === "create") {
    return {
      send: async (idempotencyKey) => ({
        before: null,
        after: await createRule(plan.rule, idempotencyKey),
      }),
      // The idempotency key makes the second call return the result of the first.
      result: () => Promise.resolve(null),
    };
  }
  const { before } = plan;
  if (plan.kind === "remove") {
    const removal = { before, after: null };
    return {
      send: () => deleteRule(before).then(() => removal),
      result: async () => ((await ruleNow(before)) === null ? removal : null),
    };
  }
  const { content } = plan;
  return {
    send: async () => ({ before, after: await replaceRule(before, content) }),
    result: async () => {
      const after = await ruleNow(before);
      return after !== null && isResultOf(before, content, after) ? { before, after } : null;
    },
  };
}

/** Null when the rule no longer exists. */
const ruleNow = ({ id }: AuditedRule): Promise<Rule | null> =>
  read<Rule>(`rules/${id}`).catch((error: unknown) => {
    if (isOutdated(error)) return null;
    throw error;
  });

export const readPolicy = (name: string): Promise<Policy> => read<Policy>(`policies/${encodeURIComponent(name)}`);

/** @param patch sets or removes only `kind` */
export const policyChangeBy = (
  before: Policy,
  kind: PatchedKind,
  patch: PolicyChange,
): ConditionalChange<PolicyUpdate> => ({
  send: async () => ({ before, after: await changePolicy(before, patch) }),
  result: async () => {
    const after = await readPolicy(before.name);
    return isResultOfPatch({ before, after }, kind, patch) ? { before, after } : null;
  },
});
