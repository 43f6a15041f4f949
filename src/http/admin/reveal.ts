/** Opens sealed keys for callers with the right `reveal`. Each one is recorded in the audit log first. */
import type { AdminContext } from "./context.ts";
import type { Operator } from "./authenticate.ts";

interface Sealed {
  readonly policy: string;
  /** The partition key. */
  readonly key: string;
  readonly sealed: string;
}

/**
 * The plain key; null when it was sealed with another `KEY_SECRET`. It is returned only after its audit entry is
 * stored.
 * @throws CallRefused when the control plane does not answer
 */
export async function revealed(
  { controlPlane, sealer }: AdminContext,
  { policy, key, sealed }: Sealed,
  { actor }: Operator,
): Promise<string | null> {
  const plain = await sealer.open(policy, key, sealed);
  if (plain === null) return null;
  await controlPlane.call((stub) =>
    stub.note({ action: "reveal", policy, key, actor, note: null }),
  );
  return plain;
}
