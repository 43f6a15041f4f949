/**
 * Decides spends in the isolate, without waiting for the object: by the replica of the key, which is the object's last
 * snapshot and the isolate's own spends since. The sync queue sends those spends to the object.
 */
import { BoundedMap } from "../../policy/caches.ts";
import { objectLocation } from "../protocol.ts";
import type { IsolateParts } from "./decide-strict.ts";
import { refund, reportDryRuns } from "./key-group.ts";
import { admits, allows, isByKeyRule, type KeyCheck, type Outcome, type Spend } from "./outcome.ts";
import { Replica, replicaName } from "./replica.ts";
import { SyncQueue } from "./sync-queue.ts";

/** Bound the memory of an isolate. The sync queue still sends the unsent spends of an evicted replica. */
const maximumReplicas = 1_024;
const maximumBytes = 8_000_000;

export class EventualDecider {
  readonly #isolate: IsolateParts;
  readonly #syncQueue: SyncQueue;
  readonly #replicas = new BoundedMap<Replica>(maximumReplicas, {
    mostBytes: maximumBytes,
    bytesOf: ({ sizeBytes }) => sizeBytes,
  });

  constructor(isolate: IsolateParts) {
    this.#isolate = isolate;
    this.#syncQueue = new SyncQueue(isolate.caller, isolate.clock);
  }

  decide(check: KeyCheck): readonly Outcome[] {
    const { clock } = this.#isolate;
    const { group, result, provisionalMs } = check;
    let spentAtMs = clock.now();
    const outcomes = this.#update(group, check, (replica) => replica.decide(group, spentAtMs, provisionalMs));
    const spent = group.filter((_, index) => {
      const outcome = outcomes[index];
      return outcome !== undefined && allows(outcome) && !isByKeyRule(outcome, "allow");
    });
    if (!outcomes.every(admits)) return outcomes;
    reportDryRuns(group, outcomes);
    if (spent.length === 0) return outcomes;
    const finalize = (): void => {
      const provisionalAtMs = spentAtMs;
      spentAtMs = clock.now();
      this.#update(spent, check, (replica) => replica.finalize(spent, provisionalAtMs, spentAtMs));
    };
    void result.add({
      ...(provisionalMs > 0 && { finalize }),
      giveBack: async () => refund(this.#isolate, this.#replicaOf(spent).giveBack(spent, spentAtMs, clock.now())),
    });
    return outcomes;
  }

  forget({ policy, partitionKey }: Spend): void {
    const name = replicaName(objectLocation(policy.objects, partitionKey), partitionKey);
    (this.#replicas.get(name) ?? this.#syncQueue.replica(name))?.forget(policy.name);
  }

  /** Changes the group's replica and queues it, so that this change goes with the next sync. */
  #update<Result>(group: readonly Spend[], { scope }: KeyCheck, change: (replica: Replica) => Result): Result {
    const replica = this.#replicaOf(group);
    const result = change(replica);
    this.#syncQueue.add(replica, scope.waitUntil);
    return result;
  }

  #replicaOf([first]: readonly Spend[]): Replica {
    if (first === undefined) throw new RangeError("a group has at least one spend");
    const { policy, partitionKey } = first;
    const location = objectLocation(policy.objects, partitionKey);
    const name = replicaName(location, partitionKey);
    const replica = this.#replicas.get(name) ?? this.#syncQueue.replica(name) ?? new Replica(partitionKey, location);
    this.#replicas.set(name, replica);
    return replica;
  }
}
