/**
 * Decides spends in the object of their key, and gives back or settles what the object has booked. A spend is provisional
 * while a later object of the same request may still deny the request: until then it can be given back without a trace.
 */
import { type KeyCheck, localSpend, type OpenSpend } from "./charge-result.ts";
import { report } from "../../observability/events.ts";
import type { Clock } from "../clock.ts";
import {
  type LocalCount,
  type LocalDecider,
  type LocalMeters,
  type SeenKeyRules,
  uncounted,
} from "./decide-locally.ts";
import type { DenyCache } from "./deny-cache.ts";
import {
  type BookedSpend,
  bookedSpends,
  callObject,
  callOf,
  type DecisionReply,
  chargeOf,
  flatCheckOf,
  isLeased,
  outcomesOf,
  reportDryRuns,
  objectOf,
  timeLeftOf,
} from "./key-group.ts";
import type { Leases } from "./leases.ts";
import type { ObjectCaller } from "./object-caller.ts";
import { type Outcome, type Spend, chargedSpends } from "./outcome.ts";
import type { SettleCall, StaleRules } from "../protocol.ts";
import { type ReservationAddress, endReservation, newAddress } from "./reservation.ts";

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

  /**
   * Decides checks of one object in their order, with one call. Each spends all or nothing. The call of a leased check may
   * also borrow a slice.
   * @returns the outcomes of each check, in their order
   */
  async decide(checks: readonly KeyCheck[]): Promise<readonly (readonly Outcome[])[]> {
    const [first] = checks;
    const [spend] = first?.group ?? [];
    if (first === undefined || spend === undefined) return [];
    if (checks.length === 1) {
      if (first.group.some(({ ttlMs }) => ttlMs !== undefined)) return [await this.#reserve(first, spend)];
      if (isLeased(first.group) && !first.isLook) return [await this.#lease(first)];
    }
    const { clock, caller } = this.#isolate;
    const calledAtMs = clock.now();
    const { scope } = first;
    const spends = checks.length === 1 ? first.group : checks.flatMap(({ group }) => group);
    const replies = await caller.decide({
      name: checks.every(({ isLook }) => isLook) ? "look" : "check",
      ...objectOf(spend, spends),
      checks: checks.map(({ group, provisionalMs, isLook }) => flatCheckOf(group, provisionalMs, isLook)),
      ...timeLeftOf(spends, scope, calledAtMs),
      late: {
        waitUntil: scope.waitUntil,
        settle: (late) => Promise.all(checks.map((check, index) => this.#acceptLate(check, late[index]))),
      },
    });
    if (checks.length === 1) return [await this.#accept(first, replies?.[0], calledAtMs)];
    return Promise.all(checks.map((check, index) => this.#accept(check, replies?.[index], calledAtMs)));
  }

  async #lease(check: KeyCheck): Promise<readonly Outcome[]> {
    const { clock, leases } = this.#isolate;
    const calledAtMs = clock.now();
    const reply = await leases.check(check, (late) => this.#acceptLate(check, late));
    return this.#accept(check, reply, calledAtMs);
  }

  async #reserve(check: KeyCheck, { partitionKey, policy: { objects } }: Spend): Promise<readonly Outcome[]> {
    const { clock, caller } = this.#isolate;
    const { group, result, scope } = check;
    const address = newAddress(partitionKey, objects);
    const enforced = group.filter(({ policy }) => !policy.isDryRun);
    const isDryRun = enforced.every(({ ttlMs }) => ttlMs === undefined);
    const openWith =
      (isReported: () => boolean): Open =>
      (booked, count) =>
        this.#openReservation(booked, count, { address, isReported });
    const ttlMs = Math.max(...group.map((spend) => spend.ttlMs ?? 0));
    const call = { ...callOf(group), id: address.random, ttlMs, isDryRun };
    const calledAtMs = clock.now();
    const reply = await callObject(caller, group, {
      name: "reserve",
      ...timeLeftOf(group, scope, calledAtMs),
      send: (stub) => stub.reserve(call),
      late: {
        waitUntil: scope.waitUntil,
        // A reply after the deadline has not decided the request.
        settle: (late) =>
          this.#acceptLate(
            check,
            late,
            openWith(() => false),
          ),
      },
    });
    const fullForMs = reply?.fullForMs ?? 0;
    // A dry run denies no request, even when the key has no room for its reservation.
    if (fullForMs > 0 && isDryRun) {
      return enforced.length === 0 ? [] : ((await this.decide([{ ...check, group: enforced }]))[0] ?? []);
    }
    result.fullForMs = Math.max(result.fullForMs, fullForMs);
    return this.#accept(
      check,
      reply,
      calledAtMs,
      openWith(() => !result.isRefused),
    );
  }

  /** Decides spends that an object has not decided, because it has newer policy rules. */
  #decideStale(check: KeyCheck, stale: readonly StaleRules[]): readonly Outcome[] {
    const { local } = this.#isolate;
    if (check.scope.takeStale(stale)) {
      check.result.isStale = true;
      return check.group.map((spend) => local.look(spend));
    }
    if (!check.isLook) {
      report({
        event: "object-silent",
        call: "check",
        policies: stale.map(({ policy }) => policy),
        error: "the object has newer policy rules than this isolate",
      });
    }
    return local.decide(check);
  }

  /** The outcomes of a check by its object's reply; without a reply, by the isolate itself. */
  async #accept(
    check: KeyCheck,
    reply: DecisionReply | null | undefined,
    calledAtMs: number,
    open: Open = this.#openCheck(check),
  ): Promise<readonly Outcome[]> {
    const { clock, denyCache, local, localMeters, seenKeyRules } = this.#isolate;
    const { group, provisionalMs } = check;
    if (reply === null || reply === undefined) return local.decide(check);
    if (reply.stale !== undefined && reply.stale.length > 0) return this.#decideStale(check, reply.stale);
    seenKeyRules.note(group, reply.keyRules);
    const outcomes = outcomesOf(group, reply);
    if (check.isLook) return outcomes;
    denyCache.remember(group, reply, { calledAtMs, answeredAtMs: clock.now() });
    const booked = bookedSpends(group, reply);
    const spends = booked.map(({ spend }) => spend);
    const count = localMeters.count(chargedSpends(spends, outcomes));
    if (provisionalMs === 0) count.book();
    const ending = this.#add(check, booked, open(booked, count));
    if (ending !== null) await ending;
    reportDryRuns(group, outcomes);
    return outcomes;
  }

  /** Takes a reply after the deadline. Its spends are given back or settled with the others of the request. */
  async #acceptLate(
    check: KeyCheck,
    reply: DecisionReply | undefined,
    open: Open = this.#openCheck(check),
  ): Promise<void> {
    if (reply === undefined || check.isLook) return;
    const booked = bookedSpends(check.group, reply);
    await this.#add(check, booked, open(booked, uncounted));
  }

  /** @returns null if the spend stays open, or if there is none */
  #add({ result }: KeyCheck, booked: readonly BookedSpend[], open: OpenSpend): Promise<unknown> | null {
    const [first] = booked;
    if (first === undefined) return null;
    // The spend makes the waits of cached denials longer.
    this.#isolate.denyCache.forget(first.spend.partitionKey);
    return result.add(open);
  }

  #openCheck({ provisionalMs }: KeyCheck): Open {
    return (booked, count) =>
      localSpend({
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
