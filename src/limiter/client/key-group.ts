/** A group: the spends of one request on one key. One object decides them together, in one call. */
import { keyPseudonym, report } from "../../observability/events.ts";
import type { Limit } from "../../strategies/index.ts";
import { internedLimits } from "../interned-limits.ts";
import type { Call, ObjectCaller } from "./object-caller.ts";
import { objectLocation } from "../object-location.ts";
import { admits, allows, type Outcome, type Spend, violatedLimits } from "./outcome.ts";
import type { Charge, CheckCall, CheckReply, ReserveReply } from "../protocol.ts";

export type DecisionReply = CheckReply & Partial<ReserveReply>;

/** A spend that an object has booked, and the instant by the object's clock that it is booked to. */
export interface BookedSpend {
  readonly spend: Spend;
  readonly spentAtMs: number;
}

/** The spends that the object booked: none when one denies, else all except dry runs that would deny. */
export function bookedSpends(
  group: readonly Spend[],
  { decisions, spentAtMs, isOpen }: DecisionReply,
): BookedSpend[] {
  const isAdmitted = group.every(
    ({ policy }, index) => policy.isDryRun || decisions[index]?.allowed === true,
  );
  if (!isAdmitted || isOpen === false) return [];
  return group.flatMap((spend, index) =>
    decisions[index]?.allowed === true ? { spend, spentAtMs: spentAtMs[index] ?? 0 } : [],
  );
}

/** Whether the group cannot deny the request. */
export const isDryRunOnly = (group: readonly Spend[]): boolean =>
  group.every(({ policy }) => policy.isDryRun);

/** A policy and the limits that applied to it. Overrides and deployments change the limits of a policy. */
export interface PolicyLimits {
  readonly policy: string;
  /** A list from `internedLimits`, comparable by identity. */
  readonly limits: readonly Limit[];
}

export const policyLimitsOf = ({ policy }: Spend): PolicyLimits => ({
  policy: policy.name,
  limits: internedLimits(policy.limits),
});

/** Whether the group charges exactly these policies, with these limits, in this order. */
export const chargesPolicies = (
  group: readonly Spend[],
  policies: readonly PolicyLimits[],
): boolean =>
  policies.length === group.length &&
  group.every(({ policy }, index) => {
    const each = policies[index];
    return each?.policy === policy.name && each.limits === internedLimits(policy.limits);
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
 * Calls the object of the group's key, with the shortest timeout of the group's policies.
 * @returns null when the object does not answer in time, or when the group is empty
 */
export async function callObject<Reply>(
  caller: ObjectCaller,
  name: Call<Reply>["name"],
  group: readonly Spend[],
  send: Call<Reply>["send"],
  late?: Call<Reply>["late"],
): Promise<Reply | null> {
  const [first] = group;
  if (first === undefined) return null;
  return caller.call({
    name,
    location: objectLocation(first.policy.objects, first.partitionKey),
    policies: group.map(({ policy }) => policy.name),
    timeoutMs: timeoutOf(group),
    send,
    ...(late !== undefined && { late }),
  });
}

/** The shortest timeout of the enforced policies, in milliseconds; of the dry runs when there are no others. */
export function timeoutOf(group: readonly Spend[]): number {
  const enforced = group.filter(({ policy }) => !policy.isDryRun);
  const waiting = enforced.length > 0 ? enforced : group;
  return Math.min(...waiting.map(({ policy }) => policy.timeoutMs));
}

/** Identifies a key of a policy. */
export const policyKey = ({
  policy,
  partitionKey,
}: Pick<Spend, "policy" | "partitionKey">): string => `${policy.name} ${partitionKey}`;

/** Splits spends into groups. Two keys are the same when their values and their objects' settings are equal. */
export function groupsOf(spends: readonly Spend[]): Iterable<readonly Spend[]> {
  if (spends.length === 1) return [spends];
  return Map.groupBy(spends, ({ policy: { objects }, partitionKey }) => {
    const { shards, locationHint, jurisdiction } = objects;
    return JSON.stringify([partitionKey, shards, locationHint, jurisdiction]);
  }).values();
}

/**
 * The call that checks the group.
 * @param provisionalMs for how long the spend may be given back by law 10; 0 for a final spend
 */
export function callOf(group: readonly Spend[], provisionalMs = 0): CheckCall {
  // A dry run must not make a request wait for a confirmed write.
  const isConfirmed = group.some(
    ({ policy }) => policy.durability === "confirmed" && (!policy.isDryRun || isDryRunOnly(group)),
  );
  return {
    key: group[0]?.partitionKey ?? "",
    charges: group.map(chargeOf),
    durability: isConfirmed ? "confirmed" : "relaxed",
    ...(provisionalMs > 0 && { provisionalMs }),
  };
}

const chargeOf = ({ policy, cost }: Spend): Charge => ({
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
    return policy === undefined ? [] : [{ kind: "decided", policy, decision }];
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
    const violated = violatedLimits("decision" in outcome ? [outcome.decision] : []);
    report({ event: "dry-run-denied", policy: policy.name, violated, key });
  }
}
