/** Sends changes of a key's rules. A repeated attempt after a lost connection makes no second rule. */
import type { AuditPage, Rule } from "../api/answers.ts";
import { readChanges } from "../api/changes.ts";
import { ApiProblem, ConnectionLost, read } from "../api/client.ts";
import { createRule, deleteRule, replaceRule } from "../api/rules.ts";
import type { RuleChange } from "../api/undo-plan.ts";
import { changeText } from "../parts/change-text.ts";
import { isResultOf, type RulePlan } from "./plan.ts";

/** A plan that was sent, and what the operator had typed. */
interface Attempt {
  readonly typed: string;
  readonly plan: RulePlan;
  readonly idempotencyKey: string;
}

/** Sends the changes of one dialog. */
export class Sender {
  #lost: Attempt | null = null;

  /**
   * If the same typed text is sent again after a lost answer, the first plan is sent again: the list of rules may have the
   * result of the first attempt already, so that a new plan would replace it.
   * @throws Error that names the other operator when a rule has changed since it was read
   */
  async send(typed: string, plan: RulePlan): Promise<RuleChange> {
    const repeated = this.#lost?.typed === typed ? this.#lost : null;
    const attempt = repeated ?? { typed, plan, idempotencyKey: crypto.randomUUID() };
    this.#lost = null;
    try {
      return await sent(attempt, repeated !== null);
    } catch (error) {
      if (isUnsure(error)) this.#lost = attempt;
      throw await named(error, attempt.plan);
    }
  }
}

/** Whether the change may have been made: the answer is lost, or the Worker failed on the way to it. */
const isUnsure = (error: unknown): boolean =>
  error instanceof ConnectionLost || (error instanceof ApiProblem && error.status >= 500);

async function sent({ plan, idempotencyKey }: Attempt, isRepeated: boolean): Promise<RuleChange> {
  if (plan.kind === "create") {
    return { before: null, after: await createRule(plan.rule, idempotencyKey) };
  }
  const { before } = plan;
  try {
    if (plan.kind === "replace") return { before, after: await replaceRule(before, plan.content) };
    await deleteRule(before);
    return { before, after: null };
  } catch (error) {
    const change = isRepeated && isOutdated(error) ? await resultOf(plan) : null;
    if (change === null) throw error;
    readChanges();
    return change;
  }
}

const isOutdated = (error: unknown): error is ApiProblem =>
  error instanceof ApiProblem && (error.status === 412 || error.status === 404);

/** The change that an earlier attempt made, whose answer was lost; null when another change came first. */
async function resultOf(plan: Exclude<RulePlan, { kind: "create" }>): Promise<RuleChange | null> {
  const { before } = plan;
  const rule = await read<Rule>(`rules/${before.id}`).catch((error: unknown) => {
    if (isOutdated(error)) return null;
    throw error;
  });
  if (plan.kind === "remove") return rule === null ? { before, after: null } : null;
  return rule !== null && isResultOf(plan, rule) ? { before, after: rule } : null;
}

/** Names the operator who has changed the rule of a plan. */
async function named(error: unknown, plan: RulePlan): Promise<unknown> {
  if (plan.kind === "create" || !isOutdated(error)) return error;
  const { entries } = await read<AuditPage>("audit?limit=50");
  const newest = entries.find(({ rule }) => rule === plan.before.id);
  readChanges();
  const change =
    newest === undefined
      ? "Another operator changed the rule"
      : `${newest.actor} ${changeText(newest)}`;
  return new Error(`${change}. Nothing of yours was sent. Check the effect, and confirm again.`);
}
