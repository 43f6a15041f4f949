/** A group: the spends of one request on one key. One object decides them together, in one call. */
import type { Durability } from "../../policy/policy.ts";
import { keyPseudonym, report } from "../../observability/events.ts";
import { compiledLimit, type Decision, type Limit, type LimitDecision } from "../../strategies/index.ts";
import { checkKinds, type FlatError, type FlatList } from "../flat-calls.ts";
import type { DenyCache } from "./deny-cache.ts";
import {
  type KeyCheck,
  type Outcome,
  type Spend,
  admits,
  allows,
  chargeOf,
  chargeTextOf,
  isByKeyRule,
  isDryRunOnly,
  isTree,
  objectKeyOf,
  ruledSpend,
  violatedLimits,
} from "./outcome.ts";
import type { Call, ObjectCaller, Stub } from "./object-caller.ts";
import { type CheckCall, type CheckReply, defaultFirmMs, objectLocation, type ReserveReply } from "../protocol.ts";

/** A spend that an object has booked, with the limits that were in effect for the key. */
export interface BookedSpend extends Spend {
  /** The instant that it is booked to, by the object's clock. */
  readonly spentAtMs: number;
}

/**
 * The spends that the object booked: none when an enforced policy denies; otherwise all, except those of dry runs that
 * would deny and those that a key rule allows without charge.
 */
export function bookedSpends(
  group: readonly Spend[],
  { decisions, spentAtMs, isOpen, keyRules }: CheckReply & Partial<ReserveReply>,
): BookedSpend[] {
  const isAdmitted = group.every(({ policy }, index) => policy.isDryRun || decisions[index]?.allowed === true);
  if (!isAdmitted || isOpen === false) return [];
  return group.flatMap((spend, index) => {
    const rule = keyRules?.[index] ?? null;
    return rule?.kind !== "allow" && decisions[index]?.allowed === true
      ? { ...ruledSpend(spend, rule), spentAtMs: spentAtMs[index] ?? 0 }
      : [];
  });
}

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
  call: Omit<Call<Reply>, "location" | "policies" | "timeoutMs"> & Partial<Pick<Call<Reply>, "timeoutMs">>,
): Promise<Reply | null> {
  const [first] = group;
  return first === undefined ? null : caller.call({ ...objectOf(first, group), timeoutMs: timeoutOf(group), ...call });
}

/** The object of a spend's key, and the policies that charge keys of that object. */
export const objectOf = (spend: Spend, spends: readonly Spend[]): Pick<Call<unknown>, "location" | "policies"> => ({
  location: objectLocation(spend.policy.objects, objectKeyOf(spend)),
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

/**
 * The call that checks the group.
 * @param provisionalMs for how long the spend may be given back exactly (law 10 in strategies/strategy.ts); 0 for a
 * final spend
 */
export const callOf = (group: readonly Spend[], provisionalMs = 0): CheckCall => ({
  key: keyOfCall(group),
  charges: group.map(chargeOf),
  durability: durabilityOf(group),
  ...(provisionalMs > 0 && { provisionalMs }),
});

/** The partition key that a group's call names. */
export const keyOfCall = ([first]: readonly Spend[]): string => (first === undefined ? "" : objectKeyOf(first));

/** A dry run must not make a request wait for a confirmed write. */
const durabilityOf = (group: readonly Spend[]): Durability =>
  group.some(({ policy }) => policy.durability === "confirmed" && (!policy.isDryRun || isDryRunOnly(group)))
    ? "confirmed"
    : "relaxed";

/** Whether a check spends, and whether its spend must be confirmed. */
export const checkKindOf = ({ group, isLook }: KeyCheck): (typeof checkKinds)[number] =>
  isLook ? "look" : durabilityOf(group);

/** Sends checks in the form of flat-calls.ts. Checks of trees need another call, which older objects do not have. */
export const sendChecks = (stub: Stub, checks: readonly KeyCheck[]): Promise<FlatList> =>
  checks.some(({ group }) => isTree(group))
    ? stub.decideTree(...encodeTreeChecks(checks))
    : stub.decide(...encodeChecks(checks));

/** The arguments of the call `decide` with these checks. */
export function encodeChecks(checks: readonly KeyCheck[]): [texts: string[], checks: FlatList] {
  const texts = new Indexes();
  const values = encoded(checks, texts, null);
  return [texts.all, values];
}

/** The arguments of the call `decideTree` with these checks. */
export function encodeTreeChecks(checks: readonly KeyCheck[]): [texts: string[], keys: string[], checks: FlatList] {
  const texts = new Indexes();
  const keys = new Indexes();
  const values = encoded(checks, texts, keys);
  return [texts.all, keys.all, values];
}

/** @param keys null for checks of one key each */
function encoded(checks: readonly KeyCheck[], texts: Indexes, keys: Indexes | null): FlatList {
  const values: (string | number)[] = [];
  for (const check of checks) {
    const { group, provisionalMs } = check;
    values.push(keyOfCall(group), provisionalMs, checkKinds.indexOf(checkKindOf(check)), group.length);
    for (const { policy, partitionKey, cost } of group) {
      values.push(texts.of(chargeTextOf(policy)), cost);
      if (keys !== null) values.push(keys.of(partitionKey));
    }
  }
  return values;
}

/** Different texts, and their indexes in the order of first use. */
class Indexes {
  readonly #byText = new Map<string, number>();

  get all(): string[] {
    return [...this.#byText.keys()];
  }

  of(text: string): number {
    const known = this.#byText.get(text);
    if (known !== undefined) return known;
    const index = this.#byText.size;
    this.#byText.set(text, index);
    return index;
  }
}

/** @returns one reply for each check, in their order; an error for a check that the object could not decide */
export function decodeReplies(checks: readonly Pick<KeyCheck, "group">[], values: FlatList): (CheckReply | Error)[] {
  let at = 0;
  const next = (): number => {
    const value = values[at++];
    if (typeof value === "number") return value;
    throw new TypeError(`expected a number as value ${at - 1} of the reply, got ${typeof value}`);
  };
  const replies = checks.map(({ group }) => {
    const first = values[at];
    if (typeof first !== "string") return replyFrom(next, group);
    at++;
    const parsed: CheckReply | FlatError = JSON.parse(first);
    return "error" in parsed ? Object.assign(new Error(parsed.error.message), { name: parsed.error.name }) : parsed;
  });
  // If values are left over, earlier values were misread.
  if (values.length > at) throw new TypeError(`expected a reply with ${at} values, got ${values.length}`);
  return replies;
}

function replyFrom(next: () => number, group: readonly Spend[]): CheckReply {
  const firmForMs = next();
  const decisions: Decision[] = [];
  const spentAtMs: number[] = [];
  for (const spend of group) {
    spentAtMs.push(next());
    decisions.push(decisionFrom(next, spend));
  }
  if (firmForMs === 0) return { decisions, spentAtMs };
  const isFirm = true;
  return firmForMs === defaultFirmMs ? { decisions, spentAtMs, isFirm } : { decisions, spentAtMs, isFirm, firmForMs };
}

function decisionFrom(next: () => number, { cost, policy }: Spend): Decision {
  const delayMs = next();
  const bannedForMs = next();
  const retryAfterMs = waitFrom(next);
  const allowed = next() === 1;
  const decided = policy.limits.map((limit) => limitDecisionFrom(next, limit));
  return { allowed, cost, delayMs, retryAfterMs, bannedForMs, limits: decided };
}

function limitDecisionFrom(next: () => number, written: Limit): LimitDecision {
  const { name, strategy, units, capacity } = compiledLimit(written);
  const allowed = next() === 1;
  const remaining = next();
  const retryAfterMs = waitFrom(next);
  const replenishAfterMs = next();
  const resetAfterMs = next();
  const windowMs = next();
  return {
    name,
    strategy: strategy.name,
    limit: units,
    capacity,
    windowMs,
    allowed,
    remaining,
    retryAfterMs,
    replenishAfterMs,
    resetAfterMs,
  };
}

function waitFrom(next: () => number): number | null {
  const waitMs = next();
  return waitMs === -1 ? null : waitMs;
}

/**
 * Gives back what an object has booked for one key. No-op when nothing was booked.
 * @param provisionalMs as in the call that booked it; 0 for a final spend
 * @param group the spends of the call that booked it. Children that were not charged have parts of what their parents were.
 */
export async function refund(
  { caller, denyCache }: { readonly caller: ObjectCaller; readonly denyCache: DenyCache },
  booked: readonly BookedSpend[],
  provisionalMs = 0,
  group: readonly Spend[] = [],
): Promise<void> {
  const [first] = booked;
  if (first === undefined) return;
  const isBooked = ({ policy }: Spend): boolean => booked.some((each) => each.policy.name === policy.name);
  const uncharged = group.filter((spend) => spend.policy.share !== null && !isBooked(spend));
  const charges = [...booked, ...uncharged.map((spend) => ({ ...spend, spentAtMs: 0 }))].map((spend) => {
    // A refund is never stale, and needs no rules.
    const { rules: _, ...charge } = chargeOf(spend);
    return { ...charge, spentAtMs: spend.spentAtMs };
  });
  const call = { ...callOf(booked, provisionalMs), charges, hasLimitsInEffect: true };
  await callObject(caller, booked, {
    name: "refund",
    send: async (stub) => (isTree(booked) ? stub.refundTree(call) : stub.refund(call)),
  });
  // A request that was denied meanwhile may fit now.
  denyCache.forget(objectKeyOf(first));
}

/** Logs the dry runs that would have denied the request. Logs none when another policy denies it. */
export function reportDryRuns(group: readonly Spend[], outcomes: readonly Outcome[]): void {
  if (!outcomes.every(admits)) return;
  for (const [index, outcome] of outcomes.entries()) {
    const { policy, decision } = outcome;
    if (!policy.isDryRun || allows(outcome)) continue;
    const isBlocked = isByKeyRule(outcome, "block");
    const violated = decision === null || isBlocked ? [] : violatedLimits([decision]);
    const listing = isBlocked ? ({ reason: "listed" } as const) : {};
    const key = keyPseudonym(group[index]?.partitionKey ?? "");
    report({ event: "dry-run-denied", policy: policy.name, violated, ...listing, key });
  }
}
