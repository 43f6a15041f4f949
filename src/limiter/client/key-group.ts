/** Spends on one key, which are decided together: how their object is asked, and what came of each. */
import type { Limit } from "../../strategies/index.ts";
import { internedLimits } from "../interned-limits.ts";
import type { Call, ObjectCaller } from "./object-caller.ts";
import type { Outcome, Spend } from "./outcome.ts";
import { objectLocation } from "./object-location.ts";
import type { Charge, CheckCall, ReserveReply, CheckReply } from "../protocol.ts";
import { newAddress, type ReservationAddress } from "./reservation-id.ts";

/** An object's answer to a check or a reservation. */
export type Answered = CheckReply & Partial<ReserveReply>;

/** What has been spent, and the instant that it is booked to. */
export interface Spent {
  readonly spend: Spend;
  readonly spentAtMs: number;
}

/** Nothing unless all are admitted; then all but the dry runs that deny. */
export function spentOf(
  group: readonly Spend[],
  { decisions, spentAtMs, isOpen }: Answered,
): Spent[] {
  const isAdmitted = group.every(
    ({ policy }, index) => policy.isDryRun || decisions[index]?.allowed === true,
  );
  if (!isAdmitted || isOpen === false) return [];
  return group.flatMap((spend, index) =>
    decisions[index]?.allowed === true ? { spend, spentAtMs: spentAtMs[index] ?? 0 } : [],
  );
}

export const isShadow = (group: readonly Spend[]): boolean =>
  group.every(({ policy }) => policy.isDryRun);

/** Which policies were asked, and under which limits: overrides and deploys change those. */
export interface Asked {
  readonly policy: string;
  /** A list of `sharedLimits`. */
  readonly limits: readonly Limit[];
}

export const askedOf = ({ policy }: Spend): Asked => ({
  policy: policy.name,
  limits: internedLimits(policy.limits),
});

/** Whether a group asks for the same, in the same order. */
export const isOf = (asked: readonly Asked[], group: readonly Spend[]): boolean =>
  asked.length === group.length &&
  group.every(({ policy }, index) => {
    const each = asked[index];
    return each?.policy === policy.name && each.limits === internedLimits(policy.limits);
  });

/**
 * Whether an isolate may spend from what it has borrowed, which is so many units of each. Policies that share a key are as
 * sure as the surest of them, and what may be settled is the object's to spend.
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

/** The same, of those that need not wait for the object's word at all. */
export const isEventual = (group: readonly Spend[]): boolean =>
  group.every(({ policy, ttlMs }) => policy.consistency.kind === "eventual" && ttlMs === undefined);

/**
 * An answer of the object of a key within the shortest of its policies' timeouts; null if there is none. Nothing is asked
 * for an empty group.
 */
export async function askObject<Answer>(
  calls: ObjectCaller,
  name: Call<Answer>["name"],
  group: readonly Spend[],
  ask: Call<Answer>["ask"],
  late?: Call<Answer>["late"],
): Promise<Answer | null> {
  const [first] = group;
  if (first === undefined) return null;
  return calls.call({
    name,
    location: objectLocation(first.policy.objects, first.partitionKey),
    policies: group.map(({ policy }) => policy.name),
    timeoutMs: timeoutOf(group),
    ask,
    ...(late !== undefined && { late }),
  });
}

export function newAddressOf(group: readonly Spend[]): ReservationAddress {
  const [first] = group;
  if (first === undefined) throw new RangeError("nothing is to be spent");
  return newAddress(first.partitionKey, first.policy.objects);
}

/** The shortest of those policies that a client waits for. */
export function timeoutOf(group: readonly Spend[]): number {
  const enforced = group.filter(({ policy }) => !policy.isDryRun);
  const asked = enforced.length > 0 ? enforced : group;
  return Math.min(...asked.map(({ policy }) => policy.timeoutMs));
}

/** Spends on one key are decided together; keys are the same when their values and their objects are. */
export function groupsOf(spends: readonly Spend[]): Iterable<readonly Spend[]> {
  if (spends.length === 1) return [spends];
  return Map.groupBy(spends, ({ policy: { objects }, partitionKey }) => {
    const { shards, locationHint, jurisdiction } = objects;
    return JSON.stringify([partitionKey, shards, locationHint, jurisdiction]);
  }).values();
}

/**
 * One policy that is to be sure makes the call sure.
 * @param provisionalMs for how long what is spent may still be given back by law 10; 0 when it is spent for good
 */
export function callOf(group: readonly Spend[], provisionalMs = 0): CheckCall {
  // A dry run makes nobody wait, unless it is all there is.
  const isConfirmed = group.some(
    ({ policy }) => policy.durability === "confirmed" && (!policy.isDryRun || isShadow(group)),
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
  // What denies nothing bans nobody.
  ...(policy.ban !== null && !policy.isDryRun && { ban: policy.ban }),
});

export function outcomesOf(group: readonly Spend[], reply: CheckReply): Outcome[] {
  return reply.decisions.flatMap((decision, index) => {
    const policy = group[index]?.policy;
    return policy === undefined ? [] : [{ kind: "decided", policy, decision }];
  });
}
