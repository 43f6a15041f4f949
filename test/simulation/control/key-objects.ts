/** The objects of keys. They crash and restart from their storage. The limiter in them is the real code. */
import { IsolateBudget, isolateBudgetBytes } from "../../../src/limiter/object/key-cache.ts";
import { KeyObject } from "../../../src/limiter/object/key-object.ts";
import type { Random } from "../../random.ts";
import type { World } from "../world.ts";
import { CrashingStorage } from "./crashing-storage.ts";

/** A call that an object has completed and whose reply is in flight. */
export interface Completed {
  readonly name: string;
  readonly args: readonly unknown[];
  readonly reply: unknown;
  /** The request for which an isolate made the call; null for calls of the control plane. */
  readonly request: number | null;
}

/** Observes the calls and crashes of an object, to check them. */
export interface ObjectObserver {
  /** Called before a call is made. */
  begins(object: SimulatedObject): void;
  completed(object: SimulatedObject, call: Completed): void;
  /** @param lastTurn the last turn of which no write was lost */
  crashed(object: SimulatedObject, lastTurn: number): void;
}

/** The share of calls in which an object crashes before its writes are confirmed. */
const crashedCalls = 0.004;

export class SimulatedObject {
  readonly id: string;
  readonly storage = new CrashingStorage(() => this.#scheduleAlarm());
  limiter: KeyObject;
  /** Whether calls sometimes crash the object. */
  isFragile = true;
  readonly #world: World;
  readonly #random: Random;
  readonly #observer: ObjectObserver;
  readonly #aheadMs: number;
  #lives = 0;

  /** @param aheadMs how far the clock of the object is ahead of the simulated time */
  constructor(id: string, { world, random, observer, aheadMs }: ObjectParts & { readonly aheadMs: number }) {
    this.id = id;
    this.#world = world;
    this.#random = random;
    this.#observer = observer;
    this.#aheadMs = aheadMs;
    this.limiter = this.#begin();
  }

  get nowMs(): number {
    return this.#world.nowMs + this.#aheadMs;
  }

  /** Makes a call. Throws when the object crashes before the reply leaves it. */
  call(name: string, args: readonly unknown[], request: number | null): unknown {
    this.storage.beginTurn();
    this.#observer.begins(this);
    const sent = structuredClone(args);
    const methods = this.limiter as unknown as Record<string, (...each: unknown[]) => unknown>;
    const method = methods[name];
    if (method === undefined) throw new TypeError(`stub.${name} is not a function`);
    const reply = structuredClone(method.apply(this.limiter, [...sent]));
    if (this.isFragile && this.#random() < crashedCalls) {
      this.crash(true);
      throw new Error("The object was reset.");
    }
    this.#observer.completed(this, { name, args: structuredClone(args), reply, request });
    return reply;
  }

  /** Stops the object without warning. It restarts from its storage, and no pending timer fires. */
  crash(isMidTurn = false): void {
    this.#lives++;
    const lastTurn = this.storage.crash(this.#random, isMidTurn);
    this.limiter = this.#begin();
    this.#observer.crashed(this, lastTurn);
  }

  #begin(): KeyObject {
    const life = this.#lives;
    const isAlive = (): boolean => life === this.#lives;
    const { after } = this.#world.clock();
    return new KeyObject({
      storage: this.storage.seenBy(isAlive),
      // A memory budget for this object alone, without objects of earlier runs that are not garbage-collected yet.
      isolate: new IsolateBudget(isolateBudgetBytes),
      now: () => this.nowMs,
      after: (afterMs, act) =>
        after(afterMs, () => {
          if (!isAlive()) return;
          this.storage.beginTurn();
          act();
        }),
    });
  }

  #scheduleAlarm(): void {
    const { alarmAtMs } = this.storage;
    if (alarmAtMs === null) return;
    this.#world.at(alarmAtMs - this.#aheadMs, () => {
      const dueAtMs = this.storage.alarmAtMs;
      if (dueAtMs === null || dueAtMs > this.nowMs) return;
      this.storage.beginTurn();
      this.storage.takeAlarm();
      void this.limiter.alarm();
    });
  }
}

interface ObjectParts {
  readonly world: World;
  readonly random: Random;
  readonly observer: ObjectObserver;
}

/** The objects by their id. An object exists from its first call on. */
export class KeyObjects {
  readonly #parts: ObjectParts;
  readonly #aheadMs: readonly number[];
  readonly all = new Map<string, SimulatedObject>();
  #isFragile = true;

  /** @param aheadMs the errors of the objects' clocks, which the objects take in turn */
  constructor(parts: ObjectParts, aheadMs: readonly number[]) {
    this.#parts = parts;
    this.#aheadMs = aheadMs;
  }

  get(id: string): SimulatedObject {
    const known = this.all.get(id);
    if (known !== undefined) return known;
    const aheadMs = this.#aheadMs[this.all.size % this.#aheadMs.length] ?? 0;
    const created = new SimulatedObject(id, { ...this.#parts, aheadMs });
    created.isFragile = this.#isFragile;
    this.all.set(id, created);
    return created;
  }

  /** From now on, no call crashes an object. */
  calm(): void {
    this.#isFragile = false;
    for (const object of this.all.values()) object.isFragile = false;
  }
}
