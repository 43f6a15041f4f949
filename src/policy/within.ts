/**
 * The field `within`: a policy as one level of a tree. The key of a level begins with the key of its parent, and all levels
 * are decided together in the object of the root's key.
 */
import { isRecord } from "../validation/json.ts";
import { asText, didYouMean, type ReportField } from "../validation/problems.ts";
import { type KeyPart, type KeyValue, mostKeyParts, partName, readKey } from "./key.ts";
import type { Match } from "./match.ts";
import type { Policy, SharedSettings } from "./policy.ts";
import type { Limit } from "../strategies/index.ts";
import type { WrittenFields } from "./schemas.ts";

/** A level above a policy in its tree. */
export interface Ancestor {
  readonly policy: string;
  /** The number of parts of its whole key, with which the keys of its descendants begin. */
  readonly keyParts: number;
  readonly onMissingKey: "shared" | "ip" | "deny" | "skip";
  readonly match: Match;
}

/** The fields of a parent that its children share. */
export interface Parent {
  readonly name: string;
  readonly key: readonly KeyPart[];
  readonly onMissingKey: Ancestor["onMissingKey"];
  readonly match: Match;
  /** The root first. */
  readonly ancestors: readonly Ancestor[];
  readonly shared: SharedSettings;
  readonly limits: readonly Limit[];
  readonly overrides: Policy["lists"]["overrides"];
  /** By the index of each limit that a child shares: that child. */
  readonly sharedLimits: Map<number, string>;
}

/** The policies that a policy may be within, by name; null for an invalid one. */
export type EarlierPolicies = ReadonlyMap<string, Parent | null>;

/** The fields that a root states for all its levels. */
export const rootFields: readonly string[] = [
  "objects",
  "shards",
  "locationHint",
  "jurisdiction",
  "durability",
  "consistency",
  "syncEvery",
  "timeout",
  "onError",
  "denyCache",
  "trustedProxies",
  "ipv6Prefix",
  "pathMatching",
];

/** The place of a policy in its tree. */
export interface TreePlace {
  /** Null for a root, and for a child whose parent is unknown or invalid. */
  readonly parent: Parent | null;
  readonly isChild: boolean;
  /** The whole key; null when it is invalid or its beginning is unknown. */
  readonly key: readonly KeyPart[] | null;
}

/** Reads `within`, and the whole key of the policy. Other readers report an invalid `key`. */
export function readPlace(written: WrittenFields, earlier: EarlierPolicies, report: ReportField): TreePlace {
  const { within, key: writtenKey, match } = written;
  const own = readKey(writtenKey === undefined ? "ip" : writtenKey);
  if (within === undefined) return { parent: null, isChild: false, key: own };
  const parent = earlier.get(asText(within));
  if (parent === undefined) {
    report({ field: "within", value: within, accepted: acceptedParent(asText(within), [...earlier.keys()]) });
    return { parent: null, isChild: false, key: null };
  }
  const root = parent?.ancestors[0]?.policy ?? asText(within);
  const stated = { ...written, "match.pathMatching": isRecord(match) ? match["pathMatching"] : undefined };
  for (const field of [...rootFields, "match.pathMatching"]) {
    const value = Reflect.get(stated, field);
    if (value !== undefined) report({ field, value, accepted: `nothing: the root "${root}" states it` });
  }
  if (parent === null) return { parent: null, isChild: true, key: null };
  const { kind } = parent.shared.consistency;
  if (kind !== "strict") {
    const accepted = `a policy with consistency = "strict"; "${root}" has consistency = "${kind}"`;
    report({ field: "within", value: within, accepted });
  }
  return { parent, isChild: true, key: own === null ? null : wholeKey(parent, own, written, report) };
}

function acceptedParent(name: string, names: readonly string[]): string {
  if (names.length === 0) return "the name of an earlier policy, and there is none";
  return `the name of an earlier policy, one of ${names.map((each) => `"${each}"`).join(", ")}${didYouMean(name, names)}`;
}

/** The parent's parts, then the policy's own. Null when they do not fit together. */
function wholeKey(
  { name, key }: Parent,
  written: readonly KeyPart[],
  { name: ownName, key: value }: WrittenFields,
  report: ReportField,
): readonly KeyPart[] | null {
  // Each level may have a function of its own.
  const own = written.map((part): KeyPart => (part.kind === "custom" ? { ...part, level: asText(ownName) } : part));
  const taken = new Set(key.map(partName));
  const repeated = own.map(partName).filter((part) => taken.has(part));
  if (repeated.length > 0) {
    const accepted = `key parts that "${name}" does not have: its key already has ${repeated.join(", ")}`;
    report({ field: "key", value, accepted });
  }
  const whole = [...key, ...own];
  if (whole.length > mostKeyParts) {
    const accepted = `at most ${mostKeyParts} key parts together with the ${key.length} of "${name}"`;
    report({ field: "key", value, accepted });
  }
  return repeated.length > 0 || whole.length > mostKeyParts ? null : whole;
}

/** A policy as the parent of others. */
export const asParent = (policy: Policy): Parent => ({
  ...parentWith(policy, policy),
  limits: policy.limits,
  overrides: policy.lists.overrides,
});

/** The parent of a policy, without its limits; null for a root. */
export function parentOf(policy: Policy): Parent | null {
  const { ancestors, key } = policy;
  const parent = ancestors.at(-1);
  if (parent === undefined) return null;
  const { policy: name, keyParts, onMissingKey, match } = parent;
  const level = { name, key: key.slice(0, keyParts), onMissingKey, match, ancestors: ancestors.slice(0, -1) };
  return parentWith(level, policy);
}

function parentWith(
  { name, key, onMissingKey, match, ancestors }: Omit<Parent, "shared" | "limits" | "overrides" | "sharedLimits">,
  { addresses, onError, timeoutMs, objects, durability, consistency, isDenyCached }: SharedSettings,
): Parent {
  const shared = { addresses, onError, timeoutMs, objects, durability, consistency, isDenyCached };
  const limits = { limits: [], overrides: [], sharedLimits: new Map() };
  return { name, key, onMissingKey, match, ancestors, shared, ...limits };
}

/** The ancestors of a child, the root first. */
export const ancestorsOf = ({ name, key, onMissingKey, match, ancestors }: Parent): readonly Ancestor[] => [
  ...ancestors,
  { policy: name, keyParts: key.length, onMissingKey, match },
];

/** The conditions that a request must meet: those of each level, the root's first. */
export const matchesOf = ({ ancestors, match }: Pick<Policy, "ancestors" | "match">): readonly Match[] =>
  ancestors.length === 0 ? [match] : [...ancestors.map((ancestor) => ancestor.match), match];

/** The fields of a policy on which the values of its key depend. */
export type KeyedPolicy = Pick<Policy, "name" | "key" | "ancestors" | "addresses" | "match">;

/**
 * The settings by which the value of a key part is read: those of the level that has the part. Otherwise, a child that
 * writes paths in another form than its parent would have another key than its parent.
 */
export function settingsOfPart(policy: KeyedPolicy, part: KeyPart): Pick<Policy, "name" | "addresses" | "match"> {
  const { key, ancestors, addresses } = policy;
  if (ancestors.length === 0) return policy;
  const name = partName(part);
  const index = key.findIndex((each) => partName(each) === name);
  const owner = index < 0 ? undefined : ancestors.find(({ keyParts }) => index < keyParts);
  return owner === undefined ? policy : { name: owner.policy, addresses, match: owner.match };
}

/** A level of a policy's key. */
export interface KeyLevel {
  readonly onMissingKey: Ancestor["onMissingKey"];
  /** Whether it is the policy itself, and not an ancestor. */
  readonly isOwn: boolean;
  /** Its own parts are those from this index to before `to`. */
  readonly from: number;
  readonly to: number;
}

/** The root first, the policy itself last. */
export function keyLevels({
  key,
  ancestors,
  onMissingKey,
}: Pick<Policy, "key" | "ancestors" | "onMissingKey">): readonly KeyLevel[] {
  const all = [...ancestors, { keyParts: key.length, onMissingKey }];
  return all.map((level, index) => ({
    onMissingKey: level.onMissingKey,
    isOwn: index === ancestors.length,
    from: all[index - 1]?.keyParts ?? 0,
    to: level.keyParts,
  }));
}

/**
 * Whether a key without a part of this level can be charged under that key. An ancestor with `"deny"` denies such a request
 * itself, unless it is off or a dry run: its descendants then charge the requests without the part together.
 */
export const chargesMissing = ({ onMissingKey, isOwn }: KeyLevel): boolean =>
  onMissingKey === "shared" || (onMissingKey === "deny" && !isOwn);

/** The key that is charged when some levels are charged by the client's address. */
export interface AddressedKey {
  readonly parts: readonly KeyPart[];
  /** See `PartitionKeyParts`. */
  readonly ancestorParts: readonly number[];
  /** For each part, the index of its value in the whole key; null for the address. */
  readonly sources: readonly (number | null)[];
}

const addressPart: KeyPart = { kind: "ip" };

/**
 * The key with the part `ip` in place of the parts of some levels. The part stands in it only once, so the beginning of the
 * key is the key of the parent, whose levels are replaced in the same way.
 * @param isAddressed for each level, whether the address replaces its parts
 */
export function addressedKey(
  key: readonly KeyPart[],
  levels: readonly KeyLevel[],
  isAddressed: readonly boolean[],
): AddressedKey {
  const parts: KeyPart[] = [];
  const sources: (number | null)[] = [];
  const ancestorParts: number[] = [];
  for (const [index, { from, to, isOwn }] of levels.entries()) {
    const own = isAddressed[index] === true ? [addressPart] : key.slice(from, to);
    for (const [offset, part] of own.entries()) {
      if (part.kind === "ip" && parts.some(({ kind }) => kind === "ip")) continue;
      parts.push(part);
      sources.push(isAddressed[index] === true ? null : from + offset);
    }
    if (!isOwn) ancestorParts.push(parts.length);
  }
  return { parts, ancestorParts, sources };
}

export const valuesOf = (
  { sources }: AddressedKey,
  values: readonly KeyValue[],
  address: KeyValue,
): readonly KeyValue[] => sources.map((source) => (source === null ? address : (values[source] ?? null)));

/** A part as answers name it: one that a function gives by the level whose function it is. */
export const shownName = (part: string, { name, ancestors }: Pick<Policy, "name" | "ancestors">): string =>
  part.replace(/^custom(?::(.*))?$/, (_, level: string = ancestors[0]?.policy ?? name) => `key:${level}`);
