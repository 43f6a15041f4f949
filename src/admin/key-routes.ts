/** `/api/keys` and `/api/top`: actions on one key, and the most frequent keys. */
import * as v from "valibot";
import { fields } from "../validation/problems.ts";
import { type AuthorizedCall, type AdminContext, answer, emptyAnswer, keyIdOf, policyOf } from "./context.ts";
import { flagText, integerText, bodyOf, parsed, queryIn, text } from "./read-input.ts";
import { CallRefused } from "./refusal.ts";
import { requireReveal, revealed } from "./reveal.ts";
import type { RevealedKey, TopKeyList } from "./wire.ts";

/** Forgets what a key has used, and lifts its ban. Rules stay. */
export async function resetKey(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  queryIn(c, {});
  const policy = policyOf(context, c.req.param("policy") ?? "");
  const key = keyIdOf(c.req.param("id") ?? "");
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

const revealSchema = fields({ policy: text("the name of a policy"), id: text("the id of a key") });

/** The plain key of an id in a top list, the tail or a rule. */
export async function revealKey(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { policy, id } = parsed(revealSchema, await bodyOf(c));
  const key = keyIdOf(id);
  const sealed = await context.controlPlane.call((stub) => stub.sealedKey(policy, key));
  const [plain = null] = await revealed(context, [sealed === null ? null : { policy, key, sealed }], c.var.operator);
  if (plain === null) throw new CallRefused({ kind: "unknown-key" });
  return answer<RevealedKey>({ policy, id, key: plain });
}

const topQuery = {
  policy: text("the name of a policy"),
  by: v.optional(v.picklist(["denied", "cost"], '"denied" or "cost"'), "denied"),
  limit: v.optional(integerText(1, 200), "10"),
  reveal: flagText,
};

export async function readTop(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const { policy, by, limit, reveal } = queryIn(c, topQuery);
  if (reveal) requireReveal(c);
  policyOf(context, policy);
  const top = await context.controlPlane.call((stub) => stub.top({ policy, by, limit }));
  context.control.watch();
  const sealedKeys = top.map(({ key, sealed }) => (sealed === undefined ? null : { policy, key, sealed }));
  const plain = reveal ? await revealed(context, sealedKeys, c.var.operator) : [];
  const keys = top.map(({ key, count, error }, index) => ({
    id: key,
    count,
    error,
    ...(reveal && { key: plain[index] ?? null }),
  }));
  return answer<TopKeyList>({ policy, by, keys });
}
