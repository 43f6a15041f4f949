/**
 * Decides requests in the isolate. Only this folder calls the limiter's objects. Spends on one key form a group, which
 * one decider decides by its consistency: strict, leased or eventual. When the object gives no answer, the local
 * decider decides.
 */
import type { Policy } from "../../policy/policy.ts";
import { type Clock, platformClock, withDeadline } from "../clock.ts";
import type { ExplainReply } from "../explanation.ts";
import { objectId, objectLocation } from "../protocol.ts";
import { EventualDecider } from "./decide-eventual.ts";
import { LocalDecider } from "./decide-locally.ts";
import { type IsolateParts, StrictDecider } from "./decide-strict.ts";
import { type CachedDenial, DenyCache } from "./deny-cache.ts";
import { callObject, callOf, isEventual, isLeased, timeoutOf } from "./key-group.ts";
import { Leases } from "./leases.ts";
import type { RequestScope } from "./newer-rules-retry.ts";
import { type CallerOptions, type LimiterObserver, ObjectCaller } from "./object-caller.ts";
import {
  admits,
  ChargeResult,
  isDryRunOnly,
  isTree,
  type KeyCheck,
  objectKeyOf,
  type Outcome,
  type Spend,
  type ReservationAddress,
} from "./outcome.ts";
import { endReservation } from "./reservation.ts";

/** Time to give back a provisional spend, beyond the timeouts of the objects that may still deny. */
const giveBackMs = 1_000;

/** Longer than the timeout of most decisions: a person waits for an explanation, but no request does. */
const explainTimeoutMs = 2_000;

/** The checks of one request on their way to a result. */
interface PendingCharge {
  /** Decided one after the other, all or nothing. */
  readonly checks: readonly KeyCheck[];
  /** Groups that cannot deny the request. */
  readonly dryRuns: readonly (readonly Spend[])[];
  readonly scope: RequestScope;
  readonly result: ChargeResult;
  /** The index of the check that is decided next. */
  next: number;
}

export class LimiterClient {
  readonly #isolate: IsolateParts;
  readonly #strict: StrictDecider;
  readonly #eventual: EventualDecider;

  constructor(
    objects: ConstructorParameters<typeof ObjectCaller>[0],
    clock: Clock = platformClock,
    observer: LimiterObserver | null = null,
    options: CallerOptions = {},
  ) {
    const caller = new ObjectCaller(objects, clock, observer, options);
    const parts = { clock, caller, denyCache: new DenyCache(), local: new LocalDecider(clock) };
    this.#isolate = { ...parts, leases: new Leases(parts) };
    this.#strict = new StrictDecider(this.#isolate);
    this.#eventual = new EventualDecider(this.#isolate);
  }

  /**
   * Spends all or nothing. Each group's object is called only after the preceding groups have admitted the request.
   * After a denial, earlier spends are given back in the background. Dry runs on keys that no enforced policy charges
   * also run in the background. A cached denial of any group answers before any object is called. When an object has
   * newer policy rules, the request is refused after its earlier spends have been given back.
   * @returns no promise when the isolate decides all groups without their objects
   * @throws ConfigProblems when the objects can never decide; all methods throw it
   */
  admit(spends: readonly Spend[], scope: RequestScope): ChargeResult | Promise<ChargeResult> {
    const { caller } = this.#isolate;
    if (spends.length > 0) this.#requireUsable();
    const isTried = caller.isTried || spends.length === 0;
    const charge = this.#begin(groupsOf(spends), scope);
    const isDecided = this.#decideInIsolate(charge);
    if (isDecided && isTried) return charge.result;
    return this.#decideInObjects(isDecided ? [] : [charge], isTried).then(() => charge.result);
  }

  /**
   * Decides independent checks: one denial does not affect the others. The checks that the isolate cannot decide go to
   * their objects, in their order, with one call for each object. A cost of 0 is a look.
   * @param groups for each check, its spend; in a tree one spend for each level
   * @returns one result for each check, in their order
   */
  async admitEach(groups: readonly (readonly Spend[])[], scope: RequestScope): Promise<readonly ChargeResult[]> {
    const charges = groups.map((group) => {
      const isLook = group.every(({ cost }) => cost === 0);
      return this.#beginGroup(group, scope, isLook);
    });
    await this.#decideEach(charges);
    return charges.map(({ result }) => result);
  }

  async #decideEach(charges: readonly PendingCharge[]): Promise<void> {
    this.#requireUsable();
    const { isTried } = this.#isolate.caller;
    const open = charges.filter((charge) => !this.#decideInIsolate(charge));
    await this.#decideInObjects(open, isTried);
  }

  /** The outcome that `admit` would have, without spending. */
  async look(spend: Spend, scope: RequestScope): Promise<Outcome> {
    return lastOutcome((await this.lookAll([spend], scope)).outcomes);
  }

  /** Looks at a spend, or at the levels of a tree. */
  async lookAll(group: readonly Spend[], scope: RequestScope): Promise<ChargeResult> {
    const charge = this.#beginGroup(group, scope, true);
    await this.#decideInObjects([charge], true);
    return charge.result;
  }

  #requireUsable(): void {
    const { unusable } = this.#isolate.caller;
    if (unusable !== null) throw unusable;
  }

  #begin(groups: readonly (readonly Spend[])[], scope: RequestScope): PendingCharge {
    const enforced = groups.filter((group) => !isDryRunOnly(group));
    const cachedDenial = this.#recall(enforced);
    const result = new ChargeResult(cachedDenial);
    const checkOf = (group: readonly Spend[], index: number): KeyCheck => {
      return { group, result, scope, provisionalMs: provisionalMsOf(enforced, index), isLook: false };
    };
    const checks = cachedDenial === null ? enforced.map(checkOf) : [];
    return { checks, dryRuns: groups.filter(isDryRunOnly), scope, result, next: 0 };
  }

  /** Begins the check of a single group. The caller needs its outcomes even if the policies are dry runs. */
  #beginGroup(group: readonly Spend[], scope: RequestScope, isLook: boolean): PendingCharge {
    const result = new ChargeResult(isLook ? null : this.#recall([group]));
    return { checks: [{ group, result, scope, provisionalMs: 0, isLook }], dryRuns: [], scope, result, next: 0 };
  }

  /** Decides groups until one needs its object. @returns whether the result is final */
  #decideInIsolate(charge: PendingCharge): boolean {
    const { checks, result } = charge;
    if (result.cachedDenial !== null) {
      void this.#refuse(charge, []);
      return true;
    }
    for (let check = checks[charge.next]; check !== undefined; check = checks[charge.next]) {
      // While earlier objects were called, a denial of another request may have been cached.
      const denial = charge.next === 0 ? null : this.#recall([check.group]);
      const outcomes = denial?.outcomes ?? this.#outcomesInIsolate(check);
      if (outcomes === null) return false;
      if (this.#take(charge, outcomes)) return true;
    }
    if (checks.length > 1) result.finalize();
    this.#decideDryRuns(charge);
    result.decidedAtMs = this.#isolate.clock.now();
    return true;
  }

  /** Calls the objects of charges that the isolate cannot decide, until all results are final. */
  async #decideInObjects(charges: readonly PendingCharge[], isTried: boolean): Promise<void> {
    const { caller } = this.#isolate;
    let open = charges;
    while (open.length > 0) {
      // Groups of a charge are decided one after the other.
      // oxlint-disable-next-line no-await-in-loop
      const undecided = await Promise.all(byObject(open).map((each) => this.#decideInObject(each)));
      this.#requireUsable();
      open = undecided.flat().filter((charge) => !this.#decideInIsolate(charge));
    }
    if (!isTried) await caller.takeFirstCall();
    this.#requireUsable();
  }

  /** Decides the next group of each charge, with one call. @returns the charges whose results are not final */
  async #decideInObject(charges: readonly PendingCharge[]): Promise<readonly PendingCharge[]> {
    const outcomes = await this.#strict.decide(charges.flatMap(({ checks, next }) => checks[next] ?? []));
    const open: PendingCharge[] = [];
    for (const [index, charge] of charges.entries()) {
      const decided = outcomes[index] ?? [];
      if (charge.result.isStale) {
        // oxlint-disable-next-line no-await-in-loop
        await this.#refuseStale(charge, decided);
      } else if (!this.#take(charge, decided)) open.push(charge);
    }
    return open;
  }

  /** Takes the outcomes of a group. @returns whether they refuse the charge */
  #take(charge: PendingCharge, outcomes: readonly Outcome[]): boolean {
    const { result } = charge;
    if (!outcomes.every(admits) || result.fullForMs > 0) {
      void this.#refuse(charge, outcomes);
      return true;
    }
    result.addOutcomes(outcomes);
    charge.next++;
    return false;
  }

  /** The cached denial of the first group that has one; null when none has. */
  #recall(groups: readonly (readonly Spend[])[]): CachedDenial | null {
    const { clock, denyCache } = this.#isolate;
    const nowMs = clock.now();
    for (const group of groups) {
      const cachedDenial = denyCache.recall(group, nowMs);
      if (cachedDenial !== null) return cachedDenial;
    }
    return null;
  }

  /**
   * Refuses a charge, and gives its spends back in the background.
   * @returns a promise that resolves when they are given back
   */
  #refuse({ result, scope }: PendingCharge, outcomes: readonly Outcome[]): Promise<void> {
    result.addOutcomes(outcomes);
    result.decidedAtMs = this.#isolate.clock.now();
    result.isRefused = true;
    // Late spends are given back too, each under its own `waitUntil`.
    const givingBack = result.giveBack();
    if (result.hasSpends) scope.waitUntil(givingBack);
    return givingBack;
  }

  /**
   * Refuses a charge that a second attempt decides. Waits until its spends are given back, because they might deny the
   * second attempt, but at most until the first attempt's deadline.
   */
  async #refuseStale(charge: PendingCharge, outcomes: readonly Outcome[]): Promise<void> {
    const { result, scope } = charge;
    const { clock } = this.#isolate;
    const givingBack = this.#refuse(charge, outcomes);
    if (!result.hasSpends) return;
    const leftMs = scope.timeLeftMs(clock.now());
    await withDeadline(clock, givingBack, leftMs).catch(() => undefined);
  }

  /** Decides without a call; null when the object must decide. */
  #outcomesInIsolate(check: KeyCheck): readonly Outcome[] | null {
    if (check.isLook) return null;
    if (isEventual(check.group)) return this.#eventual.decide(check);
    return isLeased(check.group) ? this.#isolate.leases.decide(check) : null;
  }

  /** Decides the dry runs of an admitted request, in the background. */
  #decideDryRuns({ dryRuns, result, scope }: PendingCharge): void {
    if (dryRuns.length === 0) return;
    const inBackground = scope.inBackground();
    const decide = async (group: readonly Spend[]): Promise<readonly Outcome[]> => {
      const check = { group, result, scope: inBackground, provisionalMs: 0, isLook: false };
      return this.#outcomesInIsolate(check) ?? (await this.#strict.decide([check]))[0] ?? [];
    };
    result.dryRuns = Promise.all(dryRuns.map(decide));
    scope.waitUntil(result.dryRuns);
  }

  /**
   * Everything that the key's object knows about a spend, or about the levels of a tree. Nothing is spent.
   * @returns null when the object does not answer, or cannot explain
   */
  async explain(group: readonly Spend[]): Promise<ExplainReply | null> {
    const { caller } = this.#isolate;
    const call = callOf(group);
    const reply = await callObject(caller, group, {
      name: "explain",
      timeoutMs: explainTimeoutMs,
      // A failure to explain must not begin the object's cooldown, which affects decisions.
      send: (stub) => (isTree(group) ? stub.explainTree(call) : stub.explain(call)).catch(() => null),
    });
    this.#requireUsable();
    return reply;
  }

  /** Spends a cost that `settle` can correct within `ttlMs`. */
  async reserve(group: readonly Spend[], ttlMs: number, scope: RequestScope): Promise<ChargeResult> {
    const reserved = group.map((spend) => ({ ...spend, ttlMs }));
    const charge = this.#beginGroup(reserved, scope, false);
    await this.#decideEach([charge]);
    const { result } = charge;
    const { address, isRefused } = result;
    // Without an id nothing can be settled later: settle at the reserved cost, which frees the slots.
    if (address === null && !isRefused) {
      const settling = result.settle(({ cost }) => cost);
      if (result.hasSpends) scope.waitUntil(settling);
    }
    return result;
  }

  /**
   * Corrects a reservation to its actual cost and ends it.
   * @returns whether this call settled it; null when the object gave no answer
   */
  async settle(address: ReservationAddress, cost: number): Promise<boolean | null> {
    const { caller } = this.#isolate;
    const reply = await endReservation(caller, address, { cost });
    this.#requireUsable();
    return reply === null ? null : reply.settled;
  }

  /**
   * Deletes what a policy has counted for a key.
   * @returns whether the object has confirmed it
   */
  async forget(policy: Policy, partitionKey: string): Promise<boolean> {
    const { caller, local, denyCache, leases } = this.#isolate;
    const spend: Spend = { policy, partitionKey, cost: 0 };
    local.forget(spend);
    denyCache.forget(objectKeyOf(spend));
    this.#eventual.forget(spend);
    leases.forget(partitionKey);
    const isConfirmed = await callObject(caller, [spend], {
      name: "forget",
      send: async (stub) => {
        await stub.forget({ key: partitionKey, policy: policy.name });
        return true;
      },
    });
    this.#requireUsable();
    return isConfirmed === true;
  }
}

/**
 * Splits spends into groups: those on one key, or on keys of one tree. Two keys are the same when their values and their
 * objects' settings are equal.
 */
function groupsOf(spends: readonly Spend[]): readonly (readonly Spend[])[] {
  if (spends.length === 1) return [spends];
  const groups = Map.groupBy(spends, (spend) => {
    const { shards, locationHint, jurisdiction } = spend.policy.objects;
    return JSON.stringify([objectKeyOf(spend), shards, locationHint, jurisdiction]);
  });
  return [...groups.values()];
}

/**
 * For how long the spend of a group is provisional, in milliseconds: until this group and all later ones have
 * answered or timed out, and the spend has been given back. 0 when no later group can deny the request.
 */
function provisionalMsOf(groups: readonly (readonly Spend[])[], index: number): number {
  if (index === groups.length - 1) return 0;
  return groups.slice(index).reduce((sumMs, group) => sumMs + timeoutOf(group), giveBackMs);
}

/** The charges whose next groups have the same object. */
function byObject(charges: readonly PendingCharge[]): readonly (readonly PendingCharge[])[] {
  if (charges.length === 1) return [charges];
  const lists = Map.groupBy(charges, ({ checks, next }) => {
    const [first] = checks[next]?.group ?? [];
    return first === undefined ? "" : objectId(objectLocation(first.policy.objects, objectKeyOf(first)));
  });
  return [...lists.values()];
}

export function lastOutcome(outcomes: readonly Outcome[]): Outcome {
  const outcome = outcomes.at(-1);
  if (outcome === undefined) throw new TypeError("the object's reply has no decision");
  return outcome;
}
