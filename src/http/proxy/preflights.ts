/**
 * CORS preflights (Fetch, section 4.8) are charged to limits of their own. Policies of the request that a preflight
 * announces deny the preflight by their blocklists, by bans, and by rules that block its key.
 */
import type { Spend } from "../../limiter/isolate/outcome.ts";
import { type KeyValue, missingParts } from "../../policy/key-values.ts";
import { announcedPolicies } from "../../policy/compiled-policy.ts";
import type { RequestAttributes } from "../../policy/request.ts";
import { hasKeyStates, type KeyResolution, resolveKey } from "../../policy/resolve-key.ts";
import type { Runtime } from "../runtime.ts";
import { isKeyDenial, type KeyDenial } from "./denial.ts";
import type { Policy } from "../../policy/policy.ts";

/** The keys of an announced request that may deny its preflight. */
interface AnnouncedRequest {
  /** Includes those of dry runs. */
  readonly blocked: readonly KeyDenial[];
  /** Looks at the client's keys, which may have bans and rules. */
  readonly looks: readonly Spend[];
}

export const isPreflight = ({ method, headers }: RequestAttributes): boolean =>
  method === "OPTIONS" && headers.has("Origin") && headers.has("Access-Control-Request-Method");

/** Resolves the keys of the request that a preflight announces. */
export async function resolveAnnounced(context: {
  readonly runtime: Runtime;
  readonly attributes: RequestAttributes;
  readonly tenant: string | null;
}): Promise<AnnouncedRequest> {
  const { runtime, attributes } = context;
  const blocked: KeyDenial[] = [];
  const looks: Promise<readonly Spend[]>[] = [];
  for (const announced of announcedPolicies(runtime.policies, attributes)) {
    // Browsers send no credentials with a preflight, so there are no claims.
    const resolution = resolveKey(announced.policy, announced.attributes, {});
    const isDenied = isKeyDenial(resolution) && (resolution.kind === "blocked" || resolution.named === null);
    if (isDenied) blocked.push(resolution);
    else if (hasKeyStates(announced.policy)) {
      looks.push(looksAt(announced.policy, announcedKeys(resolution), context));
    }
  }
  return { blocked, looks: (await Promise.all(looks)).flat() };
}

/** If the preflight lacks a part of a key, the key is unknown: the announced request may have that part. */
function announcedKeys(resolution: KeyResolution): readonly (readonly KeyValue[])[] {
  const { kind, policy } = resolution;
  const named = resolution.named ?? [];
  const isOwn = kind === "charge" && resolution.parts === policy.key;
  const keys = isOwn ? [resolution.values, ...named] : named;
  return keys.filter((values) => missingParts(policy.key, values).length === 0);
}

interface LookContext {
  readonly runtime: Runtime;
  /** The tenant whose keys these are; null for the keys of the proxy. */
  readonly tenant: string | null;
}

/** Spends with a cost of 0, one for each key of the policy. Empty for a dry run, which denies nothing. */
const looksAt = (
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
