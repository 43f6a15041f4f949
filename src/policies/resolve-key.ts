/** What a policy does with a request that it meets, before anything is counted. */
import { type KeyPart, partName, partsAskedFor, type Policy } from "../config/index.ts";
import { visitorOf } from "./address.ts";
import {
  type CallerAttributes,
  noAttributes,
  statedAddress,
  statedTexts,
} from "./caller-attributes.ts";
import { membersOf } from "./header-lists.ts";
import { isBarred, isListed, overrideFor, type Subject } from "./key-rules.ts";
import {
  keyOfCaller,
  type KeyValue,
  missingParts,
  textOf,
  valueOf,
  valuesOfRequest,
} from "./key.ts";
import { parameterValues } from "./query-parameters.ts";
import type { Claims, RequestAttributes } from "./request-attributes.ts";

/** Charges a key, passes it over, or refuses it: for what it lacks, or for who it is. */
export type KeyResolution =
  | {
      readonly kind: "charged";
      /** With the limits that hold for this key. */
      readonly policy: Policy;
      readonly parts: readonly KeyPart[];
      readonly values: readonly KeyValue[];
    }
  | { readonly kind: "passed" }
  | { readonly kind: "lacking"; readonly missing: readonly string[] }
  | {
      readonly kind: "barred";
      readonly parts: readonly KeyPart[];
      readonly values: readonly KeyValue[];
    };

/** Whether a policy asks for what a token claims. */
export const asksForClaims = ({ key, exceptions }: Policy): boolean =>
  [...key, ...partsAskedFor(exceptions.overrides)].some(({ kind }) => kind === "jwt");

/** @param claims those of the request's verified token; none without one */
export function resolveKey(
  policy: Policy,
  request: RequestAttributes,
  claims: Claims,
): KeyResolution {
  const { key, onMissingKey, addresses } = policy;
  const values = valuesOfRequest(policy, request, claims);
  const subject: Subject | null = hasExceptions(policy)
    ? {
        address: visitorOf(request.headers, addresses)?.address ?? null,
        key,
        values,
        textsOf: (part) => textsOf(part, policy, request, claims),
      }
    : null;
  const listed = subject === null ? null : listedIn(policy, subject);
  if (listed === "barred") return { kind: listed, parts: key, values };
  if (listed !== null) return { kind: listed };
  const charged = subject === null ? policy : overridden(policy, subject);
  const missing = missingParts(key, values);
  if (missing.length === 0) return { kind: "charged", policy: charged, parts: key, values };
  switch (onMissingKey) {
    case "shared":
      return { kind: "charged", policy: charged, parts: key, values };
    case "ip": {
      // Told from the policy's other keys by its parts: a key of these alone has an address, unless that is missing.
      const parts = [{ kind: "ip" }] as const;
      const address = valueOf(parts[0], policy, request, claims);
      return { kind: "charged", policy: charged, parts, values: [address] };
    }
    case "deny":
      return { kind: "lacking", missing: missing.map(partName) };
    case "skip":
      return { kind: "passed" };
    default:
      return onMissingKey satisfies never;
  }
}

/** What a policy does with a key that a caller names, whom it decides for all the same. */
export interface CallerKeyResolution {
  readonly kind: "charged" | "passed" | "barred";
  /** With the limits that hold for this key. */
  readonly policy: Policy;
  readonly values: readonly KeyValue[];
}

/**
 * Conditions see the parts of the key and the attributes that the caller brings.
 * @param texts one for each part of the key
 * @returns null when they are no such key
 */
export function resolveCallerKey(
  policy: Policy,
  texts: readonly string[] | undefined,
  attributes: CallerAttributes = noAttributes,
): CallerKeyResolution | null {
  const { key } = policy;
  const values = keyOfCaller(policy, texts);
  if (values === null) return null;
  if (!hasExceptions(policy)) return { kind: "charged", policy, values };
  const addressIndex = key.findIndex(({ kind }) => kind === "ip");
  const subject: Subject = {
    address: statedAddress(attributes, texts?.[addressIndex] ?? ""),
    key,
    values,
    textsOf: (part) => statedTexts(part, key, values, attributes),
  };
  return {
    kind: listedIn(policy, subject) ?? "charged",
    policy: overridden(policy, subject),
    values,
  };
}

const hasExceptions = ({ exceptions: { overrides, allow, deny } }: Policy): boolean =>
  overrides.length + allow.length + deny.length > 0;

/** Whoever is on both lists is refused. */
function listedIn({ exceptions }: Policy, subject: Subject): "passed" | "barred" | null {
  if (isBarred(exceptions.deny, subject)) return "barred";
  return isListed(exceptions.allow, subject) ? "passed" : null;
}

function overridden(policy: Policy, subject: Subject): Policy {
  const override = overrideFor(policy.exceptions.overrides, subject);
  return override === undefined ? policy : { ...policy, limits: override.limits };
}

/** A claim may be a list, of which each stands for the part; so does each value of a field that is sent twice. */
function textsOf(
  part: KeyPart,
  policy: Policy,
  request: RequestAttributes,
  claims: Claims,
): string[] {
  if (part.kind === "jwt") {
    const claimed = Object.hasOwn(claims, part.name) ? claims[part.name] : undefined;
    const texts: unknown[] = Array.isArray(claimed) ? claimed : [claimed];
    return texts.map(textOf).filter((text) => text !== null);
  }
  if (part.kind === "header") {
    return [request.headers.get(part.name) ?? "", ...membersOf(request.headers, part.name)];
  }
  if (part.kind === "cookie") return [...request.cookies(part.name)];
  if (part.kind === "query") return parameterValues(request.url, part.name);
  const value = valueOf(part, policy, request, claims);
  return value === null ? [] : [value];
}
