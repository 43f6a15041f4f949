/**
 * Joins checks that are sent to an object at the same time. While a call to the object is under way, checks wait, and the
 * next call takes all of them. The object decides them one after the other.
 *
 * Calls and timers end with the request that started them (see request-context.ts). The first waiting request therefore sends
 * the next call in its own context, and each waiting request has its own timer. If the first request ends early, the timers
 * of the others fire, so they wait only briefly.
 */
import { BoundedMap } from "../../policy/caches.ts";
import type { Clock, WaitUntil } from "../clock.ts";
import { type CheckReply, objectId, type ObjectLocation } from "../protocol.ts";
import { checkKindOf, decodeReplies, sendChecks } from "./key-group.ts";
import type { Result, Sent, Stub } from "./object-caller.ts";
import { chargeTextOf, type KeyCheck } from "./outcome.ts";
import { Waiter } from "./request-context.ts";

/** Bounds the memory of an isolate. */
const mostObjects = 1_024;

/** Bound the size of a call. The checks of a single request may exceed them. */
const mostChecks = 100;
const mostCharacters = 2 ** 20;

/**
 * A check waits behind a call for at most this share of the object's recent round trip. Then it is sent in a further call.
 * A distant object can therefore have several calls under way, and a call without a reply delays other checks only briefly.
 */
const waitShare = 1 / 4;
const leastWaitMs = 5;
const mostWaitMs = 50;

/** The weight of the latest round trip in the average. */
const latestWeight = 1 / 4;

export class JoinedCalls {
  readonly #stubAt: (location: ObjectLocation) => Stub;
  readonly #clock: Clock;
  readonly #mostCalls: number;
  readonly #queues = new BoundedMap<CheckQueue>(mostObjects);

  /** @param mostCalls when this number of calls to an object is under way, further checks wait and are joined */
  constructor(stubAt: (location: ObjectLocation) => Stub, clock: Clock, mostCalls: number) {
    this.#stubAt = stubAt;
    this.#clock = clock;
    this.#mostCalls = mostCalls;
  }

  /**
   * Sends the checks of one request: at once if few calls are under way, otherwise with other checks after a short wait.
   * Relaxed checks do not wait for the confirmed writes of others.
   * @param waitUntil the `waitUntil` of the request; the caller keeps the request alive until its own checks have
   * replies
   */
  send(location: ObjectLocation, checks: readonly KeyCheck[], waitUntil: WaitUntil): Sent<readonly CheckReply[]> {
    const isConfirmed = checks.some((check) => checkKindOf(check) === "confirmed");
    const id = `${isConfirmed ? "confirmed" : "relaxed"} ${objectId(location)}`;
    let queue = this.#queues.get(id);
    if (queue === undefined) {
      queue = new CheckQueue(() => this.#stubAt(location), this.#clock, this.#mostCalls);
      this.#queues.set(id, queue);
    }
    return queue.send(new JoinedChecks(checks, waitUntil));
  }
}

/** The checks of one request. */
class JoinedChecks {
  readonly checks: readonly KeyCheck[];
  readonly waitUntil: WaitUntil;
  /** False once the checks are sent or withdrawn. */
  isQueued = true;
  #result: Result<readonly CheckReply[]> | null = null;
  /** Woken when the result has arrived, or when another call can be sent. */
  readonly #waiter = new Waiter();

  constructor(checks: readonly KeyCheck[], waitUntil: WaitUntil) {
    this.checks = checks;
    this.waitUntil = waitUntil;
  }

  /**
   * Waits for the replies, in the context of the request.
   * @param onWakeUp called when an earlier call has ended, so that these checks can be sent
   */
  async replies(onWakeUp: () => void): Promise<readonly CheckReply[]> {
    for (;;) {
      // oxlint-disable-next-line no-await-in-loop
      await this.#waiter.woken;
      if (this.#result !== null) break;
      this.#waiter.rest();
      onWakeUp();
    }
    if ("error" in this.#result) throw this.#result.error;
    return this.#result.reply;
  }

  /** Lets the request try to send the waiting checks. */
  wakeUp(): void {
    this.#waiter.wake();
  }

  /** An error among the replies fails all checks of the request, as it would if the request had its own call. */
  deliver(replies: readonly (CheckReply | Error)[]): void {
    const decided: CheckReply[] = [];
    for (const reply of replies) {
      if (reply instanceof Error) {
        this.fail(reply);
        return;
      }
      decided.push(reply);
    }
    this.#end({ reply: decided });
  }

  fail(error: unknown): void {
    this.#end({ error });
  }

  #end(result: Result<readonly CheckReply[]>): void {
    this.#result = result;
    this.#waiter.wake();
  }
}

/** The checks of all requests for one object. */
class CheckQueue {
  readonly #stub: () => Stub;
  readonly #clock: Clock;
  readonly #mostCalls: number;
  readonly #queue: JoinedChecks[] = [];
  /** The calls that count as under way. */
  readonly #calls = new Set<{ readonly sentAtMs: number }>();
  /** A moving average; null before the first reply. */
  #roundTripMs: number | null = null;

  constructor(stub: () => Stub, clock: Clock, mostCalls: number) {
    this.#stub = stub;
    this.#clock = clock;
    this.#mostCalls = mostCalls;
  }

  send(joined: JoinedChecks): Sent<readonly CheckReply[]> {
    this.#queue.push(joined);
    this.#sendIfFree(joined);
    return { replies: this.#replies(joined), withdraw: () => this.#withdraw(joined) };
  }

  async #replies(joined: JoinedChecks): Promise<readonly CheckReply[]> {
    // Sends the checks after a short wait, whatever calls are under way.
    const cancel = joined.isQueued
      ? this.#clock.after(this.#sendableInMs(), () => {
          while (joined.isQueued) this.#sendBy(joined);
        })
      : null;
    try {
      return await joined.replies(() => this.#sendIfFree(joined));
    } finally {
      cancel?.();
    }
  }

  #sendIfFree(joined: JoinedChecks): void {
    if (joined.isQueued && this.#sendableInMs() === 0) this.#sendBy(joined);
  }

  /** Sends waiting checks in the context of this request. They include its own, unless earlier checks fill the call. */
  #sendBy(joined: JoinedChecks): void {
    const sending = this.#sendQueued();
    // Without its own checks in the call, the request could end first, and the replies would be lost.
    if (joined.isQueued) joined.waitUntil(sending);
  }

  async #sendQueued(): Promise<void> {
    const all = this.#takeQueued();
    const call = { sentAtMs: this.#clock.now() };
    this.#calls.add(call);
    let replies: readonly (CheckReply | Error)[];
    try {
      const checks = (all.length === 1 ? all[0]?.checks : all.flatMap((each) => each.checks)) ?? [];
      replies = decodeReplies(checks, await sendChecks(this.#stub(), checks));
    } catch (error) {
      for (const joined of all) joined.fail(error);
      return;
    } finally {
      this.#end(call);
    }
    let at = 0;
    for (const joined of all) joined.deliver(replies.slice(at, (at += joined.checks.length)));
  }

  /** Takes the checks out of the queue. Returns false when they have been sent. */
  #withdraw(joined: JoinedChecks): boolean {
    if (!joined.isQueued) return false;
    this.#queue.splice(this.#queue.indexOf(joined), 1);
    joined.isQueued = false;
    joined.fail(new Error("withdrawn"));
    return true;
  }

  /** Takes the checks of the next call out of the queue: those of at least one request, if any wait. */
  #takeQueued(): readonly JoinedChecks[] {
    const counted = new Set<string>();
    let checkCount = 0;
    let characters = 0;
    let count = 0;
    for (const { checks } of this.#queue) {
      checkCount += checks.length;
      for (const { group } of checks) {
        for (const { policy, partitionKey } of group) {
          characters += partitionKey.length;
          const text = chargeTextOf(policy);
          if (!counted.has(text)) characters += text.length;
          counted.add(text);
        }
      }
      if (count > 0 && (checkCount > mostChecks || characters > mostCharacters)) break;
      count++;
    }
    const taken = this.#queue.splice(0, count);
    for (const joined of taken) joined.isQueued = false;
    return taken;
  }

  /** The longest wait until another call can be sent, in milliseconds; 0 if it can be sent now. */
  #sendableInMs(): number {
    const nowMs = this.#clock.now();
    const shareMs = Math.ceil((this.#roundTripMs ?? 0) * waitShare);
    const longestWaitMs = Math.min(Math.max(shareMs, leastWaitMs), mostWaitMs);
    let waitMs = longestWaitMs;
    for (const call of this.#calls) {
      const sinceMs = nowMs - call.sentAtMs;
      // Also drops calls whose request has ended, and calls that were sent before the clock stepped back.
      if (sinceMs < 0 || sinceMs >= longestWaitMs) this.#calls.delete(call);
      else waitMs = Math.min(waitMs, longestWaitMs - sinceMs);
    }
    return this.#calls.size < this.#mostCalls ? 0 : waitMs;
  }

  /** Lets the first waiting request send the next call. */
  #end(call: { readonly sentAtMs: number }): void {
    this.#calls.delete(call);
    const latestMs = Math.max(0, this.#clock.now() - call.sentAtMs);
    const beforeMs = this.#roundTripMs ?? latestMs;
    this.#roundTripMs = beforeMs + (latestMs - beforeMs) * latestWeight;
    this.#queue[0]?.wakeUp();
  }
}
