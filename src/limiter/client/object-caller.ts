/**
 * Calls objects, with a deadline for each call. An object that failed is not called for decisions for one second. A
 * deadline does not cancel a call: the late reply is handled in the background, so that its spend can be given back.
 */
import { errorText, report } from "../../observability/events.ts";
import { BoundedMap } from "../bounded-map.ts";
import type { Clock } from "../clock.ts";
import { Cooldown } from "./cooldown.ts";
import {
  DeadlineExceeded,
  platformRetries,
  type WaitUntil,
  withDeadline,
} from "../object-calls.ts";
import { objectId, type ObjectLocation } from "../object-location.ts";
import type { RateLimiter } from "../object/rate-limiter.ts";

const cooldownMs = 1_000;
const maximumCooldowns = 1_024;

type Objects = DurableObjectNamespace<RateLimiter>;
type Stub = DurableObjectStub<RateLimiter>;

export type { WaitUntil };

const decisionCalls = ["check", "look", "reserve", "lease", "sync"] as const;
type CorrectionCall = "renew" | "refund" | "return" | "forget" | "settle";
type AdminCall = "explain";

export interface Call<Reply> {
  /** Appears in the log. Decision calls are skipped during an object's cooldown; the others are always sent. */
  readonly name: (typeof decisionCalls)[number] | CorrectionCall | AdminCall;
  readonly location: ObjectLocation;
  readonly policies: readonly string[];
  readonly timeoutMs: number;
  readonly send: (stub: Stub) => Promise<Reply>;
  /** Whether a failed call is sent once more. Only for calls that have the same effect once and twice. */
  readonly isRepeatable?: boolean;
  /** Whether the timeout is shorter than that of the policies, so that a missed deadline is no sign of a fault. */
  readonly isShortened?: boolean;
  /** Whether no decision waits for the reply. */
  readonly isBackground?: boolean;
  /** Handles a reply that arrives after the deadline. */
  readonly late?: { readonly waitUntil: WaitUntil; readonly settle: (reply: Reply) => unknown };
}

const isDecision = (name: string): boolean => decisionCalls.some((each) => each === name);

/** Receives how long objects take to answer the calls that decisions wait for. */
export interface LatencyObserver {
  answered(policies: readonly string[], latencyMs: number): void;
}

export class ObjectCaller {
  readonly #objects: Objects;
  readonly #clock: Clock;
  readonly #observer: LatencyObserver | null;
  readonly #cooldowns = new BoundedMap<Cooldown>(maximumCooldowns);

  constructor(objects: Objects, clock: Clock, observer: LatencyObserver | null = null) {
    this.#objects = objects;
    this.#clock = clock;
    this.#observer = observer;
  }

  /** @returns the object's reply; null when it fails, misses the deadline or is in its cooldown */
  async call<Reply>(call: Call<Reply>): Promise<Reply | null> {
    const { name, location, policies, timeoutMs, send, late } = call;
    const id = objectId(location);
    const skipped = this.#skipReason(call, id);
    if (skipped !== null) {
      report({ event: "object-silent", call: name, policies, error: `skipped: ${skipped}` });
      return null;
    }
    const calledAtMs = this.#observer === null ? 0 : this.#clock.now();
    let reply: Promise<Reply> | null = null;
    try {
      // A new stub for each call: a stub that has thrown stays broken.
      reply = send(this.#stubAt(location));
      const inTime = await withDeadline(this.#clock, reply, timeoutMs);
      this.#cooldowns.delete(id);
      if (isDecision(name) && name !== "sync" && call.isBackground !== true) {
        this.#observer?.answered(policies, this.#clock.now() - calledAtMs);
      }
      return inTime;
    } catch (error) {
      report({ event: "object-silent", call: name, policies, error: errorText(error) });
      const isTooLate = error instanceof DeadlineExceeded;
      if (!isTooLate || call.isShortened !== true) this.#startCooldown(id);
      if (reply !== null) late?.waitUntil(reply.then(late.settle, () => undefined));
      const isRepeated = call.isRepeatable === true && isTransient(error);
      return isRepeated ? this.call({ ...call, isRepeatable: false }) : null;
    }
  }

  /** Why a decision call is not sent; null when it is. */
  #skipReason({ name, timeoutMs }: Pick<Call<unknown>, "name" | "timeoutMs">, id: string) {
    if (!isDecision(name)) return null;
    if (timeoutMs <= 0) return "no time is left after newer rules were adopted";
    return this.#cooldowns.get(id)?.isOn === true
      ? "the object failed less than a second ago"
      : null;
  }

  #startCooldown(id: string): void {
    const cooldown = new Cooldown(cooldownMs, this.#clock);
    cooldown.begin();
    this.#cooldowns.set(id, cooldown);
  }

  #stubAt({ name, locationHint, jurisdiction }: ObjectLocation): Stub {
    const objects =
      jurisdiction === null ? this.#objects : this.#objects.jurisdiction(jurisdiction);
    return objects.getByName(name, {
      retry: platformRetries,
      ...(locationHint !== null && { locationHint }),
    });
  }
}

/** A timed-out call may still be running, and an overloaded object must not get more calls. */
const isTransient = (error: unknown): boolean =>
  !(error instanceof DeadlineExceeded) && Object(error).overloaded !== true;
