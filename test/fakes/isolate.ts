/** An isolate and the objects that it calls, in one process with one clock that the test sets. */
import { vi } from "vitest";
import { parseConfig, type Policy } from "../../src/config/index.ts";
import type { Admission } from "../../src/limiter/client/admission.ts";
import { LimiterClient } from "../../src/limiter/client/client.ts";
import type { LatencyObserver } from "../../src/limiter/client/object-caller.ts";
import type { Clock } from "../../src/limiter/clock.ts";
import type { FlatList } from "../../src/limiter/flat-calls.ts";
import { Limiter } from "../../src/limiter/object/limiter.ts";
import type { CheckReply } from "../../src/limiter/protocol.ts";
import type { Outcome, Spend } from "../../src/limiter/client/outcome.ts";
import { flatReplies, nestedCall } from "./flat-calls.ts";
import { MemoryStorage } from "./memory-storage.ts";

export const startMs = Date.UTC(2100, 0, 1);

type Namespace = ConstructorParameters<typeof LimiterClient>[0];

export interface Call {
  readonly name: string;
  readonly object: string;
  readonly argument: unknown;
}

const methods = [
  "check",
  "look",
  "explain",
  "batch",
  "forget",
  "reserve",
  "settle",
  "refund",
  "renew",
  "lease",
  "giveBackSlices",
  "sync",
];

/** A clock that only `pass` moves. Its timers fire in the order in which they are due. */
export class TestClock implements Clock {
  nowMs = startMs;
  readonly #timers = new Set<{ readonly atMs: number; readonly act: () => void }>();

  get hasTimer(): boolean {
    return this.#timers.size > 0;
  }

  readonly now = (): number => this.nowMs;

  readonly after = (afterMs: number, act: () => void): (() => void) => {
    const timer = { atMs: this.nowMs + afterMs, act };
    this.#timers.add(timer);
    return () => this.#timers.delete(timer);
  };

  /** Lets time pass and fires the timers that are due. Pending promises settle before each timer. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms;
    await settled();
    for (;;) {
      const [next] = [...this.#timers]
        .filter(({ atMs }) => atMs <= untilMs)
        .toSorted((a, b) => a.atMs - b.atMs);
      if (next === undefined) break;
      this.#timers.delete(next);
      this.nowMs = Math.max(this.nowMs, next.atMs);
      next.act();
      // oxlint-disable-next-line no-await-in-loop
      await settled();
    }
    this.nowMs = untilMs;
    await settled();
  }
}

/** Resolves when all pending promises that wait for no timer have settled. */
export const settled = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve, 0));

export class TestIsolate {
  readonly clock = new TestClock();
  readonly client: LimiterClient;
  /** All calls sent to objects, including those that fail on the way. */
  readonly calls: Call[] = [];
  /** Delays a call until this resolves, and fails it when this rejects. */
  before: (call: Call) => Promise<unknown> = () => Promise.resolve();
  /** Replies in place of the object when it returns a value. */
  instead: (call: Call) => unknown = () => undefined;
  readonly #objects = new Map<string, Limiter>();
  readonly #work: Promise<unknown>[] = [];

  constructor() {
    this.client = this.newClient();
  }

  /** A second isolate that calls the same objects. */
  newClient(...observer: [LatencyObserver?]): LimiterClient {
    return new LimiterClient(this.namespace(), this.clock, ...observer);
  }

  /** The binding of the objects. */
  namespace(): Namespace {
    const getByName = (object: string): object => ({
      ...Object.fromEntries(
        methods.map((name) => [
          name,
          (argument: unknown) => this.#take({ name, object, argument }),
        ]),
      ),
      decide: (texts: readonly string[], checks: FlatList) => this.#decide(object, texts, checks),
    });
    return { getByName } as unknown as Namespace;
  }

  /** Returns the object of this name, and creates it on first use. */
  object(name: string): Limiter {
    const known = this.#objects.get(name);
    if (known !== undefined) return known;
    const { now, after } = this.clock;
    const limiter = new Limiter({ storage: new MemoryStorage(), now, after });
    this.#objects.set(name, limiter);
    return limiter;
  }

  /** The names of the calls since this method was last called. */
  callNames(): string[] {
    return this.calls.splice(0).map(({ name }) => name);
  }

  async #take(call: Call): Promise<unknown> {
    this.calls.push(call);
    await this.before(call);
    const reply = this.instead(call);
    if (reply !== undefined) return structuredClone(reply);
    const object = this.object(call.object);
    const method = (object as unknown as Record<string, (argument: unknown) => unknown>)[call.name];
    return structuredClone(method?.call(object, structuredClone(call.argument)));
  }

  /** Records the nested call with the same checks, and replies as to that one. */
  async #decide(object: string, texts: readonly string[], checks: FlatList): Promise<FlatList> {
    const sent = structuredClone({ texts, checks });
    const call = { object, ...nestedCall(sent) };
    this.calls.push(call);
    await this.before(call);
    const instead = this.instead(call);
    if (instead === undefined) {
      return structuredClone(this.object(object).decide(sent.texts, sent.checks));
    }
    return flatReplies(sent, [structuredClone(instead)].flat() as CheckReply[]);
  }

  async admit(...spends: readonly Spend[]): Promise<Admission> {
    return this.client.admit(spends, (work) => void this.#work.push(work));
  }

  /** Resolves when all work passed to `waitUntil` is done. */
  async afterAnswers(): Promise<void> {
    await Promise.all(this.#work.splice(0));
  }

  /** Whether each spend is allowed, or the kind of its outcome when no object decided it. */
  async outcomes(...spends: readonly Spend[]): Promise<(boolean | string)[]> {
    return (await this.admit(...spends)).outcomes.map(resultOf);
  }
}

const resultOf = (outcome: Outcome): boolean | string =>
  "decision" in outcome ? outcome.decision.allowed : outcome.kind;

export function policyOf(fields: object = {}): Policy {
  const policy = { name: "p", limits: "2/minute", strategy: "fixed-window", ...fields };
  const warnings = vi.spyOn(console, "warn").mockReturnValue(undefined);
  const [read] = parseConfig({ KEY_SECRET: "s", POLICIES: [policy] }).policies;
  warnings.mockRestore();
  if (read === undefined) throw new Error("a policy was configured");
  return read;
}

export const spendOf = (fields: object = {}, cost = 1, partitionKey = "k"): Spend => ({
  policy: policyOf(fields),
  partitionKey,
  cost,
});
