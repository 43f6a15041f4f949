/**
 * Joins checks that are sent to an object at the same time. While a call to the object is under way, checks wait, and the
 * next call takes all of them. The object decides them one after the other.
 *
 * Calls and timers end with the request that started them (see request-context.ts). The first waiting request therefore sends
 * the next call in its own context, and each waiting request has its own timer. If the first request ends early, the timers
 * of the others fire, so they wait only briefly.
 */
import type { Clock } from "../clock.ts";
import { BoundedMap } from "../../policy/bounded-map.ts";
import { decodeReplies, encodeChecks, type FlatCheck } from "../flat-calls.ts";
import type { Stub } from "./object-caller.ts";
import type { WaitUntil } from "../object-calls.ts";
import { CheckQueue, type JoinedChecks } from "./check-queue.ts";
import { objectId, type ObjectLocation } from "../object-location.ts";
import type { CheckReply } from "../protocol.ts";

/** Bounds the memory of an isolate. */
const mostObjects = 1_024;

/** Checks that wait, or that were sent. */
export interface SentChecks {
  /** One reply for each check, in their order. Rejects when the object could not decide one of them. */
  readonly replies: Promise<readonly CheckReply[]>;
  /** Takes waiting checks back. Returns false if they were sent. */
  readonly withdraw: () => boolean;
}

export class JoinedCalls {
  readonly #stubAt: (location: ObjectLocation) => Stub;
  readonly #clock: Clock;
  readonly #mostCalls: number;
  readonly #queues = new BoundedMap<CheckQueue>(mostObjects);

  /** @param mostCalls the number of calls under way to an object from which on checks wait and are joined */
  constructor(stubAt: (location: ObjectLocation) => Stub, clock: Clock, mostCalls: number) {
    this.#stubAt = stubAt;
    this.#clock = clock;
    this.#mostCalls = mostCalls;
  }

  /**
   * Sends the checks of one request: at once if few calls are under way, otherwise with other checks after a short wait.
   * @param waitUntil that of the request; the caller keeps the request alive until its own checks have replies
   */
  send(location: ObjectLocation, checks: readonly FlatCheck[], waitUntil: WaitUntil): SentChecks {
    const queue = this.#queueOf(location, checks);
    const joined = queue.enqueue(checks, waitUntil);
    if (queue.canSend(this.#clock.now())) this.#sendBy(joined, queue);
    return { replies: this.#replies(queue, joined), withdraw: () => queue.withdraw(joined) };
  }

  /** Relaxed checks do not wait for the confirmed writes of others. */
  #queueOf(location: ObjectLocation, checks: readonly FlatCheck[]): CheckQueue {
    const isConfirmed = checks.some(({ kind }) => kind === "confirmed");
    const id = `${isConfirmed ? "confirmed" : "relaxed"} ${objectId(location)}`;
    const known = this.#queues.get(id);
    if (known !== undefined) return known;
    const queue = new CheckQueue(location, this.#mostCalls);
    this.#queues.set(id, queue);
    return queue;
  }

  async #replies(queue: CheckQueue, joined: JoinedChecks): Promise<readonly CheckReply[]> {
    const cancel = joined.isQueued ? this.#sendInTime(queue, joined) : null;
    try {
      return await joined.replies(() => {
        if (joined.isQueued && queue.canSend(this.#clock.now())) this.#sendBy(joined, queue);
      });
    } finally {
      cancel?.();
    }
  }

  /** Sends the checks after a short wait, whatever calls are under way. Returns a function that cancels the wait. */
  #sendInTime(queue: CheckQueue, joined: JoinedChecks): () => void {
    return this.#clock.after(queue.sendableInMs(this.#clock.now()), () => {
      while (joined.isQueued) this.#sendBy(joined, queue);
    });
  }

  /** Sends waiting checks in the context of this request. They include its own, unless earlier checks fill the call. */
  #sendBy(joined: JoinedChecks, queue: CheckQueue): void {
    const sending = this.#sendQueued(queue);
    // Without its own checks in the call, the request could end first, and the replies would be lost.
    if (joined.isQueued) joined.waitUntil(sending);
  }

  async #sendQueued(queue: CheckQueue): Promise<void> {
    const all = queue.takeQueued();
    const call = queue.begin(this.#clock.now());
    let replies: readonly (CheckReply | Error)[];
    try {
      const checks = all.length === 1 ? all[0]?.checks : all.flatMap((each) => each.checks);
      replies = await this.#decide(queue.location, checks ?? []);
    } catch (error) {
      for (const joined of all) joined.fail(error);
      return;
    } finally {
      queue.end(call, this.#clock.now());
    }
    let at = 0;
    for (const joined of all) joined.deliver(replies.slice(at, (at += joined.checks.length)));
  }

  async #decide(location: ObjectLocation, checks: readonly FlatCheck[]): Promise<readonly (CheckReply | Error)[]> {
    const call = encodeChecks(checks);
    return decodeReplies(checks, await this.#stubAt(location).decide(call.texts, call.checks));
  }
}
