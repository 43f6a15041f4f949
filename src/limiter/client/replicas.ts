/** What an isolate decides by itself under eventual consistency, for all keys that it is asked for. */
import type { Clock } from "../clock.ts";
import type { Spent } from "./key-group.ts";
import type { WaitUntil, ObjectCaller } from "./object-caller.ts";
import type { Outcome, Spend } from "./outcome.ts";
import { objectLocation } from "./object-location.ts";
import { BoundedMap } from "../bounded-map.ts";
import { nameOf, Replica } from "./replica.ts";
import { SyncQueue } from "./sync-queue.ts";

/** Bounds the memory of an isolate. What one that has to go has not sent yet is sent all the same. */
const mostReplicas = 1_024;
const mostBytes = 8_000_000;

export class Replicas {
  readonly #clock: Clock;
  readonly #syncs: SyncQueue;
  readonly #ofKeys = new BoundedMap<Replica>(mostReplicas, {
    mostBytes,
    bytesOf: ({ sizeBytes }) => sizeBytes,
  });

  constructor(calls: ObjectCaller, clock: Clock) {
    this.#clock = clock;
    this.#syncs = new SyncQueue(calls, clock);
  }

  /** Spends all or nothing, without waiting for anybody; see `Replica.decide`. */
  decide(
    group: readonly Spend[],
    waitUntil: WaitUntil,
    isProvisional: boolean,
  ): readonly Outcome[] {
    const replica = this.#replicaOf(group);
    const outcomes = replica.decide(group, this.#clock.now(), isProvisional);
    // What is spent here goes with it.
    this.#syncs.add(replica, waitUntil);
    return outcomes;
  }

  /** See `Replica.confirm`. @returns when it counts as spent from now on */
  confirm(group: readonly Spend[], spentAtMs: number, waitUntil: WaitUntil): number {
    const replica = this.#replicaOf(group);
    const nowMs = this.#clock.now();
    replica.confirm(group, spentAtMs, nowMs);
    this.#syncs.add(replica, waitUntil);
    return nowMs;
  }

  /** See `Replica.giveBack`. */
  giveBack(group: readonly Spend[], spentAtMs: number): readonly Spent[] {
    return this.#replicaOf(group).giveBack(group, spentAtMs, this.#clock.now());
  }

  forget({ policy, partitionKey }: Spend): void {
    const name = nameOf(objectLocation(policy.objects, partitionKey), partitionKey);
    (this.#ofKeys.get(name) ?? this.#syncs.open(name))?.forget(policy.name);
  }

  #replicaOf(group: readonly Spend[]): Replica {
    const [first] = group;
    if (first === undefined) throw new RangeError("nothing is to be decided");
    const { policy, partitionKey } = first;
    const location = objectLocation(policy.objects, partitionKey);
    const name = nameOf(location, partitionKey);
    const replica =
      this.#ofKeys.get(name) ?? this.#syncs.open(name) ?? new Replica(partitionKey, location);
    this.#ofKeys.set(name, replica);
    return replica;
  }
}
