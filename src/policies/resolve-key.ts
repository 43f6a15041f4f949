/** Finds the key that a policy charges for a request, or why it charges none. */
import { type KeyPart, partName, conditionParts, type Policy } from "../config/index.ts";
import { visitorOf } from "./address.ts";
import {
  type CallerAttributes,
  noAttributes,
  statedAddress,
  statedTexts,
} from "./caller-attributes.ts";
import { membersOf } from "./header-lists.ts";
import { isBlocklisted, isAllowlisted, overrideFor, type Subject } from "./key-rules.ts";
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
} & (
  | ({ readonly kind: "charge" } & PartitionKeyParts)
  /** On the allowlist, or `onMissingKey = "skip"` applies. */
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

/** Whether a policy needs the claims of a token. */
export const needsClaims = ({ key, keyRules }: Policy): boolean =>
  [...key, ...conditionParts(keyRules.overrides)].some(({ kind }) => kind === "jwt");

export function resolveKey(
  policy: Policy,
  request: RequestAttributes,
  claims: Claims,
): KeyResolution {
  const { key, onMissingKey, addresses } = policy;
  const values = requestKeyValues(policy, request, claims);
  const subject: Subject | null = hasKeyRules(policy)
    ? {
        address: visitorOf(request.headers, addresses)?.address ?? null,
        key,
        values,
        textsOf: (part) => textsOf(part, policy, request, claims),
      }
    : null;
  const kind = subject === null ? "charge" : resolutionKind(policy, subject);
  if (kind === "blocked") return { kind, policy, parts: key, values };
  if (kind === "exempt") return { kind, policy };
  const charged = subject === null ? policy : overridden(policy, subject);
  const missing = missingParts(key, values);
  if (missing.length === 0) return { kind, policy: charged, parts: key, values };
  switch (onMissingKey) {
    case "shared":
      return { kind, policy: charged, parts: key, values };
    case "ip": {
      // The policy's other keys consist of other parts, so none of them equals this key.
      const parts = [{ kind: "ip" }] as const;
      const address = keyPartValue(parts[0], policy, request, claims);
      return { kind, policy: charged, parts, values: [address] };
    }
    case "deny":
      return { kind: "missing-key", policy, missing: missing.map(partName) };
    case "skip":
      return { kind: "exempt", policy };
    default:
      return onMissingKey satisfies never;
  }
}

/** The result for a key that a caller of `/check` names. */
export interface CallerKeyResolution {
  readonly kind: "charge" | "exempt" | "blocked";
  /** With the limits of the override that applies to this key. */
  readonly policy: Policy;
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
  const { key } = policy;
  const values = callerKeyValues(policy, texts);
  if (values === null) return null;
  if (!hasKeyRules(policy)) return { kind: "charge", policy, values };
  const addressIndex = key.findIndex(({ kind }) => kind === "ip");
  const subject: Subject = {
    address: statedAddress(attributes, texts?.[addressIndex] ?? ""),
    key,
    values,
    textsOf: (part) => statedTexts(part, key, values, attributes),
  };
  return {
    kind: resolutionKind(policy, subject),
    policy: overridden(policy, subject),
    values,
  };
}

const hasKeyRules = ({ keyRules: { overrides, allow, deny } }: Policy): boolean =>
  overrides.length + allow.length + deny.length > 0;

/** A key on both lists is blocked. */
function resolutionKind({ keyRules }: Policy, subject: Subject): "charge" | "exempt" | "blocked" {
  if (isBlocklisted(keyRules.deny, subject)) return "blocked";
  return isAllowlisted(keyRules.allow, subject) ? "exempt" : "charge";
}

function overridden(policy: Policy, subject: Subject): Policy {
  const override = overrideFor(policy.keyRules.overrides, subject);
  return override === undefined ? policy : { ...policy, limits: override.limits };
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
  if (part.kind === "query") return parameterValues(request.url, part.name);
  const value = keyPartValue(part, policy, request, claims);
  return value === null ? [] : [value];
}
