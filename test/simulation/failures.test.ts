import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { FailureMode, Policy } from "../../src/config/index.ts";
import { LimiterClient } from "../../src/limiter/client/client.ts";
import { Limiter } from "../../src/limiter/object/limiter.ts";
import { admits } from "../../src/limiter/client/outcome.ts";
import type { CheckCall } from "../../src/limiter/protocol.ts";
import { MemoryStorage } from "../fakes/memory-storage.ts";
import { type Admitted, mostIn } from "./admitted.ts";
import { policyWith } from "./schedule.ts";
import { startMs, World } from "./world.ts";

type Objects = ConstructorParameters<typeof LimiterClient>[0];
type Answer = () => Promise<never>;

const limit = 20;
const windowMs = 5_000;
const timeoutMs = 200;

const policyOf = (onError: FailureMode): Policy => {
  const limits = { limit, window: `${windowMs}ms`, strategy: "sliding-log" };
  return policyWith({ limits, onError, timeout: `${timeoutMs}ms`, denyCache: false });
};

const failing =
  (fields: object = {}): Answer =>
  () =>
    Promise.reject(Object.assign(new Error("no answer"), fields));

const faults: Readonly<Record<string, (world: World) => Answer>> = {
  hung: () => () => new Promise(() => undefined),
  slow: (world) => () =>
    new Promise((_, reject) => void world.at(world.nowMs + 3_000, () => reject(new Error("late")))),
  overloaded: () => failing({ overloaded: true }),
  aborted: () => failing({ durableObjectReset: true }),
  missing: () => () => {
    throw new TypeError("stub.check is not a function");
  },
};

interface Flooded {
  readonly admitted: readonly Admitted[];
  readonly asked: number;
  readonly calls: number;
  readonly longestMs: number;
}

/** A request every 10 ms, for 20 s. */
async function flooded(
  policy: Policy,
  check: (world: World) => (call: CheckCall) => Promise<unknown>,
): Promise<Flooded> {
  const world = new World();
  const answer = check(world);
  let calls = 0;
  const counted = (call: CheckCall): Promise<unknown> => {
    calls++;
    return answer(call);
  };
  const objects = { getByName: () => ({ check: counted }) } as unknown as Objects;
  const client = new LimiterClient(objects, world.clock());
  const admitted: Admitted[] = [];
  let longestMs = 0;
  let asked = 0;
  const ask = async (): Promise<void> => {
    const askedAtMs = world.nowMs;
    asked++;
    const { outcomes } = await client.admit(
      [{ policy, partitionKey: "k", cost: 1 }],
      () => undefined,
    );
    longestMs = Math.max(longestMs, world.nowMs - askedAtMs);
    if (outcomes.every(admits)) admitted.push({ atMs: world.nowMs, units: 1 });
  };
  for (let atMs = 0; atMs < 20_000; atMs += 10) world.at(startMs + atMs, () => void ask());
  await world.runUntil(startMs + 25_000);
  return { admitted, asked, calls, longestMs };
}

/** What the log has of calls that came to nothing. */
let told: string[];
beforeEach(() => {
  told = [];
  vi.spyOn(console, "error").mockImplementation((line: string) => void told.push(line));
});
afterEach(() => void vi.restoreAllMocks());

describe.each(Object.keys(faults))("a flood on a key whose object is %s", (name) => {
  const fault = faults[name] ?? faults["hung"];
  if (fault === undefined) throw new Error("a fault is told");

  it("is limited by the isolate itself, and nobody waits for longer than the timeout", async () => {
    const { admitted, asked, longestMs } = await flooded(policyOf("local"), fault);
    expect(mostIn(windowMs, admitted)).toBe(limit);
    expect(longestMs).toBeLessThanOrEqual(timeoutMs);
    // Each request that had no decision of the object's is told of.
    expect(told.filter((line) => line.includes('"object-silent"'))).toHaveLength(asked);
  });

  it("is forwarded where the policy is open, and refused where it is closed", async () => {
    const open = await flooded(policyOf("open"), fault);
    expect(open.admitted).toHaveLength(open.asked);
    const closed = await flooded(policyOf("closed"), fault);
    expect(closed.admitted).toEqual([]);
    expect(Math.max(open.longestMs, closed.longestMs)).toBeLessThanOrEqual(timeoutMs);
  });

  it("reaches the object once a second at most, and what was on its way before", async () => {
    const { calls } = await flooded(policyOf("local"), fault);
    // A call that hangs is known to have failed when its time is up.
    const atOnce = 1 + timeoutMs / 10;
    expect(calls).toBeLessThanOrEqual(21 * atOnce);
  });
});

describe("a flood on a key whose object takes no more than some of it", () => {
  it("stays limited throughout", async () => {
    const takesEvery = 7;
    const { admitted, calls } = await flooded(policyOf("local"), (world) => {
      const storage = new MemoryStorage();
      const limiter = new Limiter({ storage, ...world.clock() });
      let taken = 0;
      return async (call) => {
        taken++;
        if (taken % takesEvery !== 0) throw Object.assign(new Error("busy"), { overloaded: true });
        return limiter.check(call);
      };
    });
    // What the isolate has let in the object is not told of: each enforces the limit, on a count of its own.
    expect(mostIn(windowMs, admitted)).toBeLessThanOrEqual(2 * limit);
    expect(admitted.length).toBeGreaterThanOrEqual(limit);
    expect(calls).toBeGreaterThan(takesEvery);
  });
});
