/** The limiter's Durable Objects in memory, the binding through which a Worker calls them, and simulated failures. */
import { type Clock, clockName } from "../../limiter/clock.ts";
import { IsolateBudget, isolateBudgetBytes } from "../../limiter/object/key-cache.ts";
import { KeyObject } from "../../limiter/object/key-object.ts";
import { MemoryStorage } from "./memory-storage.ts";
import { ConfigProblems } from "../../strategies/index.ts";

/** The objects of a binding. They stay in memory, and run their alarms when the clock reaches them. */
export class MemoryObjects {
  readonly clock: Clock;
  readonly #isolate = new IsolateBudget(isolateBudgetBytes);
  readonly #objects = new Map<string, KeyObject>();

  #lastUnique = 0;

  constructor(clock: Clock) {
    this.clock = clock;
  }

  uniqueName(): string {
    this.#lastUnique += 1;
    return `unique object ${this.#lastUnique}`;
  }

  /** The object of this name, which is created on first use. The same name in another jurisdiction is another object. */
  object(name: string, jurisdiction: string | null = null): KeyObject {
    const place = idText(name, jurisdiction);
    const known = this.#objects.get(place);
    if (known !== undefined) return known;
    const { now, after } = this.clock;
    let cancelAlarm: (() => void) | null = null;
    const storage = new MemoryStorage((atMs) => {
      cancelAlarm?.();
      cancelAlarm = atMs === null ? null : after(atMs - now(), () => void runAlarm());
    });
    const limiter = new KeyObject({ storage, isolate: this.#isolate, now, after });
    const runAlarm = async (): Promise<void> => {
      await storage.deleteAlarm();
      await limiter.alarm();
    };
    this.#objects.set(place, limiter);
    return limiter;
  }
}

/** A call on its way to an object. */
export interface ObjectCall {
  /** The name of the object. */
  readonly object: string;
  /** The name of the method. */
  readonly method: string;
  readonly values: readonly unknown[];
}

/**
 * Delivers a call to an object.
 * @param reply makes the object reply
 */
type Deliver = (call: ObjectCall, reply: () => Promise<unknown>) => Promise<unknown>;

/** `@cloudflare/workers-types` or `wrangler types` declare stubs, and Headgate's types need neither. */
// oxlint-disable-next-line typescript/no-explicit-any
type AnyStub = any;

/** The id of an object in memory. */
export interface TestObjectId {
  /** Returns the text of the id. */
  toString(): string;
  /** Returns whether two ids are of the same object. */
  equals(other: TestObjectId): boolean;
  /** The name from which the id was made. */
  readonly name?: string;
}

interface NewIdOptions {
  readonly jurisdiction?: string | null;
}

/** The binding of objects in memory. It can be used as a `DurableObjectNamespace`. */
export interface TestNamespace {
  /** Returns the stub of the object with this name. Options such as a location hint change nothing in memory. */
  getByName(name: string, options?: object): AnyStub;
  /** Returns the stub of the object with this id. */
  get(id: TestObjectId, options?: object): AnyStub;
  /** Returns the id of the object with this name. */
  idFromName(name: string): TestObjectId;
  /** Returns the id with this text. */
  idFromString(id: string): TestObjectId;
  /** Returns an id that no other object has. */
  newUniqueId(options?: NewIdOptions): TestObjectId;
  /** Returns the binding of the objects in a jurisdiction, which are other objects. */
  jurisdiction(jurisdiction: string): TestNamespace;
}

export class MemoryNamespace implements TestNamespace {
  readonly [clockName]: Clock;
  readonly #objects: MemoryObjects;
  readonly #deliver: Deliver;
  readonly #jurisdiction: string | null;

  constructor(objects: MemoryObjects, deliver: Deliver, jurisdiction: string | null = null) {
    this[clockName] = objects.clock;
    this.#objects = objects;
    this.#deliver = deliver;
    this.#jurisdiction = jurisdiction;
  }

  getByName(name: string, _options?: object): AnyStub {
    return this.get(this.idFromName(name));
  }

  get(id: TestObjectId, _options?: object): AnyStub {
    const text = String(id);
    const end = text.indexOf("/");
    const [jurisdiction, name] = [text.slice(0, end) || null, text.slice(end + 1)];
    // As on the platform, a stub has every method. A call fails if the object lacks the method.
    return new Proxy(
      { id, name: id.name },
      {
        get: (known, property) => {
          if (typeof property !== "string" || Object.hasOwn(known, property)) return Reflect.get(known, property);
          // A stub that is awaited must not look like a promise.
          if (property === "then") return undefined;
          return (...values: unknown[]) => this.#call(name, jurisdiction, property, values);
        },
      },
    );
  }

  idFromName(name: string): TestObjectId {
    return objectIdOf(idText(name, this.#jurisdiction), name);
  }

  idFromString(id: string): TestObjectId {
    return objectIdOf(id);
  }

  newUniqueId({ jurisdiction = this.#jurisdiction }: NewIdOptions = {}): TestObjectId {
    return objectIdOf(idText(this.#objects.uniqueName(), jurisdiction));
  }

  jurisdiction(jurisdiction: string): MemoryNamespace {
    return new MemoryNamespace(this.#objects, this.#deliver, jurisdiction);
  }

  /** Calls a method. Arguments and results are cloned, as on the platform. */
  async #call(name: string, jurisdiction: string | null, method: string, values: readonly unknown[]): Promise<unknown> {
    const sent = structuredClone(values);
    return this.#deliver({ object: name, method, values: sent }, async () => {
      const object = this.#objects.object(name, jurisdiction);
      const act: unknown = isCallable(method) ? Reflect.get(object, method) : undefined;
      if (typeof act !== "function") {
        throw new TypeError(`The RPC receiver does not implement the method "${method}".`);
      }
      return structuredClone(await Reflect.apply(act, object, sent));
    });
  }
}

/** Only the platform calls the constructor and the alarm handler, so stubs cannot. */
const isCallable = (method: string): boolean =>
  method !== "constructor" && method !== "alarm" && Object.hasOwn(KeyObject.prototype, method);

const idText = (name: string, jurisdiction: string | null): string => `${jurisdiction ?? ""}/${name}`;

const objectIdOf = (text: string, name?: string): TestObjectId => ({
  toString: () => text,
  equals: (other) => String(other) === text,
  ...(name !== undefined && { name }),
});

/**
 * `"error"`: every call of an object fails at once. `"silent"`: no call gets an answer, so that its deadline (the `timeout`
 * of the policy) passes when the clock advances.
 */
export type ObjectFault = "error" | "silent";

const faults: readonly ObjectFault[] = ["error", "silent"];

export class Faults {
  #fault: ObjectFault | null = null;
  readonly #recovered = new Set<() => void>();

  /** Calls without an answer fail when the objects recover, like calls whose connection is lost. */
  readonly deliver: Deliver = async (_call, reply) => {
    if (this.#fault === "silent") {
      await new Promise<void>((resolve) => void this.#recovered.add(resolve));
      throw unavailable();
    }
    if (this.#fault === "error") throw unavailable();
    return reply();
  };

  begin(fault: ObjectFault): void {
    if (!faults.includes(fault)) {
      const accepted = faults.map((each) => `"${each}"`).join(" or ");
      throw new ConfigProblems([{ variable: "fail", field: "", value: fault, accepted }]);
    }
    this.#fault = fault;
  }

  end(): void {
    this.#fault = null;
    for (const recovered of this.#recovered) recovered();
    this.#recovered.clear();
  }
}

const unavailable = (): Error =>
  new Error("the test has made the objects fail, and lets them work again with recover()");
