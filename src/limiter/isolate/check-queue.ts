/** The checks of one isolate that wait to be sent to one object, and the calls with checks that are under way. */
import type { FlatCheck } from "../flat-calls.ts";
import type { WaitUntil } from "../object-calls.ts";
import type { ObjectLocation } from "../object-location.ts";
import type { CheckReply } from "../protocol.ts";
import { Waiter } from "./request-context.ts";

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

type CallResult = { readonly replies: readonly CheckReply[] } | { readonly error: unknown };

/** The checks of one request. */
export class JoinedChecks {
  readonly checks: readonly FlatCheck[];
  readonly waitUntil: WaitUntil;
  /** False once the checks are sent or withdrawn. */
  isQueued = true;
  #result: CallResult | null = null;
  /** Woken when the result has arrived, or when another call can be sent. */
  readonly #waiter = new Waiter();

  constructor(checks: readonly FlatCheck[], waitUntil: WaitUntil) {
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
    return this.#result.replies;
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
    this.#end({ replies: decided });
  }

  fail(error: unknown): void {
    this.#end({ error });
  }

  #end(result: CallResult): void {
    this.#result = result;
    this.#waiter.wake();
  }
}

interface CallUnderWay {
  readonly sentAtMs: number;
}

export class CheckQueue {
  readonly location: ObjectLocation;
  readonly #mostCalls: number;
  readonly #queue: JoinedChecks[] = [];
  /** The calls that count as under way. */
  readonly #calls = new Set<CallUnderWay>();
  /** A moving average; null before the first reply. */
  #roundTripMs: number | null = null;

  /** @param mostCalls the number of calls under way from which on checks wait */
  constructor(location: ObjectLocation, mostCalls: number) {
    this.location = location;
    this.#mostCalls = mostCalls;
  }

  enqueue(checks: readonly FlatCheck[], waitUntil: WaitUntil): JoinedChecks {
    const joined = new JoinedChecks(checks, waitUntil);
    this.#queue.push(joined);
    return joined;
  }

  /** Takes the checks out of the queue. Returns false when they have been sent. */
  withdraw(joined: JoinedChecks): boolean {
    if (!joined.isQueued) return false;
    this.#queue.splice(this.#queue.indexOf(joined), 1);
    joined.isQueued = false;
    joined.fail(new Error("withdrawn"));
    return true;
  }

  /** Takes the checks of the next call out of the queue: those of at least one request, if any wait. */
  takeQueued(): readonly JoinedChecks[] {
    const counted = new Set<string>();
    let checkCount = 0;
    let characters = 0;
    let count = 0;
    for (const { checks } of this.#queue) {
      checkCount += checks.length;
      for (const { key, charges } of checks) {
        characters += key.length;
        for (const { text } of charges) {
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

  canSend(nowMs: number): boolean {
    return this.sendableInMs(nowMs) === 0;
  }

  /** The longest wait until another call can be sent, in milliseconds; 0 if it can be sent now. */
  sendableInMs(nowMs: number): number {
    const longestWaitMs = this.#longestWaitMs();
    let waitMs = longestWaitMs;
    for (const call of this.#calls) {
      const sinceMs = nowMs - call.sentAtMs;
      // Also drops calls whose request has ended, and calls that were sent before the clock stepped back.
      if (sinceMs < 0 || sinceMs >= longestWaitMs) this.#calls.delete(call);
      else waitMs = Math.min(waitMs, longestWaitMs - sinceMs);
    }
    return this.#calls.size < this.#mostCalls ? 0 : waitMs;
  }

  #longestWaitMs(): number {
    const shareMs = Math.ceil((this.#roundTripMs ?? 0) * waitShare);
    return Math.min(Math.max(shareMs, leastWaitMs), mostWaitMs);
  }

  begin(nowMs: number): CallUnderWay {
    const call = { sentAtMs: nowMs };
    this.#calls.add(call);
    return call;
  }

  /** Lets the first waiting request send the next call. */
  end(call: CallUnderWay, nowMs: number): void {
    this.#calls.delete(call);
    const latestMs = Math.max(0, nowMs - call.sentAtMs);
    const beforeMs = this.#roundTripMs ?? latestMs;
    this.#roundTripMs = beforeMs + (latestMs - beforeMs) * latestWeight;
    this.#queue[0]?.wakeUp();
  }
}
