/**
 * What an isolate decides by itself under eventual consistency: on what a key's object has last told it, and on what it
 * has spent since. Spends are exchanged, and not verdicts: each batch of them counts once, and is kept until the object has
 * said that it is counted.
 */
import type { Policy } from "../config/index.ts";
import { createMeter, type Decision, type Limit, type Meter } from "../strategies/index.ts";
import { type Clock, passed } from "./clock.ts";
import type { Spent } from "./group.ts";
import { heldFor, sharedLimits } from "./held-meter.ts";
import type { Later, ObjectCalls } from "./object-calls.ts";
import { admits, allows, type Outcome, type Spend } from "./outcome.ts";
import { idOf, type Place, placeOf } from "./place.ts";
import type { SyncCall } from "./protocol.ts";
import { Recent } from "./recent.ts";

/** Bounds the memory of an isolate. What one that has to go has not sent yet is sent all the same. */
const mostReplicas = 1_024;
/** Of more instants the oldest are told as one, the later of them: what is spent counts for longer, never for less. */
const mostInstants = 100;
/** Work goes on after an answer for 30 s at the most. */
const longestWorkMs = 25_000;
/** So long a sync is waited for at most, whatever a decision may take. */
const longestSyncMs = 5_000;
/** A turn that is so late will not come any more: what it was to be called by is gone. */
const lostAfterMs = 2_000;

/** What is counted for one policy. */
interface Counted {
  policy: Policy;
  meter: Meter;
  /** What is not on its way, for each list of limits that it was spent under: overrides and deploys change them. */
  unsent: Unsent[];
  /** Whether the object has told how it stands. */
  isTold: boolean;
}

interface Unsent {
  /** A list of `sharedLimits`. */
  readonly limits: readonly Limit[];
  /** Units by when they were spent. */
  readonly spends: Map<number, number>;
}

/** A batch that is on its way, or will be again. */
interface Batch {
  readonly number: number;
  charges: readonly {
    readonly policy: string;
    readonly limits: readonly Limit[];
    readonly spends: readonly (readonly [atMs: number, units: number])[];
  }[];
}

interface Replica {
  readonly partitionKey: string;
  readonly place: Place;
  readonly counted: Map<string, Counted>;
  /** How far the object's clock is ahead of the isolate's. */
  aheadMs: number;
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
  /** Of all keys, so that no replica that takes another's place sends a number of its again. */
  #batches = 0;

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
    const outcomes = looked.every(admits)
      ? asked.map(({ spend, counted }) => {
          const outcome = outcomeOf(counted, counted.meter.consume(spend.cost, nowMs));
          if (allows(outcome)) note(unsentOf(counted), localMs, spend.cost);
          return outcome;
        })
      : looked;
    // What is spent here goes with it.
    this.#seeToSending(replica, later);
    return outcomes;
  }

  /**
   * Gives back what was spent, as far as the object has not been told of it.
   * @returns what it has been told of, and when that was spent by its clock
   */
  giveBack(group: readonly Spend[], spentAtMs: number): readonly Spent[] {
    const replica = this.#replicaOf(group);
    const nowMs = this.#clock.now() + replica.aheadMs;
    return group.flatMap((spend) => {
      const { policy, cost } = spend;
      const counted = countedOf(replica, policy);
      counted.meter.refund(cost, spentAtMs + replica.aheadMs, nowMs);
      const spends = unsentOf(counted);
      const units = spends.get(spentAtMs) ?? 0;
      if (units < cost) return [{ spend, spentAtMs: spentAtMs + replica.aheadMs }];
      spends.set(spentAtMs, units - cost);
      return [];
    });
  }

  /** What is on its way is not to bring it back. */
  forget({ policy, partitionKey }: Spend): void {
    const replica = this.#ofKeys.get(nameOf(placeOf(policy.objects, partitionKey), partitionKey));
    if (replica === undefined) return;
    replica.counted.delete(policy.name);
    const { kept } = replica;
    if (kept !== null) kept.charges = kept.charges.filter((each) => each.policy !== policy.name);
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
    const everyMs = syncEveryMsOf(replica);
    // A clock that has stepped back tells of turns that are far off.
    const isDue = dueAtMs !== null && nowMs >= dueAtMs - everyMs && nowMs < dueAtMs + lostAfterMs;
    if (isDue) return;
    const waitMs = Math.min(everyMs, Math.max(0, replica.sentAtMs + everyMs - nowMs));
    replica.dueAtMs = nowMs + waitMs;
    later(this.#sendAfter(replica, waitMs, nowMs + longestWorkMs));
  }

  /** What fails is tried again as long as there is time; after that with the next request. */
  async #sendAfter(replica: Replica, waitMs: number, untilMs: number): Promise<void> {
    if (waitMs > 0) await passed(this.#clock, waitMs);
    replica.dueAtMs = null;
    const isDone = await this.#send(replica);
    const nextMs = syncEveryMsOf(replica);
    const nowMs = this.#clock.now();
    // Another request may have taken over.
    if (isDone || replica.dueAtMs !== null || nowMs + nextMs > untilMs) return;
    replica.dueAtMs = nowMs + nextMs;
    await this.#sendAfter(replica, nextMs, untilMs);
  }

  /** @returns whether the object has counted all that was to be sent */
  async #send(replica: Replica): Promise<boolean> {
    const asked = [...replica.counted.values()];
    const policies = asked.map(({ policy }) => policy);
    if (policies.length === 0) return true;
    const timeoutMs = Math.min(longestSyncMs, ...policies.map((policy) => policy.timeoutMs));
    const sentAtMs = this.#clock.now();
    const sinceMs = sentAtMs - replica.sentAtMs;
    if (replica.isSending && sinceMs >= 0 && sinceMs < timeoutMs + lostAfterMs) return false;
    const batch = (replica.kept ??= this.#batchOf(replica));
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
    this.#takeOver(replica, asked, synced.snapshots.slice(-asked.length), synced.atMs);
    return [...replica.counted.values()].every(({ unsent }) => unsent.length === 0);
  }

  /** Takes what is to be sent; 0 is the number of a batch of nothing. */
  #batchOf(replica: Replica): Batch {
    const charges = [...replica.counted.values()].flatMap((counted) => {
      const { policy, unsent } = counted;
      counted.unsent = [];
      return unsent.flatMap(({ limits, spends }) => {
        const spent = [...spends].filter(([, units]) => units > 0);
        return spent.length === 0 ? [] : { policy: policy.name, limits, spends: spent };
      });
    });
    return { number: charges.length === 0 ? 0 : (this.#batches += 1), charges };
  }

  /** What was spent first, and then each policy with the limits of now, whose answers have all of it. */
  #callOf(
    { partitionKey }: Replica,
    { number, charges }: Batch,
    policies: readonly Policy[],
    sentAtMs: number,
  ): SyncCall {
    const spent = charges.map((charge) => ({
      ...charge,
      spends: charge.spends.map(([atMs, units]): [number, number] => [
        Math.max(0, sentAtMs - atMs),
        units,
      ]),
    }));
    const asked = policies.map(({ name, limits }) => ({ policy: name, limits, spends: [] }));
    return {
      key: partitionKey,
      isolate: this.#isolate,
      batch: number,
      charges: [...spent, ...asked],
      durability: policies.some(({ durability }) => durability === "confirmed")
        ? "confirmed"
        : "relaxed",
    };
  }

  /** The object's count stands for what was sent; what has been spent since comes on top. */
  #takeOver(
    replica: Replica,
    asked: readonly Counted[],
    snapshots: readonly string[],
    objectMs: number,
  ): void {
    // Its clock was read before the answer was on its way: by this one nothing is free too early.
    replica.aheadMs = objectMs - this.#clock.now();
    for (const [index, counted] of asked.entries()) {
      // Of what was forgotten meanwhile nothing is to come back.
      if (replica.counted.get(counted.policy.name) !== counted) continue;
      let meter = createMeter([], JSON.parse(snapshots[index] ?? "null"));
      if (meter.refused !== null) continue;
      for (const { limits, spends } of counted.unsent) {
        meter = meter.withLimits(limits);
        for (const [atMs, units] of spends) meter.book(units, atMs + replica.aheadMs, objectMs);
      }
      counted.meter = meter.withLimits(sharedLimits(counted.policy.limits));
      counted.isTold = true;
    }
  }
}

const nameOf = (place: Place, partitionKey: string): string => `${idOf(place)} ${partitionKey}`;

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
    const counted: Counted = { policy, meter, unsent: [], isTold: false };
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

/** Of the limits that hold now. */
function unsentOf({ policy, unsent }: Counted): Map<number, number> {
  const limits = sharedLimits(policy.limits);
  const known = unsent.find((each) => each.limits === limits);
  if (known !== undefined) return known.spends;
  const spends = new Map<number, number>();
  unsent.push({ limits, spends });
  return spends;
}

function note(unsent: Map<number, number>, atMs: number, units: number): void {
  if (units === 0) return;
  unsent.set(atMs, (unsent.get(atMs) ?? 0) + units);
  if (unsent.size <= mostInstants) return;
  const [oldest, next] = unsent.keys();
  if (oldest === undefined || next === undefined) return;
  unsent.set(next, (unsent.get(next) ?? 0) + (unsent.get(oldest) ?? 0));
  unsent.delete(oldest);
}
