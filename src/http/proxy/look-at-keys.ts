/**
 * Reads the bans and `block` rules of keys that a request names but that no policy charges. Either denies the request.
 */
import type { Policy } from "../../policy/policy.ts";
import type { KeyValue } from "../../policy/key-values.ts";
import type { KeyResolution } from "../../policy/resolve-key.ts";
import type { Spend } from "../../limiter/isolate/outcome.ts";
import type { Runtime } from "../runtime.ts";

interface LookContext {
  readonly runtime: Runtime;
  /** The tenant whose keys these are; null for the keys of the proxy. */
  readonly tenant: string | null;
}

/** Spends with a cost of 0, one for each key of the policy. Empty for a dry run, which denies nothing. */
export const looksAt = (
  policy: Policy,
  keys: readonly (readonly KeyValue[])[],
  { runtime, tenant }: LookContext,
): Promise<Spend[]> =>
  Promise.all(
    (policy.isDryRun ? [] : keys).map(async (values) => ({
      policy,
      partitionKey: await runtime.partitions.partitionKey(policy.key, values, tenant),
      cost: 0,
      ...(runtime.statistics?.revealsKeys === true && {
        plain: { parts: policy.key, values, tenant },
      }),
    })),
  );

/** The looks at all keys that these resolutions name; no promise when they name none. */
export function looksAtNamedKeys(
  resolutions: readonly KeyResolution[],
  context: LookContext,
): readonly Spend[] | Promise<readonly Spend[]> {
  const naming = resolutions.filter(({ named }) => named !== null && named !== undefined && named.length > 0);
  if (naming.length === 0) return [];
  const looks = naming.map(({ policy, named }) => looksAt(policy, named ?? [], context));
  return Promise.all(looks).then((lists) => lists.flat());
}
