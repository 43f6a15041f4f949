/** Finds the key that a policy charges for a request, or why it charges none. */
import { type KeyPart, partName, conditionParts, type Policy } from "../config/index.ts";
import type { Limit } from "../strategies/index.ts";
import { visitorOf } from "./address.ts";
import {
  type CallerAttributes,
  noAttributes,
  statedAddress,
  statedTexts,
} from "./caller-attributes.ts";
import { membersOf } from "./header-lists.ts";
import {
  type DecisionSource,
  limitsFor,
  limitsSource,
  type ListMatch,
  listMatch,
  type Subject,
} from "./key-rules.ts";
import {
  callerKeyValues,
  type KeyValue,
  missingParts,
  scalarText,
  keyPartValue,
  requestKeyValues,
} from "./key.ts";
import { parameterValues } from "./query-parameters.ts";
import type { Claims, RequestAttributes } from "./request-attributes.ts";

/** The result for one policy. The kinds correspond to the fields `allow`, `deny` and `onMissingKey`. */
export type KeyResolution = {
  /** For `charge`: with the limits of the override that applies to this key. */
  readonly policy: Policy;
  /** The field or rule that decided; for `charge`, the one that gave the limits. */
  readonly source: DecisionSource;
} & (
  | ({ readonly kind: "charge" } & PartitionKeyParts)
  /** On the allowlist, or the policy is off, or `onMissingKey = "skip"` applies. */
  | { readonly kind: "exempt" }
  /** `onMissingKey = "deny"` applies; `missing` names the absent key parts. */
  | { readonly kind: "missing-key"; readonly missing: readonly string[] }
  /** On the blocklist. */
  | ({ readonly kind: "blocked" } & PartitionKeyParts)
);

interface PartitionKeyParts {
  readonly parts: readonly KeyPart[];
  /** One for each of `parts`. */
  readonly values: readonly KeyValue[];
}

const claimNeeds = new WeakMap<Policy, boolean>();

/** Whether a policy needs the claims of a token. */
export function needsClaims(policy: Policy): boolean {
  const known = claimNeeds.get(policy);
  if (known !== undefined) return known;
  const { key, keyRules, ruleLists, isOff } = policy;
  const lists = [key, conditionParts(keyRules.overrides), conditionParts(ruleLists.overrides)];
  const isNeeded = !isOff && lists.some((parts) => parts.some(({ kind }) => kind === "jwt"));
  claimNeeds.set(policy, isNeeded);
  return isNeeded;
}

export function resolveKey(
  policy: Policy,
  request: RequestAttributes,
  claims: Claims,
): KeyResolution {
  if (policy.isOff) return { kind: "exempt", policy, source: offSource(policy) };
  const { key, onMissingKey, addresses } = policy;
  const values = requestKeyValues(policy, request, claims);
  const subject: Subject | null = hasEntries(policy)
    ? {
        address: visitorOf(request.headers, addresses)?.address ?? null,
        key,
        values,
        textsOf: (part) => textsOf(part, policy, request, claims),
      }
    : null;
  const match = subject === null ? null : listMatch(policy, subject);
  if (match?.kind === "blocked") {
    return { kind: match.kind, policy, source: match.source, parts: key, values };
  }
  if (match !== null) return { kind: "exempt", policy, source: match.source };
  const { policy: charged, source } = chargedUnder(policy, subject);
  const missing = missingParts(key, values);
  if (missing.length === 0) return { kind: "charge", policy: charged, source, parts: key, values };
  switch (onMissingKey) {
    case "shared":
      return { kind: "charge", policy: charged, source, parts: key, values };
    case "ip": {
      // The policy's other keys consist of other parts, so none of them equals this key.
      const address = keyPartValue(addressKey[0], policy, request, claims);
      return { kind: "charge", policy: charged, source, parts: addressKey, values: [address] };
    }
    case "deny":
      return {
        kind: "missing-key",
        policy,
        source: missingKeySource,
        missing: missing.map(partName),
      };
    case "skip":
      return { kind: "exempt", policy, source: missingKeySource };
    default:
      return onMissingKey satisfies never;
  }
}

const addressKey = [{ kind: "ip" }] as const;

const missingKeySource: DecisionSource = { field: "onMissingKey", rule: null, index: null };

const offSource = ({ modeRule }: Policy): DecisionSource => ({
  field: "mode",
  rule: modeRule,
  index: null,
});

/** The result for a key that a caller of `/check` names. */
export interface CallerKeyResolution {
  readonly kind: "charge" | "exempt" | "blocked";
  /** With the limits of the override that applies to this key. */
  readonly policy: Policy;
  /** The field or rule that decided; for `charge`, the one that gave the limits. */
  readonly source: DecisionSource;
  readonly values: readonly KeyValue[];
}

/**
 * Conditions are compared with the key's parts and the caller's attributes.
 * @param texts one for each part of the key
 * @returns null when they do not fit the policy's key
 */
export function resolveCallerKey(
  policy: Policy,
  texts: readonly string[] | undefined,
  attributes: CallerAttributes = noAttributes,
): CallerKeyResolution | null {
  const values = callerKeyValues(policy, texts);
  if (values === null) return null;
  if (policy.isOff) return { kind: "exempt", policy, source: offSource(policy), values };
  if (!hasEntries(policy)) return { kind: "charge", ...chargedUnder(policy, null), values };
  const subject = callerSubject(policy, texts, values, attributes);
  const charged = chargedUnder(policy, subject);
  const match: ListMatch | null = listMatch(policy, subject);
  return { kind: "charge", ...charged, ...match, values };
}

/** The client that a caller describes by its key and attributes. */
export function callerSubject(
  { key }: Policy,
  texts: readonly KeyValue[] | undefined,
  values: readonly KeyValue[],
  attributes: CallerAttributes,
): Subject {
  const addressIndex = key.findIndex(({ kind }) => kind === "ip");
  return {
    address: statedAddress(attributes, texts?.[addressIndex] ?? ""),
    key,
    values,
    textsOf: (part) => statedTexts(part, key, values, attributes),
  };
}

/** Whether the result depends on more than the policy's key. */
const hasEntries = ({ keyRules, ruleLists }: Policy): boolean =>
  keyRules.overrides.length > 0 ||
  keyRules.allow.length > 0 ||
  keyRules.deny.length > 0 ||
  ruleLists.overrides.length > 0 ||
  ruleLists.allow.length > 0 ||
  ruleLists.deny.length > 0;

/** The policy with the limits of a key. */
function chargedUnder(
  policy: Policy,
  subject: Subject | null,
): Pick<KeyResolution, "policy" | "source"> {
  if (subject === null) return { policy, source: limitsSource(policy.limitsRule) };
  const { limits, source } = limitsFor(policy, subject);
  return { policy: withLimits(policy, limits), source };
}

const overriddenPolicies = new WeakMap<Policy, Map<readonly Limit[], Policy>>();

/** One policy object for each list of limits, since what is derived from a policy is kept with its object. */
function withLimits(policy: Policy, limits: readonly Limit[]): Policy {
  if (limits === policy.limits) return policy;
  const known = overriddenPolicies.get(policy) ?? new Map<readonly Limit[], Policy>();
  overriddenPolicies.set(policy, known);
  const overridden = known.get(limits) ?? { ...policy, limits };
  known.set(limits, overridden);
  return overridden;
}

/** All values of a part. Every item of a list claim, and every value of a repeated header, is one. */
function textsOf(
  part: KeyPart,
  policy: Policy,
  request: RequestAttributes,
  claims: Claims,
): string[] {
  if (part.kind === "jwt") {
    const claimed = Object.hasOwn(claims, part.name) ? claims[part.name] : undefined;
    const texts: unknown[] = Array.isArray(claimed) ? claimed : [claimed];
    return texts.map(scalarText).filter((text) => text !== null);
  }
  if (part.kind === "header") {
    return [request.headers.get(part.name) ?? "", ...membersOf(request.headers, part.name)];
  }
  if (part.kind === "cookie") return [...request.cookies(part.name)];
  if (part.kind === "query") return parameterValues(request.target.url, part.name);
  const value = keyPartValue(part, policy, request, claims);
  return value === null ? [] : [value];
}
