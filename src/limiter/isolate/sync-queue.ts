/**
 * The sync queue: decides when replicas are synced with their objects.
 *
 * 1. Each object has a queue of replicas that were used since their last sync or have uncounted spends.
 * 2. A replica is due `syncEvery` after its last sync. A replica that was never synced is due at once, or 100 ms after the
 *    last call of its object. One call syncs up to 100 due replicas.
 * 3. The syncs of a queue run in the background of a request (`waitUntil`), one after the other. The platform ends such
 *    work 30 s after the response, so a request keeps the queue running for up to 25 s. A later request takes over.
 * 4. After a call without an answer, the queue pauses for a second, and the batches are sent again. If the object does not
 *    answer within the 25 s, the replicas stay queued until the next request on any key of the same object.
 */
import { report } from "../../observability/events.ts";
import { BoundedMap } from "../../policy/caches.ts";
import { type Clock, sleep } from "../clock.ts";
import { Cooldown, type ObjectCaller, type WaitUntil } from "./object-caller.ts";
import type { ObjectLocation } from "../protocol.ts";
import type { PendingSync, Replica } from "./replica.ts";

/** New replicas that arrive within this time after a call are synced together by the next call. */
const gatherMs = 100;
const maximumKeysPerCall = 100;
const pauseMs = 1_000;
const longestWorkMs = 25_000;
/**
 * A request with less time left than this leaves the queue to the next request, so that failed syncs are repeated for
 * at least this long.
 */
const leastWorkMs = 15_000;
/** The longest timeout of a sync. A policy's timeout, which limits how long a request waits, may be longer. */
const longestSyncMs = 5_000;
/** A sync or a reply this late was lost: the platform has ended the request that waited for it. */
const lostAfterMs = 2_000;
/** Bound the memory of an isolate. While an object is unavailable, the spends of removed replicas are lost. */
const maximumQueues = 2_048;
const maximumQueued = 16_384;
const maximumQueuedBytes = 24_000_000;
const reportEveryMs = 1_000;

/** When the next sync of a queue runs, and until when its request may keep the queue running. */
interface ScheduledSync {
  readonly atMs: number;
  readonly untilMs: number;
}

interface QueuedReplica {
  readonly replica: Replica;
  readonly queue: ObjectQueue;
}

interface ObjectQueue {
  readonly location: ObjectLocation;
  /** A synced replica that stays queued moves to the end. */
  readonly replicas: Set<Replica>;
  scheduled: ScheduledSync | null;
  calledAtMs: number;
  pausedUntilMs: number;
}

export class SyncQueue {
  readonly #caller: ObjectCaller;
  readonly #clock: Clock;
  readonly #reportCooldown: Cooldown;
  /** The object counts batch numbers by isolate. */
  readonly #isolateId = crypto.randomUUID();
  readonly #byObject = new BoundedMap<ObjectQueue>(maximumQueues);
  /** The queued replicas by name, the least recently used first. */
  readonly #queued = new BoundedMap<QueuedReplica>(maximumQueued, {
    mostBytes: maximumQueuedBytes,
    bytesOf: ({ replica }) => replica.sizeBytes,
  });
  /** The last batch number. All keys share it, so that a replica never repeats a number of an evicted one. */
  #lastBatch = 0;

  constructor(caller: ObjectCaller, clock: Clock) {
    this.#caller = caller;
    this.#clock = clock;
    this.#reportCooldown = new Cooldown(reportEveryMs, clock);
  }

  /** Queues a used replica, and schedules a sync in the background of this request when none is scheduled in time. */
  add(replica: Replica, waitUntil: WaitUntil): void {
    const queue = this.#queueOf(replica);
    replica.isUsed = true;
    queue.replicas.add(replica);
    for (const dropped of this.#queued.set(replica.name, { replica, queue })) {
      if (dropped.replica.hasUnsent) this.#reportDropped(dropped.replica);
      dropped.queue.replicas.delete(dropped.replica);
    }
    const nowMs = this.#clock.now();
    const atMs = dueAtMs(queue, replica, nowMs);
    this.#schedule(queue, { atMs, untilMs: nowMs + longestWorkMs }, waitUntil);
  }

  /**
   * The queued replica of this name. A second replica of the same key must not exist: its batches would have higher
   * numbers, and the object would treat the first one's batches as already counted.
   */
  replica(name: string): Replica | undefined {
    return this.#queued.get(name)?.replica;
  }

  #reportDropped({ policies }: Replica): void {
    if (this.#reportCooldown.isOn) return;
    this.#reportCooldown.begin();
    report({ event: "spends-dropped", policies: policies.map(({ name }) => name) });
  }

  #remove(queue: ObjectQueue, replica: Replica): void {
    queue.replicas.delete(replica);
    if (this.#isQueued(replica)) this.#queued.delete(replica.name);
  }

  #isQueued(replica: Replica): boolean {
    return this.#queued.get(replica.name)?.replica === replica;
  }

  #schedule(queue: ObjectQueue, next: ScheduledSync, waitUntil: WaitUntil): void {
    const { scheduled } = queue;
    const isCovered =
      scheduled !== null &&
      scheduled.atMs <= next.atMs &&
      this.#clock.now() < scheduled.atMs + lostAfterMs &&
      scheduled.untilMs - next.atMs >= Math.min(leastWorkMs, next.untilMs - next.atMs);
    if (isCovered || next.atMs > next.untilMs) return;
    queue.scheduled = next;
    waitUntil(this.#run(queue, next, waitUntil));
  }

  async #run(queue: ObjectQueue, sync: ScheduledSync, waitUntil: WaitUntil): Promise<void> {
    const waitMs = sync.atMs - this.#clock.now();
    if (waitMs > 0) await sleep(this.#clock, waitMs);
    if (queue.scheduled === sync) queue.scheduled = null;
    const syncAtMs = this.#clock.now();
    const due = [...queue.replicas].filter((replica) => isDue(replica, syncAtMs));
    await this.#sync(queue, due.slice(0, maximumKeysPerCall));
    const nowMs = this.#clock.now();
    const nextAtMs = [...queue.replicas].reduce((leastMs, replica) => {
      // The request that waits for a pending sync may have been cut off.
      const lostAtMs = isPending(replica, nowMs) ? replica.lostAtMs : null;
      return Math.min(leastMs, lostAtMs ?? dueAtMs(queue, replica, nowMs));
    }, Number.POSITIVE_INFINITY);
    this.#schedule(queue, { atMs: nextAtMs, untilMs: sync.untilMs }, waitUntil);
  }

  async #sync(queue: ObjectQueue, replicas: readonly Replica[]): Promise<void> {
    const calledAtMs = this.#clock.now();
    const policies = replicas.flatMap((replica) => replica.policies);
    const timeouts = policies.map((policy) => policy.timeoutMs);
    const timeoutMs = Math.min(longestSyncMs, Math.max(...timeouts));
    const lostAtMs = calledAtMs + timeoutMs + lostAfterMs;
    const nextBatch = (): number => (this.#lastBatch += 1);
    const syncs = replicas.flatMap((replica): PendingSync[] => {
      const sync = replica.startSync(nextBatch, calledAtMs, lostAtMs);
      if (sync === null) this.#remove(queue, replica);
      return sync === null ? [] : [sync];
    });
    const [first, ...others] = syncs.map(({ call }) => call);
    if (first === undefined) return;
    queue.calledAtMs = calledAtMs;
    const reply = await this.#caller.call({
      name: "sync",
      location: queue.location,
      policies: [...new Set(policies.map(({ name }) => name))],
      timeoutMs,
      send: (stub) => stub.sync({ ...first, isolate: this.#isolateId, others }),
    });
    const answeredAtMs = this.#clock.now();
    if (reply === null) {
      queue.pausedUntilMs = answeredAtMs + pauseMs;
      for (const sync of syncs) sync.replica.finishSync(sync, null, answeredAtMs);
      // The object may be unable to take the first key, so the next call begins with another.
      for (const { replica } of [...syncs.slice(1), ...syncs.slice(0, 1)]) this.#requeue(queue, replica);
      return;
    }
    const replies = [reply, ...(reply.others ?? [])];
    for (const [index, sync] of syncs.entries()) {
      const keyReply = replies[index] ?? null;
      sync.replica.finishSync(sync, keyReply, answeredAtMs);
      // A key that the reply had no room for keeps its place and is due at once.
      if (keyReply === null) sync.replica.dueAtMs = answeredAtMs;
      else this.#requeue(queue, sync.replica);
    }
  }

  /** Moves a replica to the end of its queue, or removes it when nothing is left to sync. */
  #requeue(queue: ObjectQueue, replica: Replica): void {
    queue.replicas.delete(replica);
    if (this.#isQueued(replica) && (replica.isUsed || replica.hasUnsent)) {
      queue.replicas.add(replica);
    } else {
      this.#remove(queue, replica);
    }
  }

  #queueOf({ objectId, location }: Replica): ObjectQueue {
    const known = this.#byObject.get(objectId);
    if (known !== undefined) {
      this.#byObject.refresh(objectId);
      return known;
    }
    const queue = {
      location,
      replicas: new Set<Replica>(),
      scheduled: null,
      calledAtMs: Number.NEGATIVE_INFINITY,
      pausedUntilMs: Number.NEGATIVE_INFINITY,
    };
    this.#byObject.set(objectId, queue);
    return queue;
  }
}

/** When a replica is due. After a step back of the clock, it is due no later than one regular interval from now. */
function dueAtMs(queue: ObjectQueue, replica: Replica, nowMs: number): number {
  const { calledAtMs, pausedUntilMs } = queue;
  const { syncEveryMs } = replica;
  const [atMs, intervalMs] =
    replica.dueAtMs === null ? [calledAtMs + gatherMs, gatherMs] : [replica.dueAtMs, syncEveryMs];
  const regularAtMs = Math.min(Math.max(nowMs, atMs), nowMs + intervalMs);
  return Math.max(regularAtMs, Math.min(pausedUntilMs, nowMs + pauseMs));
}

/** Whether a call should include the replica. It may be early by half its interval, so that the keys of an object align. */
function isDue(replica: Replica, nowMs: number): boolean {
  const { dueAtMs: atMs, syncEveryMs } = replica;
  if (isPending(replica, nowMs)) return false;
  const leftMs = (atMs ?? nowMs) - nowMs;
  return leftMs <= syncEveryMs / 2 || leftMs > syncEveryMs;
}

const isPending = ({ lostAtMs }: Replica, nowMs: number): boolean =>
  lostAtMs !== null && nowMs < lostAtMs && lostAtMs - nowMs <= longestSyncMs + lostAfterMs;
