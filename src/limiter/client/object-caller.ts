/**
 * Calls of objects, bounded in time. One that fails is not asked again for a second: a dead object is not to hold up, nor
 * to be overwhelmed by, every request. An answer that comes too late is not lost: what it spent can still be put right.
 */
import { errorText, report } from "../../observability/events.ts";
import type { Clock } from "../clock.ts";
import { Cooldown } from "./cooldown.ts";
import { objectId, type ObjectLocation } from "./object-location.ts";
import { BoundedMap } from "../bounded-map.ts";
import type { RateLimiter } from "../object/rate-limiter.ts";

/**
 * The platform would try five times for up to ten seconds: longer than any request should wait for its limiter. 500 ms
 * is the shortest it takes; the deadline of a call is ours.
 */
const platformRetries = { maxRetries: 1, timeoutMs: 500 };

const rememberedMs = 1_000;
/** Bounds the memory of an isolate. */
const mostRemembered = 1_024;

type Objects = DurableObjectNamespace<RateLimiter>;
type Stub = DurableObjectStub<RateLimiter>;

/** Keeps the Worker running for work that goes on after its answer. */
export type WaitUntil = (work: Promise<unknown>) => void;

export interface Call<Answer> {
  /** For the log. What can be done without the object for a while is not tried again so soon; what corrects its count is. */
  readonly name:
    | "check"
    | "look"
    | "reserve"
    | "lease"
    | "sync"
    | "renew"
    | "refund"
    | "return"
    | "forget"
    | "settle";
  readonly location: ObjectLocation;
  readonly policies: readonly string[];
  readonly timeoutMs: number;
  readonly ask: (stub: Stub) => Promise<Answer>;
  /** Whether it is made once more where it fails: made twice it does no more than once. */
  readonly isRepeatable?: boolean;
  /** What is to be done about an answer that nobody waits for any more. */
  readonly late?: { readonly waitUntil: WaitUntil; readonly settle: (answer: Answer) => unknown };
}

const decisions: ReadonlySet<string> = new Set(["check", "look", "reserve", "lease", "sync"]);

export class ObjectCaller {
  readonly #objects: Objects;
  readonly #clock: Clock;
  /** Objects that gave no answer of late. */
  readonly #silent = new BoundedMap<Cooldown>(mostRemembered);

  constructor(objects: Objects, clock: Clock) {
    this.#objects = objects;
    this.#clock = clock;
  }

  /** The object's answer; null if there is none in time. */
  async call<Answer>(call: Call<Answer>): Promise<Answer | null> {
    const { name, location, policies, timeoutMs, ask, late } = call;
    const id = objectId(location);
    if (decisions.has(name) && this.#silent.get(id)?.isOn === true) {
      report({ event: "object-silent", call: name, policies, error: "not asked again so soon" });
      return null;
    }
    let answer: Promise<Answer> | null = null;
    try {
      // A stub is cheap, and one that has thrown stays broken: each call has its own.
      answer = ask(this.#stubAt(location));
      const inTime = await withDeadline(this.#clock, answer, timeoutMs);
      this.#silent.delete(id);
      return inTime;
    } catch (error) {
      report({ event: "object-silent", call: name, policies, error: errorText(error) });
      this.#remember(id);
      if (answer !== null) late?.waitUntil(answer.then(late.settle, () => undefined));
      const isRepeated = call.isRepeatable === true && mayPass(error);
      return isRepeated ? this.call({ ...call, isRepeatable: false }) : null;
    }
  }

  #remember(id: string): void {
    const cooldown = new Cooldown(rememberedMs, this.#clock);
    cooldown.begin();
    this.#silent.set(id, cooldown);
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

/** Whether another try may go better: not one for a call that is still under way, nor for an object with too much to do. */
const mayPass = (error: unknown): boolean =>
  !(error instanceof TooLate) && Object(error).overloaded !== true;

class TooLate extends Error {
  override readonly name = "TooLate";
}

/** @throws TooLate when there is no answer by then; the call itself cannot be called back */
async function withDeadline<Answer>(
  { after }: Clock,
  answer: Promise<Answer>,
  timeoutMs: number,
): Promise<Answer> {
  const { promise: deadline, reject } = Promise.withResolvers<never>();
  const callOff = after(timeoutMs, () => reject(new TooLate(`no answer within ${timeoutMs} ms`)));
  try {
    return await Promise.race([answer, deadline]);
  } finally {
    callOff();
  }
}
