/** Plans: the functions and values that requests need of a policy, compiled once from its fields. */
import { conditionParts, type KeyPart, type Policy } from "./vars/index.ts";
import type { Limit } from "../strategies/index.ts";
import { keyPartReader, type KeyPartReader, keyReader, type KeyReader } from "./apply-key.ts";
import { matcherOf, type Matcher } from "./matcher.ts";
import { textsReader, type TextsReader } from "./part-texts.ts";

export interface Plan extends Matcher {
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

const plans = new WeakMap<Policy, Plan>();

export function planOf(policy: Policy): Plan {
  const known = plans.get(policy);
  if (known !== undefined) return known;
  const plan = newPlan(policy);
  plans.set(policy, plan);
  return plan;
}

function newPlan(policy: Policy): Plan {
  const { key, keyRules, ruleLists, match, isOff } = policy;
  const lists = [keyRules, ruleLists];
  const overrides = lists.flatMap((each) => each.overrides);
  const conditions = conditionParts(overrides);
  const hasEntries = overrides.length > 0 || lists.some(({ allow, deny }) => allow.length > 0 || deny.length > 0);
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
