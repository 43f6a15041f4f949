/**
 * Decides spends in the object of their key, and gives back or settles what the object has booked. A spend is provisional
 * while a later object of the same request may still deny the request: until then it can be given back without a trace.
 */
import { Admission, type DecisionContext, localSpend, type OpenSpend } from "./admission.ts";
import { report } from "../../observability/events.ts";
import type { Attempt } from "./attempt.ts";
import type { Clock } from "../clock.ts";
import type { LocalDecider } from "./decide-locally.ts";
import type { DenyCache } from "./deny-cache.ts";
import {
  type BookedSpend,
  bookedSpends,
  callObject,
  callOf,
  type DecisionReply,
  chargeOf,
  decideInObject,
  flatCheckOf,
  isLeased,
  isStale,
  outcomesOf,
  reportDryRuns,
  timeLeftOf,
} from "./key-group.ts";
import type { Leases } from "./leases.ts";
import { type LocalCount, type LocalMeters, uncounted } from "./local-meters.ts";
import type { LateReply, ObjectCaller, WaitUntil } from "./object-caller.ts";
import type { Outcome, Spend } from "./outcome.ts";
import type { CheckReply, SettleCall } from "../protocol.ts";
import { newAddress, type ReservationAddress } from "./reservation-id.ts";
import { chargedSpends } from "./ruled-outcome.ts";
import type { SeenKeyRules } from "./seen-key-rules.ts";
import { endReservation } from "./end-reservation.ts";

/** The parts of an isolate that take part in decisions. */
export interface IsolateParts {
  readonly clock: Clock;
  readonly caller: ObjectCaller;
  readonly denyCache: DenyCache;
  readonly leases: Leases;
  readonly localMeters: LocalMeters;
  readonly seenKeyRules: SeenKeyRules;
  readonly local: LocalDecider;
}

/** Returns an open spend that covers what an object has booked and what the isolate's own meters count for it. */
type Open = (booked: readonly BookedSpend[], count: LocalCount) => OpenSpend;

interface OpenedReservation {
  readonly address: ReservationAddress;
  /** Whether the observer receives what is settled: not for a request that was refused, or decided without the object. */
  readonly isReported: () => boolean;
}

export class StrictDecider {
  readonly #isolate: IsolateParts;

  constructor(isolate: IsolateParts) {
    this.#isolate = isolate;
  }

  /** Spends on one key, all or nothing. The call of a leased group may also borrow a slice. */
  async decide(group: readonly Spend[], context: DecisionContext): Promise<readonly Outcome[]> {
    const reserved = group.find(({ ttlMs }) => ttlMs !== undefined);
    if (reserved !== undefined) {
      const address = newAddress(reserved.partitionKey, reserved.policy.objects);
      return this.#reserve(group, address, context);
    }
    const { clock, denyCache, leases, local } = this.#isolate;
    const { waitUntil, provisionalMs } = context;
    const open: Open = (booked, count) => this.#openCheck(booked, count, provisionalMs);
    const late = { waitUntil, settle: this.#lateReply(group, context, open) };
    const calledAtMs = clock.now();
    const reply = isLeased(group)
      ? await leases.check(group, context, late.settle)
      : await this.#check(group, context, late);
    if (reply === null) return local.decide(group, context);
    if (isStale(reply)) return this.#decideStale(group, reply, context);
    denyCache.remember(group, reply, { calledAtMs, answeredAtMs: clock.now() });
    return this.#accept(group, reply, context, open);
  }

  async #check(
    group: readonly Spend[],
    { provisionalMs, attempt }: DecisionContext,
    { waitUntil, settle }: LateReply<DecisionReply>,
  ): Promise<CheckReply | null> {
    const { clock, caller } = this.#isolate;
    const replies = await decideInObject(caller, group, {
      checks: [flatCheckOf(group, provisionalMs)],
      ...timeLeftOf(group, attempt, clock.now()),
      late: { waitUntil, settle: ([late]) => late && settle(late) },
    });
    return replies?.[0] ?? null;
  }

  /**
   * Decides independent spends of one object, in their order, with one call.
   * @returns one outcome for each spend, in their order
   */
  async decideEach(spends: readonly Spend[], waitUntil: WaitUntil, attempt: Attempt | null): Promise<Outcome[]> {
    const { clock, caller, denyCache, local } = this.#isolate;
    const calledAtMs = clock.now();
    const replies = await decideInObject(caller, spends, {
      checks: spends.map((spend) => flatCheckOf([spend], 0, spend.cost === 0)),
      ...timeLeftOf(spends, attempt, calledAtMs),
      late: {
        waitUntil,
        settle: (lateReplies) => this.#refundClosed(spends, lateReplies),
      },
    });
    const open: Open = (booked, count) => this.#openCheck(booked, count, 0);
    const outcomes = spends.map(async (spend, index) => {
      const context = { admission: new Admission(), waitUntil, provisionalMs: 0, attempt };
      const reply = replies?.[index];
      if (reply === undefined) return local.decide([spend], context);
      if (isStale(reply)) return this.#decideStale([spend], reply, context);
      denyCache.remember([spend], reply, { calledAtMs, answeredAtMs: clock.now() });
      return this.#accept([spend], reply, context, open);
    });
    return (await Promise.all(outcomes)).flat();
  }

  async #reserve(
    group: readonly Spend[],
    address: ReservationAddress,
    context: DecisionContext,
  ): Promise<readonly Outcome[]> {
    const { clock, caller, local } = this.#isolate;
    const { admission, waitUntil, attempt } = context;
    const enforced = group.filter(({ policy }) => !policy.isDryRun);
    const isDryRun = enforced.every(({ ttlMs }) => ttlMs === undefined);
    const open: Open = (booked, count) =>
      this.#openReservation(booked, count, { address, isReported: () => !admission.isRefused });
    // A reply after the deadline has not decided the request.
    const openLate: Open = (booked, count) =>
      this.#openReservation(booked, count, { address, isReported: () => false });
    const late = { waitUntil, settle: this.#lateReply(group, context, openLate) };
    const ttlMs = Math.max(...group.map((spend) => spend.ttlMs ?? 0));
    const call = { ...callOf(group), id: address.random, ttlMs, isDryRun };
    const reply = await callObject(caller, group, {
      name: "reserve",
      ...timeLeftOf(group, attempt, clock.now()),
      send: (stub) => stub.reserve(call),
      late,
    });
    if (reply === null) return local.decide(group, context);
    if (isStale(reply)) return this.#decideStale(group, reply, context);
    // A dry run denies no request, even when the key has no room for its reservation.
    if (reply.fullForMs > 0 && isDryRun) {
      return enforced.length === 0 ? [] : this.decide(enforced, context);
    }
    admission.fullForMs = Math.max(admission.fullForMs, reply.fullForMs);
    return this.#accept(group, reply, context, open);
  }

  /** Decides spends that an object has not decided, because it has newer policy rules. */
  #decideStale(group: readonly Spend[], { stale = [] }: CheckReply, context: DecisionContext): readonly Outcome[] {
    const { local } = this.#isolate;
    if (context.attempt?.takeStale(group, stale) === true) {
      return group.map((spend) => local.look(spend));
    }
    report({
      event: "object-silent",
      call: "check",
      policies: stale.map(({ policy }) => policy),
      error: "the object has newer policy rules than this isolate",
    });
    return local.decide(group, context);
  }

  async #accept(
    group: readonly Spend[],
    reply: DecisionReply,
    context: DecisionContext,
    open: Open,
  ): Promise<readonly Outcome[]> {
    const { localMeters, seenKeyRules } = this.#isolate;
    seenKeyRules.note(group, reply.keyRules);
    const booked = bookedSpends(group, reply);
    const outcomes = outcomesOf(group, reply);
    const spends = booked.map(({ spend }) => spend);
    const count = localMeters.count(chargedSpends(spends, outcomes));
    if (context.provisionalMs === 0) count.book();
    await this.#add(booked, open(booked, count), context);
    reportDryRuns(group, outcomes);
    return outcomes;
  }

  /** Handles a reply after the deadline. Its spends are given back or settled with the others of the request. */
  #lateReply(group: readonly Spend[], context: DecisionContext, open: Open): (reply: DecisionReply) => Promise<void> {
    return async (reply) => {
      const booked = bookedSpends(group, reply);
      await this.#add(booked, open(booked, uncounted), context);
    };
  }

  async #add(booked: readonly BookedSpend[], open: OpenSpend, { admission }: DecisionContext): Promise<void> {
    const [first] = booked;
    if (first === undefined) return;
    // The spend makes the waits of cached denials longer.
    this.#isolate.denyCache.forget(first.spend.partitionKey);
    await admission.add(open);
  }

  #openCheck(booked: readonly BookedSpend[], count: LocalCount, provisionalMs: number): OpenSpend {
    return localSpend({
      finalize: count.book,
      giveBack: () => {
        count.settle(() => 0);
        return this.refund(booked, provisionalMs);
      },
    });
  }

  #openReservation(
    booked: readonly BookedSpend[],
    count: LocalCount,
    { address, isReported }: OpenedReservation,
  ): OpenSpend {
    const spends = booked.map(({ spend }) => spend);
    const { caller } = this.#isolate;
    const { partitionKey: key, random: id } = address;
    // One repetition is safe, since an id settles once.
    const end = (costs: Pick<SettleCall, "cost" | "costs">): Promise<unknown> =>
      endReservation(caller, address, {
        ...costs,
        isRepeatable: true,
        isReported: isReported(),
      });
    return {
      address,
      finalize: count.book,
      giveBack: () => {
        count.settle(() => 0);
        return end({ cost: 0 });
      },
      settle: (costOf) => {
        count.settle(costOf);
        const costs = spends.map(costOf);
        return end({ cost: Math.max(...costs), costs });
      },
      renew: () => callObject(caller, spends, { name: "renew", send: (stub) => stub.renew({ key, id }) }),
    };
  }

  /** Refunds a batch that is answered after its deadline, where `onError = "closed"` has denied the check. */
  async #refundClosed(spends: readonly Spend[], replies: readonly CheckReply[]): Promise<void> {
    const booked = spends.flatMap((spend, index) => {
      const reply = replies[index];
      const isClosed = spend.policy.onError === "closed" && spend.cost > 0;
      return reply === undefined || !isClosed ? [] : bookedSpends([spend], reply);
    });
    const byKey = Map.groupBy(booked, ({ spend }) => spend.partitionKey);
    await Promise.all([...byKey.values()].map((each) => this.refund(each)));
  }

  /**
   * Gives back what an object has booked for one key. No-op when nothing was booked.
   * @param provisionalMs as in the call that booked it; 0 for a final spend
   */
  async refund(booked: readonly BookedSpend[], provisionalMs = 0): Promise<void> {
    const spends = booked.map(({ spend }) => spend);
    const call = callOf(spends, provisionalMs);
    // A refund is never stale, and needs no rules.
    const charges = booked.map(({ spend, spentAtMs }) => ({ ...chargeOf(spend), spentAtMs }));
    await callObject(this.#isolate.caller, spends, {
      name: "refund",
      send: async (stub) => {
        await stub.refund({ ...call, charges, hasLimitsInEffect: true });
      },
    });
    // A request that was denied meanwhile may fit now.
    if (spends.length > 0) this.#isolate.denyCache.forget(call.key);
  }
}
