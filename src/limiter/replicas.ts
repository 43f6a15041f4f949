/**
 * What an isolate decides by itself under eventual consistency: on what a key's object has last told it, and on what it
 * has spent since. Spends are exchanged, and not verdicts: each batch of them counts once, and is kept until the object has
 * said that it is counted.
 */
import type { Policy } from "../config/index.ts";
import { createMeter, type Decision, type Meter } from "../strategies/index.ts";
import { type Clock, passed } from "./clock.ts";
import { heldFor, sharedLimits } from "./held-meter.ts";
import type { Later, ObjectCalls } from "./object-calls.ts";
import { admits, allows, type Outcome, type Spend } from "./outcome.ts";
import { type Place, placeOf } from "./place.ts";
import type { SyncCall } from "./protocol.ts";
import { Recent } from "./recent.ts";

/** Bounds the memory of an isolate. What one that has to go has not sent yet is sent all the same. */
const mostReplicas = 1_024;
/** Of more instants the oldest are told as one, the later of them: what is spent counts for longer, never for less. */
const mostInstants = 100;
/** Work goes on after an answer for 30 s at the most. */
const longestWorkMs = 25_000;
/** A turn that is so late will not come any more: what it was to be called by is gone. */
const lostAfterMs = 2_000;

/** What is counted for one policy. */
interface Counted {
  policy: Policy;
  meter: Meter;
  /** Units by when they were spent, of those that are not on their way. */
  unsent: Map<number, number>;
  /** Whether the object has told how it stands. */
  isTold: boolean;
}

/** A batch that is on its way, or will be again. */
interface Batch {
  readonly number: number;
  readonly charges: readonly {
    readonly policy: Policy;
    readonly spends: readonly (readonly [atMs: number, units: number])[];
  }[];
}

interface Replica {
  readonly partitionKey: string;
  readonly place: Place;
  readonly counted: Map<string, Counted>;
  /** How far the object's clock is ahead of the isolate's. */
  aheadMs: number;
  batches: number;
  kept: Batch | null;
  /** When the next turn to send is due; null when none is. */
  dueAtMs: number | null;
  sentAtMs: number;
  isSending: boolean;
}

export class Replicas {
  readonly #calls: ObjectCalls;
  readonly #clock: Clock;
  readonly #isolate = crypto.randomUUID();
  readonly #ofKeys = new Recent<Replica>(mostReplicas);

  constructor(calls: ObjectCalls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  /** Spends all or nothing, without waiting for anybody. */
  decide(group: readonly Spend[], later: Later): readonly Outcome[] {
    const replica = this.#replicaOf(group);
    const localMs = this.#clock.now();
    const nowMs = localMs + replica.aheadMs;
    const asked = group.map((spend) => ({ spend, counted: countedOf(replica, spend.policy) }));
    const looked = asked.map(({ spend, counted }) =>
      outcomeOf(counted, counted.meter.look(spend.cost, nowMs)),
    );
    this.#seeToSending(replica, later);
    if (!looked.every(admits)) return looked;
    return asked.map(({ spend, counted }) => {
      const outcome = outcomeOf(counted, counted.meter.consume(spend.cost, nowMs));
      if (allows(outcome)) note(counted.unsent, localMs, spend.cost);
      return outcome;
    });
  }

  /**
   * Gives back what was spent, as far as the object has not been told of it.
   * @returns what it has been told of
   */
  giveBack(group: readonly Spend[], spentAtMs: number): readonly Spend[] {
    const replica = this.#replicaOf(group);
    const nowMs = this.#clock.now() + replica.aheadMs;
    return group.filter(({ policy, cost }) => {
      const counted = countedOf(replica, policy);
      counted.meter.refund(cost, spentAtMs + replica.aheadMs, nowMs);
      const units = counted.unsent.get(spentAtMs) ?? 0;
      if (units < cost) return true;
      counted.unsent.set(spentAtMs, units - cost);
      return false;
    });
  }

  forget({ policy, partitionKey }: Spend): void {
    this.#ofKeys
      .get(nameOf(placeOf(policy.objects, partitionKey), partitionKey))
      ?.counted.delete(policy.name);
  }

  #replicaOf(group: readonly Spend[]): Replica {
    const [first] = group;
    if (first === undefined) throw new RangeError("nothing is to be decided");
    const { policy, partitionKey } = first;
    const place = placeOf(policy.objects, partitionKey);
    const name = nameOf(place, partitionKey);
    const replica = this.#ofKeys.get(name) ?? {
      partitionKey,
      place,
      counted: new Map<string, Counted>(),
      aheadMs: 0,
      batches: 0,
      kept: null,
      dueAtMs: null,
      sentAtMs: Number.NEGATIVE_INFINITY,
      isSending: false,
    };
    this.#ofKeys.set(name, replica);
    return replica;
  }

  /** The next turn to send is this request's to wait for, unless one is due. */
  #seeToSending(replica: Replica, later: Later): void {
    const nowMs = this.#clock.now();
    const { dueAtMs } = replica;
    if (dueAtMs !== null && nowMs < dueAtMs + lostAfterMs) return;
    const waitMs = Math.max(0, replica.sentAtMs + syncEveryMsOf(replica) - nowMs);
    replica.dueAtMs = nowMs + waitMs;
    later(this.#sendAfter(replica, waitMs, nowMs + longestWorkMs));
  }

  /** What fails is tried again as long as there is time; after that with the next request. */
  async #sendAfter(replica: Replica, waitMs: number, untilMs: number): Promise<void> {
    let isDone = false;
    let nextMs = waitMs;
    while (!isDone) {
      // oxlint-disable-next-line no-await-in-loop
      if (nextMs > 0) await passed(this.#clock, nextMs);
      replica.dueAtMs = null;
      // oxlint-disable-next-line no-await-in-loop
      isDone = await this.#send(replica);
      nextMs = syncEveryMsOf(replica);
      const nowMs = this.#clock.now();
      // Another request may have taken over.
      if (isDone || replica.dueAtMs !== null || nowMs + nextMs > untilMs) return;
      replica.dueAtMs = nowMs + nextMs;
    }
  }

  /** @returns whether the object has counted all that was to be sent */
  async #send(replica: Replica): Promise<boolean> {
    const policies = [...replica.counted.values()].map(({ policy }) => policy);
    if (policies.length === 0) return true;
    const timeoutMs = Math.min(...policies.map((policy) => policy.timeoutMs));
    const sentAtMs = this.#clock.now();
    if (replica.isSending && sentAtMs < replica.sentAtMs + timeoutMs + lostAfterMs) return false;
    const batch = (replica.kept ??= batchOf(replica));
    replica.isSending = true;
    replica.sentAtMs = sentAtMs;
    const call = this.#callOf(replica, batch, policies, sentAtMs);
    const synced = await this.#calls.make({
      name: "sync",
      place: replica.place,
      policies: policies.map(({ name }) => name),
      timeoutMs,
      ask: (stub) => stub.sync(call),
    });
    // One that was given up may come back after another has taken over.
    if (replica.kept !== batch) return true;
    replica.isSending = false;
    if (synced === null) return false;
    replica.kept = null;
    this.#takeOver(replica, policies, synced.snapshots, synced.atMs);
    return [...replica.counted.values()].every(({ unsent }) => unsent.size === 0);
  }

  #callOf(
    { partitionKey }: Replica,
    { number, charges }: Batch,
    policies: readonly Policy[],
    sentAtMs: number,
  ): SyncCall {
    return {
      key: partitionKey,
      isolate: this.#isolate,
      batch: number,
      charges: policies.map((policy) => ({
        policy: policy.name,
        limits: policy.limits,
        spends: charges
          .filter((charge) => charge.policy.name === policy.name)
          .flatMap(({ spends }) => spends)
          .map(([atMs, units]) => [Math.max(0, sentAtMs - atMs), units]),
      })),
      durability: policies.some(({ durability }) => durability === "confirmed")
        ? "confirmed"
        : "relaxed",
    };
  }

  /** The object's count stands for what was sent; what has been spent since comes on top. */
  #takeOver(
    replica: Replica,
    policies: readonly Policy[],
    snapshots: readonly string[],
    objectMs: number,
  ): void {
    const localMs = this.#clock.now();
    // Its clock was read before the answer was on its way: by this one nothing is free too early.
    replica.aheadMs = objectMs - localMs;
    for (const [index, { name, limits }] of policies.entries()) {
      const counted = replica.counted.get(name);
      if (counted === undefined) continue;
      const meter = createMeter(sharedLimits(limits), JSON.parse(snapshots[index] ?? "null"));
      for (const [atMs, units] of counted.unsent)
        meter.book(units, atMs + replica.aheadMs, objectMs);
      counted.meter = meter;
      counted.isTold = true;
    }
  }
}

const nameOf = ({ name, jurisdiction }: Place, partitionKey: string): string =>
  `${jurisdiction ?? ""} ${name} ${partitionKey}`;

const syncEveryMsOf = ({ counted }: Replica): number =>
  Math.min(
    ...[...counted.values()].map(({ policy: { consistency } }) =>
      consistency.kind === "eventual" ? consistency.syncEveryMs : Number.MAX_SAFE_INTEGER,
    ),
  );

/** With the limits of this request: overrides and deploys change them. */
function countedOf(replica: Replica, policy: Policy): Counted {
  const before = replica.counted.get(policy.name);
  if (before === undefined) {
    const { meter } = heldFor(policy.limits, undefined);
    const counted = { policy, meter, unsent: new Map<number, number>(), isTold: false };
    replica.counted.set(policy.name, counted);
    return counted;
  }
  if (before.policy.limits !== policy.limits) {
    before.meter = before.meter.withLimits(sharedLimits(policy.limits));
  }
  before.policy = policy;
  return before;
}

/** Before the object has told anything a decision is the isolate's own. */
const outcomeOf = ({ policy, isTold }: Counted, decision: Decision): Outcome => ({
  kind: isTold ? "decided" : "local",
  policy,
  decision,
});

function note(unsent: Map<number, number>, atMs: number, units: number): void {
  if (units === 0) return;
  unsent.set(atMs, (unsent.get(atMs) ?? 0) + units);
  if (unsent.size <= mostInstants) return;
  const [oldest, next] = unsent.keys();
  if (oldest === undefined || next === undefined) return;
  unsent.set(next, (unsent.get(next) ?? 0) + (unsent.get(oldest) ?? 0));
  unsent.delete(oldest);
}

/** Takes what is to be sent; 0 is the number of a batch of nothing. */
function batchOf(replica: Replica): Batch {
  const charges = [...replica.counted.values()].flatMap((counted) => {
    const spends = [...counted.unsent].filter(([, units]) => units > 0);
    counted.unsent = new Map();
    return spends.length === 0 ? [] : { policy: counted.policy, spends };
  });
  return { number: charges.length === 0 ? 0 : ++replica.batches, charges };
}
