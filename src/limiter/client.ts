/**
 * The Worker's side of a decision: the only caller of the object. It bounds how long a decision may take, says what
 * holds when none comes, and asks the objects of different keys one after the other.
 */
import type { Policy } from "../config/index.ts";
import type { Decision } from "../strategies/index.ts";
import { LocalMeters } from "./local-meters.ts";
import { admits, type Outcome, type Spend } from "./outcome.ts";
import { type Call, type Later, ObjectCalls } from "./object-calls.ts";
import { placeOf } from "./place.ts";
import type { Charge, CheckCall, Verdict } from "./protocol.ts";
import { newAddress, type ReservationAddress } from "./reservation-id.ts";

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
  readonly #calls: ObjectCalls;
  readonly #local = new LocalMeters();

  constructor(objects: ConstructorParameters<typeof ObjectCalls>[0]) {
    this.#calls = new ObjectCalls(objects);
  }

  /**
   * Spends all or nothing. Spends on one key are decided together; the object of the next key is asked only when the
   * one before admits, and what was spent before a denial is given back, for which no answer waits.
   * @param later keeps the Worker running for work that goes on after the answer
   * @returns the outcomes of the spends that were asked for, those of the denying key last
   */
  async admit(spends: readonly Spend[], later: Later): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    const undo: (() => Promise<unknown>)[] = [];
    const remember: (() => void)[] = [];
    let isRefused = false;
    for (const group of groupsOf(spends)) {
      // What it spends after all is given back with the rest.
      const settle = (verdict: Verdict): Promise<unknown> | undefined => {
        if (!verdict.decisions.every(({ allowed }) => allowed)) return undefined;
        if (isRefused) return this.#giveBack(group, verdict);
        undo.push(() => this.#giveBack(group, verdict));
        return undefined;
      };
      // Each object is asked only once the one before has admitted.
      // oxlint-disable-next-line no-await-in-loop
      const verdict = await this.#ask("check", group, (stub) => stub.check(callOf(group)), {
        later,
        settle,
      });
      const nowMs = Date.now();
      const decided = verdict === null ? this.#fallBack(group, nowMs) : outcomesOf(group, verdict);
      outcomes.push(...decided);
      if (!decided.every(admits)) {
        isRefused = true;
        later(Promise.all(undo.map((each) => each())));
        return outcomes;
      }
      if (verdict === null) {
        undo.push(async () => this.#local.refund(group.filter(isLocal), nowMs));
      } else {
        undo.push(() => this.#giveBack(group, verdict));
        remember.push(() => this.#local.book(group, nowMs));
      }
    }
    for (const each of remember) each();
    return outcomes;
  }

  /** What `admit` would answer to one spend, without spending. */
  async look(spend: Spend): Promise<Outcome> {
    const verdict = await this.#ask("look", [spend], (stub) => stub.look(callOf([spend])));
    const [outcome] = verdict === null ? [] : outcomesOf([spend], verdict);
    return outcome ?? fallBackOf(spend, () => this.#local.look(spend, Date.now()));
  }

  /** Spends what `settle` corrects within `ttlMs`. */
  async reserve(spend: Spend, ttlMs: number, later: Later): Promise<Reserving> {
    const address = newAddress(spend.partitionKey, spend.policy.objects);
    let isAdmitted = false;
    const reserved = await this.#ask(
      "reserve",
      [spend],
      (stub) => stub.reserve({ ...callOf([spend]), id: address.random, ttlMs }),
      {
        later,
        // Nobody knows its id: what was let in stands as spent, its slots are free again.
        settle: ({ isOpen }) => isOpen && this.settle(address, isAdmitted ? spend.cost : 0),
      },
    );
    const nowMs = Date.now();
    if (reserved === null) {
      const [outcome = fallBackOf(spend, () => this.#local.look(spend, nowMs))] = this.#fallBack(
        [spend],
        nowMs,
      );
      isAdmitted = admits(outcome);
      return { outcome, address: null, fullForMs: 0 };
    }
    const { isOpen, fullForMs } = reserved;
    const [outcome] = outcomesOf([spend], reserved);
    if (outcome === undefined) throw new TypeError("an object answered a charge with no decision");
    if (isOpen) this.#local.book([spend], nowMs);
    return { outcome, address: isOpen ? address : null, fullForMs };
  }

  /**
   * Corrects a reservation to its actual cost and ends it.
   * @returns whether this call did so; null when the object gave no answer
   */
  async settle(address: ReservationAddress, cost: number): Promise<boolean | null> {
    const { random, partitionKey, settings } = address;
    const answer = await this.#calls.make({
      name: "settle",
      place: placeOf(settings, partitionKey),
      policies: [],
      timeoutMs: settleTimeoutMs,
      ask: (stub) => stub.settle({ key: partitionKey, id: random, cost }),
    });
    return answer === null ? null : answer.settled;
  }

  /**
   * Forgets what a policy has counted for a key.
   * @returns whether the object has confirmed it
   */
  async forget(policy: Policy, partitionKey: string): Promise<boolean> {
    const spend: Spend = { policy, partitionKey, cost: 0 };
    this.#local.forget(spend);
    const confirmed = await this.#ask("forget", [spend], async (stub) => {
      await stub.forget({ key: partitionKey, policy: policy.name });
      return true;
    });
    return confirmed === true;
  }

  #giveBack(group: readonly Spend[], { spentAtMs }: Verdict): Promise<unknown> {
    return this.#ask("refund", group, async (stub) => {
      const { charges, ...call } = callOf(group);
      const spent = charges.map((charge, index) => ({
        ...charge,
        spentAtMs: spentAtMs[index] ?? 0,
      }));
      await stub.refund({ ...call, charges: spent });
    });
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
      timeoutMs: Math.min(...group.map(({ policy }) => policy.timeoutMs)),
      ask,
      ...(late !== undefined && { late }),
    });
  }

  /** What the policies' failure modes say; local limits too are spent by all or by none. */
  #fallBack(group: readonly Spend[], nowMs: number): Outcome[] {
    const look = (spend: Spend): Outcome => fallBackOf(spend, () => this.#local.look(spend, nowMs));
    if (group.map(look).every(admits)) {
      return group.map((spend) => fallBackOf(spend, () => this.#local.consume(spend, nowMs)));
    }
    for (const spend of group.filter(isLocal)) this.#local.deny(spend, nowMs);
    return group.map(look);
  }
}

const isLocal = ({ policy }: Spend): boolean => policy.onError === "local";

function fallBackOf(spend: Spend, decide: () => Decision): Outcome {
  const { policy } = spend;
  return policy.onError === "local"
    ? { kind: "local", policy, decision: decide() }
    : { kind: policy.onError, policy };
}

/** Spends on one key are decided together; keys are the same when their values and their objects are. */
function groupsOf(spends: readonly Spend[]): Iterable<readonly Spend[]> {
  if (spends.length === 1) return [spends];
  return Map.groupBy(spends, ({ policy: { objects }, partitionKey }) => {
    const { shards, locationHint, jurisdiction } = objects;
    return JSON.stringify([partitionKey, shards, locationHint, jurisdiction]);
  }).values();
}

/** One policy that is to be sure makes the call sure. */
function callOf(group: readonly Spend[]): CheckCall {
  const isConfirmed = group.some(({ policy }) => policy.durability === "confirmed");
  return {
    key: group[0]?.partitionKey ?? "",
    charges: group.map(chargeOf),
    durability: isConfirmed ? "confirmed" : "relaxed",
  };
}

const chargeOf = ({ policy, cost }: Spend): Charge => ({
  policy: policy.name,
  limits: policy.limits,
  cost,
});

function outcomesOf(group: readonly Spend[], verdict: Verdict): Outcome[] {
  return verdict.decisions.flatMap((decision, index) => {
    const policy = group[index]?.policy;
    return policy === undefined ? [] : [{ kind: "decided", policy, decision }];
  });
}
