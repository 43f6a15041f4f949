/**
 * The Worker's side of a decision: the only caller of the object. It bounds how long a decision may take, says what
 * holds when none comes, and asks the objects of different keys one after the other.
 */
import type { Policy } from "../config/index.ts";
import type { Decision } from "../strategies/index.ts";
import { errorText, report } from "../observability/events.ts";
import { LocalMeters } from "./local-meters.ts";
import { admits, type Outcome, type Spend } from "./outcome.ts";
import { type Place, placeOf } from "./place.ts";
import type { Charge, CheckCall, Verdict } from "./protocol.ts";
import type { RateLimiter } from "./rate-limiter.ts";
import { newAddress, type ReservationAddress } from "./reservation-id.ts";

/**
 * The platform would try five times for up to ten seconds: longer than any request should wait for its limiter. 500 ms
 * is the shortest it takes; the deadline of a call is ours.
 */
const platformRetries = { maxRetries: 1, timeoutMs: 500 };

/** No policy is at hand when a reservation is settled. */
const settleTimeoutMs = 1_000;

type Objects = DurableObjectNamespace<RateLimiter>;
type Stub = DurableObjectStub<RateLimiter>;

/** A call of an object, for the log too. */
interface Call<Answer> {
  readonly name: "check" | "look" | "refund" | "forget" | "reserve" | "settle";
  readonly place: Place;
  readonly policies: readonly string[];
  readonly timeoutMs: number;
  readonly ask: (stub: Stub) => Promise<Answer>;
}

/** A spend that may be corrected. */
export interface Reserving {
  readonly outcome: Outcome;
  /** Where it is open; null when nothing was spent, or not by the object. */
  readonly address: ReservationAddress | null;
  /** More than 0 when it was refused because the key has as many open as it may. */
  readonly fullForMs: number;
}

export class LimiterClient {
  readonly #objects: Objects;
  readonly #local = new LocalMeters();

  constructor(objects: Objects) {
    this.#objects = objects;
  }

  /**
   * Spends all or nothing. Spends on one key are decided together; the object of the next key is asked only when the
   * one before admits, and what was spent before a denial is given back, for which no answer waits.
   * @param later keeps the Worker running for work that goes on after the answer
   * @returns the outcomes of the spends that were asked for, those of the denying key last
   */
  async admit(
    spends: readonly Spend[],
    later: (work: Promise<unknown>) => void,
  ): Promise<Outcome[]> {
    const outcomes: Outcome[] = [];
    const undo: (() => Promise<unknown>)[] = [];
    const remember: (() => void)[] = [];
    for (const group of groupsOf(spends)) {
      // Each object is asked only once the one before has admitted.
      // oxlint-disable-next-line no-await-in-loop
      const verdict = await this.#ask("check", group, (stub) => stub.check(callOf(group)));
      const nowMs = Date.now();
      const decided = verdict === null ? this.#fallBack(group, nowMs) : outcomesOf(group, verdict);
      outcomes.push(...decided);
      if (!decided.every(admits)) {
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
  async reserve(spend: Spend, ttlMs: number): Promise<Reserving> {
    const address = newAddress(spend.partitionKey, spend.policy.objects);
    const reserved = await this.#ask("reserve", [spend], (stub) =>
      stub.reserve({ ...callOf([spend]), id: address.random, ttlMs }),
    );
    const nowMs = Date.now();
    if (reserved === null) {
      const [outcome = fallBackOf(spend, () => this.#local.look(spend, nowMs))] = this.#fallBack(
        [spend],
        nowMs,
      );
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
    const answer = await this.#call({
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
  ): Promise<Answer | null> {
    const [first] = group;
    if (first === undefined) return null;
    return this.#call({
      name,
      place: placeOf(first.policy.objects, first.partitionKey),
      policies: group.map(({ policy }) => policy.name),
      timeoutMs: Math.min(...group.map(({ policy }) => policy.timeoutMs)),
      ask,
    });
  }

  async #call<Answer>({
    name,
    place,
    policies,
    timeoutMs,
    ask,
  }: Call<Answer>): Promise<Answer | null> {
    try {
      // A stub is cheap, and one that has thrown stays broken: each call has its own.
      return await withDeadline(ask(this.#stubAt(place)), timeoutMs);
    } catch (error) {
      report({ event: "object-silent", call: name, policies, error: errorText(error) });
      return null;
    }
  }

  #stubAt({ name, locationHint, jurisdiction }: Place): Stub {
    const objects =
      jurisdiction === null ? this.#objects : this.#objects.jurisdiction(jurisdiction);
    return objects.getByName(name, {
      retry: platformRetries,
      ...(locationHint !== null && { locationHint }),
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

/** @throws Error when there is no answer by then; the call itself cannot be called back */
async function withDeadline<Answer>(answer: Promise<Answer>, timeoutMs: number): Promise<Answer> {
  const { promise: deadline, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error(`no answer within ${timeoutMs} ms`)), timeoutMs);
  try {
    return await Promise.race([answer, deadline]);
  } finally {
    clearTimeout(timer);
  }
}
