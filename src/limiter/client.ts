/**
 * The Worker's side of a decision: the only caller of the object. It bounds how long a decision may take, says what
 * holds when none comes, and asks the objects of different keys one after the other.
 */
import type { Policy } from "../config/index.ts";
import { type Clock, platformClock } from "./clock.ts";
import { Denials } from "./denials.ts";
import {
  type Answered,
  callOf,
  groupsOf,
  isEventual,
  isLeased,
  isShadow,
  newAddressOf,
  outcomesOf,
  type Spent,
  spentOf,
  timeoutOf,
} from "./group.ts";
import { Leases } from "./leases.ts";
import { type Counted, LocalMeters, nothingCounted } from "./local-meters.ts";
import { report } from "../observability/events.ts";
import { Admission, type CostOf, type Held } from "./admission.ts";
import { Replicas } from "./replicas.ts";
import { admits, allows, type Outcome, type Spend, violatedLimits } from "./outcome.ts";
import { type Call, type Later, ObjectCalls } from "./object-calls.ts";
import { idOf, placeOf } from "./place.ts";
import type { SettleCall, Settled, Verdict } from "./protocol.ts";
import type { ReservationAddress } from "./reservation-id.ts";

/** No policy is at hand when a reservation is settled. */
const settleTimeoutMs = 1_000;

/** A spend that may be corrected. */
export interface Reserving {
  readonly outcome: Outcome;
  /** Where it is open; null when nothing was spent, or not by the object. */
  readonly address: ReservationAddress | null;
  /** More than 0 when it was refused because the key has as many open as it may. */
  readonly fullForMs: number;
}

export class LimiterClient {
  readonly #clock: Clock;
  readonly #calls: ObjectCalls;
  readonly #local: LocalMeters;
  readonly #denials = new Denials();
  readonly #leases: Leases;
  readonly #replicas: Replicas;

  constructor(objects: ConstructorParameters<typeof ObjectCalls>[0], clock = platformClock) {
    this.#clock = clock;
    this.#calls = new ObjectCalls(objects, clock);
    this.#local = new LocalMeters(clock);
    this.#leases = new Leases(this.#calls, clock);
    this.#replicas = new Replicas(this.#calls, clock);
  }

  /**
   * Spends all or nothing. Spends on one key are decided together; the object of the next key is asked only when the
   * one before admits, and what was spent before a denial is given back, for which no answer waits; nor does any for
   * dry runs on keys of their own.
   * @param later keeps the Worker running for work that goes on after the answer
   */
  async admit(spends: readonly Spend[], later: Later): Promise<Admission> {
    const admission = new Admission();
    const groups = [...groupsOf(spends)];
    for (const group of groups) {
      if (isShadow(group)) continue;
      // Each object is asked only once the one before has admitted.
      // oxlint-disable-next-line no-await-in-loop
      const outcomes = await this.#spend(group, admission, later);
      admission.outcomes.push(...outcomes);
      admission.decidedAtMs = this.#clock.now();
      if (!outcomes.every(admits) || admission.fullForMs > 0) {
        admission.isRefused = true;
        later(admission.giveBack());
        return admission;
      }
    }
    const shadows = groups.filter(isShadow);
    if (shadows.length > 0) {
      later(Promise.all(shadows.map((group) => this.#spend(group, admission, later))));
    }
    return admission;
  }

  /**
   * Spends that have nothing to do with one another: each is allowed or denied by itself, those of one object in one
   * call and in their order. A cost of 0 looks.
   * @returns an outcome for each, in their order
   */
  async admitEach(spends: readonly Spend[], later: Later): Promise<Outcome[]> {
    const outcomes = new Map<Spend, Outcome>();
    const here = spends.filter((spend) => spend.cost > 0 && isEventual([spend]));
    for (const spend of here) {
      for (const outcome of this.#replicas.decide([spend], later)) outcomes.set(spend, outcome);
    }
    const others = spends.filter((spend) => !outcomes.has(spend));
    const byObject = Map.groupBy(others, ({ policy: { objects }, partitionKey }) =>
      idOf(placeOf(objects, partitionKey)),
    );
    const asked = [...byObject.values()].map(async (all) => {
      const askedAtMs = this.#clock.now();
      const group = all.filter((spend) => {
        const remembered = spend.cost === 0 ? null : this.#denials.recall([spend], askedAtMs);
        for (const outcome of remembered === null ? [] : outcomesOf([spend], remembered)) {
          outcomes.set(spend, outcome);
        }
        return remembered === null;
      });
      const calls = group.map((spend) => callOf([spend]));
      const verdicts = await this.#ask("check", group, (stub) => stub.batch({ calls }));
      for (const [index, spend] of group.entries()) {
        const verdict = verdicts?.[index];
        const [outcome] =
          verdict === undefined
            ? this.#fallBack([spend], new Admission())
            : outcomesOf([spend], verdict);
        if (outcome === undefined) continue;
        outcomes.set(spend, outcome);
        if (verdict !== undefined) {
          this.#denials.remember([spend], verdict, askedAtMs, this.#clock.now());
        }
        if (verdict !== undefined && outcome.kind === "decided" && outcome.decision.allowed) {
          this.#local.book([spend], this.#clock.now());
          this.#denials.forget(spend.partitionKey);
        }
      }
    });
    await Promise.all(asked);
    return spends.flatMap((spend) => outcomes.get(spend) ?? []);
  }

  /** What `admit` would answer to one spend, without spending. */
  async look(spend: Spend): Promise<Outcome> {
    const verdict = await this.#ask("look", [spend], (stub) => stub.look(callOf([spend])));
    const [outcome] = verdict === null ? [] : outcomesOf([spend], verdict);
    return outcome ?? this.#local.fallBackLook(spend);
  }

  /** Spends what `settle` corrects within `ttlMs`. */
  async reserve(spend: Spend, ttlMs: number, later: Later): Promise<Reserving> {
    const admission = await this.admit([{ ...spend, ttlMs }], later);
    const { address, fullForMs, isRefused } = admission;
    const [outcome] = admission.outcomes;
    if (outcome === undefined) throw new TypeError("an object answered a charge with no decision");
    // Nobody knows its id: what was let in stands as spent, its slots are free again.
    if (address === null && !isRefused) later(admission.settle(({ cost }) => cost));
    return { outcome, address, fullForMs };
  }

  /**
   * Corrects a reservation to its actual cost and ends it.
   * @returns whether this call did so; null when the object gave no answer
   */
  async settle(address: ReservationAddress, cost: number): Promise<boolean | null> {
    const answer = await this.#calls.make(settling(address, { cost }));
    return answer === null ? null : answer.settled;
  }

  /** Settles what nobody asks about: done at the first try or the second, it is done once. */
  #end(address: ReservationAddress, costs: SettledCosts): Promise<unknown> {
    return this.#calls.make({ ...settling(address, costs), isRepeatable: true });
  }

  /**
   * Forgets what a policy has counted for a key.
   * @returns whether the object has confirmed it
   */
  async forget(policy: Policy, partitionKey: string): Promise<boolean> {
    const spend: Spend = { policy, partitionKey, cost: 0 };
    this.#local.forget(spend);
    this.#denials.forget(partitionKey);
    this.#replicas.forget(spend);
    this.#leases.forget(partitionKey);
    const confirmed = await this.#ask("forget", [spend], async (stub) => {
      await stub.forget({ key: partitionKey, policy: policy.name });
      return true;
    });
    return confirmed === true;
  }

  /** Spends on one key; what was spent is added to the admission. */
  async #spend(
    group: readonly Spend[],
    admission: Admission,
    later: Later,
  ): Promise<readonly Outcome[]> {
    if (group.length === 0) return [];
    if (isEventual(group)) return this.#decideHere(group, admission, later);
    const borrowed = isLeased(group) ? this.#spendBorrowed(group, admission, later) : null;
    if (borrowed !== null) return borrowed;
    const ttls = group.flatMap(({ ttlMs }) => ttlMs ?? []);
    const enforced = group.filter(({ policy }) => !policy.isDryRun);
    const address = ttls.length === 0 ? null : newAddressOf(group);
    // What it spends after all is given back or settled with the rest.
    const late = {
      later,
      settle: (verdict: Answered): unknown =>
        this.#hold(spentOf(group, verdict), address, nothingCounted, admission),
    };
    const verdict: Answered | null =
      address === null
        ? await this.#check(group, later, late)
        : await this.#ask(
            "reserve",
            group,
            (stub) => {
              const ttlMs = Math.max(...ttls);
              const isDryRun = enforced.every((spend) => spend.ttlMs === undefined);
              return stub.reserve({ ...callOf(group), id: address.random, ttlMs, isDryRun });
            },
            late,
          );
    const fullForMs = verdict?.fullForMs ?? 0;
    // A dry run refuses nobody, for want of a place either.
    if (fullForMs > 0 && enforced.every(({ ttlMs }) => ttlMs === undefined)) {
      return this.#spend(enforced, admission, later);
    }
    const outcomes =
      verdict === null ? this.#fallBack(group, admission) : outcomesOf(group, verdict);
    if (verdict !== null) {
      const spent = spentOf(group, verdict);
      const counted = this.#local.book(
        spent.map(({ spend }) => spend),
        this.#clock.now(),
      );
      admission.fullForMs = Math.max(admission.fullForMs, fullForMs);
      await this.#hold(spent, address, counted, admission);
    }
    // Where another denies, that is all there is to tell.
    if (outcomes.every(admits)) for (const outcome of outcomes) reportDryRun(outcome);
    return outcomes;
  }

  /** By what the isolate knows. */
  #decideHere(group: readonly Spend[], admission: Admission, later: Later): readonly Outcome[] {
    const spentAtMs = this.#clock.now();
    const outcomes = this.#replicas.decide(group, later);
    if (!outcomes.every(admits)) return outcomes;
    for (const outcome of outcomes) reportDryRun(outcome);
    const spent = group.filter((_, index) => {
      const outcome = outcomes[index];
      return outcome !== undefined && allows(outcome);
    });
    const giveBack = async (): Promise<void> => {
      await this.#refund(this.#replicas.giveBack(spent, spentAtMs));
    };
    void admission.add(spentHere(giveBack));
    return outcomes;
  }

  /** From what the isolate has borrowed; null where that does not suffice. */
  #spendBorrowed(
    group: readonly Spend[],
    admission: Admission,
    later: Later,
  ): readonly Outcome[] | null {
    const borrowed = this.#leases.spend(group, later);
    if (borrowed === null) return null;
    const counted = this.#local.book(group, this.#clock.now());
    const giveBack = async (): Promise<void> => {
      this.#local.settle(counted, () => 0);
      await this.#refund(await borrowed.giveBack());
    };
    void admission.add(spentHere(giveBack));
    return borrowed.outcomes;
  }

  async #check(
    group: readonly Spend[],
    later: Later,
    late: Call<Verdict>["late"],
  ): Promise<Verdict | null> {
    const askedAtMs = this.#clock.now();
    const remembered = this.#denials.recall(group, askedAtMs);
    if (remembered !== null) return remembered;
    const verdict = isLeased(group)
      ? await this.#leases.ask(group, later, late?.settle)
      : await this.#ask("check", group, (stub) => stub.check(callOf(group)), late);
    if (verdict !== null) this.#denials.remember(group, verdict, askedAtMs, this.#clock.now());
    return verdict;
  }

  /**
   * Adds what an object has spent to what is to be given back or settled.
   * @param counted what of it the isolate has counted too
   */
  async #hold(
    spent: readonly Spent[],
    address: ReservationAddress | null,
    counted: Counted,
    admission: Admission,
  ): Promise<void> {
    const [first] = spent;
    if (first === undefined) return;
    // Others of the key have less from then on, and wait longer.
    this.#denials.forget(first.spend.partitionKey);
    await admission.add({
      address,
      giveBack: () => {
        this.#local.settle(counted, () => 0);
        return address === null ? this.#refund(spent) : this.#end(address, { cost: 0 });
      },
      settle: async (costOf) => {
        if (address === null) return;
        this.#local.settle(counted, costOf);
        const costs = spent.map(({ spend }) => costOf(spend));
        await this.#end(address, { cost: Math.max(...costs), costs });
      },
      renew: async () => {
        if (address !== null) await this.#renew(address, spent);
      },
    });
  }

  /** Of nothing nobody is asked. */
  async #refund(spent: readonly Spent[]): Promise<void> {
    const spends = spent.map(({ spend }) => spend);
    await this.#ask("refund", spends, async (stub) => {
      const { charges, ...call } = callOf(spends);
      const given = charges.map((charge, index) => ({
        ...charge,
        spentAtMs: spent[index]?.spentAtMs ?? 0,
      }));
      await stub.refund({ ...call, charges: given });
    });
    // Who was denied meanwhile may be let in now.
    for (const { partitionKey } of spends.slice(0, 1)) this.#denials.forget(partitionKey);
  }

  #renew({ partitionKey, random }: ReservationAddress, spent: readonly Spent[]): Promise<unknown> {
    const spends = spent.map(({ spend }) => spend);
    return this.#ask("renew", spends, (stub) => stub.renew({ key: partitionKey, id: random }));
  }

  /** An answer of the object of a key within the shortest of its policies' timeouts; null if there is none. */
  async #ask<Answer>(
    name: Call<Answer>["name"],
    group: readonly Spend[],
    ask: Call<Answer>["ask"],
    late?: Call<Answer>["late"],
  ): Promise<Answer | null> {
    const [first] = group;
    if (first === undefined) return null;
    return this.#calls.make({
      name,
      place: placeOf(first.policy.objects, first.partitionKey),
      policies: group.map(({ policy }) => policy.name),
      timeoutMs: timeoutOf(group),
      ask,
      ...(late !== undefined && { late }),
    });
  }

  /** Without the object: as the policies' failure modes say. */
  #fallBack(group: readonly Spend[], admission: Admission): Outcome[] {
    const { outcomes, counted } = this.#local.fallBack(group);
    if (counted.spends.length > 0) {
      const settle = async (costOf: CostOf): Promise<void> => this.#local.settle(counted, costOf);
      void admission.add(spentHere(() => settle(() => 0), settle));
    }
    return outcomes;
  }
}

const nothing = async (): Promise<void> => undefined;

/** What the isolate has spent by itself: no object has it open. */
const spentHere = (giveBack: Held["giveBack"], settle: Held["settle"] = nothing): Held => ({
  address: null,
  giveBack,
  settle,
  renew: nothing,
});

type SettledCosts = Pick<SettleCall, "cost" | "costs">;

const settling = (
  { random, partitionKey, settings }: ReservationAddress,
  costs: SettledCosts,
): Call<Settled> => ({
  name: "settle",
  place: placeOf(settings, partitionKey),
  policies: [],
  timeoutMs: settleTimeoutMs,
  ask: (stub) => stub.settle({ key: partitionKey, id: random, ...costs }),
});

/** A dry run that denies is told, since nothing else comes of it. */
function reportDryRun(outcome: Outcome): void {
  const { policy } = outcome;
  if (!policy.isDryRun || allows(outcome)) return;
  const violated = violatedLimits("decision" in outcome ? [outcome.decision] : []);
  report({ event: "dry-run-denied", policy: policy.name, violated });
}
