/**
 * Decisions that the object of a key makes, and what becomes of a spend after the decision. A spend is provisional while a
 * later object of the same request may still deny the request: until then the object can take it back without a trace.
 */
import { keyPseudonym, report } from "../../observability/events.ts";
import type { Admission, CostOf, OpenSpend, Turn } from "./admission.ts";
import type { Clock } from "../clock.ts";
import type { DenyCache } from "./deny-cache.ts";
import {
  type Answered,
  askObject,
  callOf,
  isLeased,
  newAddressOf,
  outcomesOf,
  type Spent,
  spentOf,
} from "./key-group.ts";
import type { Leases } from "./leases.ts";
import { type Counted, type LocalMeters, nothingCounted } from "./local-meters.ts";
import type { Call, ObjectCaller } from "./object-caller.ts";
import { admits, allows, type Outcome, type Spend, violatedLimits } from "./outcome.ts";
import { objectLocation } from "./object-location.ts";
import type { SettleCall, SettleReply, CheckReply } from "../protocol.ts";
import type { ReservationAddress } from "./reservation-id.ts";

/** No policy is at hand when a reservation is settled. */
const settleTimeoutMs = 1_000;

/** What the deciders of an isolate share. */
export interface Isolate {
  readonly clock: Clock;
  readonly calls: ObjectCaller;
  readonly local: LocalMeters;
  readonly denials: DenyCache;
  readonly leases: Leases;
}

export class StrictDecider {
  readonly #isolate: Isolate;

  constructor(isolate: Isolate) {
    this.#isolate = isolate;
  }

  /** Spends on one key, all or nothing; what was spent is added to the admission. */
  async decide(group: readonly Spend[], turn: Turn): Promise<readonly Outcome[]> {
    if (group.length === 0) return [];
    const { local, clock } = this.#isolate;
    const { admission, waitUntil, provisionalMs } = turn;
    const ttls = group.flatMap(({ ttlMs }) => ttlMs ?? []);
    const enforced = group.filter(({ policy }) => !policy.isDryRun);
    const address = ttls.length === 0 ? null : newAddressOf(group);
    // What a late answer has spent is given back or settled with the rest.
    const late = {
      waitUntil,
      settle: (reply: Answered): unknown => this.#add(spentOf(group, reply), address, null, turn),
    };
    const reply: Answered | null =
      address === null
        ? await this.#check(group, turn, late)
        : await askObject(
            this.#isolate.calls,
            "reserve",
            group,
            (stub) => {
              const ttlMs = Math.max(...ttls);
              const isDryRun = enforced.every((spend) => spend.ttlMs === undefined);
              return stub.reserve({ ...callOf(group), id: address.random, ttlMs, isDryRun });
            },
            late,
          );
    const fullForMs = reply?.fullForMs ?? 0;
    // A dry run denies no request, even when the key has no room for its reservation.
    if (fullForMs > 0 && enforced.every(({ ttlMs }) => ttlMs === undefined)) {
      return this.decide(enforced, turn);
    }
    if (reply === null) return this.#decideLocally(group, admission, provisionalMs);
    const outcomes = outcomesOf(group, reply);
    const spent = spentOf(group, reply);
    admission.fullForMs = Math.max(admission.fullForMs, fullForMs);
    const count = (): Counted =>
      local.book(
        spent.map(({ spend }) => spend),
        clock.now(),
      );
    await this.#add(spent, address, count, turn);
    reportDryRuns(group, outcomes);
    return outcomes;
  }

  /** Decides by the policies' failure modes, without the object. */
  #decideLocally(
    group: readonly Spend[],
    admission: Admission,
    provisionalMs: number,
  ): readonly Outcome[] {
    const { local } = this.#isolate;
    const { outcomes, counted } = local.fallBack(group, provisionalMs);
    if (counted.spends.length > 0) {
      const settle = async (costOf: CostOf): Promise<void> => local.settle(counted, costOf);
      void admission.add(localSpend({ giveBack: () => settle(() => 0), settle }));
    }
    reportDryRuns(group, outcomes);
    return outcomes;
  }

  async #check(
    group: readonly Spend[],
    { waitUntil, provisionalMs }: Turn,
    late: Call<CheckReply>["late"],
  ): Promise<CheckReply | null> {
    const { clock, calls, denials, leases } = this.#isolate;
    const askedAtMs = clock.now();
    const reply = isLeased(group)
      ? await leases.ask(group, waitUntil, provisionalMs, late?.settle)
      : await askObject(
          calls,
          "check",
          group,
          (stub) => stub.check(callOf(group, provisionalMs)),
          late,
        );
    if (reply !== null) denials.remember(group, reply, askedAtMs, clock.now());
    return reply;
  }

  /**
   * Adds what an object has spent to what is to be given back or settled.
   * @param count counts it in the isolate too, once no later object can deny the request; null where it is too late
   */
  async #add(
    spent: readonly Spent[],
    address: ReservationAddress | null,
    count: (() => Counted) | null,
    { admission, provisionalMs }: Turn,
  ): Promise<void> {
    const [first] = spent;
    if (first === undefined) return;
    const { local, denials } = this.#isolate;
    // Less is left of the key now, and other requests wait longer.
    denials.forget(first.spend.partitionKey);
    const isProvisional = provisionalMs > 0;
    let counted = isProvisional || count === null ? nothingCounted : count();
    await admission.add({
      address,
      confirm: () => {
        if (isProvisional && count !== null) counted = count();
      },
      giveBack: () => {
        local.settle(counted, () => 0);
        return address === null
          ? this.refund(spent, provisionalMs)
          : this.#end(address, { cost: 0 });
      },
      settle: async (costOf) => {
        if (address === null) return;
        local.settle(counted, costOf);
        const costs = spent.map(({ spend }) => costOf(spend));
        await this.#end(address, { cost: Math.max(...costs), costs });
      },
      renew: async () => {
        if (address !== null) await this.#renew(address, spent);
      },
    });
  }

  /**
   * Gives back what an object has spent. No-op when nothing was spent.
   * @param provisionalMs what the object was asked with; 0 when the spend was not provisional
   */
  async refund(spent: readonly Spent[], provisionalMs = 0): Promise<void> {
    const spends = spent.map(({ spend }) => spend);
    await askObject(this.#isolate.calls, "refund", spends, async (stub) => {
      const { charges, ...call } = callOf(spends, provisionalMs);
      const given = charges.map((charge, index) => ({
        ...charge,
        spentAtMs: spent[index]?.spentAtMs ?? 0,
      }));
      await stub.refund({ ...call, charges: given });
    });
    // Requests that were denied meanwhile may fit now.
    for (const { partitionKey } of spends.slice(0, 1)) this.#isolate.denials.forget(partitionKey);
  }

  /** Settles a reservation without reporting the outcome. One repetition is safe, since an id settles once. */
  #end(address: ReservationAddress, costs: SettledCosts): Promise<unknown> {
    return this.#isolate.calls.call({ ...settling(address, costs), isRepeatable: true });
  }

  #renew({ partitionKey, random }: ReservationAddress, spent: readonly Spent[]): Promise<unknown> {
    const spends = spent.map(({ spend }) => spend);
    return askObject(this.#isolate.calls, "renew", spends, (stub) =>
      stub.renew({ key: partitionKey, id: random }),
    );
  }
}

const nothing = async (): Promise<void> => undefined;

/** A spend of the isolate itself, which no object has open. */
export const localSpend = (spend: Pick<OpenSpend, "giveBack"> & Partial<OpenSpend>): OpenSpend => ({
  address: null,
  confirm: () => undefined,
  settle: nothing,
  renew: nothing,
  ...spend,
});

export type SettledCosts = Pick<SettleCall, "cost" | "costs">;

export const settling = (
  { random, partitionKey, settings }: ReservationAddress,
  costs: SettledCosts,
): Call<SettleReply> => ({
  name: "settle",
  location: objectLocation(settings, partitionKey),
  policies: [],
  timeoutMs: settleTimeoutMs,
  ask: (stub) => stub.settle({ key: partitionKey, id: random, ...costs }),
});

/** Reports the dry runs that would have denied a request; none when another policy denies it. */
export function reportDryRuns(group: readonly Spend[], outcomes: readonly Outcome[]): void {
  if (!outcomes.every(admits)) return;
  const [{ partitionKey } = { partitionKey: "" }] = group;
  const key = keyPseudonym(partitionKey);
  for (const outcome of outcomes) {
    const { policy } = outcome;
    if (!policy.isDryRun || allows(outcome)) continue;
    const violated = violatedLimits("decision" in outcome ? [outcome.decision] : []);
    report({ event: "dry-run-denied", policy: policy.name, violated, key });
  }
}
