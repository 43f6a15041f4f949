/** Many requests on a key whose object fails. */
import { scopeOf } from "../fakes/isolate.ts";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { FailureMode, Policy } from "../../src/policy/policy.ts";
import { LimiterClient } from "../../src/limiter/isolate/client.ts";
import { KeyObject } from "../../src/limiter/object/key-object.ts";
import { admits } from "../../src/limiter/isolate/outcome.ts";
import type { CheckCall, CheckReply } from "../../src/limiter/protocol.ts";
import { decideBy } from "../fakes/flat-calls.ts";
import { MemoryStorage } from "../../src/sdk/testing/memory-storage.ts";
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

interface FloodResult {
  readonly admitted: readonly Admitted[];
  readonly requests: number;
  readonly calls: number;
  readonly longestMs: number;
}

/** Sends a request every 10 ms, for 20 s. */
async function flood(
  policy: Policy,
  check: (world: World) => (call: CheckCall) => Promise<CheckReply>,
): Promise<FloodResult> {
  const world = new World();
  const answer = check(world);
  let calls = 0;
  const countedCheck = (call: CheckCall): Promise<CheckReply> => {
    calls++;
    return answer(call);
  };
  const decide = decideBy({ check: countedCheck });
  const objects = { getByName: () => ({ decide }) } as unknown as Objects;
  const client = new LimiterClient(objects, world.clock());
  const admitted: Admitted[] = [];
  let longestMs = 0;
  let requests = 0;
  const request = async (): Promise<void> => {
    const sentAtMs = world.nowMs;
    requests++;
    const { outcomes } = await client.admit([{ policy, partitionKey: "k", cost: 1 }], scopeOf());
    longestMs = Math.max(longestMs, world.nowMs - sentAtMs);
    if (outcomes.every(admits)) admitted.push({ atMs: world.nowMs, units: 1 });
  };
  for (let atMs = 0; atMs < 20_000; atMs += 10) world.at(startMs + atMs, () => void request());
  await world.runUntil(startMs + 25_000);
  return { admitted, requests, calls, longestMs };
}

/** The failures that were logged. */
let lines: string[];
beforeEach(() => {
  lines = [];
  vi.spyOn(console, "error").mockImplementation((line: string) => void lines.push(line));
});
afterEach(() => void vi.restoreAllMocks());

describe.each(Object.keys(faults))("a flood on a key whose object is %s", (name) => {
  const fault = faults[name] ?? faults["hung"];
  if (fault === undefined) throw new Error("there is a fault of this name");

  it("while the object fails, the isolate enforces the limit itself, and no request waits longer than the timeout", async () => {
    const { admitted, requests, longestMs } = await flood(policyOf("local"), fault);
    expect(mostIn(windowMs, admitted)).toBe(limit);
    expect(longestMs).toBeLessThanOrEqual(timeoutMs);
    // Each request that the object has not decided is logged.
    expect(lines.filter((line) => line.includes('"object-silent"'))).toHaveLength(requests);
  });

  it("while the object fails, onError = open allows all requests, and onError = closed denies all", async () => {
    const open = await flood(policyOf("open"), fault);
    expect(open.admitted).toHaveLength(open.requests);
    const closed = await flood(policyOf("closed"), fault);
    expect(closed.admitted).toEqual([]);
    expect(Math.max(open.longestMs, closed.longestMs)).toBeLessThanOrEqual(timeoutMs);
  });

  it("requests call a failed object at most once per second, not counting the calls that were already in flight", async () => {
    const { calls } = await flood(policyOf("local"), fault);
    // A hanging call fails at its deadline.
    const concurrentCalls = 1 + timeoutMs / 10;
    expect(calls).toBeLessThanOrEqual(21 * concurrentCalls);
  });
});

describe("a flood on a key whose object answers one call in seven", () => {
  it("the limit is still enforced when the object fails most calls", async () => {
    const answersEvery = 7;
    const { admitted, calls } = await flood(policyOf("local"), (world) => {
      const storage = new MemoryStorage();
      const limiter = new KeyObject({ storage, ...world.clock() });
      let checks = 0;
      return async (call) => {
        checks++;
        if (checks % answersEvery !== 0) throw Object.assign(new Error("busy"), { overloaded: true });
        return limiter.check(call);
      };
    });
    // The object does not know what the isolate admits locally, so each of them can admit up to the limit.
    expect(mostIn(windowMs, admitted)).toBeLessThanOrEqual(2 * limit);
    expect(admitted.length).toBeGreaterThanOrEqual(limit);
    expect(calls).toBeGreaterThan(answersEvery);
  });
});
