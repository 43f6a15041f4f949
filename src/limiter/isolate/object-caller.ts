/**
 * Calls objects, with a deadline for each call. An object that failed is not called for decisions for one second. A
 * deadline does not cancel a call: the late reply is handled in the background, so that its spend can be given back.
 */
import { errorText, report } from "../../observability/events.ts";
import { BoundedMap } from "../../policy/caches.ts";
import { type ConfigProblem, ConfigProblems, describeProblem } from "../../validation/problems.ts";
import { type Clock, DeadlineExceeded, platformClock, type WaitUntil, withDeadline } from "../clock.ts";
import type { RateLimiter } from "../object/durable-object.ts";
import {
  type CheckReply,
  noSqliteStorage,
  objectId,
  type ObjectLocation,
  platformRetries,
  type SettledCharge,
} from "../protocol.ts";
import { JoinedCalls } from "./joined-calls.ts";
import type { KeyCheck } from "./outcome.ts";
import { canResumeRequests } from "./request-context.ts";

const cooldownMs = 1_000;
const maximumCooldowns = 1_024;

type Objects = DurableObjectNamespace<RateLimiter>;
export type Stub = DurableObjectStub<RateLimiter>;

export type { WaitUntil };

const decisionCalls = ["check", "look", "reserve", "lease", "sync"] as const;

export interface Call<Reply> {
  /** Appears in the log. Decision calls are skipped during an object's cooldown; the others are always sent. */
  readonly name: (typeof decisionCalls)[number] | "renew" | "refund" | "return" | "forget" | "settle" | "explain";
  readonly location: ObjectLocation;
  readonly policies: readonly string[];
  readonly timeoutMs: number;
  /** Whether the timeout is shorter than that of the policies, so that a missed deadline is no sign of a fault. */
  readonly isShortened?: boolean;
  /** Whether no decision waits for the reply. */
  readonly isBackground?: boolean;
  /** Handles a reply that arrives after the deadline. */
  readonly late?: { readonly waitUntil: WaitUntil; readonly settle: (reply: Reply) => unknown };
  readonly send: (stub: Stub) => Promise<Reply>;
  /** Whether a failed call is sent once more. Only for calls that have the same effect once and twice. */
  readonly isRepeatable?: boolean;
}

const isDecision = (name: string): boolean => decisionCalls.some((each) => each === name);

/** Receives facts about calls, after they are answered. */
export interface LimiterObserver {
  /** How long an object took to answer a call that a decision waited for. */
  answered(policies: readonly string[], latencyMs: number): void;
  /** Without it, objects do not report what they settle. */
  settled?(partitionKey: string, charges: readonly SettledCharge[]): void;
}

/** Checks wait, and are joined, while this number of calls with checks is under way to their object. */
const mostCallsOfObject = 1;

/**
 * How long a request that the isolate decides waits for the first call. An object that can never decide replies within
 * this time.
 */
const mostFirstCallMs = 250;

export interface CallerOptions {
  /** Whether checks that reach an object at the same time may share a call. Default: if the platform allows it. */
  readonly joinsChecks?: boolean;
  /**
   * Whether the first request waits for its call to an object, even if the isolate decides the request. An object that
   * can never decide is then noticed at once. Default: false.
   */
  readonly awaitsFirstCall?: boolean;
}

export class ObjectCaller {
  readonly observer: LimiterObserver | null;
  readonly #objects: Objects;
  readonly #clock: Clock;
  readonly #cooldowns = new BoundedMap<Cooldown>(maximumCooldowns);
  readonly #joined: JoinedCalls;
  /** The problem of objects that can never decide. All objects of a binding have the same class. */
  unusable: ConfigProblems | null = null;
  #firstCall: Promise<unknown> | null = null;
  /** True once an object was called, and from the start if no request waits for the first call. */
  isTried: boolean;

  constructor(
    objects: Objects,
    clock: Clock,
    observer: LimiterObserver | null = null,
    { joinsChecks = canResumeRequests(), awaitsFirstCall = false }: CallerOptions = {},
  ) {
    this.#objects = objects;
    this.#clock = clock;
    this.observer = observer;
    this.isTried = !awaitsFirstCall;
    const mostCalls = joinsChecks ? mostCallsOfObject : Number.POSITIVE_INFINITY;
    this.#joined = new JoinedCalls((location) => this.#stubAt(location), clock, mostCalls);
  }

  /**
   * Waits once for the first call of this isolate, for at most `mostFirstCallMs`. Only for the request that made the
   * call.
   */
  async takeFirstCall(): Promise<void> {
    const first = this.#firstCall;
    this.#firstCall = null;
    if (first !== null) await withDeadline(this.#clock, first, mostFirstCallMs).catch(() => null);
  }

  /** @returns the object's reply; null when it fails, misses the deadline or is in its cooldown */
  call<Reply>(call: Call<Reply>): Promise<Reply | null> {
    return this.#noteFirst(this.#call(call));
  }

  #noteFirst<Reply>(replying: Promise<Reply>): Promise<Reply> {
    if (this.isTried) return replying;
    this.isTried = true;
    const noted = replying.finally(() => (this.#firstCall = null));
    this.#firstCall = noted;
    return noted;
  }

  async #call<Reply>(call: Call<Reply>): Promise<Reply | null> {
    const { isRepeatable = false } = call;
    const result = await this.#result(call, () => ({
      replies: call.send(this.#stubAt(call.location)),
      withdraw: () => false,
    }));
    if ("reply" in result) return result.reply;
    const isRepeated = isRepeatable && isTransient(result.error);
    return isRepeated ? this.#call({ ...call, isRepeatable: false }) : null;
  }

  /** Decides checks, in one call with those of other requests that reach the object at the same time. */
  decide(
    checks: readonly KeyCheck[],
    waitUntil: WaitUntil,
    call: Omit<Call<readonly CheckReply[]>, "send">,
  ): Promise<readonly CheckReply[] | null> {
    const deciding = this.#result(call, () => this.#joined.send(call.location, checks, waitUntil));
    // Other requests may wait for the call that this one sends. Their replies must arrive even if this client disconnects.
    waitUntil(deciding);
    return this.#noteFirst(deciding.then((result) => ("reply" in result ? result.reply : null)));
  }

  async #result<Reply>(call: Omit<Call<Reply>, "send">, send: () => Sent<Reply>): Promise<Result<Reply>> {
    const { name, location, policies, timeoutMs, late } = call;
    if (this.unusable !== null) return { error: null };
    const id = objectId(location);
    const skipped = this.#skipReason(call, id);
    if (skipped !== null) {
      report({ event: "object-silent", call: name, policies, error: `skipped: ${skipped}` });
      return { error: null };
    }
    const calledAtMs = this.observer === null ? 0 : this.#clock.now();
    let sent: Sent<Reply> | null = null;
    try {
      sent = send();
      const reply = await withDeadline(this.#clock, sent.replies, timeoutMs);
      this.#cooldowns.delete(id);
      if (isDecision(name) && name !== "sync" && call.isBackground !== true) {
        this.observer?.answered(policies, this.#clock.now() - calledAtMs);
      }
      return { reply };
    } catch (error) {
      if (this.#noteUnusable(error, isDecision(name))) return { error: null };
      const isTooLate = error instanceof DeadlineExceeded;
      if (isTooLate && sent?.withdraw() === true) {
        const queued = `not sent: earlier checks were under way for ${timeoutMs} ms`;
        report({ event: "object-silent", call: name, policies, error: queued });
        return { error };
      }
      report({ event: "object-silent", call: name, policies, error: errorText(error) });
      const isFault = !isTooLate || (call.isShortened !== true && !error.wasBusy);
      if (isFault) this.#startCooldown(id);
      if (sent !== null) late?.waitUntil(sent.replies.then(late.settle, () => undefined));
      return { error };
    }
  }

  /**
   * @param isDecisionCall whether every version of the object has the method of the call
   * @returns whether the error of a call shows that no call will ever succeed
   */
  #noteUnusable(error: unknown, isDecisionCall: boolean): boolean {
    const problem = problemOf(error, isDecisionCall);
    if (problem === null) return false;
    if (this.unusable === null) {
      this.unusable = new ConfigProblems([problem]);
      report({ event: "configuration-invalid", problems: [describeProblem(problem)] });
    }
    return true;
  }

  /** Why a decision call is not sent; null when it is. */
  #skipReason({ name, timeoutMs }: Pick<Call<unknown>, "name" | "timeoutMs">, id: string) {
    if (!isDecision(name)) return null;
    if (timeoutMs <= 0) return "no time is left after newer rules were adopted";
    return this.#cooldowns.get(id)?.isOn === true ? "the object failed less than a second ago" : null;
  }

  #startCooldown(id: string): void {
    const cooldown = new Cooldown(cooldownMs, this.#clock);
    cooldown.begin();
    this.#cooldowns.set(id, cooldown);
  }

  #stubAt({ name, locationHint, jurisdiction }: ObjectLocation): Stub {
    const objects = jurisdiction === null ? this.#objects : this.#objects.jurisdiction(jurisdiction);
    return objects.getByName(name, {
      retry: platformRetries,
      ...(locationHint !== null && { locationHint }),
    });
  }
}

/** A call that is sent, or that waits to be sent. */
export interface Sent<Reply> {
  readonly replies: Promise<Reply>;
  /** Takes the call back. Returns false when it has been sent. */
  readonly withdraw: () => boolean;
}

/** The error is null for a call that was skipped. */
export type Result<Reply> = { readonly reply: Reply } | { readonly error: unknown };

/** A timed-out call may still be running, and an overloaded object must not get more calls. */
const isTransient = (error: unknown): boolean =>
  error !== null && !(error instanceof DeadlineExceeded) && Object(error).overloaded !== true;

export class Cooldown {
  readonly #lengthMs: number;
  readonly #now: Clock["now"];
  #beganAtMs = Number.POSITIVE_INFINITY;

  constructor(lengthMs: number, { now }: Pick<Clock, "now"> = platformClock) {
    this.#lengthMs = lengthMs;
    this.#now = now;
  }

  /** A clock that has stepped back ends the cooldown. */
  get isOn(): boolean {
    const sinceMs = this.#now() - this.#beganAtMs;
    return sinceMs >= 0 && sinceMs < this.#lengthMs;
  }

  begin(): void {
    this.#beganAtMs = this.#now();
  }
}

const variable = "RATE_LIMITER";

/**
 * The problem of a binding to a class without SQLite storage.
 * @param error the error of a call to one of its objects
 * @returns null when the error has another cause
 */
export function sqliteProblem(error: unknown, binding: string, className: string): ConfigProblem | null {
  // An object whose constructor reads its storage fails with the error of the platform, which names the field to write.
  if (!(error instanceof Error) || !causes.some((cause) => error.message.includes(cause))) {
    return null;
  }
  return {
    variable: binding,
    field: "",
    value: "a class without SQLite storage",
    accepted: `a class with SQLite storage: [[migrations]] with tag = "v1" and new_sqlite_classes = ["${className}"] in wrangler.toml, in place of new_classes; a class that is deployed without it keeps its storage, so export ${className} under another name, and write that name there and in class_name`,
  };
}

const causes = [noSqliteStorage, "new_sqlite_classes"];

const otherClass: ConfigProblem = {
  variable,
  field: "",
  value: "another class",
  accepted:
    'the class RateLimiter: class_name = "RateLimiter" in [[durable_objects.bindings]] of wrangler.toml, and export { RateLimiter } from "headgate/object" in the entry file of the Worker',
};

function problemOf(error: unknown, isDecisionCall: boolean): ConfigProblem | null {
  const problem = sqliteProblem(error, variable, "RateLimiter");
  if (problem !== null || !(error instanceof Error)) return problem;
  return isDecisionCall && (isWithoutMethod(error) || isWithoutRpc(error)) ? otherClass : null;
}

/** Whether the object has no method of this name. workerd then throws this error. */
const isWithoutMethod = (error: unknown): boolean =>
  error instanceof TypeError && error.message.includes("does not implement the method");

/** Whether the class does not extend `DurableObject`. workerd then throws this error. */
const isWithoutRpc = (error: Error): boolean =>
  error instanceof TypeError && error.message.includes("does not support RPC");
