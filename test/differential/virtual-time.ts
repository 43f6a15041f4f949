import { AsyncLocalStorage } from "node:async_hooks";
/**
 * Replaces the clock, the timers, the random source, the log and `fetch` of this process during a replay. Every replay
 * of the same requests sees the same times and the same random values.
 */
import { type PendingTimer, PendingTimers } from "../../src/sdk/testing/virtual-clock.ts";
import { randomFrom } from "../random.ts";

const realSetTimeout = globalThis.setTimeout;
const realClearTimeout = globalThis.clearTimeout;

/**
 * A promise that is pending after this many turns of the event loop counts as waiting for a timer, unless `hold` delays
 * the timers.
 */
const idleTurns = 10;
/**
 * A promise that is pending after this many turns fails the replay, because it waits for something other than a timer.
 */
const mostTurns = 20_000;

/**
 * Waits for one turn of the event loop or for the promise, whichever comes first. Clears its timer, because the
 * platform limits the number of timers of a request.
 */
async function turnOr<Value>(promise: Promise<Value>): Promise<Value | "pending"> {
  const { promise: turn, resolve } = Promise.withResolvers<"pending">();
  const timer = realSetTimeout(() => resolve("pending"), 0);
  try {
    return await Promise.race([promise, turn]);
  } finally {
    realClearTimeout(timer);
  }
}

export class VirtualTime {
  nowMs = 0;
  readonly #timers = new PendingTimers();
  #held = 0;

  readonly after = (afterMs: number, act: () => void): (() => void) =>
    this.#timers.add(this.nowMs + Math.max(0, afterMs), act);

  /** A wait in virtual time. Ends at once while timers are held, as for the origin, whose delays change no answer. */
  readonly wait = (afterMs: number): Promise<void> =>
    this.#held > 0 ? Promise.resolve() : new Promise((resolve) => void this.after(afterMs, resolve));

  /** Sets the clock, and fires the timers that are due. The clock may be set back. */
  async set(atMs: number): Promise<void> {
    for (let timer = this.#timers.next(); timer !== undefined && timer.dueAtMs <= atMs; timer = this.#timers.next()) {
      this.#fire(timer);
      // Work that a timer starts settles before the next timer fires.
      // oxlint-disable-next-line no-await-in-loop
      await turnOr(new Promise<never>(() => undefined));
    }
    this.nowMs = atMs;
  }

  /** Delays all timers until a promise settles on which other threads or processes work. */
  async hold<Value>(promise: Promise<Value>): Promise<Value> {
    this.#held++;
    try {
      return await promise;
    } finally {
      this.#held--;
    }
  }

  /** Waits for a promise. Whenever the promise waits for a timer, fires the next timer. */
  async until<Value>(promise: Promise<Value>): Promise<Value> {
    const done = promise.then((value) => ({ value }));
    let idle = 0;
    for (let turns = 0; turns < mostTurns; turns++) {
      // oxlint-disable-next-line no-await-in-loop
      const first = await turnOr(done);
      if (first !== "pending") return first.value;
      idle = this.#held > 0 ? 0 : idle + 1;
      const timer = idle < idleTurns ? undefined : this.#timers.next();
      if (timer === undefined) continue;
      this.#fire(timer);
      idle = 0;
    }
    throw new Error("a replayed request waits for something other than a timer");
  }

  #fire(timer: PendingTimer): void {
    this.nowMs = Math.max(this.nowMs, timer.dueAtMs);
    this.#timers.fire(timer);
  }
}

/** The functions that a replay uses instead of those of the platform. */
export interface Surroundings {
  readonly time: VirtualTime;
  readonly fetch: typeof fetch;
  readonly log: (line: string) => void;
}

/**
 * Identifies the code that a replay runs. Objects of earlier tests may still run in the process, with their own clock
 * and timers.
 */
const replaying = new AsyncLocalStorage<boolean>();

/** Runs a function with the real clock and timers. */
export const outsideReplay = <Value>(run: () => Value): Value => replaying.run(false, run);

const cryptography = ["decrypt", "digest", "encrypt", "importKey", "sign", "verify"];

/**
 * Runs a function with the surroundings of a replay.
 * @param run is called with a function that restarts the random source from a seed
 */
export async function withSurroundings<Value>(
  { time, fetch, log }: Surroundings,
  run: (seedWith: (seed: number) => void) => Promise<Value>,
): Promise<Value> {
  let random = randomFrom(0);
  let lastTimer = 0;
  const cancels = new Map<number, () => void>();
  const fill = (bytes: Uint8Array): Uint8Array => {
    for (let index = 0; index < bytes.length; index++) bytes[index] = Math.floor(random() * 256);
    return bytes;
  };
  const undos = [
    put(Date, { now: () => time.nowMs }),
    put(Math, { random: () => random() }),
    put(console, { log, warn: log, error: log }),
    put(globalThis, {
      fetch,
      setTimeout: (act: () => void, afterMs = 0) => {
        cancels.set(++lastTimer, time.after(afterMs, act));
        return lastTimer;
      },
      clearTimeout: (timer: number) => cancels.get(timer)?.(),
    }),
    put(scheduler, { wait: time.wait }),
    put(crypto, {
      getRandomValues: fill,
      randomUUID: () => {
        const bytes = [...fill(new Uint8Array(16))];
        const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
        return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
      },
    }),
  ];
  const { subtle } = crypto;
  const held = cryptography.map((name) => {
    const act = Reflect.get(subtle, name) as (...given: unknown[]) => Promise<unknown>;
    return [name, (...given: unknown[]) => time.hold(Reflect.apply(act, subtle, given))] as const;
  });
  undos.push(put(subtle, Object.fromEntries(held)));
  try {
    return await replaying.run(true, () => run((seed) => void (random = randomFrom(seed))));
  } finally {
    for (const undo of undos.toReversed()) undo();
  }
}

/**
 * Replaces methods of an object, but only for the code that a replay runs.
 * @returns a function that restores the original methods
 */
function put(target: object, methods: Readonly<Record<string, (...given: never[]) => unknown>>): () => void {
  const undos = Object.entries(methods).map(([name, method]) => {
    const former: unknown = Reflect.get(target, name);
    const descriptor = Object.getOwnPropertyDescriptor(target, name);
    const value = (...given: never[]): unknown =>
      replaying.getStore() === true || typeof former !== "function"
        ? method(...given)
        : Reflect.apply(former, target, given);
    Object.defineProperty(target, name, { value, configurable: true, writable: true });
    return () => {
      if (descriptor === undefined) Reflect.deleteProperty(target, name);
      else Object.defineProperty(target, name, descriptor);
    };
  });
  return () => {
    for (const undo of undos) undo();
  };
}
