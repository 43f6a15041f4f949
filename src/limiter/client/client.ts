/**
 * The Worker's side of a decision: the only caller of the object. It bounds how long a decision may take, says what
 * holds when none comes, and asks the objects of different keys one after the other.
 */
import type { Policy } from "../../config/index.ts";
import { type Clock, platformClock } from "../clock.ts";
import { Admission } from "./admission.ts";
import { BatchDecider } from "./decide-each.ts";
import { EventualDecider } from "./decide-eventual.ts";
import { LeasedDecider } from "./decide-leased.ts";
import { type Isolate, settling, StrictDecider } from "./decide-strict.ts";
import { DenyCache } from "./deny-cache.ts";
import {
  askObject,
  callOf,
  groupsOf,
  isEventual,
  isLeased,
  isShadow,
  outcomesOf,
  timeoutOf,
} from "./key-group.ts";
import { Leases } from "./leases.ts";
import { LocalMeters } from "./local-meters.ts";
import { Replicas } from "./replicas.ts";
import { admits, type Outcome, type Spend } from "./outcome.ts";
import { type WaitUntil, ObjectCaller } from "./object-caller.ts";
import type { ReservationAddress } from "./reservation-id.ts";

/** What giving back a provisional spend may take beyond the timeouts of the objects that may still deny. */
const giveBackMs = 1_000;

/** A spend that may be corrected. */
export interface Reserving {
  readonly outcome: Outcome;
  /** Where it is open; null when nothing was spent, or not by the object. */
  readonly address: ReservationAddress | null;
  /** More than 0 when it was refused because the key has as many open as it may. */
  readonly fullForMs: number;
}

export class LimiterClient {
  readonly #isolate: Isolate;
  readonly #replicas: Replicas;
  readonly #strict: StrictDecider;
  readonly #leased: LeasedDecider;
  readonly #eventual: EventualDecider;
  readonly #batch: BatchDecider;

  constructor(
    objects: ConstructorParameters<typeof ObjectCaller>[0],
    clock: Clock = platformClock,
  ) {
    const calls = new ObjectCaller(objects, clock);
    const local = new LocalMeters(clock);
    const leases = new Leases(calls, clock);
    this.#isolate = { clock, calls, local, leases, denials: new DenyCache() };
    this.#replicas = new Replicas(calls, clock);
    this.#strict = new StrictDecider(this.#isolate);
    this.#leased = new LeasedDecider(leases, local, clock, this.#strict);
    this.#eventual = new EventualDecider(this.#replicas, clock, this.#strict);
    this.#batch = new BatchDecider(this.#isolate, this.#strict, this.#eventual);
  }

  /**
   * Spends all or nothing. Spends on one key are decided together; the object of the next key is asked only when the
   * one before admits, and what was spent before a denial is given back, for which no answer waits; nor does any for
   * dry runs on keys of their own. A remembered denial of any of the keys answers before any object is asked.
   * @param waitUntil keeps the Worker running for work that goes on after the answer
   */
  async admit(spends: readonly Spend[], waitUntil: WaitUntil): Promise<Admission> {
    const admission = new Admission();
    const groups = [...groupsOf(spends)];
    const enforced = groups.filter((group) => !isShadow(group));
    const known = this.#recall(enforced);
    if (known !== null) return this.#refuse(admission, known, waitUntil);
    for (const [index, group] of enforced.entries()) {
      // Another request may have been denied while the objects before were asked.
      const denied = index === 0 ? null : this.#recall([group]);
      if (denied !== null) return this.#refuse(admission, denied, waitUntil);
      const provisionalMs = provisionalMsOf(enforced, index);
      // Each object is asked only once the one before has admitted.
      // oxlint-disable-next-line no-await-in-loop
      const outcomes = await this.#decide(group, { admission, waitUntil, provisionalMs });
      if (!outcomes.every(admits) || admission.fullForMs > 0) {
        return this.#refuse(admission, outcomes, waitUntil);
      }
      admission.outcomes.push(...outcomes);
    }
    if (enforced.length > 1) admission.confirm();
    admission.decidedAtMs = this.#isolate.clock.now();
    if (enforced.length < groups.length) {
      const turn = { admission, waitUntil, provisionalMs: 0 };
      waitUntil(Promise.all(groups.filter(isShadow).map((group) => this.#decide(group, turn))));
    }
    return admission;
  }

  /** What the first group answers whose denial is remembered; null where none is. */
  #recall(groups: readonly (readonly Spend[])[]): readonly Outcome[] | null {
    const { clock, denials } = this.#isolate;
    const nowMs = clock.now();
    for (const group of groups) {
      const outcomes = denials.recall(group, nowMs);
      if (outcomes !== null) return outcomes;
    }
    return null;
  }

  #refuse(admission: Admission, outcomes: readonly Outcome[], waitUntil: WaitUntil): Admission {
    admission.outcomes.push(...outcomes);
    admission.decidedAtMs = this.#isolate.clock.now();
    admission.isRefused = true;
    waitUntil(admission.giveBack());
    return admission;
  }

  async #decide(
    group: readonly Spend[],
    turn: Parameters<StrictDecider["decide"]>[1],
  ): Promise<readonly Outcome[]> {
    if (isEventual(group)) return this.#eventual.decide(group, turn);
    return isLeased(group) ? this.#leased.decide(group, turn) : this.#strict.decide(group, turn);
  }

  /**
   * Spends that have nothing to do with one another: each is allowed or denied by itself, those of one object in one
   * call and in their order. A cost of 0 looks.
   * @returns an outcome for each, in their order
   */
  admitEach(spends: readonly Spend[], waitUntil: WaitUntil): Promise<Outcome[]> {
    return this.#batch.decide(spends, waitUntil);
  }

  /** What `admit` would answer to one spend, without spending. */
  async look(spend: Spend): Promise<Outcome> {
    const { calls, local } = this.#isolate;
    const reply = await askObject(calls, "look", [spend], (stub) => stub.look(callOf([spend])));
    const [outcome] = reply === null ? [] : outcomesOf([spend], reply);
    return outcome ?? local.fallBackLook(spend);
  }

  /** Spends what `settle` corrects within `ttlMs`. */
  async reserve(spend: Spend, ttlMs: number, waitUntil: WaitUntil): Promise<Reserving> {
    const admission = await this.admit([{ ...spend, ttlMs }], waitUntil);
    const { address, fullForMs, isRefused } = admission;
    const [outcome] = admission.outcomes;
    if (outcome === undefined) throw new TypeError("an object answered a charge with no decision");
    // Nobody knows its id: what was let in stands as spent, its slots are free again.
    if (address === null && !isRefused) waitUntil(admission.settle(({ cost }) => cost));
    return { outcome, address, fullForMs };
  }

  /**
   * Corrects a reservation to its actual cost and ends it.
   * @returns whether this call did so; null when the object gave no answer
   */
  async settle(address: ReservationAddress, cost: number): Promise<boolean | null> {
    const answer = await this.#isolate.calls.call(settling(address, { cost }));
    return answer === null ? null : answer.settled;
  }

  /**
   * Forgets what a policy has counted for a key.
   * @returns whether the object has confirmed it
   */
  async forget(policy: Policy, partitionKey: string): Promise<boolean> {
    const { calls, local, denials, leases } = this.#isolate;
    const spend: Spend = { policy, partitionKey, cost: 0 };
    local.forget(spend);
    denials.forget(partitionKey);
    this.#replicas.forget(spend);
    leases.forget(partitionKey);
    const confirmed = await askObject(calls, "forget", [spend], async (stub) => {
      await stub.forget({ key: partitionKey, policy: policy.name });
      return true;
    });
    return confirmed === true;
  }
}

/**
 * For how long what a group spends is provisional: until it and all that are asked after it have answered or timed out, and
 * the spend has been given back. 0 for the last, whose decision is the request's.
 */
function provisionalMsOf(groups: readonly (readonly Spend[])[], index: number): number {
  if (index === groups.length - 1) return 0;
  return groups.slice(index).reduce((sumMs, group) => sumMs + timeoutOf(group), giveBackMs);
}
