/**
 * Decides spends in the object of their key, and gives back or settles what the object has booked. A spend is provisional
 * while a later object of the same request may still deny the request: until then it can be given back without a trace.
 */
import { report } from "../../observability/events.ts";
import type { Clock } from "../clock.ts";
import type { CheckReply, ReserveReply, SettleCall, StaleRules } from "../protocol.ts";
import type { LocalDecider } from "./decide-locally.ts";
import type { DenyCache } from "./deny-cache.ts";
import {
  type BookedSpend,
  bookedSpends,
  callObject,
  callOf,
  isLeased,
  keyOfCall,
  objectOf,
  refund,
  reportDryRuns,
  timeoutOf,
} from "./key-group.ts";
import type { Leases } from "./leases.ts";
import type { ObjectCaller } from "./object-caller.ts";
import {
  isTree,
  type KeyCheck,
  objectKeyOf,
  type OpenSpend,
  type Outcome,
  outcomesOf,
  type Spend,
  type ReservationAddress,
} from "./outcome.ts";
import { endReservation, newAddress } from "./reservation.ts";

/** The parts of an isolate that take part in decisions. */
export interface IsolateParts {
  readonly clock: Clock;
  readonly caller: ObjectCaller;
  readonly denyCache: DenyCache;
  readonly leases: Leases;
  readonly local: LocalDecider;
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
    const replies = await caller.decide(checks, scope.waitUntil, {
      name: checks.every(({ isLook }) => isLook) ? "look" : "check",
      ...objectOf(spend, spends),
      ...scope.callTime(timeoutOf(spends), calledAtMs),
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

  async #reserve(check: KeyCheck, spend: Spend): Promise<readonly Outcome[]> {
    const { clock, caller } = this.#isolate;
    const { group, result, scope } = check;
    const address = newAddress(objectKeyOf(spend), spend.policy.objects);
    const enforced = group.filter(({ policy }) => !policy.isDryRun);
    const isDryRun = enforced.every(({ ttlMs }) => ttlMs === undefined);
    const ttlMs = Math.max(...group.map((each) => each.ttlMs ?? 0));
    const call = { ...callOf(group), id: address.random, ttlMs, isDryRun };
    const calledAtMs = clock.now();
    const reply = await callObject(caller, group, {
      name: "reserve",
      ...scope.callTime(timeoutOf(group), calledAtMs),
      send: (stub) => (isTree(group) ? stub.reserveTree(call) : stub.reserve(call)),
      late: { waitUntil: scope.waitUntil, settle: (late) => this.#acceptLate(check, late, address) },
    });
    const fullForMs = reply?.fullForMs ?? 0;
    // A dry run denies no request, even when the key has no room for its reservation.
    if (fullForMs > 0 && isDryRun) {
      return enforced.length === 0 ? [] : ((await this.decide([{ ...check, group: enforced }]))[0] ?? []);
    }
    result.fullForMs = Math.max(result.fullForMs, fullForMs);
    return this.#accept(check, reply, calledAtMs, address);
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

  /**
   * The outcomes of a check by its object's reply; without a reply, by the isolate itself.
   * @param address of the reservation that the check opens
   */
  async #accept(
    check: KeyCheck,
    reply: (CheckReply & Partial<ReserveReply>) | null | undefined,
    calledAtMs: number,
    address?: ReservationAddress,
  ): Promise<readonly Outcome[]> {
    const { clock, denyCache, local } = this.#isolate;
    const { group } = check;
    if (reply === null || reply === undefined) return local.decide(check);
    if (reply.stale !== undefined && reply.stale.length > 0) return this.#decideStale(check, reply.stale);
    local.noteRules(group, reply.keyRules);
    const outcomes = outcomesOf(group, reply);
    if (check.isLook) return outcomes;
    denyCache.remember(group, reply, { calledAtMs, answeredAtMs: clock.now() });
    const booked = bookedSpends(group, reply);
    local.count(check, booked);
    const ending = this.#add(check, booked, address, false);
    if (ending !== null) await ending;
    reportDryRuns(group, outcomes);
    return outcomes;
  }

  /**
   * Takes a reply that arrives after the deadline. Its spends are given back or settled with the other spends of the
   * request.
   */
  async #acceptLate(
    check: KeyCheck,
    reply: (CheckReply & Partial<ReserveReply>) | undefined,
    address?: ReservationAddress,
  ): Promise<void> {
    if (reply === undefined || check.isLook) return;
    await this.#add(check, bookedSpends(check.group, reply), address, true);
  }

  /**
   * Adds what an object has booked to the result of the request.
   * @param isLate whether the isolate has decided the request meanwhile
   * @returns null if the spend stays open, or if there is none
   */
  #add(
    check: KeyCheck,
    booked: readonly BookedSpend[],
    address: ReservationAddress | undefined,
    isLate: boolean,
  ): Promise<unknown> | null {
    const [first] = booked;
    if (first === undefined) return null;
    const { group, result, provisionalMs } = check;
    // The spend makes the waits of cached denials longer.
    this.#isolate.denyCache.forget(objectKeyOf(first));
    if (address !== undefined) return result.add(this.#openReservation(check, booked, address, isLate));
    return result.add({ giveBack: () => refund(this.#isolate, booked, provisionalMs, group) });
  }

  #openReservation(
    { result }: KeyCheck,
    booked: readonly BookedSpend[],
    address: ReservationAddress,
    isLate: boolean,
  ): OpenSpend {
    const { caller } = this.#isolate;
    const { partitionKey: key, random: id } = address;
    const end = (costs: Pick<SettleCall, "cost" | "costs">): Promise<unknown> => {
      // The observer receives no settlements of requests that were refused or decided without the object.
      const isReported = !isLate && !result.isRefused;
      // One repetition is safe, since an id settles once.
      return endReservation(caller, address, { ...costs, isRepeatable: true, isReported });
    };
    return {
      address,
      giveBack: () => end({ cost: 0 }),
      settle: (costOf) => {
        const costs = inOrderOfKeys(booked).map(costOf);
        return end({ cost: Math.max(...costs), costs });
      },
      renew: () => callObject(caller, booked, { name: "renew", send: (stub) => stub.renew({ key, id }) }),
    };
  }
}

/** In the order of `SettleCall.costs`: by key, the root's first. */
function inOrderOfKeys(booked: readonly BookedSpend[]): readonly BookedSpend[] {
  if (!isTree(booked)) return booked;
  const byKey = Map.groupBy(booked, ({ partitionKey }) => partitionKey);
  const root = keyOfCall(booked);
  return [...(byKey.get(root) ?? []), ...[...byKey].flatMap(([key, spends]) => (key === root ? [] : spends))];
}
