/** `POST /api/keys/explain`: what would happen to a key now, and why. */
import * as v from "valibot";
import { fields } from "../validation/problems.ts";
import { mostKeyRules } from "../limiter/protocol.ts";
import { attributesSchema } from "../http/check/attributes-input.ts";
import { waitUntilFrom } from "../http/proxy/enforce.ts";
import { type AuthorizedCall, type AdminContext, answer, keyIdOf, policyOf } from "./context.ts";
import type { ExplainContext } from "./explain-result.ts";
import { explainedKey } from "./explain-result.ts";
import { keyNameEntries, refuseSecondName } from "./key-name.ts";
import { bodyOf, parsed, text } from "./read-input.ts";
import { accepted, CallRefused } from "./refusal.ts";
import type { Explanation } from "./wire.ts";

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
