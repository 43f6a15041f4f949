/** A lease: the slices that an isolate has borrowed for one key and one set of policies. `leases.ts` explains the protocol. */
import type { Decision } from "../../strategies/index.ts";
import {
  type KeyRule,
  type LeaseReply,
  type ObjectLocation,
  objectLocation,
  type ReturnReply,
  type Settlement,
  type SliceWanted,
} from "../protocol.ts";
import { timeoutOf } from "./key-group.ts";
import { aged, chargeTextOf, type Outcome, ruledOutcome, ruledSpend, type Spend } from "./outcome.ts";
import { SharedValue } from "./request-context.ts";

/** How long the isolate may spend a slice, counted from the call that requests it. */
export const spendableMs = 1_000;
/** How long the object holds a slice. The time beyond `spendableMs` is for returning the slice. */
const sliceTtlMs = 2 * spendableMs;
/**
 * How long an ended slice waits for its provisional spends to become final or be given back. The wait must be short, because
 * the object books the whole slice when it is returned too late.
 */
export const provisionalGraceMs = 75;
/** Lending costs a call and a write, so a smaller slice would cost more than calling the object for each request. */
const leastUnits = 8;
/** A lease is low when a quarter of its units is left, or 200 ms before its last slice ends. */
const lowPart = 4;
const lowMs = 200;
/** A call that has no answer this long after its timeout counts as lost, together with the request that made it. */
const lostAfterMs = 2_000;

/** Units that the object has lent to this isolate. `Slice` in `limiter/object` is the object's record of them. */
export interface BorrowedSlice {
  readonly id: string;
  readonly units: number;
  used: number;
  /** Units spent for requests that a later object may still deny. */
  provisionalUnits: number;
  readonly endsAtMs: number;
  /** By policy, the instant to which the object books the slice if it is not returned in time. */
  readonly expiry: Settlement;
  /** Whether a call has returned the slice, or is under way to return it. */
  isReturned: boolean;
  /** Set by the first call that returns the slice; null when that call failed and the settlement is unknown. */
  readonly settlement: SharedValue<Settlement | null>;
}

export class Lease {
  readonly key: string;
  readonly location: ObjectLocation;
  readonly policies: readonly string[];
  /** See `chargeTextOf`. */
  readonly texts: readonly string[];
  readonly limitCount: number;
  /** When the last call was made that requests a slice; null when none is under way. */
  requestedAtMs: number | null = null;
  #slices: BorrowedSlice[] = [];
  /** Slices that the isolate no longer spends and that are not yet returned. */
  #ended: BorrowedSlice[] = [];
  /** The decisions that came with the last slice. Their waits are sufficient until the slice ends. */
  #decisions: readonly Decision[] = [];
  #decidedAtMs = 0;
  /** The key rules that came with the decisions, one for each policy. */
  #keyRules: readonly (KeyRule | null)[] = [];
  #seenMs = 0;
  /** The units requested in the last whole period of `spendableMs`, and so far in the current period. */
  #lastDemand = 0;
  #demand = 0;
  #demandSinceMs: number;

  constructor(group: readonly Spend[], { policy, partitionKey }: Spend, nowMs: number) {
    this.key = partitionKey;
    this.location = objectLocation(policy.objects, partitionKey);
    this.policies = group.map((spend) => spend.policy.name);
    this.texts = group.map((spend) => chargeTextOf(spend.policy));
    this.limitCount = group.reduce((count, spend) => count + spend.policy.limits.length, 0);
    this.#demandSinceMs = nowMs;
  }

  /** Spends a cost from one slice. @returns the slice; null when no slice has enough units left */
  spend(cost: number, nowMs: number): BorrowedSlice | null {
    this.#countDemand(cost, nowMs);
    this.retire(nowMs);
    const slice = this.#slices.find((each) => leftOf(each) >= cost);
    if (slice !== undefined) slice.used += cost;
    return slice ?? null;
  }

  /** The outcomes of a spend from a slice, with the `remaining` that the object would report. */
  outcomes(group: readonly Spend[], nowMs: number): Outcome[] {
    const ageMs = Math.max(0, nowMs - this.#decidedAtMs);
    // The decisions count earlier slices as fully spent, and the last slice as unspent.
    const spareUnits = sum(this.#slices.slice(0, -1), leftOf) - (this.#slices.at(-1)?.used ?? 0);
    return group.flatMap(({ policy, cost }, index): Outcome[] => {
      const decision = this.#decisions[index];
      const rule = this.#keyRules[index] ?? null;
      if (decision === undefined) return [];
      const current = allowed(aged(decision, ageMs), cost, spareUnits);
      const decided = { kind: "decided", policy, decision: current, decidedAtMs: nowMs } as const;
      return [ruledOutcome(decided, rule)];
    });
  }

  /** The spends with the limits that decide them. A lease has no rules that allow or block a key. */
  ruled(group: readonly Spend[]): readonly Spend[] {
    if (this.#keyRules.length === 0) return group;
    return group.map((spend, index) => ruledSpend(spend, this.#keyRules[index] ?? null));
  }

  isSpendable(slice: BorrowedSlice): boolean {
    return this.#slices.includes(slice);
  }

  /** Whether the slice is ended and not yet returned, with unused units. */
  isLeftOver(slice: BorrowedSlice): boolean {
    return this.#ended.includes(slice) && leftOf(slice) > 0;
  }

  get hasProvisional(): boolean {
    return this.#ended.some(({ provisionalUnits }) => provisionalUnits > 0);
  }

  /** Whether an ended slice has unused units that no call returns yet. */
  get hasUnused(): boolean {
    return this.#ended.some((slice) => !slice.isReturned && leftOf(slice) > 0);
  }

  isLow(nowMs: number): boolean {
    const endsAtMs = Math.max(...this.#slices.map((slice) => slice.endsAtMs));
    const isUsed = sum(this.#slices, leftOf) * lowPart <= sum(this.#slices, ({ units }) => units);
    return isUsed || nowMs >= endsAtMs - lowMs;
  }

  isRequesting(group: readonly Spend[], nowMs: number): boolean {
    const atMs = this.requestedAtMs;
    return atMs !== null && nowMs >= atMs && nowMs - atMs < timeoutOf(group) + lostAfterMs;
  }

  /** The slice that a check should request; null when the demand is too low or a request is under way. */
  wantedSlice(group: readonly Spend[], nowMs: number): SliceWanted | null {
    const units = this.isRequesting(group, nowMs) ? 0 : this.#wantedUnits;
    return units < leastUnits ? null : newSlice(units);
  }

  /** The slice to request so that a lease in use does not run out. */
  nextSlice(): SliceWanted {
    return newSlice(Math.max(leastUnits, this.#wantedUnits));
  }

  /** The demand of one period, plus a quarter of it. */
  get #wantedUnits(): number {
    return Math.ceil(1.25 * Math.max(this.#lastDemand, this.#demand));
  }

  #countDemand(units: number, nowMs: number): void {
    const sinceMs = nowMs - this.#demandSinceMs;
    if (sinceMs >= spendableMs || sinceMs < 0) {
      this.#lastDemand = sinceMs < 2 * spendableMs && sinceMs >= 0 ? this.#demand : 0;
      this.#demand = 0;
      this.#demandSinceMs = nowMs;
    }
    this.#demand += units;
  }

  sliceOf({ id }: SliceWanted, reply: LeaseReply, calledAtMs: number): BorrowedSlice {
    return {
      id,
      units: reply.lentUnits,
      used: 0,
      provisionalUnits: 0,
      endsAtMs: calledAtMs + spendableMs,
      expiry: this.policies.map((policy, index) => ({
        policy,
        atMs: (reply.spentAtMs[index] ?? 0) + sliceTtlMs,
      })),
      isReturned: false,
      settlement: new SharedValue(),
    };
  }

  add(slice: BorrowedSlice, { decisions, keyRules = [] }: LeaseReply, nowMs: number): void {
    this.#decisions = decisions;
    this.#keyRules = keyRules;
    this.#decidedAtMs = nowMs;
    this.#slices.push(slice);
  }

  /** Ends slices that are used up or whose time is over; all slices when the clock has stepped back. */
  retire(nowMs: number): void {
    const hasSteppedBack = nowMs < this.#seenMs;
    const isOver = (slice: BorrowedSlice): boolean => nowMs >= slice.endsAtMs || hasSteppedBack || leftOf(slice) === 0;
    this.#seenMs = nowMs;
    this.#ended.push(...this.#slices.filter(isOver));
    this.#slices = this.#slices.filter((slice) => !isOver(slice));
  }

  end(): void {
    this.#ended.push(...this.#slices);
    this.#slices = [];
  }

  /**
   * The ended slices to return now. Slices that the object has booked whole by now are dropped. Slices with provisional
   * spends wait for `provisionalGraceMs`.
   */
  returnable(nowMs: number): readonly BorrowedSlice[] {
    const isExpired = ({ endsAtMs }: BorrowedSlice): boolean => endsAtMs + sliceTtlMs <= nowMs;
    for (const slice of this.#ended.filter(isExpired)) {
      if (!slice.isReturned) slice.settlement.set([]);
    }
    this.#ended = this.#ended.filter((slice) => !isExpired(slice));
    return this.#ended.filter(
      ({ isReturned, provisionalUnits, endsAtMs }) =>
        !isReturned && (provisionalUnits === 0 || nowMs >= endsAtMs + provisionalGraceMs),
    );
  }

  remove(slices: readonly BorrowedSlice[]): void {
    this.#ended = this.#ended.filter((slice) => !slices.includes(slice));
  }
}

/** Returns slices with a call, whose reply contains their settlements. */
export async function returnBy<Reply extends ReturnReply>(
  slices: readonly BorrowedSlice[],
  call: () => Promise<Reply>,
): Promise<Reply> {
  for (const slice of slices) slice.isReturned = true;
  try {
    const reply = await call();
    for (const [index, { settlement }] of slices.entries()) {
      settlement.set(reply.settled[index] ?? null);
    }
    return reply;
  } catch (error) {
    for (const slice of slices) {
      slice.isReturned = false;
      slice.settlement.set(null);
    }
    throw error;
  }
}

const leftOf = ({ units, used }: BorrowedSlice): number => units - used;

const sum = (slices: readonly BorrowedSlice[], unitsOf: (slice: BorrowedSlice) => number): number =>
  slices.reduce((units, slice) => units + unitsOf(slice), 0);

const newSlice = (units: number): SliceWanted => ({
  id: crypto.randomUUID(),
  units,
  ttlMs: sliceTtlMs,
  leastUnits,
});

/** An allowed decision with the waits of the object's decision, which hold as if the whole slice were spent. */
const allowed = (decision: Decision, cost: number, spareUnits: number): Decision => ({
  ...decision,
  cost,
  allowed: true,
  retryAfterMs: 0,
  limits: decision.limits.map((limit) => ({
    ...limit,
    allowed: true,
    retryAfterMs: 0,
    remaining: Math.min(limit.capacity, Math.max(0, limit.remaining + spareUnits)),
  })),
});
