/**
 * Isolates, a network and an object in one process and in a time of their own: what happens is decided by a seed, and
 * happens again the same. The code of the client and of the object is the real one, behind its ports.
 */
import type { Policy } from "../../src/config/index.ts";
import { LimiterClient } from "../../src/limiter/client/client.ts";
import type { Clock } from "../../src/limiter/clock.ts";
import { IsolateBudget, isolateBudgetBytes } from "../../src/limiter/object/isolate-budget.ts";
import { Limiter } from "../../src/limiter/object/limiter.ts";
import type { CheckCall, CheckReply } from "../../src/limiter/protocol.ts";
import { allows } from "../../src/limiter/client/outcome.ts";
import { MemoryStorage } from "../fakes/memory-storage.ts";
import type { Random } from "../random.ts";
import type { Admitted } from "./admitted.ts";

/** How long clients wait for an answer. */
export const timeoutMs = 1_000;

export const startMs = Date.UTC(2100, 0, 1);

interface Event {
  readonly atMs: number;
  readonly order: number;
  act: (() => void) | null;
}

/** Time that passes only from one event to the next. */
export class World {
  nowMs = startMs;
  /** Of the event that happens now. */
  turn = 0;
  readonly #events: Event[] = [];
  #order = 0;

  /** @returns what calls it off */
  at(atMs: number, act: () => void): () => void {
    const event: Event = { atMs: Math.max(atMs, this.nowMs), order: (this.#order += 1), act };
    let place = this.#events.length;
    while (place > 0 && isBefore(event, this.#events[place - 1])) place--;
    this.#events.splice(place, 0, event);
    return () => (event.act = null);
  }

  /** What is due by then happens, in its order, and all that follows from it. */
  async runUntil(untilMs: number): Promise<void> {
    for (;;) {
      const [next] = this.#events;
      if (next === undefined || next.atMs > untilMs) break;
      this.#events.shift();
      if (next.act === null) continue;
      this.nowMs = next.atMs;
      this.turn++;
      next.act();
      // All that has been waiting for it goes on before anything else happens.
      // oxlint-disable-next-line no-await-in-loop
      await new Promise(setImmediate);
    }
    this.nowMs = Math.max(this.nowMs, untilMs);
  }

  /** @param aheadMs of the world's time */
  clock(aheadMs = 0): Clock {
    return {
      now: () => this.nowMs + aheadMs,
      after: (afterMs, act) => this.at(this.nowMs + afterMs, act),
    };
  }
}

const isBefore = (event: Event, other: Event | undefined): boolean =>
  other !== undefined &&
  (event.atMs < other.atMs || (event.atMs === other.atMs && event.order < other.order));

/** How calls fare. */
export interface Network {
  /** How long one way takes, at most. */
  readonly mostDelayMs: number;
  /** The shares of calls that never arrive, and of those whose answers do not. */
  readonly lost: number;
  readonly unanswered: number;
}

type Listener = (isolate: number, call: unknown) => () => void;

/** An object, its storage, and all that isolates send it. */
export class ObjectOf {
  readonly #world: World;
  readonly #random: Random;
  readonly #network: Network;
  readonly storage = new MemoryStorage();
  limiter: Limiter;
  #lives = 0;
  isReachable = true;
  /** Whether calls still fare as the network has it; they all arrive when not. */
  isDisturbed = true;
  calls = 0;
  /** What it has let in itself, of answers that came in time, at the instant of its decision. */
  readonly admitted: Admitted[] = [];
  /** Hears of each call that the object has taken, and once more when the isolate has the answer in time. */
  onTaken: Listener = () => () => undefined;

  constructor(world: World, random: Random, network: Network) {
    this.#world = world;
    this.#random = random;
    this.#network = network;
    this.limiter = this.#begin();
  }

  /** Ends without warning: what is not in storage is gone, and no timer of its fires. */
  crash(): void {
    this.#lives++;
    this.limiter = this.#begin();
  }

  #begin(): Limiter {
    const life = this.#lives;
    const { now, after } = this.#world.clock();
    const isAlive = (): boolean => life === this.#lives;
    return new Limiter({
      storage: this.storage,
      // An isolate of its own: what earlier runs left to the garbage collector is not counted against it.
      isolate: new IsolateBudget(isolateBudgetBytes),
      now,
      after: (afterMs, act) => after(afterMs, () => isAlive() && act()),
    });
  }

  /** As the Durable Object namespace of an isolate. */
  namespace(
    isolate: number,
    isAlive: () => boolean,
  ): ConstructorParameters<typeof LimiterClient>[0] {
    const names = ["check", "lease", "giveBackSlices", "sync", "refund", "forget"].concat([
      "batch",
      "look",
      "reserve",
      "renew",
      "settle",
    ]);
    const stub = Object.fromEntries(
      names.map((name) => [
        name,
        (call: unknown) =>
          isAlive() ? this.#carry(isolate, name, call) : new Promise(() => undefined),
      ]),
    );
    return { getByName: () => stub } as unknown as ConstructorParameters<typeof LimiterClient>[0];
  }

  #carry(isolate: number, name: string, call: unknown): Promise<unknown> {
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
      const methods = this.limiter as unknown as Record<string, (each: unknown) => unknown>;
      let answer: unknown;
      try {
        answer = structuredClone(methods[name]?.call(this.limiter, sent));
      } catch (error) {
        this.#later(() => reject(error));
        return;
      }
      const onAnswered = this.onTaken(isolate, sent);
      const admitted = name === "check" || name === "lease" ? this.#letIn(sent, answer) : [];
      const isUnanswered = this.#random() < unanswered;
      this.#later(() => {
        if (isUnanswered) {
          reject(new Error("Network connection lost."));
          return;
        }
        // What comes later than that nobody waits for.
        if (this.#world.nowMs - sentAtMs < timeoutMs) {
          onAnswered();
          this.admitted.push(...admitted);
        }
        resolve(answer);
      });
    });
    return promise;
  }

  #letIn(call: unknown, answer: unknown): readonly Admitted[] {
    const units = (call as CheckCall).charges[0]?.cost ?? 0;
    const isAllowed = (answer as CheckReply).decisions.every(({ allowed }) => allowed);
    return isAllowed && units > 0 ? [{ atMs: this.#world.nowMs, units }] : [];
  }

  #later(act: () => void): void {
    const delayMs = Math.floor(this.#random() * (this.#network.mostDelayMs + 1));
    this.#world.at(this.#world.nowMs + delayMs, act);
  }
}

/** An isolate: what it has admitted by itself, and when. */
export class Isolate {
  readonly #world: World;
  readonly #object: ObjectOf;
  readonly #policy: Policy;
  readonly #name: number;
  readonly #aheadMs: number;
  #client: LimiterClient;
  #lives = 0;
  readonly admitted: (Admitted & { readonly key: string })[] = [];

  /** @param name by which the object's calls are told apart */
  constructor(world: World, object: ObjectOf, policy: Policy, name: number, aheadMs: number) {
    this.#world = world;
    this.#object = object;
    this.#policy = policy;
    this.#name = name;
    this.#aheadMs = aheadMs;
    this.#client = this.#begin();
  }

  /** Ends without warning; another takes its place. */
  crash(): void {
    this.#lives++;
    this.#client = this.#begin();
  }

  #begin(): LimiterClient {
    const life = this.#lives;
    const isAlive = (): boolean => life === this.#lives;
    const { now, after } = this.#world.clock(this.#aheadMs);
    const clock: Clock = { now, after: (afterMs, act) => after(afterMs, () => isAlive() && act()) };
    return new LimiterClient(this.#object.namespace(this.#name, isAlive), clock);
  }

  /** Asks for so many units of a key. */
  async ask(units: number, key = "key"): Promise<void> {
    const spend = { policy: this.#policy, partitionKey: key, cost: units };
    const { turn } = this.#world;
    const { outcomes } = await this.#client.admit([spend], () => undefined);
    const isOwn = turn === this.#world.turn;
    if (isOwn && outcomes.every(allows))
      this.admitted.push({ atMs: this.#world.nowMs, units, key });
  }
}
