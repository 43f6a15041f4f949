/** Finds the key that a policy charges for a request, or why it charges none. */
import { isRepeatable, type KeyPart, type KeyValue, partName } from "./key.ts";
import type { Policy } from "./policy.ts";
import { visitorOf, parseAddress, withoutPort } from "./address.ts";
import { type DecisionSource, listMatch, overrideFor, type Subject } from "./lists.ts";
import { compiledPolicy } from "./compiled-policy.ts";
import type { Claims, RequestAttributes, WithLimits } from "./request.ts";
import { callerKeyValues, canonicalText } from "./key-text.ts";
import { beginningOf } from "./partition-key.ts";
import { prioritized } from "./shares.ts";
import { chargesMissing, type KeyedPolicy, settingsOfPart, valuesOf } from "./within.ts";

export const missingParts = (parts: readonly KeyPart[], values: readonly KeyValue[]): readonly KeyPart[] =>
  parts.filter((part, index) => part.kind !== "global" && values[index] === null);

/** The result for one policy. The kinds correspond to the fields `allow`, `deny` and `onMissingKey`. */
export type KeyResolution = {
  /** For `charge`: with the limits of the override that applies to this key. */
  readonly policy: Policy;
  /** The field or rule that decided; for `charge`, the one that gave the limits. */
  readonly source: DecisionSource;
  /** See `NamedKeys`. Default: none. Null when there are too many, which denies the request. */
  readonly named?: NamedKeys["keys"] | null;
} & (
  | ({ readonly kind: "charge" } & PartitionKeyParts)
  /** On the allowlist, or the policy is off, or `onMissingKey = "skip"` applies. */
  | { readonly kind: "exempt" }
  /**
   * `onMissingKey = "deny"` applies, or the request names too many keys. `missing` lists the parts for which no value
   * can be charged.
   */
  | { readonly kind: "missing-key"; readonly missing: readonly string[] }
  /** On the blocklist. */
  | ({ readonly kind: "blocked" } & PartitionKeyParts)
);

/** A denial because of the key alone, before limits are checked: the key is on the `deny` list, or lacks a part. */
export type KeyDenial = Extract<KeyResolution, { readonly kind: "blocked" | "missing-key" }>;

export const isKeyDenial = (resolution: KeyResolution): resolution is KeyDenial =>
  resolution.kind === "blocked" || resolution.kind === "missing-key";

/** Keys of a policy that are not charged, but whose bans and rules can deny the request. */
export interface NamedKeys {
  readonly policy: Policy;
  /** For each key, one value for each part. */
  readonly keys: readonly (readonly KeyValue[])[];
}

export interface PartitionKeyParts {
  readonly parts: readonly KeyPart[];
  /** One for each of `parts`. */
  readonly values: readonly KeyValue[];
  /** The number of parts of each ancestor's key, with which the key begins, the root first. */
  readonly ancestorParts: readonly number[];
}

/** @param possible see `TokenClaims` */
export function resolveKey(
  policy: Policy,
  request: RequestAttributes,
  claims: Claims,
  possible: Claims | null = claims,
): KeyResolution {
  if (policy.isOff) return { kind: "exempt", policy, source: offSource(policy) };
  const { key, addresses } = policy;
  const compiled = compiledPolicy(policy);
  const { ancestorParts } = compiled;
  const values = compiled.keyValues(request, claims);
  const subject: Subject | null = compiled.hasEntries
    ? {
        address: visitorOf(request.headers, addresses)?.address ?? null,
        key,
        values,
        textsOf: (part) => compiled.textsOf(part)(request, claims),
      }
    : null;
  const claimed = possible === null ? key.filter(({ kind }) => kind === "jwt") : [];
  if (claimed.length > 0 && (compiled.hasEntries || hasKeyStates(policy))) {
    const missing = claimed.map(partName);
    return { kind: "missing-key", policy, source: missingKeySource, missing, named: null };
  }
  const readable = possible ?? claims;
  // The claims in `possible` can deny a request or lower its class, but not change its limits.
  const reading: Subject | null =
    subject === null ? null : { ...subject, textsOf: (part) => compiled.textsOf(part)(request, readable) };
  const match = reading === null ? null : listMatch(policy, reading);
  if (match?.kind === "blocked") {
    return { kind: match.kind, policy, source: match.source, parts: key, values, ancestorParts };
  }
  if (match !== null) return { kind: "exempt", policy, source: match.source };
  const { policy: charged, source } = chargedUnder(
    policy,
    subject,
    request.withLimits,
    possible === null ? null : reading,
  );
  const missing = missingParts(key, values);
  const isComplete = missing.length === 0;
  const own = { kind: "charge", policy: charged, source, parts: key, values, ancestorParts } as const;
  if (isComplete && !key.some((part) => isAmbiguousPath(part, request))) return own;
  const named = hasKeyStates(policy) ? namedKeys(policy, values, request, readable) : [];
  if (named === null) {
    const names = (isComplete ? key : missing).map(partName);
    return { kind: "missing-key", policy, source: missingKeySource, missing: names, named };
  }
  if (isComplete) return { ...own, named };
  const result = missingKeyResult(policy, values, () => compiled.addressValue(request, claims));
  return result === null ? { ...own, named } : { policy: charged, source, ...result, named };
}

/** The result for a request that lacks a part, by the first level that lacks one and does not share a key. Null for "shared". */
export function missingKeyResult(policy: Policy, values: readonly KeyValue[], addressOf: () => KeyValue) {
  const { levels, addressedKey } = compiledPolicy(policy);
  const missingIn = levels.map(({ from, to }) => missingParts(policy.key.slice(from, to), values.slice(from, to)));
  for (const [index, { onMissingKey, isOwn }] of levels.entries()) {
    const missing = missingIn[index] ?? [];
    if (missing.length === 0) continue;
    if (onMissingKey === "skip") return { kind: "exempt", policy, source: missingKeySource } as const;
    if (onMissingKey === "deny" && isOwn) {
      return { kind: "missing-key", policy, source: missingKeySource, missing: missing.map(partName) } as const;
    }
  }
  const isAddressed = levels.map(
    ({ onMissingKey }, index) => onMissingKey === "ip" && (missingIn[index] ?? []).length > 0,
  );
  if (!isAddressed.includes(true)) return null;
  // A key with the address lacks a part of the whole key, so none of the named keys equals it.
  const replaced = addressedKey(isAddressed);
  const { parts, ancestorParts } = replaced;
  return { kind: "charge", parts, values: valuesOf(replaced, values, addressOf()), ancestorParts } as const;
}

/** The keys, as lists of parts, that the policy may charge, and those of its ancestors. Only one level is charged by the address. */
export function chargedKeys(policy: Policy): readonly (readonly KeyPart[])[] {
  const { levels, ancestorParts, addressedKey } = compiledPolicy(policy);
  const keys = [policy.key, ...ancestorParts.map((count) => beginningOf(policy.key, count))];
  if (policy.onMissingKey !== "ip") return keys;
  return [...keys, addressedKey(levels.map(({ isOwn }) => isOwn)).parts];
}

const missingKeySource: DecisionSource = { field: "onMissingKey", rule: null, index: null };

const offSource = ({ modeRule }: Policy): DecisionSource => ({ field: "mode", rule: modeRule, index: null });

/** The result for a key that a caller of `/check` names. */
interface CallerKeyResolution extends Pick<KeyResolution, "policy" | "source">, Pick<PartitionKeyParts, "values"> {
  readonly kind: "charge" | "exempt" | "blocked";
}

/**
 * Resolves a key that a caller states. Conditions are compared with the key's parts and the caller's attributes.
 * @param texts one for each part of the key
 * @param withLimits default: the limits of the policy
 * @returns null when they do not fit the policy's key
 */
export function resolveCallerKey(
  policy: Policy,
  texts: readonly string[] | undefined,
  attributes: CallerAttributes = noAttributes,
  withLimits?: WithLimits,
): CallerKeyResolution | null {
  const values = callerKeyValues(policy, texts);
  if (values === null) return null;
  if (policy.isOff) return { kind: "exempt", policy, source: offSource(policy), values };
  if (!compiledPolicy(policy).hasEntries) {
    return { kind: "charge", ...chargedUnder(policy, null, withLimits), values };
  }
  const subject = callerSubject(policy, texts, values, attributes);
  const charged = chargedUnder(policy, subject, withLimits);
  return { kind: "charge", ...charged, ...listMatch(policy, subject), values };
}

/** The levels that a check of a policy charges: its ancestors in effect, the root first, then the policy itself. */
export const callerLevels = (policy: Policy, policies: readonly Policy[]): readonly Policy[] => [
  ...policy.ancestors.flatMap(({ policy: name }) => policies.find((each) => each.name === name) ?? []),
  policy,
];

/** The client that a caller describes by its key and attributes. */
export function callerSubject(
  policy: Policy,
  texts: readonly KeyValue[] | undefined,
  values: readonly KeyValue[],
  attributes: CallerAttributes,
): Subject {
  const { key } = policy;
  const names = key.map(partName);
  // The attribute `ip` takes precedence, since a key may stand for a whole network.
  const address = attributes.get("ip")?.[0] ?? texts?.[names.indexOf("ip")] ?? "";
  return {
    address: parseAddress(withoutPort(address)),
    key,
    values,
    textsOf: (part) => {
      const name = partName(part);
      const value = values[names.indexOf(name)] ?? null;
      if (value !== null) return [value];
      const settings = settingsOfPart(policy, part);
      return (attributes.get(name) ?? []).map((text) => canonicalText(part, settings, text) ?? text);
    },
  };
}

/**
 * The policy with the limits, weight and class that apply to a request. Overrides and runtime rules take precedence over
 * limits that the Worker's code states.
 * @param possible see `prioritized`
 */
function chargedUnder(
  policy: Policy,
  subject: Subject | null,
  withLimits: WithLimits | undefined,
  possible: Subject | null = subject,
): Pick<KeyResolution, "policy" | "source"> {
  const { limitsRule } = policy;
  const ofRequest = (base: Policy): Policy => (subject === null ? base : prioritized(base, subject, possible));
  const override = subject === null ? null : overrideFor(policy, subject);
  if (override !== null) {
    const overridden = compiledPolicy(policy).overridden.get(override.limits) ?? policy;
    return { policy: ofRequest(overridden), source: override.source };
  }
  const source = limitsRule === null ? configuredLimits : { ...configuredLimits, rule: limitsRule };
  return { policy: ofRequest(withLimits !== undefined && limitsRule === null ? withLimits(policy) : policy), source };
}

const configuredLimits: DecisionSource = { field: "limits", rule: null, index: null };

/** The most named keys of a request. Each costs a call to its object, so a request with more is denied. */
const mostNamedKeys = 16;

/**
 * The same for keys in which only claims have several values: the client does not choose the lists in a verified token.
 */
const mostVerifiedKeys = 64;

/** Whether keys of the policy can have bans or runtime rules. */
export const hasKeyStates = ({ ban, rules }: Policy): boolean => ban !== null || rules !== null;

/** Whether the part is a path that names several keys. */
const isAmbiguousPath = ({ kind }: KeyPart, { target }: RequestAttributes): boolean =>
  kind === "path" && target.path.canonical === null;

/**
 * @param charged the values of the request's key, with null for the parts that are missing
 * @returns null when there are more than `mostNamedKeys`
 */
function namedKeys(
  policy: Policy,
  charged: readonly KeyValue[],
  request: RequestAttributes,
  claims: Claims,
): NamedKeys["keys"] | null {
  const { key } = policy;
  const compiled = compiledPolicy(policy);
  // Only a key that can be charged without a part can have bans or rules without it.
  const mayLack = compiled.levels.flatMap((level) => key.slice(level.from, level.to).map(() => chargesMissing(level)));
  const choices = key.map((part, index): readonly KeyValue[] => {
    const value = charged[index] ?? null;
    if (part.kind === "global") return [null];
    const isRead = value === null ? isRepeatable(part) : isAmbiguousPath(part, request);
    const texts = new Set(isRead ? compiled.textsOf(part)(request, claims) : []);
    const others = [...texts].filter((text) => text !== "" && text !== value);
    return value !== null || mayLack[index] === true ? [...others, value] : others;
  });
  const isCharged = key.every(
    ({ kind }, index) => kind === "global" || mayLack[index] === true || (charged[index] ?? null) !== null,
  );
  const most = isVerified(key, choices) ? mostVerifiedKeys : mostNamedKeys;
  const count = choices.reduce((product, { length }) => product * length, 1);
  if (count - (isCharged ? 1 : 0) > most) return null;
  const keys = choices.reduce<readonly (readonly KeyValue[])[]>(
    (starts, values) => starts.flatMap((start) => values.map((value) => [...start, value])),
    [[]],
  );
  // The charged key is the last one.
  return isCharged ? keys.slice(0, -1) : keys;
}

/** Whether only parts that are claims have several values. */
const isVerified = (key: readonly KeyPart[], choices: readonly (readonly KeyValue[])[]): boolean =>
  key.every(({ kind }, index) => kind === "jwt" || (choices[index]?.length ?? 0) < 2);

/** The texts of each attribute, at least one, by the name of its key part. */
export type CallerAttributes = ReadonlyMap<string, readonly string[]>;

export const noAttributes: CallerAttributes = new Map();

/**
 * The first key part for which an attribute differs from the key, so that it is unclear which key to charge.
 * @param values the key's, one for each part
 * @returns the name of the part; null when key and attributes agree
 */
export function contradictedPart(
  policy: KeyedPolicy,
  values: readonly KeyValue[],
  attributes: CallerAttributes,
): string | null {
  const contradicted = policy.key.find((part, index) => {
    const texts = attributes.get(partName(part)) ?? [];
    const value = values[index] ?? null;
    return texts.some((text) => canonicalText(part, settingsOfPart(policy, part), text) !== value);
  });
  return contradicted === undefined ? null : partName(contradicted);
}
