/** `/api/rules`, `/api/audit` and `/api/rollback`. */
import * as v from "valibot";
import type { Policy } from "../policy/policy.ts";
import type { Rule, RuleCreation, RuleInput } from "../control/protocol.ts";
import { fields } from "../validation/problems.ts";
import type { FieldError } from "../http/wire/problems.ts";
import {
  type AdminContext,
  type AuthorizedCall,
  CallRefused,
  answer,
  bodyOf,
  emptyAnswer,
  fieldsRefused,
  flagText,
  keyIdOf,
  nextLink,
  pageEntries,
  parsed,
  policyNameText,
  policyOf,
  queryIn,
  requireMatch,
  text,
} from "./context.ts";
import { type NamedKey, keyNameEntries, namedKey, requireReveal, revealed } from "./key-routes.ts";
import { adoptRules } from "./policy-routes.ts";
import { contentEntries, endEntries, hasKind, keyKinds, note, policyKinds, readEnd, readRule } from "./rule-input.ts";
import { auditView, rollbackView, ruleTag, ruleView } from "./rule-view.ts";
import type {
  AuditPage,
  BegunRollback,
  LatestRollback,
  PendingDeletion,
  RulePage,
  RuleView,
  UndoView,
} from "./wire.ts";

const kinds = [...new Set([...keyKinds, ...policyKinds])];
const acceptedKind = `one of ${kinds.map((kind) => `"${kind}"`).join(", ")}`;
const kind = v.picklist(kinds, acceptedKind);

const ruleQuery = {
  policy: v.exactOptional(policyNameText),
  kind: v.exactOptional(kind),
  id: v.optional(text("the id of a key")),
  reveal: flagText,
  ...pageEntries(/^\w{1,64}$/),
};

export async function listRules(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { id, reveal, ...query } = queryIn(c, ruleQuery);
  if (reveal) requireReveal(c);
  const key = id === undefined ? {} : { key: keyIdOf(id) };
  const page = await context.controlPlane.call((stub) => stub.rules({ ...query, ...key }));
  const keys = await plainKeys(context, c, page.items, reveal);
  const rules = page.items.map((rule, index) => ruleView(rule, keys[index]));
  return answer<RulePage>({ rules, next: page.cursor }, 200, nextLink(c, `${context.apiPath}/rules`, page.cursor));
}

/** Empty for a caller that does not reveal keys. */
async function plainKeys(
  context: AdminContext,
  c: AuthorizedCall,
  rules: readonly Rule[],
  reveal: boolean,
): Promise<(string | null)[]> {
  const sealed = rules.map(({ policy, key, sealedKey }) => ({ policy, key, sealed: sealedKey }));
  return reveal ? revealed(context, sealed, c.var.operator) : [];
}

const creationSchema = fields({
  policy: policyNameText,
  ...keyNameEntries,
  scope: v.optional(v.picklist(["key", "policy"], '"key" or "policy"')),
  kind,
  ...contentEntries,
  ...endEntries,
});
type Creation = v.InferOutput<typeof creationSchema>;

const replacementSchema = fields({ kind, ...contentEntries, ...endEntries });
type ReplacementInput = v.InferOutput<typeof replacementSchema>;

/** @param request the request that each repetition of the `Idempotency-Key` must equal */
async function idempotencyOf(
  { runtime }: AdminContext,
  { req }: AuthorizedCall,
  request: object,
): Promise<RuleCreation["idempotency"]> {
  const key = req.header("Idempotency-Key");
  if (key === undefined) return null;
  if (!/^[\x21-\x7e]{1,255}$/.test(key)) {
    throw fieldsRefused([{ field: "Idempotency-Key", accepted: "1 to 255 visible ASCII characters" }]);
  }
  return { key, requestHash: await runtime.sign(JSON.stringify(request)) };
}

export async function createRule(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const body = await bodyOf(c);
  const idempotency = await idempotencyOf(context, c, { request: body });
  const creation = parsed(creationSchema, body);
  const policy = policyOf(context, creation.policy);
  const named = await keyOf(context, policy, creation);
  const input = await ruleInput(context, policy, named, creation);
  const { actor } = c.var.operator;
  const { value: rule } = await context.controlPlane.change((stub) => stub.createRule({ input, actor, idempotency }), {
    kind: "rule-gone",
  });
  if (named === null) await adoptRules(context, c, [policy]);
  const location = `${context.apiPath}/rules/${rule.id}`;
  return answer<RuleView>(ruleView(rule), 201, { Location: location, ETag: ruleTag(rule) });
}

/**
 * The key of a rule, or null for a rule of the whole policy. Only kinds that exist for a key need the scope "policy" stated.
 * @throws CallRefused when the kind does not exist for the stated scope, or the key does not fit the policy
 */
async function keyOf(context: AdminContext, policy: Policy, creation: Creation): Promise<NamedKey | null> {
  const { kind: ownKind, key, id, tenant } = creation;
  const scope = creation.scope ?? (hasKind("key", ownKind) ? "key" : "policy");
  if (!hasKind(scope, ownKind)) {
    const other = scope === "key" ? "policy" : "key";
    throw fieldsRefused([{ field: "scope", accepted: `"${other}" with the kind "${ownKind}"` }]);
  }
  if (scope === "key") {
    const isUnnamed = key === undefined && id === undefined && policy.key.some((part) => part.kind !== "global");
    if (isUnnamed && creation.scope === undefined) {
      const accepted = 'a key or an id, or the scope "policy" for a rule of the whole policy';
      throw fieldsRefused([{ field: "key", accepted }]);
    }
    return namedKey(context, policy, creation);
  }
  const errors = Object.entries({ key, id, tenant })
    .filter(([, value]) => value !== undefined)
    .map(([field]) => ({ field, accepted: "no value for a rule of the whole policy" }));
  if (errors.length > 0) throw fieldsRefused(errors);
  return null;
}

/** @throws CallRefused with every error in the content */
async function ruleInput(
  context: AdminContext,
  policy: Policy,
  named: NamedKey | null,
  content: ReplacementInput,
): Promise<RuleInput> {
  const errors: FieldError[] = [];
  const report = (error: FieldError): void => void errors.push(error);
  const rule = readRule(named === null ? "policy" : "key", content.kind, content, policy, context, report);
  const end = readEnd(content, [content.kind], context.clock.now(), report);
  if (rule === null || errors.length > 0) throw fieldsRefused(errors);
  const { name, objects } = policy;
  return named === null
    ? { ...rule, ...end, policy: name, key: null, sealedKey: null, objects: null }
    : { ...rule, ...end, policy: name, ...named, objects, secretId: await context.control.secretId() };
}

/** @throws CallRefused when there is no such rule */
async function ruleOf({ controlPlane }: AdminContext, c: AuthorizedCall): Promise<Rule> {
  const id = c.req.param("id") ?? "";
  const rule = await controlPlane.call((stub) => stub.rule(id));
  if (rule === null) throw new CallRefused({ kind: "unknown-rule" });
  return rule;
}

export async function readOneRule(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { reveal } = queryIn(c, { reveal: flagText });
  if (reveal) requireReveal(c);
  const rule = await ruleOf(context, c);
  const [key] = await plainKeys(context, c, [rule], reveal);
  return answer<RuleView>(ruleView(rule, key), 200, { ETag: ruleTag(rule) });
}

/** A replacement keeps the rule's policy and key. */
export async function replaceRule(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const replacement = parsed(replacementSchema, await bodyOf(c));
  const rule = await ruleOf(context, c);
  requireMatch(c.req.raw, ruleTag(rule));
  const policy = policyOf(context, rule.policy);
  const { key, sealedKey } = rule;
  const input = await ruleInput(context, policy, key === null ? null : { key, sealedKey }, replacement);
  const { id, revision } = rule;
  const { actor } = c.var.operator;
  const { value } = await context.controlPlane.change((stub) => stub.replaceRule({ id, revision, input, actor }));
  if (key === null) await adoptRules(context, c, [policy]);
  return answer<RuleView>(ruleView(value), 200, { ETag: ruleTag(value) });
}

/** 202 while the key's object has not confirmed it yet. */
export async function deleteRule(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const rule = await ruleOf(context, c);
  requireMatch(c.req.raw, ruleTag(rule));
  const { id, revision } = rule;
  const { actor } = c.var.operator;
  const { isPending } = await context.controlPlane.change((stub) =>
    stub.deleteRule({ id, revision, actor, note: null }),
  );
  // The rule of a policy that the configuration no longer has can be deleted, too.
  const ruled = context.policies.filter(({ name }) => rule.key === null && name === rule.policy);
  await adoptRules(context, c, ruled);
  if (isPending) return answer<PendingDeletion>({ state: "pending" }, 202);
  return emptyAnswer();
}

export async function readAudit(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const query = queryIn(c, pageEntries(/^\d{1,15}$/));
  const page = await context.controlPlane.call((stub) => stub.audit(query));
  const entries = page.items.map(auditView);
  return answer<AuditPage>({ entries, next: page.cursor }, 200, nextLink(c, `${context.apiPath}/audit`, page.cursor));
}

const mostUndone = 64;
const acceptedEntries = `a list of 1 to ${mostUndone} seqs of audit entries that have changed a rule`;
const undoSchema = fields({
  entries: v.pipe(
    v.array(v.pipe(v.number(acceptedEntries), v.safeInteger(acceptedEntries)), acceptedEntries),
    v.minLength(1, acceptedEntries),
    v.maxLength(mostUndone, acceptedEntries),
  ),
});

/** 202 while an object of a key has not confirmed it yet. */
export async function undoEntries(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { entries } = parsed(undoSchema, await bodyOf(c));
  const idempotency = await idempotencyOf(context, c, { undo: entries });
  const { actor } = c.var.operator;
  const { value, isPending } = await context.controlPlane.change((stub) => stub.undo({ entries, actor, idempotency }), {
    kind: "fields-invalid",
    errors: [{ field: "entries", accepted: acceptedEntries }],
  });
  const ofPolicies = value.entries.filter(({ before, after }) => (before ?? after)?.key === null);
  const ruled = new Set(ofPolicies.map(({ policy }) => policy));
  const policies = context.policies.filter(({ name }) => ruled.has(name));
  await adoptRules(context, c, policies);
  const rules = value.rules.map((rule) => ruleView(rule));
  return answer<UndoView>({ entries: value.entries.map(auditView), rules }, isPending === true ? 202 : 200);
}

const acceptedTo =
  "the seq of an audit entry after which no stored entry is damaged, or 0 for the state before the first one";
const rollbackSchema = fields({
  to: v.pipe(v.number(acceptedTo), v.safeInteger(acceptedTo), v.minValue(0, acceptedTo)),
  note,
});

export async function rollBack(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { to: toSeq, note: reason } = parsed(rollbackSchema, await bodyOf(c));
  const { actor } = c.var.operator;
  const { value, progress } = await context.controlPlane.change(
    (stub) => stub.rollback({ toSeq, actor, note: reason }),
    { kind: "fields-invalid", errors: [{ field: "to", accepted: acceptedTo }] },
  );
  await adoptRules(context, c, context.policies);
  const rules = value.map((rule) => ruleView(rule));
  return answer<BegunRollback>({ ...rollbackView(progress), rules }, progress.state === "running" ? 202 : 200);
}

export async function readRollback(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  queryIn(c, {});
  const progress = await context.controlPlane.call((stub) => stub.rollbackProgress());
  return answer<LatestRollback>({ rollback: progress === null ? null : rollbackView(progress) });
}
