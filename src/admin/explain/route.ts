/** `POST /api/keys/explain`: what would happen to a request of cost 1 now, and why. It spends nothing. */
import * as v from "valibot";
import { attributesSchema } from "../../http/check/attributes-input.ts";
import { type Runtime, waitUntilFrom } from "../../http/runtime.ts";
import { type Failure, isFailure } from "../../http/wire/problems.ts";
import { RequestScope, type RulesAdopter } from "../../limiter/isolate/newer-rules-retry.ts";
import { outcomesOf } from "../../limiter/isolate/outcome.ts";
import type { WaitUntil } from "../../limiter/isolate/object-caller.ts";
import { mostKeyRules } from "../../limiter/protocol.ts";
import { fields } from "../../validation/problems.ts";
import {
  type AdminContext,
  type AuthorizedCall,
  CallRefused,
  accepted,
  answer,
  bodyOf,
  keyIdOf,
  parsed,
  policyOf,
  text,
} from "../context.ts";
import { keyNameEntries, refuseSecondName } from "../key-routes.ts";
import type { Explanation } from "../wire.ts";
import { explanationOf, type KnownRules } from "./build.ts";
import { type ExplainInput, isolateView } from "./isolate.ts";
import { explanationLines, explanationText } from "./lines.ts";

const schema = fields({
  policy: text("the name of a policy"),
  ...keyNameEntries,
  attributes: v.optional(attributesSchema),
});

export async function explainKey(context: AdminContext, c: AuthorizedCall): Promise<Response> {
  const input = parsed(schema, await bodyOf(c));
  policyOf(context, input.policy);
  refuseSecondName(input);
  if (input.id !== undefined) keyIdOf(input.id);
  const { runtime, clock } = context;
  const explaining = explainedKey(
    { runtime, nowMs: clock.now(), knownRules: rulesFrom(context), waitUntil: waitUntilFrom(c) },
    input,
  );
  return answer<Explanation>(accepted(await explaining));
}

export interface ExplainContext {
  readonly runtime: Pick<Runtime, "policies" | "partitions" | "limiter"> & {
    readonly control: RulesAdopter | null;
  };
  readonly nowMs: number;
  /** The control plane's rules; null when it does not answer. The explanation does not depend on them. */
  readonly knownRules: (policy: string, key: string) => Promise<KnownRules | null>;
  readonly waitUntil: WaitUntil;
}

export async function explainedKey(context: ExplainContext, input: ExplainInput): Promise<Explanation | Failure> {
  const { runtime, nowMs, knownRules, waitUntil } = context;
  for (let isSecondAttempt = false; ; isSecondAttempt = true) {
    const policy = runtime.policies.find(({ name }) => name === input.policy);
    if (policy === undefined) return { kind: "unknown-policy" };
    // oxlint-disable-next-line no-await-in-loop -- at most two attempts
    const isolate = await isolateView(policy, input, runtime.partitions);
    if (isFailure<Failure>(isolate)) return isolate;
    const spend = { policy: isolate.policy, partitionKey: isolate.id, cost: 1 };
    const calls = [runtime.limiter.explain(spend), knownRules(policy.name, isolate.id)] as const;
    // oxlint-disable-next-line no-await-in-loop
    const [explained, known] = await Promise.all(calls);
    const stale = explained?.reply.stale ?? [];
    if (stale.length > 0 && !isSecondAttempt) {
      // The object has seen newer rules than this isolate: a request would be decided by them.
      runtime.control?.adopt(stale, waitUntil);
      continue;
    }
    const reply = stale.length > 0 ? null : explained;
    const [decided] = reply === null ? [] : outcomesOf([spend], reply.reply);
    // oxlint-disable-next-line no-await-in-loop
    const outcome = decided ?? (await runtime.limiter.look(spend, new RequestScope(waitUntil)));
    const view = explanationOf(isolate, { outcome, reply: decided === undefined ? null : reply }, known, nowMs);
    const lines = explanationLines(view);
    return { ...view, lines, text: explanationText(view, lines, isolate.missingAttributes) };
  }
}

/** Null when the control plane does not answer: the explanation says so. */
const rulesFrom =
  ({ controlPlane }: AdminContext): ExplainContext["knownRules"] =>
  async (policy, key) => {
    const query = { policy, key, limit: mostKeyRules };
    try {
      const [{ items: keyRules }, state] = await Promise.all([
        controlPlane.call((stub) => stub.rules(query)),
        controlPlane.call((stub) => stub.policyState(policy)),
      ]);
      return { keyRules, policy: state };
    } catch (error) {
      if (error instanceof CallRefused) return null;
      throw error;
    }
  };
