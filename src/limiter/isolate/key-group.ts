/** A group: the spends of one request on one key. One object decides them together, in one call. */
import { compareVersions, type PolicyRules } from "../../policy/runtime-rules.ts";
import type { Durability, Policy } from "../../policy/policy.ts";
import { keyPseudonym, report } from "../../observability/events.ts";
import { compiledLimit, type Limit } from "../../strategies/index.ts";
import type { RequestScope } from "./newer-rules-retry.ts";
import { chargeText, type FlatCheck } from "../flat-calls.ts";
import { internedLimits } from "../interned.ts";
import {
  type Outcome,
  type Spend,
  admits,
  allows,
  isByKeyRule,
  ruledOutcome,
  ruledSpend,
  violatedLimits,
} from "./outcome.ts";
import type { Call, ChecksCall, ObjectCaller } from "./object-caller.ts";
import { objectLocation } from "../object-calls.ts";
import type { Charge, CheckCall, CheckReply, ReserveReply } from "../protocol.ts";

export type DecisionReply = CheckReply & Partial<ReserveReply>;

/** A spend that an object has booked, and the instant by the object's clock that it is booked to. */
export interface BookedSpend {
  /** With the limits that were in effect for the key. */
  readonly spend: Spend;
  readonly spentAtMs: number;
}

/**
 * The spends that the object booked: none when one denies, else all except dry runs that would deny, and keys that a rule
 * allows without charge.
 */
export function bookedSpends(
  group: readonly Spend[],
  { decisions, spentAtMs, isOpen, keyRules }: DecisionReply,
): BookedSpend[] {
  const isAdmitted = group.every(({ policy }, index) => policy.isDryRun || decisions[index]?.allowed === true);
  if (!isAdmitted || isOpen === false) return [];
  return group.flatMap((spend, index) => {
    const rule = keyRules?.[index] ?? null;
    return rule?.kind !== "allow" && decisions[index]?.allowed === true
      ? { spend: ruledSpend(spend, rule), spentAtMs: spentAtMs[index] ?? 0 }
      : [];
  });
}

/** Whether the group cannot deny the request. */
export const isDryRunOnly = (group: readonly Spend[]): boolean => group.every(({ policy }) => policy.isDryRun);

/**
 * A policy, and the limits and runtime rules that applied to it. Overrides, deployments and rules change the limits of a
 * policy.
 */
export interface PolicyLimits {
  readonly policy: string;
  readonly rules: PolicyRules | null;
  /** A list from `internedLimits`, comparable by identity. */
  readonly limits: readonly Limit[];
}

export const policyLimitsOf = ({ policy }: Spend): PolicyLimits => ({
  policy: policy.name,
  rules: policy.rules,
  limits: internedLimits(policy.limits),
});

/** Whether the policies have runtime rules of the same version. */
export const haveSameRules = (one: Pick<PolicyLimits, "rules">, other: Pick<PolicyLimits, "rules">): boolean =>
  one.rules === other.rules ||
  (one.rules !== null && other.rules !== null && compareVersions(one.rules, other.rules) === 0);

/** Whether the group charges exactly these policies, with these limits and rules, in this order. */
export const chargesPolicies = (group: readonly Spend[], policies: readonly PolicyLimits[]): boolean =>
  policies.length === group.length &&
  group.every(({ policy }, index) => {
    const each = policies[index];
    return each?.policy === policy.name && haveSameRules(each, policy) && each.limits === internedLimits(policy.limits);
  });

/**
 * Whether the group may spend from a slice. A slice lends the same number of units of every policy, so all costs must be
 * equal. One strict policy makes the group strict, and reservations always go to the object.
 */
export const isLeased = (group: readonly Spend[]): boolean =>
  group.every(
    ({ policy, ttlMs, cost }) =>
      policy.consistency.kind !== "strict" &&
      !policy.isDryRun &&
      ttlMs === undefined &&
      cost > 0 &&
      cost === group[0]?.cost,
  ) && group.some(({ policy }) => policy.consistency.kind === "leased");

/** Whether the isolate may decide the group without waiting for the object. */
export const isEventual = (group: readonly Spend[]): boolean =>
  group.every(({ policy, ttlMs }) => policy.consistency.kind === "eventual" && ttlMs === undefined);

/**
 * Calls the object of the group's key.
 * @param call its timeout is by default the shortest of the group's policies
 * @returns null when the object does not answer in time, or when the group is empty
 */
export async function callObject<Reply>(
  caller: ObjectCaller,
  group: readonly Spend[],
  call: Pick<Call<Reply>, "name" | "send"> & Partial<CallTime & Pick<Call<Reply>, "late">>,
): Promise<Reply | null> {
  const [first] = group;
  return first === undefined ? null : caller.call({ ...objectOf(first, group), timeoutMs: timeoutOf(group), ...call });
}

/** The object of a spend's key, and the policies that charge keys of that object. */
export const objectOf = (
  { policy: { objects }, partitionKey }: Spend,
  spends: readonly Spend[],
): Pick<ChecksCall, "location" | "policies"> => ({
  location: objectLocation(objects, partitionKey),
  policies: spends.map(({ policy }) => policy.name),
});

/** The shortest timeout of the enforced policies, in milliseconds; of the dry runs when there are no others. */
export function timeoutOf(group: readonly Spend[]): number {
  const [only] = group;
  if (only !== undefined && group.length === 1) return only.policy.timeoutMs;
  const enforced = group.filter(({ policy }) => !policy.isDryRun);
  const waiting = enforced.length > 0 ? enforced : group;
  return Math.min(...waiting.map(({ policy }) => policy.timeoutMs));
}

/** The timeout of a call for the group: a second attempt has less time. */
export function timeLeftOf(group: readonly Spend[], scope: RequestScope, nowMs: number): CallTime {
  const wholeMs = timeoutOf(group);
  const timeoutMs = scope.timeoutMs(wholeMs, nowMs);
  return { timeoutMs, isShortened: timeoutMs < wholeMs };
}

type CallTime = Pick<Call<unknown>, "timeoutMs" | "isShortened">;

/** Splits spends into groups. Two keys are the same when their values and their objects' settings are equal. */
export function groupsOf(spends: readonly Spend[]): readonly (readonly Spend[])[] {
  if (spends.length === 1) return [spends];
  const groups = Map.groupBy(spends, ({ policy: { objects }, partitionKey }) => {
    const { shards, locationHint, jurisdiction } = objects;
    return JSON.stringify([partitionKey, shards, locationHint, jurisdiction]);
  });
  return [...groups.values()];
}

/**
 * The call that checks the group.
 * @param provisionalMs for how long the spend may be given back by law 10; 0 for a final spend
 */
export const callOf = (group: readonly Spend[], provisionalMs = 0): CheckCall => ({
  key: group[0]?.partitionKey ?? "",
  charges: group.map(ruledChargeOf),
  durability: durabilityOf(group),
  ...(provisionalMs > 0 && { provisionalMs }),
});

/** A dry run must not make a request wait for a confirmed write. */
const durabilityOf = (group: readonly Spend[]): Durability =>
  group.some(({ policy }) => policy.durability === "confirmed" && (!policy.isDryRun || isDryRunOnly(group)))
    ? "confirmed"
    : "relaxed";

/** The check of the group in its flat form. A look spends nothing. */
export const flatCheckOf = (group: readonly Spend[], provisionalMs: number, isLook: boolean): FlatCheck => ({
  key: group[0]?.partitionKey ?? "",
  provisionalMs,
  kind: isLook ? "look" : durabilityOf(group),
  charges: group.map((spend) => ({
    text: chargeTextOf(spend.policy),
    cost: spend.cost,
    limits: spend.policy.limits,
  })),
});

const chargeTexts = new WeakMap<Policy, string>();

function chargeTextOf(policy: Policy): string {
  let text = chargeTexts.get(policy);
  if (text === undefined) {
    const { cost: _, ...charge } = ruledChargeOf({ policy, cost: 0 });
    text = chargeText(charge);
    chargeTexts.set(policy, text);
  }
  return text;
}

/** Serializes and compiles the policy's charge before the first request. */
export function prepareCharges(policy: Policy): void {
  chargeTextOf(policy);
  internedLimits(policy.limits);
  for (const limit of policy.limits) compiledLimit(limit);
}

const ruledChargeOf = (spend: Pick<Spend, "policy" | "cost">): Charge => {
  const { rules } = spend.policy;
  const charge = chargeOf(spend);
  if (rules !== null) charge.rules = rules;
  return charge;
};

export const chargeOf = ({ policy, cost }: Pick<Spend, "policy" | "cost">): Charge => ({
  policy: policy.name,
  limits: policy.limits,
  cost,
  ...(policy.isDryRun && { isDryRun: true }),
  // A dry run bans no key.
  ...(policy.ban !== null && !policy.isDryRun && { ban: policy.ban }),
});

/** One outcome for each spend, in their order. */
export function outcomesOf(group: readonly Spend[], reply: CheckReply): Outcome[] {
  return reply.decisions.flatMap((decision, index) => {
    const policy = group[index]?.policy;
    const rule = reply.keyRules?.[index] ?? null;
    const decidedAtMs = reply.spentAtMs[index] ?? 0;
    return policy === undefined ? [] : ruledOutcome({ kind: "decided", policy, decision, decidedAtMs }, rule);
  });
}

/** Logs the dry runs that would have denied the request. Logs none when another policy denies it. */
export function reportDryRuns(group: readonly Spend[], outcomes: readonly Outcome[]): void {
  if (!outcomes.every(admits)) return;
  const [{ partitionKey } = { partitionKey: "" }] = group;
  const key = keyPseudonym(partitionKey);
  for (const outcome of outcomes) {
    const { policy } = outcome;
    if (!policy.isDryRun || allows(outcome)) continue;
    const isBlocked = isByKeyRule(outcome, "block");
    const violated = "decision" in outcome && !isBlocked ? violatedLimits([outcome.decision]) : [];
    const listing = isBlocked ? ({ reason: "listed" } as const) : {};
    report({ event: "dry-run-denied", policy: policy.name, violated, ...listing, key });
  }
}
