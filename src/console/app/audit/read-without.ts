/** Reads what is in effect without a rule. */
import type { AuditedRule, Explanation, RulePage } from "../api/answers.ts";
import { call, queryText, read } from "../api/client.ts";
import { now } from "../clock.ts";
import { keyWithout } from "../keys/effects.ts";
import { policyWithout } from "../parts/rule-text.ts";
import { readPolicy } from "../api/rules.ts";

/** For example "100 per minute, from the configuration". */
export async function readWithout(
  rule: Pick<AuditedRule, "id" | "kind" | "policy" | "keyId">,
  abort: AbortSignal,
): Promise<string> {
  const { policy, keyId } = rule;
  if (keyId === null) {
    const state = await readPolicy(policy, abort);
    return policyWithout(state, rule);
  }
  const [{ rules }, { value: explanation }] = await Promise.all([
    read<RulePage>(`rules${queryText({ policy, id: keyId })}`, abort),
    call<Explanation>("POST", "keys/explain", { body: { policy, id: keyId }, signal: abort }),
  ]);
  return keyWithout({ rules, explanation }, rule, now());
}
