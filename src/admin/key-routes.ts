/** `/api/keys`, `/api/top`, the keys that operators name, and the keys that they reveal. */
import * as v from "valibot";
import { fields } from "../validation/problems.ts";
import {
  type AdminContext,
  type AuthorizedCall,
  CallRefused,
  whenRefused,
  answer,
  bodyOf,
  emptyAnswer,
  fieldsRefused,
  flagText,
  instant,
  instantText,
  integerText,
  keyIdOf,
  parsed,
  policyNameText,
  policyOf,
  queryIn,
  requireRight,
  text,
} from "./context.ts";
import type { LoggedKeysView, RevealedKey, RevealedKeys, TopKeyList } from "./wire.ts";
import { type KeyValue, mostKeyParts, partName } from "../policy/key.ts";
import { ancestorsOfKey } from "../policy/partition-key.ts";
import type { Policy } from "../policy/policy.ts";
import { callerKeyValues, unmatchedText } from "../policy/key-text.ts";
import { missingParts } from "../policy/resolve-key.ts";
import { keyLevels, shownName } from "../policy/within.ts";
import { labelOf } from "../control/isolate/key-sealer.ts";
import { keyText } from "../http/check/input.ts";
import { invalidKey } from "../http/check/operations.ts";
import type { DeniedKeys, DeniedKeysQuery } from "../control/denial-calls.ts";
import type { NotedAction, RuleInput } from "../control/protocol.ts";
import { firstTopHour } from "../control/statistics-calls.ts";
import { type Operator, refuseCrossSite } from "./authenticate.ts";

/** Forgets what a key has used, and lifts its ban. Rules stay. */
export async function resetKey(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  queryIn(c, {});
  const policy = policyOf(context, c.req.param("policy") ?? "");
  const key = keyIdOf(c.req.param("id") ?? "", policy);
  const { bans, limiter } = context.runtime;
  const { actor } = c.var.operator;
  // The audit entry is written first, so that no reset is missing from the audit log.
  await context.controlPlane.call((stub) =>
    stub.note({ action: "reset", policy: policy.name, key, actor, note: null }),
  );
  bans.forget(policy, key);
  if (!(await limiter.forget(policy, key))) throw new CallRefused({ kind: "undecided" });
  return emptyAnswer();
}

const acceptedIds = "a list of 1 to 100 ids of keys, without id";

const revealSchema = fields({
  policy: policyNameText,
  id: v.optional(text("the id of a key")),
  ids: v.optional(
    v.pipe(v.array(text(acceptedIds), acceptedIds), v.minLength(1, acceptedIds), v.maxLength(100, acceptedIds)),
  ),
});

/** The plain key of an id in a top list, the tail or a rule, or the plain keys of several ids. */
export async function revealKey(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { policy, id, ids } = parsed(revealSchema, await bodyOf(c));
  if (ids !== undefined) {
    if (id !== undefined) throw fieldsRefused([{ field: "ids", accepted: acceptedIds }]);
    return answer<RevealedKeys>({ policy, keys: await revealedIds(context, policy, ids, c.var.operator) });
  }
  if (id === undefined) throw fieldsRefused([{ field: "id", accepted: "the id of a key, or ids in its place" }]);
  const key = keyIdOf(id);
  const sealed = await context.controlPlane.call((stub) => stub.sealedKey(policy, key));
  const [plain = null] = await revealed(context, [{ policy, key, sealed }], c.var.operator);
  if (plain === null) throw new CallRefused({ kind: "unknown-key" });
  return answer<RevealedKey>({ policy, id, key: plain });
}

async function revealedIds(
  context: AdminContext,
  policy: string,
  ids: readonly string[],
  operator: Operator,
): Promise<RevealedKeys["keys"]> {
  const keys = ids.map((id) => keyIdOf(id));
  const sealed = await context.controlPlane.call((stub) => stub.sealedKeys(policy, keys));
  const all = keys.map((key, index) => ({ policy, key, sealed: sealed[index] ?? null }));
  const plain = await revealed(context, all, operator);
  return ids.map((id, index) => ({ id, key: plain[index] ?? null }));
}

const topQuery = {
  policy: policyNameText,
  by: v.optional(v.picklist(["denied", "cost"], '"denied" or "cost"'), "denied"),
  limit: v.optional(integerText(1, 200), "10"),
  within: v.optional(text("the id of the parent of the keys")),
  from: v.optional(instant),
  to: v.exactOptional(instant),
  reveal: flagText,
};

export async function readTop(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { policy, by, limit, within, from, to, reveal } = queryIn(c, topQuery);
  if (reveal) requireReveal(c);
  const { ancestors } = policyOf(context, policy);
  if (within !== undefined) requireAncestor(ancestors, within);
  if (to !== undefined && (from === undefined || from >= to)) {
    throw fieldsRefused([{ field: "from", accepted: "an instant before to" }]);
  }
  if (to !== undefined && within !== undefined) {
    throw fieldsRefused([{ field: "to", accepted: "no value together with within" }]);
  }
  if (to !== undefined && by === "cost") throw fieldsRefused([{ field: "to", accepted: 'only with by = "denied"' }]);
  const nowMs = context.clock.now();
  const fromMs = firstTopHour(from ?? 0, nowMs);
  const top = await context.controlPlane.call((stub) =>
    stub.top({ policy, by, limit, fromMs, ...(within !== undefined && { within }) }),
  );
  context.control.watch();
  const sealedKeys = top.map(({ key, sealed = null }) => ({ policy, key, sealed }));
  const plain = reveal ? await revealed(context, sealedKeys, c.var.operator) : [];
  const keys = top.map(({ key, count, error }, index) => ({
    id: key,
    count,
    error,
    ...(reveal && { key: plain[index] ?? null }),
  }));
  const period =
    from === undefined || to === undefined
      ? null
      : await loggedKeys(context, { policy, limit, fromMs: from, toMs: to });
  return answer<TopKeyList>({ policy, by, from: instantText(fromMs), keys, ...(period !== null && { period }) });
}

/** @throws CallRefused when the id is not one of a policy above that of the keys */
function requireAncestor(ancestors: Policy["ancestors"], id: string): void {
  if (ancestors[ancestorsOfKey(keyIdOf(id)).length] !== undefined) return;
  const names = ancestors.map(({ policy }) => policy).join(" or ");
  const accepted = names === "" ? "no value: the policy is within no other one" : `the id of a key of ${names}`;
  throw fieldsRefused([{ field: "within", accepted }]);
}

export const periodSteps = 30;

/** Null when the control plane is of an earlier version. */
async function loggedKeys(
  { controlPlane }: AdminContext,
  query: Omit<DeniedKeysQuery, "steps">,
): Promise<LoggedKeysView | null> {
  const logged = await controlPlane
    .call((stub) => stub.deniedKeys({ ...query, steps: periodSteps }))
    .catch(whenRefused(null));
  return logged && loggedKeysView(logged, query);
}

export const loggedKeysView = (
  { denials, isComplete, keys }: DeniedKeys,
  { fromMs, toMs }: Pick<DeniedKeysQuery, "fromMs" | "toMs">,
): LoggedKeysView => ({
  from: instantText(fromMs),
  to: instantText(toMs),
  denials,
  isComplete,
  keys: keys.map(({ key: id, count, steps }) => ({ id, count, steps })),
});

const acceptedKey =
  "a well-formed text of 1 to 1024 UTF-8 bytes, or a list of such texts, with null for a missing part";
const acceptedTenant = "the name of a tenant, of up to 128 characters";

export const keyNameEntries = {
  key: v.optional(
    v.union(
      [
        v.pipe(
          keyText,
          v.transform((part) => [part]),
        ),
        v.pipe(
          v.array(v.nullable(keyText), acceptedKey),
          v.minLength(1, acceptedKey),
          v.maxLength(mostKeyParts, `at most ${mostKeyParts} texts`),
        ),
      ],
      acceptedKey,
    ),
  ),
  id: v.optional(v.string("the id of a key, which explain returns")),
  tenant: v.optional(
    v.pipe(
      v.string(acceptedTenant),
      v.check((tenant) => tenant.trim() !== "" && tenant.isWellFormed(), acceptedTenant),
      v.maxLength(128, acceptedTenant),
    ),
  ),
};

type KeyName = v.InferOutput<v.ObjectSchema<typeof keyNameEntries, undefined>>;

/** A key of a policy. */
export type NamedKey = Pick<RuleInput, "sealedKey"> & { readonly key: string };

/** @throws CallRefused when a key is named by its id and by its parts */
export function refuseSecondName({ key, id, tenant }: KeyName): void {
  if (id === undefined || (key === undefined && tenant === undefined)) return;
  const field = key === undefined ? "tenant" : "key";
  throw fieldsRefused([{ field, accepted: "no value together with id" }]);
}

/** @throws CallRefused when the name does not fit the policy's key */
export async function namedKey({ runtime, sealer }: AdminContext, policy: Policy, name: KeyName): Promise<NamedKey> {
  refuseSecondName(name);
  const { id, tenant = null } = name;
  if (id !== undefined) return { key: keyIdOf(id, policy), sealedKey: null };
  const values = keyValues(policy, name.key);
  const key = await runtime.partitions.keyOf(policy, values, tenant);
  const sealedKey = await sealer.seal(policy.name, key, labelOf({ parts: policy.key, values, tenant }));
  return { key, sealedKey };
}

/**
 * Reads one value for each part of the policy's key.
 * @throws CallRefused when no request can have the key: a rule for it would have no effect
 */
function keyValues(policy: Policy, texts: KeyName["key"]): KeyValue[] {
  const { key: parts } = policy;
  const errors = parts.flatMap((part, index) => {
    const given = texts?.[index] ?? null;
    const field = parts.length === 1 ? "key" : `key[${index}]`;
    const accepted = texts?.length === parts.length ? unmatchedText(part, policy, given) : null;
    return accepted === null ? [] : [{ field, accepted: `${accepted}; or the id of the key` }];
  });
  if (errors.length > 0) throw fieldsRefused(errors);
  const values = callerKeyValues(policy, texts);
  if (values === null) throw new CallRefused(invalidKey(policy, texts ?? []));
  for (const { from, to, onMissingKey } of keyLevels(policy)) {
    const missing = missingParts(parts.slice(from, to), values.slice(from, to));
    if (onMissingKey === "shared" || missing.length === 0) continue;
    const names = missing.map((part) => shownName(partName(part), policy)).join(", ");
    const accepted = `a text for every part, because onMissingKey is "${onMissingKey}"; ${names} is missing`;
    throw fieldsRefused([{ field: "key", accepted }]);
  }
  return values;
}

/**
 * A read that reveals keys is recorded, so a page of another site must not cause it.
 * @throws CallRefused when the operator may not reveal keys, or a page of another site has sent the request
 */
export function requireReveal(c: AuthorizedCall): void {
  const { operator } = c.var;
  requireRight(operator, "reveal");
  if (operator.actor.via === "access") refuseCrossSite(c.req.raw);
}

/**
 * A partition key and its sealed plain form. `key` is null for a rule of a policy; `sealed` is null where only the id
 * is known.
 */
interface Sealed {
  readonly policy: string;
  readonly key: string | null;
  readonly sealed: string | null;
}

/**
 * The plain keys, with null for a key that is unknown or was sealed with another `KEY_SECRET`. They are returned only
 * after the audit log has recorded them.
 * @throws CallRefused when the control plane does not answer
 */
export async function revealed(
  { controlPlane, sealer }: AdminContext,
  all: readonly Sealed[],
  { actor }: Operator,
): Promise<(string | null)[]> {
  const opened = all.map(async ({ policy, key, sealed }) =>
    key === null || sealed === null ? null : sealer.open(policy, key, sealed),
  );
  const plain = await Promise.all(opened);
  const actions = all.flatMap(({ policy, key }, index): NotedAction[] =>
    key === null || plain[index] === null ? [] : [{ action: "reveal", policy, key, actor, note: null }],
  );
  if (actions.length > 0) await controlPlane.call((stub) => stub.noteAll(actions));
  return plain;
}
