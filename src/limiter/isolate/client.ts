/**
 * Decides requests in the isolate. Only this folder calls the limiter's objects. Spends on one key form a group, which one
 * decider decides by its consistency: strict, leased or eventual. Without an answer of the object, the local decider does.
 */
import type { Policy } from "../../policy/policy.ts";
import { Admission, type DecisionContext, type CachedDenial } from "./admission.ts";
import type { Attempt } from "./attempt.ts";
import { type Clock, platformClock } from "../clock.ts";
import { EventualDecider } from "./decide-eventual.ts";
import { LeasedDecider } from "./decide-leased.ts";
import { LocalDecider } from "./decide-locally.ts";
import { type IsolateParts, StrictDecider } from "./decide-strict.ts";
import { DenyCache } from "./deny-cache.ts";
import {
  callObject,
  callOf,
  groupsOf,
  isDryRunOnly,
  isEventual,
  isLeased,
  isStale,
  outcomesOf,
  timeLeftOf,
  timeoutOf,
} from "./key-group.ts";
import { Leases } from "./leases.ts";
import { LocalMeters } from "./local-meters.ts";
import { type CallerOptions, type LimiterObserver, ObjectCaller, type WaitUntil } from "./object-caller.ts";
import { withDeadline } from "../object-calls.ts";
import { objectId, objectLocation } from "../object-location.ts";
import { admits, type Outcome, type Spend } from "./outcome.ts";
import type { ExplainReply } from "../protocol.ts";
import type { ReservationAddress } from "./reservation-id.ts";
import { SeenKeyRules } from "./seen-key-rules.ts";
import { endReservation } from "./end-reservation.ts";

/** Time to give back a provisional spend, beyond the timeouts of the objects that may still deny. */
const giveBackMs = 1_000;

/** Longer than the timeout of most decisions: a person waits for an explanation, and not a request. */
const explainTimeoutMs = 2_000;

export interface ReserveResult {
  readonly outcome: Outcome;
  /** The address of the reservation; null when nothing was spent or no object spent it. */
  readonly address: ReservationAddress | null;
  /** More than 0 when the key has the maximum of open reservations: the wait until the next one expires. */
  readonly fullForMs: number;
}

/** The arguments of `admit`, with the spends in groups. */
interface AdmitRequest {
  readonly enforced: readonly (readonly Spend[])[];
  readonly dryRuns: readonly (readonly Spend[])[];
  readonly admission: Admission;
  readonly waitUntil: WaitUntil;
  readonly attempt: Attempt | null;
}

export class LimiterClient {
  readonly #isolate: IsolateParts;
  readonly #strict: StrictDecider;
  readonly #leased: LeasedDecider;
  readonly #eventual: EventualDecider;

  constructor(
    objects: ConstructorParameters<typeof ObjectCaller>[0],
    clock: Clock = platformClock,
    observer: LimiterObserver | null = null,
    options: CallerOptions = {},
  ) {
    const caller = new ObjectCaller(objects, clock, observer, options);
    const localMeters = new LocalMeters(clock);
    const seenKeyRules = new SeenKeyRules();
    this.#isolate = {
      clock,
      caller,
      denyCache: new DenyCache(),
      leases: new Leases(caller, clock),
      localMeters,
      seenKeyRules,
      local: new LocalDecider(localMeters, clock, seenKeyRules),
    };
    this.#strict = new StrictDecider(this.#isolate);
    this.#leased = new LeasedDecider(this.#isolate, this.#strict);
    this.#eventual = new EventualDecider(this.#isolate, this.#strict);
  }

  /**
   * Spends all or nothing. Each group's object is called only after the groups before have admitted the request.
   * After a denial, earlier spends are given back in the background. Dry runs on keys that no enforced policy charges
   * also run in the background. A cached denial of any group answers before any object is called. A stale `attempt` is
   * refused, after earlier spends have been given back.
   * @returns no promise when the isolate decides all groups without their objects
   * @throws ConfigProblems when the objects can never decide, as all methods do
   */
  admit(
    spends: readonly Spend[],
    waitUntil: WaitUntil,
    attempt: Attempt | null = null,
  ): Admission | Promise<Admission> {
    const { caller } = this.#isolate;
    if (spends.length > 0) caller.unusable.check();
    const groups = groupsOf(spends);
    const enforced = groups.filter((group) => !isDryRunOnly(group));
    const cachedDenial = this.#recall(enforced);
    if (cachedDenial !== null) return this.#refuseByCache(cachedDenial);
    const dryRuns = groups.filter(isDryRunOnly);
    const admission = new Admission();
    const isTried = caller.isTried || spends.length === 0;
    const admitting = this.#admitFrom(0, { enforced, dryRuns, admission, waitUntil, attempt });
    return isTried ? admitting : this.#afterFirstCall(admitting);
  }

  /** Waits for the first call of the isolate, which finds out whether its objects can decide. */
  async #afterFirstCall<Result>(result: Result | Promise<Result>): Promise<Result> {
    const { caller } = this.#isolate;
    const decided = await result;
    await caller.takeFirstCall();
    caller.unusable.check();
    return decided;
  }

  /** Decides the enforced groups from `index` on. */
  #admitFrom(index: number, request: AdmitRequest): Admission | Promise<Admission> {
    const { enforced, admission, waitUntil, attempt } = request;
    const group = enforced[index];
    if (group === undefined) return this.#complete(request);
    // While earlier objects were called, a denial of another request may have been cached.
    const denied = index === 0 ? null : this.#recall([group]);
    if (denied !== null) return this.#refuse(denied.outcomes, request);
    const provisionalMs = provisionalMsOf(enforced.slice(index));
    const outcomes = this.#decide(group, { admission, waitUntil, provisionalMs, attempt });
    return outcomes instanceof Promise
      ? outcomes.then((decided) => this.#admitAfter(index, decided, request))
      : this.#admitAfter(index, outcomes, request);
  }

  /** Continues after the decision on the group at `index`. */
  #admitAfter(index: number, outcomes: readonly Outcome[], request: AdmitRequest): Admission | Promise<Admission> {
    const { admission, attempt } = request;
    this.#isolate.caller.unusable.check();
    if (attempt?.isStale() === true) return this.#refuseStale(outcomes, attempt, request);
    if (!outcomes.every(admits) || admission.fullForMs > 0) return this.#refuse(outcomes, request);
    admission.addOutcomes(outcomes);
    return this.#admitFrom(index + 1, request);
  }

  /** Admits a request that no enforced group denies, and decides its dry runs in the background. */
  #complete({ enforced, dryRuns, admission, waitUntil, attempt }: AdmitRequest): Admission {
    if (enforced.length > 1) admission.finalize();
    admission.decidedAtMs = this.#isolate.clock.now();
    if (dryRuns.length > 0) {
      const inBackground = attempt?.inBackground() ?? null;
      const context = { admission, waitUntil, provisionalMs: 0, attempt: inBackground };
      admission.dryRuns = Promise.all(dryRuns.map(async (group) => this.#decide(group, context)));
      waitUntil(admission.dryRuns);
    }
    return admission;
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

  #refuse(
    outcomes: readonly Outcome[],
    { admission, waitUntil }: Pick<AdmitRequest, "admission" | "waitUntil">,
  ): Admission {
    admission.addOutcomes(outcomes);
    admission.decidedAtMs = this.#isolate.clock.now();
    admission.isRefused = true;
    // Late spends are given back too, each under its own `waitUntil`.
    const givingBack = admission.giveBack();
    if (admission.hasSpends) waitUntil(givingBack);
    return admission;
  }

  /** Refuses a request before anything is spent or called. */
  #refuseByCache(cachedDenial: CachedDenial): Admission {
    const admission = new Admission(cachedDenial);
    admission.decidedAtMs = this.#isolate.clock.now();
    admission.isRefused = true;
    return admission;
  }

  /** Gives spends back before a second attempt, which they might deny. Waits at most until the attempt's deadline. */
  async #refuseStale(outcomes: readonly Outcome[], attempt: Attempt, request: AdmitRequest): Promise<Admission> {
    const { admission, waitUntil } = request;
    const { clock } = this.#isolate;
    admission.isRefused = true;
    const givingBack = admission.giveBack();
    if (admission.hasSpends) {
      waitUntil(givingBack);
      const leftMs = attempt.timeLeftMs(clock.now());
      await withDeadline(clock, givingBack, leftMs).catch(() => undefined);
    }
    return this.#refuse(outcomes, request);
  }

  #decide(group: readonly Spend[], context: DecisionContext): readonly Outcome[] | Promise<readonly Outcome[]> {
    return this.#decideInIsolate(group, context) ?? this.#strict.decide(group, context);
  }

  /** Decides without a call; null when the object must decide. */
  #decideInIsolate(group: readonly Spend[], context: DecisionContext): readonly Outcome[] | null {
    if (isEventual(group)) return this.#eventual.decide(group, context);
    return isLeased(group) ? this.#leased.decide(group, context) : null;
  }

  /**
   * Decides independent checks: one denial does not affect the others. The checks that the isolate cannot decide go to
   * their objects, in their order, with one call for each object. A cost of 0 is a look.
   * @returns one outcome for each check, in their order
   */
  async admitEach(spends: readonly Spend[], waitUntil: WaitUntil, attempt: Attempt | null = null): Promise<Outcome[]> {
    const { caller } = this.#isolate;
    caller.unusable.check();
    const { isTried } = caller;
    const checks = spends.map((spend) => {
      const context = { admission: new Admission(), waitUntil, provisionalMs: 0, attempt };
      const outcomes =
        spend.cost === 0 ? null : (this.#recall([[spend]])?.outcomes ?? this.#decideInIsolate([spend], context));
      return { spend, outcome: outcomes?.[0] ?? null };
    });
    const byObject = Map.groupBy(
      checks.filter(({ outcome }) => outcome === null),
      ({ spend: { policy, partitionKey } }) => objectId(objectLocation(policy.objects, partitionKey)),
    );
    const calls = [...byObject.values()].map(async (open) => {
      const openSpends = open.map(({ spend }) => spend);
      const outcomes = await this.#strict.decideEach(openSpends, waitUntil, attempt);
      for (const [index, check] of open.entries()) check.outcome = outcomes[index] ?? null;
    });
    await Promise.all(calls);
    if (!isTried) await caller.takeFirstCall();
    caller.unusable.check();
    return checks.flatMap(({ outcome }) => outcome ?? []);
  }

  /** The outcome that `admit` would have, without spending. */
  async look(spend: Spend, attempt: Attempt | null = null): Promise<Outcome> {
    const { clock, caller, local, seenKeyRules } = this.#isolate;
    const group = [spend];
    const reply = await callObject(caller, group, {
      name: "look",
      ...timeLeftOf(group, attempt, clock.now()),
      send: (stub) => stub.look(callOf(group)),
    });
    caller.unusable.check();
    if (reply === null) return local.look(spend);
    if (isStale(reply)) attempt?.takeStale(group, reply.stale ?? []);
    else seenKeyRules.note(group, reply.keyRules);
    const [outcome] = outcomesOf(group, reply);
    return outcome ?? local.look(spend);
  }

  /**
   * Everything that the key's object knows about a spend. Nothing is spent.
   * @returns null when the object does not answer, or is of a version that cannot explain
   */
  async explain(spend: Spend): Promise<ExplainReply | null> {
    const group = [spend];
    const { caller } = this.#isolate;
    const reply = await callObject(caller, group, {
      name: "explain",
      timeoutMs: explainTimeoutMs,
      // An object of the previous version rejects the call: that must not begin its cooldown, which affects decisions.
      send: (stub) => stub.explain(callOf(group)).catch(() => null),
    });
    caller.unusable.check();
    return reply;
  }

  /** Spends a cost that `settle` can correct within `ttlMs`. */
  async reserve(
    spend: Spend,
    ttlMs: number,
    waitUntil: WaitUntil,
    attempt: Attempt | null = null,
  ): Promise<ReserveResult> {
    const admission = await this.admit([{ ...spend, ttlMs }], waitUntil, attempt);
    const { address, fullForMs, isRefused } = admission;
    const [outcome] = admission.outcomes;
    if (outcome === undefined) throw new TypeError("the object's reply has no decision");
    // Without an id nothing can be settled later: settle at the reserved cost, which frees the slots.
    if (address === null && !isRefused) {
      const settling = admission.settle(({ cost }) => cost);
      if (admission.hasSpends) waitUntil(settling);
    }
    return { outcome, address, fullForMs };
  }

  /**
   * Corrects a reservation to its actual cost and ends it.
   * @returns whether this call settled it; null when the object gave no answer
   */
  async settle(address: ReservationAddress, cost: number): Promise<boolean | null> {
    const { caller } = this.#isolate;
    const reply = await endReservation(caller, address, { cost });
    caller.unusable.check();
    return reply === null ? null : reply.settled;
  }

  /**
   * Deletes what a policy has counted for a key.
   * @returns whether the object has confirmed it
   */
  async forget(policy: Policy, partitionKey: string): Promise<boolean> {
    const { caller, localMeters, denyCache, leases } = this.#isolate;
    const spend: Spend = { policy, partitionKey, cost: 0 };
    localMeters.forget(spend);
    denyCache.forget(partitionKey);
    this.#eventual.forget(spend);
    leases.forget(partitionKey);
    const isConfirmed = await callObject(caller, [spend], {
      name: "forget",
      send: async (stub) => {
        await stub.forget({ key: partitionKey, policy: policy.name });
        return true;
      },
    });
    caller.unusable.check();
    return isConfirmed === true;
  }
}

/**
 * For how long the spend of the first group is provisional, in milliseconds: until this group and all later ones have
 * answered or timed out, and the spend has been given back. 0 when no later group can deny the request.
 */
function provisionalMsOf(groups: readonly (readonly Spend[])[]): number {
  if (groups.length === 1) return 0;
  return groups.reduce((sumMs, group) => sumMs + timeoutOf(group), giveBackMs);
}
