/** The functions and values that requests need of a policy, compiled once from its fields. */
import { conditionParts } from "./lists.ts";
import type { KeyPart } from "./key.ts";
import type { Policy } from "./policy.ts";
import type { Limit } from "../strategies/index.ts";
import {
  keyPartReader,
  type KeyPartReader,
  keyReader,
  type KeyReader,
  textsReader,
  type TextsReader,
} from "./key-values.ts";
import { matcherOf, type Matcher, matchesHeaders } from "./match.ts";
import { membersOf, type RequestAttributes } from "./request.ts";

export interface CompiledPolicy extends Matcher {
  /** One value for each part of the key. */
  readonly keyValues: KeyReader;
  /** The value of the part `ip`, which the key need not have. */
  readonly addressValue: KeyPartReader;
  /** Whether the policy has overrides, or entries in an allowlist or blocklist. */
  readonly hasEntries: boolean;
  /** All values of a part that entries are compared with. */
  readonly textsOf: (part: KeyPart) => TextsReader;
  /** Whether a request needs the claims of a token. */
  readonly needsClaims: boolean;
  /** This policy with the limits of each override, by these limits. */
  readonly overridden: ReadonlyMap<readonly Limit[], Policy>;
}

const compiledPolicies = new WeakMap<Policy, CompiledPolicy>();

export function compiledPolicy(policy: Policy): CompiledPolicy {
  const known = compiledPolicies.get(policy);
  if (known !== undefined) return known;
  const compiled = compile(policy);
  compiledPolicies.set(policy, compiled);
  return compiled;
}

function compile(policy: Policy): CompiledPolicy {
  const { key, lists, ruleLists, match, isOff } = policy;
  const all = [lists, ruleLists];
  const overrides = all.flatMap((each) => each.overrides);
  const conditions = conditionParts(overrides);
  const hasEntries = overrides.length > 0 || all.some(({ allow, deny }) => allow.length > 0 || deny.length > 0);
  const compared = hasEntries ? [...key, ...conditions] : [];
  const texts = new Map(compared.map((part) => [part, textsReader(part, policy)]));
  return {
    ...matcherOf(match),
    keyValues: keyReader(policy),
    addressValue: keyPartReader({ kind: "ip" }, policy),
    hasEntries,
    textsOf: (part) => texts.get(part) ?? textsReader(part, policy),
    needsClaims: !isOff && [...key, ...conditions].some(({ kind }) => kind === "jwt"),
    // One policy object for each list of limits, because derived values are cached by policy object.
    overridden: new Map(overrides.map(({ limits }) => [limits, { ...policy, limits }])),
  };
}

const enforcedPolicies = new WeakMap<Policy, Policy>();

/** The policy of a dry run as if it were enforced, but without its ban. */
export function enforcedPolicy(dryRun: Policy): Policy {
  const known = enforcedPolicies.get(dryRun);
  if (known !== undefined) return known;
  const enforced = { ...dryRun, isDryRun: false, ban: null };
  enforcedPolicies.set(dryRun, enforced);
  return enforced;
}

/** In the order of the configuration. */
export const matchingPolicies = (policies: readonly Policy[], attributes: RequestAttributes): readonly Policy[] =>
  policies.filter((policy) => compiledPolicy(policy).matches(attributes));

/** A policy, and the request that it matches: the preflight itself or the request that it announces. */
interface AnnouncedMatch {
  readonly policy: Policy;
  readonly attributes: RequestAttributes;
}

/**
 * The policies for a preflight: those that match the announced request, and those that match `OPTIONS`. A preflight
 * announces header names without values, so a policy for certain values of an announced header matches too.
 */
export function announcedPolicies(policies: readonly Policy[], attributes: RequestAttributes): AnnouncedMatch[] {
  const { headers } = attributes;
  const announced = { ...attributes, method: headers.get("Access-Control-Request-Method") ?? attributes.method };
  const names = new Set(membersOf(headers, "Access-Control-Request-Headers").map((name) => name.toLowerCase()));
  return policies.flatMap((policy) => {
    const { matchesTarget } = compiledPolicy(policy);
    const matched = [announced, attributes].find((each) => matchesTarget(each));
    const unknown = [...(policy.match.headers ?? [])].filter(([name]) => !names.has(name));
    return matched !== undefined && matchesHeaders(new Map(unknown), headers) ? { policy, attributes: matched } : [];
  });
}
