import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

const visitor = from("203.0.113.7");
const queue = { limit: 20, window: "1s", strategy: "leaky-bucket" };

/** One instant for all decisions; ahead of the real clock, which alarms use. */
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Ends every wait at once, and returns the waits in milliseconds. */
const waitsDuring = async (act: () => Promise<unknown>): Promise<number[]> => {
  const wait = vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
  await act();
  return wait.mock.calls.map(([delayMs]) => delayMs).toSorted((a, b) => a - b);
};

describe("a queue of 20 per second", () => {
  it("a queue of 20 per second delays three simultaneous requests by 0, 50 and 100 ms", async () => {
    const { send } = headgate({ LIMITS: queue });
    const three = [1, 2, 3].map(() => () => statusOf(send("/", visitor)));
    let statuses: number[] = [];
    const waits = await waitsDuring(async () => {
      statuses = await Promise.all(three.map((each) => each()));
    });
    expect([statuses, waits]).toEqual([
      [200, 200, 200],
      [50, 100],
    ]);
  });

  it("/check returns the delay of a queue, and a look takes no slot", async () => {
    const { check } = headgate({ LIMITS: queue });
    const delayOf = async (cost: number): Promise<number> => {
      const response = await check("POST", "/check", { key: "203.0.113.7", cost });
      return (await response.json<{ delayMs: number }>()).delayMs;
    };
    expect([await delayOf(1), await delayOf(3), await delayOf(0), await delayOf(1)]).toEqual([
      0, 50, 0, 200,
    ]);
  });

  it("a queued request is forwarded only when its wait ends", async () => {
    const { promise: wait, resolve: endWait } = Promise.withResolvers<void>();
    const { promise: delay, resolve: onDelay } = Promise.withResolvers<number>();
    vi.spyOn(scheduler, "wait").mockImplementation((delayMs) => {
      onDelay(delayMs);
      return wait;
    });
    const forwarded = vi.spyOn(globalThis, "fetch");
    const { send } = headgate({ LIMITS: queue });
    expect(await statusOf(send("/first", visitor))).toBe(200);
    const second = send("/second", visitor);
    expect(await delay).toBe(50);
    expect(forwarded).toHaveBeenCalledTimes(1);
    endWait();
    expect(await (await second).json()).toMatchObject({ url: "https://origin.example/second" });
    expect(forwarded).toHaveBeenCalledTimes(2);
  });

  it("queued requests are forwarded in the order of their slots", async () => {
    const { send } = headgate({ LIMITS: { ...queue, burst: 5 } });
    const rateLimits: (string | null)[] = [];
    const requests = [1, 2, 3].map(async () => {
      const { headers } = await send("/", visitor);
      rateLimits.push(headers.get("RateLimit"));
    });
    await Promise.all(requests);
    expect(rateLimits.map((each) => each?.slice(0, 13))).toEqual(
      [5, 4, 3].map((each) => `"default";r=${each}`),
    );
  });

  it("a request without a slot in the queue is denied without waiting", async () => {
    const { send } = headgate({ LIMITS: { ...queue, burst: 1 } });
    const waits = await waitsDuring(async () => {
      const statuses = await Promise.all([1, 2, 3].map(() => statusOf(send("/", visitor))));
      expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, 429]);
    });
    expect(waits).toEqual([50]);
  });
});

describe("queues of several policies", () => {
  const fast = { name: "fast", limits: queue };
  const slow = { name: "slow", key: "global", limits: { ...queue, limit: 5 } };

  it.for([
    [fast, slow, { name: "none", limits: "9/minute" }],
    [slow, fast],
  ])(
    "a request waits once, for the longest delay of its queues, whatever the order of its policies",
    async (policies) => {
      const { send } = headgate({ POLICIES: policies });
      const waits = await waitsDuring(async () => {
        await send("/", visitor);
        await send("/", visitor);
      });
      expect(waits).toEqual([200]);
    },
  );

  it("a queue in dry run delays no request", async () => {
    const { send } = headgate({
      POLICIES: [
        { name: "dry-run", limits: queue, dryRun: true },
        { name: "enforced", limits: "9/minute" },
      ],
    });
    const statuses: number[] = [];
    const waits = await waitsDuring(async () => {
      for (let sent = 0; sent < 3; sent++) {
        // oxlint-disable-next-line no-await-in-loop
        statuses.push(await statusOf(send("/", visitor)));
      }
    });
    expect([statuses, waits]).toEqual([[200, 200, 200], []]);
  });

  it("a queue delays requests also when the isolate decides locally", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const { send } = headgate({
      LIMITS: queue,
      RATE_LIMITER: { getByName: () => ({ decide: call }) },
    });
    const waits = await waitsDuring(async () => {
      await send("/", visitor);
      await send("/", visitor);
    });
    expect(waits).toEqual([50]);
  });
});
