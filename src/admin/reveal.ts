/** Opens sealed keys for callers with the right `reveal`. Each one is recorded in the audit log first. */
import type { NotedAction } from "../control/protocol.ts";
import { type Operator, refuseCrossSite } from "./authenticate.ts";
import { type AdminContext, type AuthorizedCall, requireRight } from "./context.ts";

interface Sealed {
  readonly policy: string;
  /** The partition key. */
  readonly key: string;
  readonly sealed: string;
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
 * The plain keys, with null for a key that is unknown or was sealed with another `KEY_SECRET`. They are returned only
 * after the audit log has recorded them.
 * @throws CallRefused when the control plane does not answer
 */
export async function revealed(
  { controlPlane, sealer }: AdminContext,
  all: readonly (Sealed | null)[],
  { actor }: Operator,
): Promise<(string | null)[]> {
  const plain = await Promise.all(
    all.map((each) => (each === null ? Promise.resolve(null) : sealer.open(each.policy, each.key, each.sealed))),
  );
  const actions = all.flatMap((each, index): NotedAction[] => {
    if (each === null || plain[index] === null) return [];
    const { policy, key } = each;
    return [{ action: "reveal", policy, key, actor, note: null }];
  });
  if (actions.length > 0) await controlPlane.call((stub) => stub.noteAll(actions));
  return plain;
}
