/** Undoes changes: restores what a rule was, until the instant at which it would have ended. */
import { now } from "../clock.ts";
import type { AuditedRule, Policy, Rule } from "./answers.ts";
import { read } from "./client.ts";
import {
  changePolicy,
  createRule,
  deleteRule,
  type NewRule,
  type PolicyChange,
  replaceRule,
  type Term,
} from "./rules.ts";
import { contentOf, hasEnded, type RuleChange, undoStep, type UndoStep } from "./undo-plan.ts";

/**
 * Undoes one change of one rule. For example, `undoChange({ before: null, after: created })` removes a new rule, and
 * `undoChange({ before: deleted, after: null })` makes a deleted one again.
 * @param key names the key of a rule that is made again. With the plain key, the rule keeps it sealed; the id alone cannot be
 * revealed from it.
 * @returns the change that undoes it, which can be undone in turn
 * @throws ApiProblem with status 412 or 404 when the rule has been changed since
 */
export async function undoChange(change: RuleChange, key?: RestoredKey): Promise<RuleChange> {
  const step = undoStep(change, now());
  if (step === null) throw new Error("The rule would have ended by now, so it is not restored.");
  return perform(step, key);
}

type RestoredKey = Pick<NewRule, "id" | "key" | "tenant">;

/** Returns the change, which can be undone in turn. */
export async function perform(step: UndoStep, key?: RestoredKey): Promise<RuleChange> {
  const { rule } = step;
  if (step.kind === "restore") return { before: null, after: await restoreRule(rule, key) };
  if (step.kind === "replace") {
    const content = { ...contentOf(step.former), ...endOf(step.former) };
    return { before: rule, after: await replaceRule(rule, content) };
  }
  await deleteRule(rule);
  return { before: rule, after: null };
}

/** Makes a deleted rule again, for the rest of its term. It gets a new id, and precedes older rules of its kind. */
const restoreRule = (rule: AuditedRule, key?: RestoredKey): Promise<Rule> => {
  const { policy, scope, keyId } = rule;
  const named = keyId === null ? {} : (key ?? { id: keyId });
  return createRule({ policy, scope, ...named, ...contentOf(rule), ...endOf(rule) });
};

/** The end and the note of a rule, for a call that keeps them. */
export const endOf = ({ expiresAt, note }: AuditedRule): Pick<Term, "expiresAt" | "note"> => ({
  ...(expiresAt !== null && { expiresAt }),
  ...(note !== null && { note }),
});

type PatchedKind = "mode" | "limits" | "allow" | "deny" | "overrides";

/**
 * Undoes a change of a policy: makes its rules of one kind what they were.
 * @param before the policy before the change
 * @param after the policy after it, as `changePolicy` returned it
 */
export async function undoPolicyChange(
  before: Policy,
  after: Policy,
  kind: PatchedKind,
): Promise<unknown> {
  const current = await read<Policy>(`policies/${encodeURIComponent(before.name)}`);
  if (revisionsOf(current, kind) !== revisionsOf(after, kind)) {
    throw new Error(
      `The ${kind} of policy ${before.name} changed again, so this change is not undone.`,
    );
  }
  const former = rulesOf(before, kind).filter((rule) => !hasEnded(rule, now()));
  // The newest rule of a kind has precedence, so the oldest one is made first.
  const [oldest, ...others] = former.toReversed();
  if (oldest === undefined) return changePolicy(current, { [kind]: null });
  await changePolicy(current, { ...patchOf(kind, oldest), ...endOf(oldest) });
  for (const rule of others) {
    // oxlint-disable-next-line no-await-in-loop -- the order of creation is the order of precedence
    await restoreRule(rule);
  }
  return null;
}

const rulesOf = ({ rules }: Policy, kind: PatchedKind): readonly Rule[] =>
  rules.filter((rule) => rule.kind === kind);

const revisionsOf = (policy: Policy, kind: PatchedKind): string =>
  rulesOf(policy, kind)
    .map(({ id, revision }) => `${id} ${revision}`)
    .join();

function patchOf(
  kind: PatchedKind,
  { mode, limits, strategy, entries, overrides }: Rule,
): PolicyChange {
  if (kind === "mode") return { mode: mode ?? null };
  if (kind === "overrides") return { overrides: overrides ?? null };
  if (kind !== "limits") return { [kind]: entries };
  return { limits: limits ?? null, ...(strategy !== undefined && { strategy }) };
}
