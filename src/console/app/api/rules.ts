/** Changes of rules and policies, and their undo. After a lost answer, a repeated change is recognized and not made twice. */
import type {
  AuditedRule,
  AuditEntryView,
  AuditPage,
  PolicyMode,
  PolicyView,
  RuleView,
  UndoView,
  WrittenLimits,
} from "../../../admin/wire.ts";
import { readChanges } from "./changes.ts";
import { ApiProblem, call, ConnectionLost, read } from "./client.ts";

/** How long a change lasts, and why it is made. */
export interface Term {
  /** A duration such as `10m`; absent for a change without an end. */
  readonly for?: string;
  /** The instant at which it ends, in place of `for`. */
  readonly expiresAt?: string;
  readonly note?: string;
}

/** The end and the note of a rule, for a call that leaves both unchanged. */
export const termOf = ({ expiresAt, note }: AuditedRule): Term => ({
  ...(expiresAt !== null && { expiresAt }),
  ...(note !== null && { note }),
});

type KindFields = Pick<AuditedRule, "kind"> & {
  readonly [Name in "limits" | "strategy" | "factor" | "mode" | "entries" | "overrides"]?:
    | AuditedRule[Name]
    | undefined;
};

/** The fields that a call can change in a rule: its policy and its key stay. */
type RuleContent = KindFields & Term;

export const contentOf = ({ kind, limits, strategy, factor, mode, entries, overrides }: KindFields): KindFields => ({
  kind,
  limits,
  strategy,
  factor,
  mode,
  entries,
  overrides,
});

/** The key of a new rule, as a call names it. */
export interface KeyReference {
  readonly policy: string;
  readonly id?: string;
  /** The plain key, in place of its id. */
  readonly key?: readonly (string | null)[];
  readonly tenant?: string;
}

/** Limits and allow entries of a whole policy need the scope. */
type NewRule = KeyReference & RuleContent & Partial<Pick<AuditedRule, "scope">>;

/** Changes the mode or the limits of a policy. Null restores those of the configuration. */
interface PolicyChange extends Term {
  readonly mode?: PolicyMode | null;
  readonly limits?: WrittenLimits | null;
  readonly strategy?: string;
}

type PatchedKind = "mode" | "limits";

/** A rule before and after a change. `before` is null for a new rule, `after` for a removed one. */
export type RuleChange = Pick<AuditEntryView, "before" | "after">;

export type RulePlan =
  | { readonly kind: "create"; readonly rule: NewRule }
  | { readonly kind: "replace"; readonly before: AuditedRule; readonly content: RuleContent }
  | { readonly kind: "remove"; readonly before: AuditedRule };

/** @param replaced the rule that the new one replaces; null for none */
export const planOf = (
  place: KeyReference & Pick<NewRule, "scope">,
  content: RuleContent,
  replaced: AuditedRule | null,
): RulePlan =>
  replaced === null
    ? { kind: "create", rule: { ...place, ...content } }
    : { kind: "replace", before: replaced, content };

export interface PolicyUpdate {
  readonly before: PolicyView;
  readonly after: PolicyView;
}

/** Forgets what the key has used, and lifts its ban. This cannot be undone. */
export const resetKey = async (policy: string, id: string): Promise<unknown> =>
  changed(call("DELETE", `keys/${encodeURIComponent(policy)}/${id}/usage`));

async function changed<Value>(answer: Promise<Value>): Promise<Value> {
  const value = await answer;
  readChanges();
  return value;
}

/**
 * Whether a rule is the result of a change to an earlier revision. The answer to that change was lost.
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

/** The newest first. */
const rulesOfKind = ({ rules }: PolicyView, kind: PatchedKind): readonly RuleView[] =>
  rules.filter((rule) => rule.kind === kind);

/**
 * Whether the rules of this kind are what the patch would have made of the earlier ones. Rules of other kinds may have
 * changed since.
 */
export function isResultOfPatch({ before, after }: PolicyUpdate, kind: PatchedKind, patch: PolicyChange): boolean {
  const { mode, limits, ...rest } = patch;
  const [newest = null] = rulesOfKind(before, kind);
  const [rule, ...others] = rulesOfKind(after, kind);
  if (patch[kind] === null) return rule === undefined;
  const content = { ...rest, kind, ...(mode && { mode }), ...(limits && { limits }) };
  return rule !== undefined && others.length === 0 && isResultOf(newest, content, rule);
}

/**
 * A change that the API accepts only while its target is as the page read it. Otherwise the API refuses it with status
 * 412.
 */
export interface ConditionalChange<Result> {
  /** Identifies the state that the change is based on. */
  readonly basis: string;
  readonly send: (idempotencyKey: string) => Promise<Result>;
  /** The result of an earlier attempt whose answer was lost; null when another change was made first. */
  readonly result: () => Promise<Result | null>;
  readonly undoOf: (result: Result) => Undo;
}

export function changeBy(plan: RulePlan): ConditionalChange<RuleChange> {
  if (plan.kind === "create") {
    return {
      basis: "",
      send: async (idempotencyKey) => ({ before: null, after: await createRule(plan.rule, idempotencyKey) }),
      // The idempotency key makes the second call return the result of the first.
      result: () => Promise.resolve(null),
      undoOf,
    };
  }
  const { before } = plan;
  const path = `rules/${before.id}`;
  const ifMatch = `"${before.revision}"`;
  const basis = `${before.id} ${before.revision}`;
  if (plan.kind === "remove") {
    const removal = { before, after: null };
    return {
      basis,
      send: () => changed(call("DELETE", path, { ifMatch })).then(() => removal),
      result: async () => ((await ruleNow(path)) === null ? removal : null),
      undoOf,
    };
  }
  const { content } = plan;
  return {
    basis,
    send: async () => ({ before, after: await changed(call<RuleView>("PUT", path, { body: content, ifMatch })) }),
    result: async () => {
      const after = await ruleNow(path);
      return after !== null && isResultOf(before, content, after) ? { before, after } : null;
    },
    undoOf,
  };
}

/** Repeats the call once after a lost connection. With the same key, at most one rule is made. */
async function createRule(rule: NewRule, idempotencyKey: string): Promise<RuleView> {
  const create = (): Promise<RuleView> => call<RuleView>("POST", "rules", { body: rule, idempotencyKey });
  return changed(
    create().catch((error: unknown) => {
      if (error instanceof ConnectionLost) return create();
      throw error;
    }),
  );
}

/** Null when the rule no longer exists. */
const ruleNow = (path: string): Promise<RuleView | null> =>
  read<RuleView>(path).catch((error: unknown) => {
    if (isOutdated(error)) return null;
    throw error;
  });

const pathOf = (policy: string): string => `policies/${encodeURIComponent(policy)}`;

export const readPolicy = (name: string, abort?: AbortSignal): Promise<PolicyView> =>
  read<PolicyView>(pathOf(name), abort);

const versionTag = ({ epoch, version }: PolicyView): string => `"${epoch}-${version}"`;

/** @param patch sets or removes only `kind` */
export const policyChangeBy = (
  before: PolicyView,
  kind: PatchedKind,
  patch: PolicyChange,
): ConditionalChange<PolicyUpdate> => ({
  basis: versionTag(before),
  send: async () => {
    const ifMatch = versionTag(before);
    return { before, after: await changed(call<PolicyView>("PATCH", pathOf(before.name), { body: patch, ifMatch })) };
  },
  result: async () => {
    const after = await readPolicy(before.name);
    return isResultOfPatch({ before, after }, kind, patch) ? { before, after } : null;
  },
  undoOf: (update) => undoOfPolicy(update, kind),
});

interface Attempt<Result> {
  readonly typed: string;
  readonly change: ConditionalChange<Result>;
  readonly idempotencyKey: string;
}

export class Sender<Result> {
  #lost: Attempt<Result> | null = null;

  /**
   * If the operator sends the same text again after a lost answer, the first change is sent again. A new change could
   * be based on the result of the first attempt, which the page may already show.
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

/** Whether the change may have been made although the call failed: its answer is lost, or the Worker failed. */
export const isUnsure = (error: unknown): boolean =>
  error instanceof ConnectionLost || (error instanceof ApiProblem && error.status >= 500);

/** Whether the target of the change has changed or disappeared since the page read it. */
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

/**
 * Undoes a change. Returns the audit entries of the undo, which can be undone in turn. It can be called again after a
 * lost answer.
 */
export type Undo = () => Promise<readonly AuditEntryView[]>;

type EntryNumbers = readonly Pick<AuditEntryView, "seq">[];

/** Returns an undo in which the control plane restores the rules of all entries, or of none. */
export function undoOfEntries(entries: EntryNumbers | (() => Promise<EntryNumbers>)): Undo {
  const idempotencyKey = crypto.randomUUID();
  return async () => {
    const seqs = (typeof entries === "function" ? await entries() : entries).map(({ seq }) => seq);
    const undone = await changed(call<UndoView>("POST", "audit/undo", { body: { entries: seqs }, idempotencyKey }));
    return undone.entries;
  };
}

export const undoOf = ({ before, after }: RuleChange): Undo =>
  undoOfRecent(
    (entry) =>
      entry.rule === ruleIn({ before, after })?.id &&
      entry.before?.revision === before?.revision &&
      entry.after?.revision === after?.revision,
  );

/** Undoes the change of all rules of one kind that a policy had. */
export const undoOfPolicy = ({ before, after }: PolicyUpdate, kind: PatchedKind): Undo =>
  undoOfRecent(
    (entry) =>
      entry.policy === before.name &&
      entry.keyId === null &&
      ruleIn(entry)?.kind === kind &&
      entry.seq > before.version &&
      entry.seq <= after.version,
  );

const undoOfRecent = (isUndone: (entry: AuditEntryView) => boolean): Undo =>
  undoOfEntries(async () => {
    const { entries } = await read<AuditPage>("audit?limit=200");
    const found = entries.filter(isUndone);
    if (found.length === 0) throw new Error("The newest 200 entries of the audit log do not have this change.");
    return found;
  });

/** Rules never change in place, and their lists can be long. */
const stateTexts = new WeakMap<AuditedRule, string>();

/** A text that is equal for rules with equal policy, key, scope, effect, end and note; "" for no rule. */
export function ruleStateText(rule: AuditedRule | null): string {
  if (rule === null) return "";
  const known = stateTexts.get(rule);
  if (known !== undefined) return known;
  const { policy, scope, keyId, expiresAt, note } = rule;
  const text = JSON.stringify([policy, scope, keyId, expiresAt, note, contentOf(rule)]);
  stateTexts.set(rule, text);
  return text;
}

export const isSameRule = (one: AuditedRule | null, other: AuditedRule | null): boolean =>
  ruleStateText(one) === ruleStateText(other);

export const hasEnded = ({ expiresAt }: Pick<AuditedRule, "expiresAt">, nowMs: number): boolean =>
  expiresAt !== null && Date.parse(expiresAt) <= nowMs;

/**
 * The change that undoes this one. Null when nothing is left to undo, because the previous rule would have expired by
 * now.
 */
export function undoStep({ before, after }: RuleChange, nowMs: number): RuleChange | null {
  const former = before === null || hasEnded(before, nowMs) ? null : before;
  return former === null && after === null ? null : { before: after, after: former };
}

export const ruleIn = ({ before, after }: RuleChange): AuditedRule | null => before ?? after;
