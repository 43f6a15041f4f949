import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, impatientObjects, statusOf } from "../harness.ts";

const visitor = from("203.0.113.7");
const queue = { limit: 20, window: "1s", strategy: "leaky-bucket" };

/** One time for all decisions. It is ahead of the real clock, which alarms follow. */
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Longer than a check waits to be joined with others, and shorter than the timeout of calls. */
const isQueueWait = (waitMs: number): boolean => waitMs >= 50 && waitMs < 1_000;

/** A Worker on which every wait in a queue ends at once, and these waits in milliseconds. */
const impatient = (variables: Record<string, unknown>) => {
  const { waitsMs, ...objects } = impatientObjects(isQueueWait);
  return { ...headgate({ ...objects, ...variables }), waitsMs };
};

const ascending = (waitsMs: readonly number[]): number[] => waitsMs.toSorted((a, b) => a - b);

describe("a queue of 20 per second", () => {
  it("a queue of 20 per second delays three simultaneous requests by 0, 50 and 100 ms", async () => {
    const { send, waitsMs } = impatient({ LIMITS: queue });
    const statuses = await Promise.all([1, 2, 3].map(() => statusOf(send("/", visitor))));
    expect([statuses, ascending(waitsMs)]).toEqual([
      [200, 200, 200],
      [50, 100],
    ]);
  });

  it("/check returns the delay of a queue, and a look takes no place in the queue", async () => {
    const { check } = headgate({ LIMITS: queue });
    const delayOf = async (cost: number): Promise<number> => {
      const response = await check("POST", "/check", { key: "203.0.113.7", cost });
      return (await response.json<{ delayMs: number }>()).delayMs;
    };
    expect([await delayOf(1), await delayOf(3), await delayOf(0), await delayOf(1)]).toEqual([0, 50, 0, 200]);
  });

  it("a queued request is forwarded only when its wait ends", async () => {
    const { promise: waiting, resolve: onWait } = Promise.withResolvers<() => void>();
    const { waitsMs, ...objects } = impatientObjects(isQueueWait, onWait);
    const forwarded = vi.spyOn(globalThis, "fetch");
    const { send } = headgate({ LIMITS: queue, ...objects });
    expect(await statusOf(send("/first", visitor))).toBe(200);
    const second = send("/second", visitor);
    const endWait = await waiting;
    expect(waitsMs).toEqual([50]);
    expect(forwarded).toHaveBeenCalledTimes(1);
    endWait();
    expect(await (await second).json()).toMatchObject({ url: "https://origin.example/second" });
    expect(forwarded).toHaveBeenCalledTimes(2);
  });

  it("queued requests are forwarded in the order of their places", async () => {
    const { send } = headgate({ LIMITS: { ...queue, burst: 5 } });
    const rateLimits: (string | null)[] = [];
    const requests = [1, 2, 3].map(async () => {
      const { headers } = await send("/", visitor);
      rateLimits.push(headers.get("RateLimit"));
    });
    await Promise.all(requests);
    expect(rateLimits.map((each) => each?.slice(0, 13))).toEqual([5, 4, 3].map((each) => `"default";r=${each}`));
  });

  it("a request that does not fit in the queue is denied at once", async () => {
    const { send, waitsMs } = impatient({ LIMITS: { ...queue, burst: 1 } });
    const statuses = await Promise.all([1, 2, 3].map(() => statusOf(send("/", visitor))));
    expect([ascending(statuses), waitsMs]).toEqual([[200, 200, 429], [50]]);
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
      const { send, waitsMs } = impatient({ POLICIES: policies });
      await send("/", visitor);
      await send("/", visitor);
      expect(waitsMs).toEqual([200]);
    },
  );

  it("a queue of a dry run delays no request", async () => {
    const { send, waitsMs } = impatient({
      POLICIES: [
        { name: "dry-run", limits: queue, dryRun: true },
        { name: "enforced", limits: "9/minute" },
      ],
    });
    const statuses: number[] = [];
    for (let sent = 0; sent < 3; sent++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await statusOf(send("/", visitor)));
    }
    expect([statuses, waitsMs]).toEqual([[200, 200, 200], []]);
  });

  it("a queue also delays requests that the isolate decides locally", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const { RATE_LIMITER, waitsMs } = impatientObjects(isQueueWait);
    const { send } = headgate({
      LIMITS: queue,
      RATE_LIMITER: { ...RATE_LIMITER, getByName: () => ({ decide: call }) },
    });
    await send("/", visitor);
    await send("/", visitor);
    expect(waitsMs).toEqual([50]);
  });
});
