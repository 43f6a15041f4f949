/**
 * Joins checks that reach an object at the same time. Few calls from this isolate to one object are under way at once. Checks
 * that arrive meanwhile wait, and the next call takes all of them. The object decides them one after the other.
 *
 * Work on the platform belongs to a request. The first waiting request therefore sends the next call, in its own context,
 * and every waiting request has a timer of its own: a request that ended cannot delay the others for longer than that.
 */
import type { Clock } from "../clock.ts";
import { BoundedMap } from "../bounded-map.ts";
import { decodeReplies, encodeChecks, type FlatCheck, nestedCheck } from "../flat-calls.ts";
import type { Stub } from "./object-caller.ts";
import type { WaitUntil } from "../object-calls.ts";
import { Cooldown } from "./cooldown.ts";
import { type JoinedChecks, Lane } from "./lane.ts";
import { objectId, type ObjectLocation } from "../object-location.ts";
import type { CheckReply } from "../protocol.ts";

const mostLanes = 1_024;

/** For how long an object of the previous version is called with nested calls before it is asked again, in milliseconds. */
const nestedForMs = 10_000;

/** Checks on their way to an object. */
export interface SentChecks {
  /** One reply for each check, in their order. Rejects when the object could not decide one of them. */
  readonly replies: Promise<readonly CheckReply[]>;
  /** Takes the checks back. Returns false when a call with them has been sent. */
  readonly withdraw: () => boolean;
}

export class JoinedCalls {
  readonly #stubAt: (location: ObjectLocation) => Stub;
  readonly #clock: Clock;
  readonly #places: number;
  readonly #lanes = new BoundedMap<Lane>(mostLanes);
  /** The objects of the previous version, which know nested calls only. */
  readonly #nested = new BoundedMap<Cooldown>(mostLanes);

  /** @param places how many calls to an object are under way before checks are joined */
  constructor(stubAt: (location: ObjectLocation) => Stub, clock: Clock, places: number) {
    this.#stubAt = stubAt;
    this.#clock = clock;
    this.#places = places;
  }

  /**
   * Sends the checks of one request: at once if a place is free, and else with others after a short wait.
   * @param waitUntil of the request. The caller keeps the request alive until its own checks are answered.
   */
  send(location: ObjectLocation, checks: readonly FlatCheck[], waitUntil: WaitUntil): SentChecks {
    const lane = this.#laneOf(location, checks);
    const joined = lane.enqueue(checks, waitUntil);
    if (lane.hasPlace(this.#clock.now())) this.#sendBy(joined, lane);
    return { replies: this.#replies(lane, joined), withdraw: () => lane.withdraw(joined) };
  }

  /** Relaxed checks do not wait for the confirmed writes of others. */
  #laneOf(location: ObjectLocation, checks: readonly FlatCheck[]): Lane {
    const isConfirmed = checks.some(({ kind }) => kind === "confirmed");
    const id = `${isConfirmed ? "confirmed" : "relaxed"} ${objectId(location)}`;
    const known = this.#lanes.get(id);
    if (known !== undefined) return known;
    const lane = new Lane(location, this.#places);
    this.#lanes.set(id, lane);
    return lane;
  }

  async #replies(lane: Lane, joined: JoinedChecks): Promise<readonly CheckReply[]> {
    const cancel = joined.isQueued ? this.#sendInTime(lane, joined) : null;
    try {
      return await joined.replies(() => {
        if (joined.isQueued && lane.hasPlace(this.#clock.now())) this.#sendBy(joined, lane);
      });
    } finally {
      cancel?.();
    }
  }

  /** Sends the checks after a short wait, even if no place is free. Returns a function that cancels the wait. */
  #sendInTime(lane: Lane, joined: JoinedChecks): () => void {
    return this.#clock.after(lane.placeFreeInMs(this.#clock.now()), () => {
      while (joined.isQueued) this.#sendBy(joined, lane);
    });
  }

  /** Sends waiting checks, in the context of this request. Its own are among them unless too many wait before it. */
  #sendBy(joined: JoinedChecks, lane: Lane): void {
    const sending = this.#sendQueued(lane);
    // The reply to a call without its own checks would be lost if this request ended first.
    if (joined.isQueued) joined.waitUntil(sending);
  }

  async #sendQueued(lane: Lane): Promise<void> {
    const all = lane.takeQueued();
    const call = lane.begin(this.#clock.now());
    let replies: readonly (CheckReply | Error)[];
    try {
      const checks = all.length === 1 ? all[0]?.checks : all.flatMap((each) => each.checks);
      replies = await this.#decide(lane.location, checks ?? []);
    } catch (error) {
      for (const joined of all) joined.fail(error);
      return;
    } finally {
      lane.end(call, this.#clock.now());
    }
    let at = 0;
    for (const joined of all) joined.deliver(replies.slice(at, (at += joined.checks.length)));
  }

  async #decide(
    location: ObjectLocation,
    checks: readonly FlatCheck[],
  ): Promise<readonly (CheckReply | Error)[]> {
    const id = objectId(location);
    if (this.#nested.get(id)?.isOn === true) return this.#decideNested(location, checks);
    const call = encodeChecks(checks);
    try {
      const replies = await this.#stubAt(location).decide(call.texts, call.checks);
      return decodeReplies(checks, replies);
    } catch (error) {
      if (!isWithoutMethod(error)) throw error;
      const cooldown = new Cooldown(nestedForMs, this.#clock);
      cooldown.begin();
      this.#nested.set(id, cooldown);
      return this.#decideNested(location, checks);
    }
  }

  #decideNested(location: ObjectLocation, checks: readonly FlatCheck[]): Promise<CheckReply[]> {
    return this.#stubAt(location).batch({ calls: checks.map(nestedCheck) });
  }
}

/** Whether the object is of a version without the method: workerd's error for a call that no method receives. */
const isWithoutMethod = (error: unknown): boolean =>
  error instanceof TypeError && error.message.includes("does not implement the method");
