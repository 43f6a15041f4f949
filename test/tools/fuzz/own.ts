/** A key that only one connection uses, with one call at a time, so that the exact response to each call is known. */
import { type CheckCallBytes, callOf, type Tenant, tenants } from "./checks.ts";
import type { Draw } from "./draw.ts";
import { longWindow } from "./scenarios.ts";

export const ownPolicy = {
  name: "own",
  match: { path: "/own" },
  key: "header:X-Own",
  limits: [
    { limit: 20, window: longWindow, strategy: "sliding-log", name: "own.log" },
    { limit: 15, window: longWindow, strategy: "fixed-window", name: "own.window" },
  ],
  objects: "sharded",
  shards: 4,
  timeout: "30s",
  onError: "closed",
};

const capacity = 15;
const adhoc = { limits: "9/50 days", strategy: "fixed-window" };
const adhocCapacity = 9;

interface OpenReservation {
  readonly id: string;
  readonly cost: number;
  readonly isOpen: boolean;
}

/** A call, and the check of its response. */
export interface ExclusiveCall {
  readonly call: CheckCallBytes;
  readonly faultOf: (status: number, json: unknown) => string | null;
}

export class ExclusiveKey {
  readonly #key: string;
  readonly #tenant: Tenant;
  #spent = 0;
  #spentAdhoc = 0;
  #reserved: OpenReservation[] = [];

  constructor(key: string, tenant: Tenant) {
    this.#key = key;
    this.#tenant = tenant;
  }

  #call(draw: Draw, method: string, path: string, body?: unknown): CheckCallBytes {
    return callOf(draw, method, path, body, this.#tenant);
  }

  next(draw: Draw): ExclusiveCall {
    const kinds = [
      () => this.#spend(draw),
      () => this.#spend(draw),
      () => this.#look(draw),
      () => this.#reserve(draw),
      () => this.#settle(draw),
      () => this.#settle(draw),
      () => this.#spendAdhoc(draw),
      ...(draw.chance(0.2) ? [() => this.#forget(draw)] : []),
    ];
    return draw.one(kinds)();
  }

  /** The expected decision. Also charges the cost to the expected state if `isSpent`. */
  #decided(cost: number, isSpent: boolean): { allowed: boolean; remaining: number } {
    const allowed = this.#spent + cost <= capacity || cost === 0;
    if (allowed && isSpent) this.#spent += cost;
    return { allowed, remaining: Math.max(0, capacity - this.#spent) };
  }

  #spend(draw: Draw): ExclusiveCall {
    const cost = draw.one([0, 1, 1, 2, 5, 16, 1_000_000]);
    const call = this.#call(draw, "POST", "/check", { policy: "own", key: this.#key, cost });
    return { call, faultOf: this.#answering(200, this.#decided(cost, true)) };
  }

  #look(draw: Draw): ExclusiveCall {
    const cost = draw.one([0, 1, 3, 16]);
    const query = `?policy=own&key=${this.#key}&cost=${cost}${draw.one(["", "&deny=429"])}`;
    const expected = this.#decided(cost, false);
    const status = !expected.allowed && query.endsWith("429") ? 429 : 200;
    return {
      call: this.#call(draw, "GET", `/check${query}`),
      faultOf: this.#answering(status, expected),
    };
  }

  #reserve(draw: Draw): ExclusiveCall {
    const cost = draw.one([1, 2, 4]);
    const body = { policy: "own", key: this.#key, cost, ttlMs: 86_400_000 };
    const expected = this.#decided(cost, true);
    const check = this.#answering(200, expected);
    return {
      call: this.#call(draw, "POST", "/check/reserve", body),
      faultOf: (status, json) => {
        const id: unknown = Reflect.get(Object(json), "id");
        if (typeof id === "string") this.#reserved.push({ id, cost, isOpen: true });
        if ((typeof id === "string") !== expected.allowed) return `expected ${expected.allowed ? "an id" : "no id"}`;
        return check(status, json);
      },
    };
  }

  #settle(draw: Draw): ExclusiveCall {
    const cost = draw.one([0, 1, 3, 6]);
    const index = draw.below(this.#reserved.length + 1);
    const reserved = this.#reserved[index];
    const id = reserved?.id ?? draw.hex(64);
    const isForged = draw.chance(0.2);
    const tenant = draw.chance(0.8) ? this.#tenant : draw.one(tenants);
    const settled = reserved?.isOpen === true && !isForged && tenant === this.#tenant;
    if (settled) {
      this.#spent += cost - reserved.cost;
      this.#reserved[index] = { ...reserved, isOpen: false };
    }
    const body = { id: isForged ? `${id.slice(0, -1)}!` : id, cost };
    return {
      call: callOf(draw, "POST", "/check/settle", body, tenant),
      faultOf: (status, json) =>
        status === 200 && Reflect.get(Object(json), "settled") === settled ? null : `expected settled to be ${settled}`,
    };
  }

  #spendAdhoc(draw: Draw): ExclusiveCall {
    const cost = draw.one([0, 1, 4, 10]);
    const allowed = this.#spentAdhoc + cost <= adhocCapacity;
    if (allowed) this.#spentAdhoc += cost;
    const call = this.#call(draw, "POST", "/check", { ...adhoc, key: this.#key, cost });
    const remaining = adhocCapacity - this.#spentAdhoc;
    return { call, faultOf: this.#answering(200, { allowed, remaining }) };
  }

  #forget(draw: Draw): ExclusiveCall {
    this.#spent = 0;
    this.#reserved = this.#reserved.map((each) => ({ ...each, isOpen: false }));
    return {
      call: this.#call(draw, "DELETE", `/check?policy=own&key=${this.#key}`),
      faultOf: (status) => (status === 204 ? null : "expected status 204"),
    };
  }

  #answering(
    expectedStatus: number,
    { allowed, remaining }: { allowed: boolean; remaining: number },
  ): ExclusiveCall["faultOf"] {
    return (status, json) => {
      const remainingUnits = remainingByLimit(json);
      const isRight =
        status === expectedStatus &&
        Reflect.get(Object(json), "allowed") === allowed &&
        Math.min(...remainingUnits.values()) === remaining;
      return isRight ? null : `expected status ${expectedStatus} with allowed ${allowed} and ${remaining} remaining`;
    };
  }
}

/** The remaining units of each limit in a decision. */
export function remainingByLimit(json: unknown): Map<string, number> {
  const list: unknown = Reflect.get(Object(json), "limits");
  const limits = Array.isArray(list) ? (list as { name: string; remaining: number }[]) : [];
  return new Map(limits.map(({ name, remaining }) => [name, remaining]));
}
