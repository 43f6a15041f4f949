/** Resolves a check to the spend that it asks for: the policy, the partition key and the cost. */
import type { CheckToken } from "../../policy/vars/secrets.ts";
import { partName } from "../../policy/key.ts";
import type { Policy } from "../../policy/policy.ts";
import { contradictedPart, noAttributes, resolveCallerKey } from "../../policy/resolve-key.ts";
import { enforcedPolicy } from "../../policy/compiled-policy.ts";
import type { Spend } from "../../limiter/isolate/outcome.ts";
import type { Check } from "./input.ts";
import type { Runtime } from "../runtime.ts";
import type { Failure } from "../wire/problems.ts";

/** The tenant whose keys are charged. Null: the keys of the proxy. */
export type Tenant = CheckToken["tenant"];

/** Why a key is not charged: it is on a list of the policy, a key rule allows or blocks it, or the policy is off. */
export type Uncharged = "allow" | "deny" | "off";

export interface ResolvedCheck {
  readonly spend: Spend;
  /** Null when the limits decide. */
  readonly uncharged: Uncharged | null;
  readonly isDryRun: boolean;
  /** The name that a caller gives to ad hoc limits. Default: none. */
  readonly adhocName?: string | null;
}

/**
 * Finds the policy and the key of a check.
 * @returns no promise when the partition key is cached
 */
export function resolveCheck(
  { policies, partitions, statistics }: Runtime,
  check: Check,
  tenant: Tenant,
): ResolvedCheck | Failure | Promise<ResolvedCheck | Failure> {
  const { cost } = check;
  if ("adhoc" in check) {
    const { adhoc, key, name } = check;
    return withPartitionKey(partitions.adhocPartitionKey(key, tenant, name), (partitionKey) => ({
      spend: { policy: adhoc, partitionKey, cost },
      uncharged: null,
      isDryRun: false,
      adhocName: name,
    }));
  }
  const policy = policyNamed(check.policy, policies);
  if ("kind" in policy) return policy;
  const { key, attributes = noAttributes, withLimits } = check;
  const resolution = resolveCallerKey(policy, key, attributes, withLimits);
  if (resolution === null) return invalidKey(policy);
  const { values } = resolution;
  const contradicted = attributes.size === 0 ? null : contradictedPart(policy, values, attributes);
  if (contradicted !== null) return contradiction(contradicted);
  const { isDryRun, isOff } = policy;
  // In a dry run too, the limits decide as if enforced, because the answer shows their decision.
  const decided = isDryRun ? enforcedPolicy(resolution.policy) : resolution.policy;
  const uncharged = isOff ? "off" : reasons[resolution.kind];
  const plain = statistics?.revealsKeys === true ? { parts: policy.key, values, tenant } : null;
  return withPartitionKey(partitions.partitionKey(policy.key, values, tenant), (partitionKey) => ({
    spend: { policy: decided, partitionKey, cost, ...(plain !== null && { plain }) },
    uncharged,
    isDryRun,
  }));
}

const withPartitionKey = <Result>(
  partitionKey: string | Promise<string>,
  resolve: (partitionKey: string) => Result,
): Result | Promise<Result> => (typeof partitionKey === "string" ? resolve(partitionKey) : partitionKey.then(resolve));

const reasons = { charge: null, exempt: "allow", blocked: "deny" } as const;

function policyNamed(name: string | undefined, policies: readonly Policy[]): Policy | Failure {
  if (name === undefined) {
    const [only] = policies;
    if (only !== undefined && policies.length === 1) return only;
    const accepted = `one of ${policies.map((policy) => `"${policy.name}"`).join(", ")}`;
    return { kind: "fields-invalid", errors: [{ field: "policy", accepted }] };
  }
  return policies.find((policy) => policy.name === name) ?? { kind: "unknown-policy" };
}

export function invalidKey(policy: Policy): Failure {
  const parts = policy.key.map(partName);
  const texts = parts.length === 1 ? "a text" : `a list of ${parts.length} texts`;
  const addresses = parts.includes("ip") ? ", where ip is an IPv4 or IPv6 address" : "";
  const accepted = `${texts} for ${parts.join(", ")}${addresses}`;
  return { kind: "fields-invalid", errors: [{ field: "key", accepted }] };
}

export function contradiction(part: string): Failure {
  const field = `attributes.${part}`;
  const accepted = `no value, or the value that key has for ${part}`;
  return { kind: "fields-invalid", errors: [{ field, accepted }] };
}
