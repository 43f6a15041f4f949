/** Undoes changes: restores what a rule was, until the instant at which it would have ended. */
import { now } from "../clock.ts";
import type { AuditedRule, Policy, Rule } from "./answers.ts";
import { ApiProblem } from "./client.ts";
import {
  changeBy,
  changePolicy,
  type ConditionalChange,
  isResultOfPatch,
  type KeyReference,
  type PatchedKind,
  type PolicyChange,
  type PolicyUpdate,
  readPolicy,
  type RulePlan,
  rulesOfKind,
  Sender,
  type Term,
} from "./rules.ts";
import { contentOf, hasEnded, type RuleChange, undoStep, type UndoStep } from "./undo-plan.ts";

/**
 * Returns a function that undoes one change of one rule. For example, `undoOf({ before: null, after: created })` removes a new
 * rule, and `undoOf({ before: deleted, after: null })` makes a deleted one again. After a lost answer, it can be called again.
 * It returns the change that undoes it, which can be undone in turn. It throws an ApiProblem with status 412 or 404 when the
 * rule has been changed since.
 * @param key names the key of a rule that is made again. With the plain key, the rule keeps it sealed; the id alone cannot be
 * revealed from it.
 */
export function undoOf(change: RuleChange, key?: KeyReference): () => Promise<RuleChange> {
  const sender = new Sender<RuleChange>();
  return async () => {
    const step = undoStep(change, now());
    if (step === null) throw new Error("The rule would have ended by now, so it is not restored.");
    return sender.send("", changeBy(planOfStep(step, key)));
  };
}

export function planOfStep(step: UndoStep, key?: KeyReference): RulePlan {
  const { kind, rule } = step;
  if (kind === "restore") return restoration(rule, key);
  if (kind === "remove") return { kind, before: rule };
  return { kind, before: rule, content: { ...contentOf(step.former), ...endOf(step.former) } };
}

/** Makes a deleted rule again, for the rest of its term. It gets a new id, and precedes older rules of its kind. */
function restoration(rule: AuditedRule, key?: KeyReference): RulePlan {
  const { policy, scope, keyId } = rule;
  const named = keyId === null ? {} : (key ?? { id: keyId });
  const made = { policy, scope, ...named, ...contentOf(rule), ...endOf(rule) };
  return { kind: "create", rule: made };
}

/** The end and the note of a rule, for a call that keeps them. */
export const endOf = ({ expiresAt, note }: AuditedRule): Pick<Term, "expiresAt" | "note"> => ({
  ...(expiresAt !== null && { expiresAt }),
  ...(note !== null && { note }),
});

/**
 * Returns a function that makes the rules of a policy of one kind what they were before a change. After a failure, it can be
 * called again, and continues.
 */
export function undoOfPolicy({ before, after }: PolicyUpdate, kind: PatchedKind): () => Promise<void> {
  const sender = new Sender<unknown>();
  let steps: ConditionalChange<unknown>[] | null = null;
  return async () => {
    if (steps === null) {
      const former = rulesOfKind(before, kind).filter((rule) => !hasEnded(rule, now()));
      // The newest rule of a kind has precedence, so the oldest one is made first.
      const [oldest = null, ...others] = former.toReversed();
      steps = [patchTo(oldest, after, kind), ...others.map((rule) => changeBy(restoration(rule)))];
    }
    for (let step = steps[0]; step !== undefined; step = steps[0]) {
      // oxlint-disable-next-line no-await-in-loop -- the order of creation is the order of precedence
      await sender.send(String(steps.length), step);
      steps.shift();
    }
  };
}

/** Leaves one rule of the kind, or none. Rules of other kinds may have changed since `base`. */
function patchTo(rule: Rule | null, base: Policy, kind: PatchedKind): ConditionalChange<unknown> {
  const patch = rule === null ? { [kind]: null } : { ...patchOf(kind, rule), ...endOf(rule) };
  return {
    send: async () => {
      const current = await readPolicy(base.name);
      if (revisionsOf(current, kind) === revisionsOf(base, kind)) return changePolicy(current, patch);
      const detail = `The ${kind} of policy ${base.name} changed again, so this change is not undone.`;
      throw new ApiProblem({ status: 412, detail });
    },
    result: async () => {
      const current = await readPolicy(base.name);
      return isResultOfPatch({ before: base, after: current }, kind, patch) ? current : null;
    },
  };
}

const revisionsOf = (policy: Policy, kind: PatchedKind): string =>
  rulesOfKind(policy, kind)
    .map(({ id, revision }) => `${id} ${revision}`)
    .join();

function patchOf(kind: PatchedKind, { mode, limits, strategy, entries, overrides }: Rule): PolicyChange {
  if (kind === "mode") return { mode: mode ?? null };
  if (kind === "overrides") return { overrides: overrides ?? null };
  if (kind !== "limits") return { [kind]: entries };
  return { limits: limits ?? null, ...(strategy !== undefined && { strategy }) };
}
