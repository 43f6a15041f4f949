/** Changes of rules. Each returns after the control plane has stored the change. */
import type { Policy, Rule } from "./answers.ts";
import { readChanges } from "./changes.ts";
import { type Answer, call, ConnectionLost } from "./client.ts";
import type { NewRule, PolicyChange, RuleContent } from "./rule-input.ts";

export type { NewRule, PolicyChange, Term } from "./rule-input.ts";

/**
 * Repeats the call once after a lost connection.
 * @param idempotencyKey the key of an earlier attempt whose answer was lost: at most one rule is then made
 */
export async function createRule(rule: NewRule, idempotencyKey: string = crypto.randomUUID()): Promise<Rule> {
  const create = (): Promise<Answer<Rule>> => call<Rule>("POST", "rules", { body: rule, idempotencyKey });
  return changed(
    create().catch((error: unknown) => {
      if (error instanceof ConnectionLost) return create();
      throw error;
    }),
  );
}

/** @throws ApiProblem with status 412 when another operator has changed the rule */
export const replaceRule = async (
  { id, revision }: Pick<Rule, "id" | "revision">,
  content: RuleContent,
): Promise<Rule> => changed(call<Rule>("PUT", `rules/${id}`, { body: content, ifMatch: tagOf(revision) }));

/** @throws ApiProblem with status 412 when another operator has changed the rule */
export const deleteRule = async ({ id, revision }: Pick<Rule, "id" | "revision">): Promise<unknown> =>
  changed(call("DELETE", `rules/${id}`, { ifMatch: tagOf(revision) }));

/** @throws ApiProblem with status 412 when another operator has changed the policy since it was read */
export const changePolicy = async (
  { name, epoch, version }: { readonly name: string; readonly epoch: number; readonly version: number },
  change: PolicyChange,
): Promise<Policy> =>
  changed(
    call<Policy>("PATCH", `policies/${encodeURIComponent(name)}`, {
      body: change,
      ifMatch: `"${epoch}-${version}"`,
    }),
  );

/** Forgets what the key has used, and lifts its ban. This cannot be undone. */
export const resetKey = async (policy: string, id: string): Promise<unknown> =>
  changed(call("DELETE", `keys/${encodeURIComponent(policy)}/${id}/usage`));

async function changed<Value>(answer: Promise<Answer<Value>>): Promise<Value> {
  const { value } = await answer;
  readChanges();
  return value;
}

const tagOf = (revision: number): string => `"${revision}"`;
