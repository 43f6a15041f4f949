/** Sends changes of a key's rules. */
import type { AuditPage } from "../api/answers.ts";
import { readChanges } from "../api/changes.ts";
import { read } from "../api/client.ts";
import { changeBy, isOutdated, type RulePlan, type Sender } from "../api/rules.ts";
import type { RuleChange } from "../api/undo-plan.ts";
import { changeText } from "../parts/rule-text.ts";

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
