/** Changes of rules and policies. After a lost answer, a repeated change is recognized and not made twice. */
import type { AuditedRule, Mode, Policy, Rule, RuleKind, WrittenLimits } from "./answers.ts";
import { readChanges } from "./changes.ts";
import { type Answer, ApiProblem, call, ConnectionLost, read } from "./client.ts";
import { contentOf, type RuleChange } from "./undo-plan.ts";

/** How long a change lasts, and why it is made. */
export interface Term {
  /** A duration such as `10m`; absent for a change without an end. */
  readonly for?: string;
  /** The instant at which it ends, in place of `for`. */
  readonly expiresAt?: string;
  readonly note?: string;
}

interface NewRule extends Term {
  readonly policy: string;
  readonly kind: RuleKind;
  /** Required for limits and allow entries of a whole policy. */
  readonly scope?: Rule["scope"];
  /** The id of a key, for a rule of one key. */
  readonly id?: string;
  /** The plain key, for a rule of one key. */
  readonly key?: string | readonly (string | null)[];
  /** The tenant of the plain key. */
  readonly tenant?: string;
  readonly limits?: WrittenLimits;
  readonly strategy?: string;
  readonly mode?: Mode;
  readonly entries?: readonly unknown[];
  readonly overrides?: readonly unknown[];
}

/** The key of a new rule, as a call names it. */
export type KeyReference = Pick<NewRule, "policy" | "id" | "key" | "tenant">;

/** The fields that a call can change in a rule: its policy and its key stay. */
export type RuleContent = Omit<NewRule, "policy" | "scope" | "id" | "key" | "tenant">;

/** Changes the mode or the limits; null returns to those of the configuration. */
interface PolicyChange extends Term {
  readonly mode?: Mode | null;
  readonly limits?: WrittenLimits | null;
  readonly strategy?: string;
}

/** Forgets what the key has used, and lifts its ban. This cannot be undone. */
export const resetKey = async (policy: string, id: string): Promise<unknown> =>
  changed(call("DELETE", `keys/${encodeURIComponent(policy)}/${id}/usage`));

async function changed<Value>(answer: Promise<Answer<Value>>): Promise<Value> {
  const { value } = await answer;
  readChanges();
  return value;
}

export type RulePlan =
  | { readonly kind: "create"; readonly rule: NewRule }
  | { readonly kind: "replace"; readonly before: AuditedRule; readonly content: RuleContent }
  | { readonly kind: "remove"; readonly before: AuditedRule };

/**
 * Whether a rule is what a change made of an earlier revision, whose answer was lost.
 * @param before null for a new rule
 */
export function isResultOf(
  before: Pick<AuditedRule, "id" | "revision"> | null,
  content: RuleContent,
  rule: AuditedRule,
): boolean {
  const { expiresAt, note = null } = content;
  const isEndless = content.for === undefined && expiresAt === undefined;
  return (
    (before === null || rule.id === before.id) &&
    rule.revision === (before?.revision ?? 0) + 1 &&
    (rule.expiresAt === null) === isEndless &&
    JSON.stringify([contentOf(rule), rule.note]) === JSON.stringify([contentOf(content), note])
  );
}

export type PatchedKind = "mode" | "limits";

/** A policy before and after a change. */
export interface PolicyUpdate {
  readonly before: Policy;
  readonly after: Policy;
}

/** The newest first. */
const rulesOfKind = ({ rules }: Policy, kind: PatchedKind): readonly Rule[] =>
  rules.filter((rule) => rule.kind === kind);

/** Whether the rules of the kind are what the patch made of those before it. Rules of other kinds may have changed since. */
export function isResultOfPatch({ before, after }: PolicyUpdate, kind: PatchedKind, patch: PolicyChange): boolean {
  const { mode, limits, ...rest } = patch;
  const [newest = null] = rulesOfKind(before, kind);
  const [rule, ...others] = rulesOfKind(after, kind);
  if (patch[kind] === null) return rule === undefined;
  const content = { ...rest, kind, ...(mode && { mode }), ...(limits && { limits }) };
  return rule !== undefined && others.length === 0 && isResultOf(newest, content, rule);
}

/** A change is refused with status 412 when another operator has changed the rule. */
export function changeBy(plan: RulePlan): ConditionalChange<RuleChange> {
  if (plan.kind === "create") {
    return {
      send: async (idempotencyKey) => ({ before: null, after: await createRule(plan.rule, idempotencyKey) }),
      // The idempotency key makes the second call return the result of the first.
      result: () => Promise.resolve(null),
    };
  }
  const { before } = plan;
  const path = `rules/${before.id}`;
  const ifMatch = `"${before.revision}"`;
  if (plan.kind === "remove") {
    const removal = { before, after: null };
    return {
      send: () => changed(call("DELETE", path, { ifMatch })).then(() => removal),
      result: async () => ((await ruleNow(path)) === null ? removal : null),
    };
  }
  const { content } = plan;
  return {
    send: async () => ({ before, after: await changed(call<Rule>("PUT", path, { body: content, ifMatch })) }),
    result: async () => {
      const after = await ruleNow(path);
      return after !== null && isResultOf(before, content, after) ? { before, after } : null;
    },
  };
}

/** Repeats the call once after a lost connection. With the same key, at most one rule is made. */
async function createRule(rule: NewRule, idempotencyKey: string): Promise<Rule> {
  const create = (): Promise<Answer<Rule>> => call<Rule>("POST", "rules", { body: rule, idempotencyKey });
  return changed(
    create().catch((error: unknown) => {
      if (error instanceof ConnectionLost) return create();
      throw error;
    }),
  );
}

/** Null when the rule no longer exists. */
const ruleNow = (path: string): Promise<Rule | null> =>
  read<Rule>(path).catch((error: unknown) => {
    if (isOutdated(error)) return null;
    throw error;
  });

const pathOf = (policy: string): string => `policies/${encodeURIComponent(policy)}`;

export const readPolicy = (name: string, abort?: AbortSignal): Promise<Policy> => read<Policy>(pathOf(name), abort);

/**
 * A change is refused with status 412 when another operator has changed the policy since it was read.
 * @param patch sets or removes only `kind`
 */
export const policyChangeBy = (
  before: Policy,
  kind: PatchedKind,
  patch: PolicyChange,
): ConditionalChange<PolicyUpdate> => ({
  send: async () => {
    const ifMatch = `"${before.epoch}-${before.version}"`;
    return { before, after: await changed(call<Policy>("PATCH", pathOf(before.name), { body: patch, ifMatch })) };
  },
  result: async () => {
    const after = await readPolicy(before.name);
    return isResultOfPatch({ before, after }, kind, patch) ? { before, after } : null;
  },
});

/** A change on the condition that what it changes is as it was read. */
export interface ConditionalChange<Result> {
  readonly send: (idempotencyKey: string) => Promise<Result>;
  /** The result of an earlier attempt whose answer was lost; null when another change came first. */
  readonly result: () => Promise<Result | null>;
}

interface Attempt<Result> {
  readonly typed: string;
  readonly change: ConditionalChange<Result>;
  readonly idempotencyKey: string;
}

/** Sends the changes of one dialog, or of one button. */
export class Sender<Result> {
  #lost: Attempt<Result> | null = null;

  /**
   * If the same typed text is sent again after a lost answer, the first change is sent again: the page may show the result of
   * the first attempt already, so that a new change would be based on it.
   */
  async send(typed: string, change: ConditionalChange<Result>): Promise<Result> {
    const repeated = this.#lost?.typed === typed ? this.#lost : null;
    const attempt = repeated ?? { typed, change, idempotencyKey: crypto.randomUUID() };
    try {
      return await (repeated === null ? change.send(attempt.idempotencyKey) : sentAgain(repeated));
    } catch (error) {
      if (isUnsure(error)) this.#lost = attempt;
      else if (repeated !== null) this.#lost = null;
      throw error;
    }
  }
}

/** Whether the change may have been made: the answer is lost, or the Worker failed on the way to it. */
const isUnsure = (error: unknown): boolean =>
  error instanceof ConnectionLost || (error instanceof ApiProblem && error.status >= 500);

/** Whether what was to be changed has changed since it was read. */
export const isOutdated = (error: unknown): error is ApiProblem =>
  error instanceof ApiProblem && (error.status === 412 || error.status === 404);

async function sentAgain<Result>({ change, idempotencyKey }: Attempt<Result>): Promise<Result> {
  try {
    return await change.send(idempotencyKey);
  } catch (error) {
    const result = isOutdated(error) ? await change.result() : null;
    if (result === null) throw error;
    readChanges();
    return result;
  }
}
