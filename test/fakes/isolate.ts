/** An isolate and the objects that it calls, in one process, with one clock that the test sets. */
import { vi } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import type { Policy } from "../../src/policy/policy.ts";
import { LimiterClient } from "../../src/limiter/isolate/client.ts";
import { RequestScope } from "../../src/limiter/isolate/newer-rules-retry.ts";
import type { LimiterObserver } from "../../src/limiter/isolate/object-caller.ts";
import type { FlatList } from "../../src/limiter/flat-calls.ts";
import type { KeyObject } from "../../src/limiter/object/key-object.ts";
import type { CheckReply } from "../../src/limiter/protocol.ts";
import type { Outcome, Spend, ChargeResult } from "../../src/limiter/isolate/outcome.ts";
import { flatReplies, nestedCall } from "./flat-calls.ts";
import { MemoryNamespace, MemoryObjects, type ObjectCall } from "../../src/sdk/testing/memory-objects.ts";
import { VirtualClock } from "../../src/sdk/testing/virtual-clock.ts";

export const startMs = Date.UTC(2100, 0, 1);

type Namespace = ConstructorParameters<typeof LimiterClient>[0];

export interface Call {
  readonly name: string;
  readonly object: string;
  readonly argument: unknown;
}

/** A clock that only `pass` moves, and that a test may set back. */
export class TestClock extends VirtualClock {
  constructor() {
    super(startMs);
  }

  readonly pass = this.advance;
}

/** Resolves when all pending promises have settled, except those that wait for a timer. */
export const settled = (): Promise<void> => new Promise((resolve) => void setTimeout(resolve, 0));

/** The scope of a request. */
export const scopeOf = (waitUntil: (work: Promise<unknown>) => void = () => undefined): RequestScope =>
  new RequestScope(waitUntil);

export class TestIsolate {
  readonly clock = new TestClock();
  readonly client: LimiterClient;
  /** All calls sent to objects, including those that fail on the way. */
  readonly calls: Call[] = [];
  /** Delays a call until the returned promise resolves, and fails the call when the promise rejects. */
  before: (call: Call) => Promise<unknown> = () => Promise.resolve();
  /** May return a reply, which then replaces the object's reply. */
  instead: (call: Call) => unknown = () => undefined;
  readonly #objects = new MemoryObjects(this.clock);
  readonly #work: Promise<unknown>[] = [];

  constructor() {
    this.client = this.newClient();
  }

  /** A second isolate that calls the same objects. */
  newClient(...observer: [LimiterObserver?]): LimiterClient {
    return new LimiterClient(this.namespace(), this.clock, ...observer);
  }

  /** The binding of the objects. */
  namespace(): Namespace {
    return new MemoryNamespace(this.#objects, (call, reply) => this.#deliver(call, reply));
  }

  /** Returns the object of this name, and creates it on first use. */
  object(name: string): KeyObject {
    return this.#objects.object(name);
  }

  /** The names of the calls since this method was last called. */
  callNames(): string[] {
    return this.calls.splice(0).map(({ name }) => name);
  }

  /** Delivers a call. Records a call of `decide` in its nested form, to which `reply` also refers. */
  async #deliver({ object, method, values }: ObjectCall, reply: () => unknown): Promise<unknown> {
    const [first, second] = values;
    const flat = method === "decide" ? { texts: first as readonly string[], checks: second as FlatList } : null;
    const call = {
      object,
      ...(flat === null ? { name: method, argument: first } : nestedCall(flat)),
    };
    this.calls.push(call);
    await this.before(call);
    const instead = structuredClone(this.instead(call));
    if (instead === undefined) return reply();
    return flat === null ? instead : flatReplies(flat, [instead].flat() as CheckReply[]);
  }

  async admit(...spends: readonly Spend[]): Promise<ChargeResult> {
    return this.client.admit(
      spends,
      scopeOf((work) => void this.#work.push(work)),
    );
  }

  /** Resolves when all work passed to `waitUntil` is done. */
  async afterAnswers(): Promise<void> {
    await Promise.all(this.#work.splice(0));
  }

  /** For each spend, whether it is allowed; if no object decided it, the kind of its outcome. */
  async outcomes(...spends: readonly Spend[]): Promise<(boolean | string)[]> {
    return (await this.admit(...spends)).outcomes.map(resultOf);
  }
}

const resultOf = (outcome: Outcome): boolean | string => outcome.decision?.allowed ?? outcome.kind;

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
