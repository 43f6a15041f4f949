/**
 * A simulation of isolates, a network and an object, in one process with simulated time. The same seed gives the same
 * run. The client and the object are the real code.
 */
import type { Policy } from "../../src/policy/policy.ts";
import { scopeOf } from "../fakes/isolate.ts";
import { LimiterClient } from "../../src/limiter/isolate/client.ts";
import { answerChecks, type FlatList } from "../../src/limiter/flat-calls.ts";
import type { Clock } from "../../src/limiter/clock.ts";
import { IsolateBudget, isolateBudgetBytes } from "../../src/limiter/object/key-cache.ts";
import { KeyObject } from "../../src/limiter/object/key-object.ts";
import type { CheckCall, CheckReply, RefundCall } from "../../src/limiter/protocol.ts";
import { allows } from "../../src/limiter/isolate/outcome.ts";
import { MemoryStorage } from "../../src/sdk/testing/memory-storage.ts";
import type { Random } from "../random.ts";
import type { Admitted } from "./admitted.ts";

/** The timeout of simulated calls. */
export const timeoutMs = 1_000;

export const startMs = Date.UTC(2100, 0, 1);

interface Event {
  readonly atMs: number;
  readonly order: number;
  act: (() => void) | null;
}

/** Simulated time, which advances from one event to the next. */
export class World {
  nowMs = startMs;
  /** The number of the current event. */
  eventNumber = 0;
  readonly #events: Event[] = [];
  #order = 0;

  /** @returns a function that cancels the event */
  at(atMs: number, act: () => void): () => void {
    const event: Event = { atMs: Math.max(atMs, this.nowMs), order: (this.#order += 1), act };
    let index = this.#events.length;
    while (index > 0 && isBefore(event, this.#events[index - 1])) index--;
    this.#events.splice(index, 0, event);
    return () => (event.act = null);
  }

  /** Runs all events up to a time in their order, including events that they add. */
  async runUntil(untilMs: number): Promise<void> {
    for (;;) {
      const [next] = this.#events;
      if (next === undefined || next.atMs > untilMs) break;
      this.#events.shift();
      if (next.act === null) continue;
      this.nowMs = next.atMs;
      this.eventNumber++;
      next.act();
      // Lets promises that the event has resolved run before the next event.
      // oxlint-disable-next-line no-await-in-loop
      await new Promise(setImmediate);
    }
    this.nowMs = Math.max(this.nowMs, untilMs);
  }

  /** @param aheadMs how far the clock is ahead of the simulated time */
  clock(aheadMs = 0): Clock {
    return {
      now: () => this.nowMs + aheadMs,
      after: (afterMs, act) => this.at(this.nowMs + afterMs, act),
    };
  }
}

const isBefore = (event: Event, other: Event | undefined): boolean =>
  other !== undefined && (event.atMs < other.atMs || (event.atMs === other.atMs && event.order < other.order));

/** The faults of a network. */
export interface Network {
  /** The longest delay of a message in one direction. */
  readonly maximumDelayMs: number;
  /** The shares of calls that never arrive, and of calls whose answers never arrive. */
  readonly lost: number;
  readonly unanswered: number;
}

type Listener = (isolate: number, call: unknown) => () => void;

/** An object, its storage and its network. */
export class SimulatedObject {
  readonly #world: World;
  readonly #random: Random;
  readonly #network: Network;
  readonly storage = new MemoryStorage();
  limiter: KeyObject;
  #lives = 0;
  isReachable = true;
  /** Whether the network loses calls and answers. */
  isDisturbed = true;
  calls = 0;
  /** The units that the object has admitted, at the times of its decisions, if the answers arrived in time. */
  readonly admitted: Admitted[] = [];
  /** Called after each call. Returns a function that is called when the answer arrives in time. */
  onCall: Listener = () => () => undefined;

  constructor(world: World, random: Random, network: Network) {
    this.#world = world;
    this.#random = random;
    this.#network = network;
    this.limiter = this.#begin();
  }

  /** Stops the object without warning: only stored state survives, and no pending timer fires. */
  crash(): void {
    this.#lives++;
    this.limiter = this.#begin();
  }

  #begin(): KeyObject {
    const life = this.#lives;
    const { now, after } = this.#world.clock();
    const isAlive = (): boolean => life === this.#lives;
    return new KeyObject({
      storage: this.storage,
      // A memory budget for this object alone, without objects of earlier runs that are not garbage-collected yet.
      isolate: new IsolateBudget(isolateBudgetBytes),
      now,
      after: (afterMs, act) => after(afterMs, () => isAlive() && act()),
    });
  }

  /** The Durable Object namespace of one isolate. */
  namespace(isolate: number, isAlive: () => boolean): ConstructorParameters<typeof LimiterClient>[0] {
    const names = ["decide", "lease", "giveBackSlices", "sync", "refund", "forget"].concat([
      "batch",
      "look",
      "reserve",
      "renew",
      "settle",
    ]);
    const stub = Object.fromEntries(
      names.map((name) => [
        name,
        (...call: unknown[]) => (isAlive() ? this.#carry(isolate, name, call) : new Promise(() => undefined)),
      ]),
    );
    return { getByName: () => stub } as unknown as ConstructorParameters<typeof LimiterClient>[0];
  }

  #carry(isolate: number, name: string, call: readonly unknown[]): Promise<unknown> {
    this.calls++;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const { lost, unanswered } = this.isDisturbed ? this.#network : { lost: 0, unanswered: 0 };
    const isLost = !this.isReachable || this.#random() < lost;
    const sent = structuredClone(call);
    const sentAtMs = this.#world.nowMs;
    this.#later(() => {
      if (isLost) {
        reject(new Error("Network connection lost."));
        return;
      }
      const admitted: Admitted[] = [];
      const methods = this.limiter as unknown as Record<string, (...each: readonly unknown[]) => unknown>;
      let answer: unknown;
      try {
        answer = structuredClone(
          name === "decide"
            ? this.#decide(sent as Parameters<KeyObject["decide"]>, admitted)
            : methods[name]?.call(this.limiter, ...sent),
        );
      } catch (error) {
        this.#later(() => reject(error));
        return;
      }
      if (name === "refund") this.#takeBack(sent[0] as RefundCall);
      const onAnswered = this.onCall(isolate, sent[0]);
      if (name === "lease") admitted.push(...this.#admittedBy(sent[0], answer));
      const isUnanswered = this.#random() < unanswered;
      this.#later(() => {
        if (isUnanswered) {
          reject(new Error("Network connection lost."));
          return;
        }
        // Answers that arrive later have missed their deadline.
        if (this.#world.nowMs - sentAtMs < timeoutMs) {
          onAnswered();
          this.admitted.push(...admitted);
        }
        resolve(answer);
      });
    });
    return promise;
  }

  #decide([texts, checks]: Parameters<KeyObject["decide"]>, admitted: Admitted[]): FlatList {
    return answerChecks(texts, checks, (call, isLook) => {
      if (isLook) return this.limiter.look(call);
      const reply = this.limiter.check(call);
      admitted.push(...this.#admittedBy(call, reply));
      return reply;
    });
  }

  /** A request that waited for its call may miss its deadline although the call is answered in time. It is refunded. */
  #takeBack({ charges }: RefundCall): void {
    for (const { cost, spentAtMs } of charges) {
      const index = this.admitted.findIndex(({ atMs, units }) => atMs === spentAtMs && units === cost);
      if (index !== -1) this.admitted.splice(index, 1);
    }
  }

  #admittedBy(call: unknown, answer: unknown): readonly Admitted[] {
    const units = (call as CheckCall).charges[0]?.cost ?? 0;
    const isAllowed = (answer as CheckReply).decisions.every(({ allowed }) => allowed);
    return isAllowed && units > 0 ? [{ atMs: this.#world.nowMs, units }] : [];
  }

  #later(act: () => void): void {
    const delayMs = Math.floor(this.#random() * (this.#network.maximumDelayMs + 1));
    this.#world.at(this.#world.nowMs + delayMs, act);
  }
}

/** An isolate, and the units that it admitted without waiting for the object. */
export class SimulatedIsolate {
  readonly #world: World;
  readonly #object: SimulatedObject;
  readonly #policy: Policy;
  readonly #number: number;
  readonly #aheadMs: number;
  #client: LimiterClient;
  #lives = 0;
  readonly admitted: (Admitted & { readonly key: string })[] = [];

  /** @param number identifies the isolate's calls */
  constructor(world: World, object: SimulatedObject, policy: Policy, number: number, aheadMs: number) {
    this.#world = world;
    this.#object = object;
    this.#policy = policy;
    this.#number = number;
    this.#aheadMs = aheadMs;
    this.#client = this.#begin();
  }

  /** Stops the isolate without warning and starts another. */
  crash(): void {
    this.#lives++;
    this.#client = this.#begin();
  }

  #begin(): LimiterClient {
    const life = this.#lives;
    const isAlive = (): boolean => life === this.#lives;
    const { now, after } = this.#world.clock(this.#aheadMs);
    const clock: Clock = { now, after: (afterMs, act) => after(afterMs, () => isAlive() && act()) };
    return new LimiterClient(this.#object.namespace(this.#number, isAlive), clock);
  }

  /** Sends a request that costs some units of a key. */
  async request(units: number, key = "key"): Promise<void> {
    const spend = { policy: this.#policy, partitionKey: key, cost: units };
    const { eventNumber } = this.#world;
    const { outcomes } = await this.#client.admit([spend], scopeOf());
    const isImmediate = eventNumber === this.#world.eventNumber;
    if (isImmediate && outcomes.every(allows)) this.admitted.push({ atMs: this.#world.nowMs, units, key });
  }
}
