/** The checks of one isolate that wait for a call to an object, and the calls with checks that are under way. */
import type { FlatCheck } from "../flat-calls.ts";
import type { WaitUntil } from "../object-calls.ts";
import type { ObjectLocation } from "../object-location.ts";
import type { CheckReply } from "../protocol.ts";

/** Bound a call, unless the checks of a single request exceed them. */
const mostChecks = 100;
const mostCharacters = 2 ** 20;

/**
 * A call keeps its place for at most this share of the object's recent round trip. A distant object then has several calls
 * under way, and no request waits long behind a call that is never answered.
 */
const patienceShare = 1 / 4;
const leastPatienceMs = 5;
const mostPatienceMs = 50;

/** The weight of the latest round trip in the average. */
const latestWeight = 1 / 4;

type CallResult = { readonly replies: readonly CheckReply[] } | { readonly error: unknown };

/** The checks of one request. */
export class JoinedChecks {
  readonly checks: readonly FlatCheck[];
  readonly waitUntil: WaitUntil;
  /** Whether they have not been sent. */
  isQueued = true;
  #result: CallResult | null = null;
  /** A promise belongs to the request that created it. Other requests only resolve this one, and never replace it. */
  #news = Promise.withResolvers<void>();

  constructor(checks: readonly FlatCheck[], waitUntil: WaitUntil) {
    this.checks = checks;
    this.waitUntil = waitUntil;
  }

  /**
   * Waits for the replies, in the context of the request.
   * @param usePlace called when a place for the next call is free
   */
  async replies(usePlace: () => void): Promise<readonly CheckReply[]> {
    for (;;) {
      // oxlint-disable-next-line no-await-in-loop
      await this.#news.promise;
      if (this.#result !== null) break;
      this.#news = Promise.withResolvers();
      usePlace();
    }
    if ("error" in this.#result) throw this.#result.error;
    return this.#result.replies;
  }

  announcePlace(): void {
    this.#news.resolve();
  }

  /** An error among the replies fails the request's other checks too, as that of a single call would. */
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
    this.#news.resolve();
  }
}

interface CallUnderWay {
  readonly sentAtMs: number;
}

export class Lane {
  readonly location: ObjectLocation;
  readonly #places: number;
  readonly #queue: JoinedChecks[] = [];
  /** The calls that keep a place. */
  readonly #calls = new Set<CallUnderWay>();
  /** A moving average; null before the first answer. */
  #roundTripMs: number | null = null;

  /** @param places how many calls are under way at once, unless they take long */
  constructor(location: ObjectLocation, places: number) {
    this.location = location;
    this.#places = places;
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

  /** Takes the checks of the next call out of the queue: at least those of one request if any wait. */
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

  hasPlace(nowMs: number): boolean {
    return this.placeFreeInMs(nowMs) === 0;
  }

  /** The longest wait until a place is free, in milliseconds; 0 when one is free. */
  placeFreeInMs(nowMs: number): number {
    const patienceMs = this.#patienceMs();
    let waitMs = patienceMs;
    for (const call of this.#calls) {
      const sinceMs = nowMs - call.sentAtMs;
      // Also forgets calls whose request has ended, and calls before the clock stepped back.
      if (sinceMs < 0 || sinceMs >= patienceMs) this.#calls.delete(call);
      else waitMs = Math.min(waitMs, patienceMs - sinceMs);
    }
    return this.#calls.size < this.#places ? 0 : waitMs;
  }

  #patienceMs(): number {
    const shareMs = Math.ceil((this.#roundTripMs ?? 0) * patienceShare);
    return Math.min(Math.max(shareMs, leastPatienceMs), mostPatienceMs);
  }

  begin(nowMs: number): CallUnderWay {
    const call = { sentAtMs: nowMs };
    this.#calls.add(call);
    return call;
  }

  /** Frees the call's place for the first request that waits. */
  end(call: CallUnderWay, nowMs: number): void {
    this.#calls.delete(call);
    const latestMs = Math.max(0, nowMs - call.sentAtMs);
    const beforeMs = this.#roundTripMs ?? latestMs;
    this.#roundTripMs = beforeMs + (latestMs - beforeMs) * latestWeight;
    this.#queue[0]?.announcePlace();
  }
}
