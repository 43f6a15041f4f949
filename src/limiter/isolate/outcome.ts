/**
 * The limiter's input and output: what a policy charges to a key, the outcome, and the result of all spends of a request. Key
 * rules change the limits of a spend, or decide it.
 */
import { memoized } from "../../policy/caches.ts";
import type { PlainKey } from "../../policy/key.ts";
import type { ObjectSettings } from "../../policy/placement.ts";
import { rootOfKey } from "../../policy/partition-key.ts";
import type { Policy } from "../../policy/policy.ts";
import { wholeLimit } from "../../policy/shares.ts";
import { compiledLimit, type Decision, internedLimits, isBoundByDelay, type Limit } from "../../strategies/index.ts";
import type { Charge, ChargeDecision, CheckReply, DenialReason, KeyRule } from "../protocol.ts";
import type { CachedDenial } from "./deny-cache.ts";
import type { RequestScope } from "./newer-rules-retry.ts";

/** A cost that a policy charges to a key. */
export interface Spend {
  readonly policy: Policy;
  readonly partitionKey: string;
  readonly cost: number;
  /** Makes the spend a reservation that can be settled for this long. Without it the spend is final. */
  readonly ttlMs?: number;
  /** The key that `partitionKey` stands for. Only for statistics that reveal keys. */
  readonly plain?: PlainKey;
}

/** Identifies a key of a policy. */
export const policyKey = ({ policy, partitionKey }: Pick<Spend, "policy" | "partitionKey">): string =>
  `${policy.name} ${partitionKey}`;

const isWithin = ({ policy }: Pick<Spend, "policy">): boolean => policy.ancestors.length > 0;

/** The partition key that calls to the object of a spend name: that of the root of its tree. */
export const objectKeyOf = (spend: Pick<Spend, "policy" | "partitionKey">): string =>
  isWithin(spend) ? rootOfKey(spend.partitionKey) : spend.partitionKey;

/** Whether the group has several keys, so that its calls name the key of each charge. */
export const isTree = (group: readonly Spend[]): boolean => group.some(isWithin);

/** The outcome of one spend. */
export interface Outcome {
  /**
   * `decided`: by the object, or by what it last reported. `local`: by the isolate's own meters. `open` and `closed`:
   * the object gave no answer, and the failure mode allowed or denied the request.
   */
  readonly kind: "decided" | "local" | "open" | "closed";
  /** With the limits in effect for the key. */
  readonly policy: Policy;
  /**
   * When it was decided, in milliseconds since the Unix epoch: by the object's clock if the object decided, otherwise by the
   * isolate's. 0 for a charge that a key rule allows.
   */
  readonly decidedAtMs: number;
  /** Null for `open` and `closed`. */
  readonly decision: ChargeDecision | null;
  /** The kind of the key rule that decided in place of the limits. `allow`: nothing is charged. */
  readonly keyRule?: "allow" | "block";
}

/** Whether the policy alone would allow the request. */
export const allows = ({ kind, decision }: Outcome): boolean => decision?.allowed ?? kind === "open";

/** Whether the outcome lets the request pass: a dry run always does. */
export const admits = (outcome: Outcome): boolean => outcome.policy.isDryRun || allows(outcome);

/** Whether the group cannot deny the request. */
export const isDryRunOnly = (group: readonly Spend[]): boolean => group.every(({ policy }) => policy.isDryRun);

/** Whether a key rule decided in place of the limits. */
export const isByKeyRule = (outcome: Outcome, kind: "allow" | "block"): boolean => outcome.keyRule === kind;

/** The parts of a decision that allows a request at once. */
export const allowedNow = { allowed: true, delayMs: 0, retryAfterMs: 0, bannedForMs: 0 } as const;

export function violatedLimits(decisions: readonly Decision[]): string[] {
  return decisions.flatMap(({ limits }) => limits.filter(({ allowed }) => !allowed).map(({ name }) => name));
}

export type { DenialReason };

/** When several reasons apply, the first in this list is reported. */
const precedence = [
  "deny",
  "ban",
  "cost",
  "limit",
  "share",
  "class",
  "keys",
  "delay",
] as const satisfies DenialReason[];

/** The reason of a denial. At least one of the outcomes must deny. */
export function denialReason(denying: readonly Outcome[]): DenialReason {
  const reasons = new Set(denying.map(reasonOf));
  return precedence.find((reason) => reasons.has(reason)) ?? "limit";
}

function reasonOf({ policy, decision, keyRule }: Outcome): DenialReason {
  if (decision === null) return "limit";
  if (keyRule === "block") return "deny";
  if (decision.bannedForMs > 0) return "ban";
  if (decision.reason !== undefined) return decision.reason;
  if (decision.retryAfterMs === null) return "cost";
  const isDelay = decision.limits.every(({ allowed, capacity }, index) => {
    const limit = policy.limits[index];
    return allowed || (limit?.strategy === "leaky-bucket" && isBoundByDelay(limit, capacity));
  });
  return isDelay ? "delay" : "limit";
}

/** The decision `sinceMs` later, if nothing else is spent: every wait is shorter by that time. */
export function aged(decision: ChargeDecision, sinceMs: number): ChargeDecision {
  if (sinceMs === 0) return decision;
  const left = (waitMs: number): number => Math.max(0, waitMs - sinceMs);
  const leftOf = (waitMs: number | null): number | null => (waitMs === null ? null : left(waitMs));
  return {
    ...decision,
    retryAfterMs: leftOf(decision.retryAfterMs),
    bannedForMs: left(decision.bannedForMs),
    limits: decision.limits.map((limit) => ({
      ...limit,
      retryAfterMs: leftOf(limit.retryAfterMs),
      replenishAfterMs: left(limit.replenishAfterMs),
      resetAfterMs: left(limit.resetAfterMs),
    })),
  };
}

/** Approximate memory of a rule, and of each of its limits, in bytes. */
const ruleBytes = 400;
const limitBytes = 200;

export const ruleSizeBytes = (rule: KeyRule): number =>
  ruleBytes + (rule.kind === "limits" ? rule.limits.length * limitBytes : 0);

/** The limits in effect for the key. */
export const ruledLimits = (policy: Policy, rule: KeyRule | null): readonly Limit[] =>
  rule?.kind === "limits" ? rule.limits : policy.limits;

/** The policy with the limits in effect for the key. */
function ruledPolicy(policy: Policy, rule: KeyRule | null): Policy {
  const limits = ruledLimits(policy, rule);
  return limits === policy.limits ? policy : { ...policy, limits };
}

/** The spend with the limits in effect for the key. */
export function ruledSpend(spend: Spend, rule: KeyRule | null): Spend {
  const policy = ruledPolicy(spend.policy, rule);
  return policy === spend.policy ? spend : { ...spend, policy };
}

/** The outcome of a decision under a rule. A ban takes precedence over rules that allow or block. */
export function ruledOutcome(decided: Outcome & { readonly decision: ChargeDecision }, rule: KeyRule | null): Outcome {
  if (rule === null) return decided;
  const { policy, decision } = decided;
  if (rule.kind === "limits" || decision.bannedForMs > 0) {
    return { ...decided, policy: ruledPolicy(policy, rule) };
  }
  const change = rule.kind === "allow" ? allowedNow : { allowed: false, delayMs: 0, retryAfterMs: null };
  return { ...decided, decision: { ...decision, ...change }, keyRule: rule.kind };
}

/** One outcome for each spend, in their order. */
export function outcomesOf(group: readonly Spend[], reply: CheckReply): Outcome[] {
  return reply.decisions.flatMap((decision, index) => {
    const policy = group[index]?.policy;
    const rule = reply.keyRules?.[index] ?? null;
    const decidedAtMs = reply.spentAtMs[index] ?? 0;
    return policy === undefined ? [] : ruledOutcome({ kind: "decided", policy, decision, decidedAtMs }, rule);
  });
}

export const chargeOf = ({
  policy,
  cost,
  partitionKey: key,
}: Pick<Spend, "policy" | "cost"> & Partial<Pick<Spend, "partitionKey">>): Charge => ({
  policy: policy.name,
  limits: policy.limits,
  cost,
  ...(policy.isDryRun && { isDryRun: true }),
  // A dry run bans no key.
  ...(policy.ban !== null && !policy.isDryRun && { ban: policy.ban }),
  ...(policy.rules !== null && { rules: policy.rules }),
  ...(policy.ancestors.length > 0 && key !== undefined && { key }),
  ...(policy.share !== null && { share: { ...policy.share, weight: policy.weight } }),
  ...(policy.upTo !== wholeLimit && { upTo: policy.upTo }),
});

/** The text of a policy's charges. Equal texts have the same policy, limits and runtime rules. */
export const chargeTextOf = memoized((policy: Policy): string => {
  const { cost: _, ...charge } = chargeOf({ policy, cost: 0 });
  return JSON.stringify(charge);
});

/** Whether the group charges exactly the policies of these texts, in this order. */
export const hasChargeTexts = (group: readonly Spend[], texts: readonly string[]): boolean =>
  texts.length === group.length && group.every(({ policy }, index) => chargeTextOf(policy) === texts[index]);

/** Serializes and compiles the policy's charge before the first request. */
export function prepareCharges(policy: Policy): void {
  chargeTextOf(policy);
  internedLimits(policy.limits);
  for (const limit of policy.limits) compiledLimit(limit);
}

/** The actual cost of a spend; also called for dry runs. */
export type CostOf = (spend: Spend) => number;

/** The address of a reservation, see reservation.ts. */
export interface ReservationAddress {
  /** 128 random bits in hexadecimal. */
  readonly random: string;
  readonly partitionKey: string;
  readonly settings: ObjectSettings;
}

/** Spends on one key that can still be given back or settled. */
export interface OpenSpend {
  /** Its reservation in the object; absent for a final spend and for a spend of the isolate. */
  readonly address?: ReservationAddress;
  /** Ends the provisional time: every object has admitted the request. */
  readonly finalize?: () => void;
  readonly giveBack: () => Promise<unknown>;
  /** Corrects the spend to its actual cost; absent for a final spend, which stays as it is. */
  readonly settle?: (costOf: CostOf) => Promise<unknown>;
  readonly renew?: () => Promise<unknown>;
}

/** The spends of one request on one key, which are decided together. */
export interface KeyCheck {
  readonly group: readonly Spend[];
  /** Receives the spends that can still be given back or settled. */
  readonly result: ChargeResult;
  readonly scope: RequestScope;
  /** For how long a later object may still deny the request, in milliseconds; 0 when none can. */
  readonly provisionalMs: number;
  /** Whether nothing is spent. */
  readonly isLook: boolean;
}

/**
 * The outcomes of one request's spends, whether it is admitted or refused, and what can still change about those spends.
 * Either all are given back or each is settled to its actual cost, once. This includes spends of calls that are answered
 * after their deadline.
 */
export class ChargeResult {
  /** The cached denial that has decided the request; null when an object or the isolate's own state was needed. */
  readonly cachedDenial: CachedDenial | null;
  /** More than 0 when a key has the maximum of open reservations: the wait until the next one expires. */
  fullForMs = 0;
  isRefused = false;
  /** Whether an object has newer rules, so that a second attempt decides and this result is ignored. */
  isStale = false;
  /** The outcomes of dry runs that are decided in the background; null when there are none. */
  dryRuns: Promise<readonly (readonly Outcome[])[]> | null = null;
  /** The time of the decision, in milliseconds since the Unix epoch. Waits count from then. */
  decidedAtMs = 0;
  readonly #outcomes: Outcome[] = [];
  readonly #open: OpenSpend[] = [];
  #end: ((spend: OpenSpend) => Promise<unknown>) | null = null;

  constructor(cachedDenial: CachedDenial | null = null) {
    this.cachedDenial = cachedDenial;
  }

  /**
   * In the order of decision: a denying key is the last. Excludes dry runs on keys that no enforced policy charges.
   */
  get outcomes(): readonly Outcome[] {
    return this.cachedDenial?.outcomes ?? this.#outcomes;
  }

  addOutcomes(outcomes: readonly Outcome[]): void {
    this.#outcomes.push(...outcomes);
  }

  /** Whether it has spends to give back or to settle. Late spends may follow. */
  get hasSpends(): boolean {
    return this.#open.length > 0;
  }

  /** The address of the first reservation; null when there is none. */
  get address(): ReservationAddress | null {
    return this.#open.find(({ address }) => address !== undefined)?.address ?? null;
  }

  /**
   * Adds a spend. After `giveBack` or `settle`, a late spend is ended in the same way.
   * @returns null if the spend stays open
   */
  add(spend: OpenSpend): Promise<unknown> | null {
    if (this.#end !== null) return this.#end(spend);
    this.#open.push(spend);
    return null;
  }

  /** Ends the provisional time of all spends: the request is admitted. */
  finalize(): void {
    for (const spend of this.#open) spend.finalize?.();
  }

  giveBack(): Promise<void> {
    return this.#finish((spend) => spend.giveBack());
  }

  settle(costOf: CostOf): Promise<void> {
    return this.#finish(async (spend) => spend.settle?.(costOf));
  }

  async renew(): Promise<void> {
    await Promise.all(this.#open.map(async (spend) => spend.renew?.()));
  }

  async #finish(end: (spend: OpenSpend) => Promise<unknown>): Promise<void> {
    if (this.#end !== null) return;
    this.#end = end;
    await Promise.all(this.#open.map(end));
  }
}
