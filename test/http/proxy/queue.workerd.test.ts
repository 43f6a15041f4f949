import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

const visitor = from("203.0.113.7");
const queue = { limit: 20, window: "1s", strategy: "leaky-bucket" };

/** Ahead of the real clock, which alarms follow. All is decided at one instant. */
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** The waits that are asked for, each of them over at once. */
const waitsOf = async (act: () => Promise<unknown>): Promise<number[]> => {
  const wait = vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
  await act();
  return wait.mock.calls.map(([delayMs]) => delayMs).toSorted((a, b) => a - b);
};

describe("a queue of 20 per second", () => {
  it("holds each of three requests at once until its slot", async () => {
    const { send } = headgate({ LIMITS: queue });
    const three = [1, 2, 3].map(() => () => statusOf(send("/", visitor)));
    let statuses: number[] = [];
    const waits = await waitsOf(async () => {
      statuses = await Promise.all(three.map((each) => each()));
    });
    expect([statuses, waits]).toEqual([
      [200, 200, 200],
      [50, 100],
    ]);
  });

  it("tells /check how long to hold a request; who only looks takes no slot", async () => {
    const { check } = headgate({ LIMITS: queue });
    const delayOf = async (cost: number): Promise<number> => {
      const response = await check("POST", "/check", { key: "203.0.113.7", cost });
      return (await response.json<{ delayMs: number }>()).delayMs;
    };
    expect([await delayOf(1), await delayOf(3), await delayOf(0), await delayOf(1)]).toEqual([
      0, 50, 0, 200,
    ]);
  });

  it("sends a request on when its wait is over, and not before", async () => {
    const { promise: slot, resolve: open } = Promise.withResolvers<void>();
    const { promise: asked, resolve: ask } = Promise.withResolvers<number>();
    vi.spyOn(scheduler, "wait").mockImplementation((delayMs) => {
      ask(delayMs);
      return slot;
    });
    const forwarded = vi.spyOn(globalThis, "fetch");
    const { send } = headgate({ LIMITS: queue });
    expect(await statusOf(send("/first", visitor))).toBe(200);
    const second = send("/second", visitor);
    expect(await asked).toBe(50);
    expect(forwarded).toHaveBeenCalledTimes(1);
    open();
    expect(await (await second).json()).toMatchObject({ url: "https://origin.example/second" });
    expect(forwarded).toHaveBeenCalledTimes(2);
  });

  it("lets requests leave in the order of their slots", async () => {
    const { send } = headgate({ LIMITS: { ...queue, burst: 5 } });
    const left: (string | null)[] = [];
    const requests = [1, 2, 3].map(async () => {
      const { headers } = await send("/", visitor);
      left.push(headers.get("RateLimit"));
    });
    await Promise.all(requests);
    expect(left.map((each) => each?.slice(0, 13))).toEqual(
      [5, 4, 3].map((each) => `"default";r=${each}`),
    );
  });

  it("refuses at once what finds no slot, and holds nothing for it", async () => {
    const { send } = headgate({ LIMITS: { ...queue, burst: 1 } });
    const waits = await waitsOf(async () => {
      const statuses = await Promise.all([1, 2, 3].map(() => statusOf(send("/", visitor))));
      expect(statuses.toSorted((a, b) => a - b)).toEqual([200, 200, 429]);
    });
    expect(waits).toEqual([50]);
  });
});

describe("queues of several policies", () => {
  it("hold a request for the longest of their waits, once", async () => {
    const policies = [
      { name: "fast", limits: queue },
      { name: "slow", key: "global", limits: { ...queue, limit: 5 } },
      { name: "none", limits: "9/minute" },
    ];
    const { send } = headgate({ POLICIES: policies });
    const waits = await waitsOf(async () => {
      await send("/", visitor);
      await send("/", visitor);
    });
    expect(waits).toEqual([200]);
  });

  it("hold a request for the longest of their waits, whichever policy comes first", async () => {
    const { send } = headgate({
      POLICIES: [
        { name: "slow", key: "global", limits: { ...queue, limit: 5 } },
        { name: "fast", limits: queue },
      ],
    });
    const waits = await waitsOf(async () => {
      await send("/", visitor);
      await send("/", visitor);
    });
    expect(waits).toEqual([200]);
  });

  it("hold no request for the queue of a dry run", async () => {
    const { send } = headgate({
      POLICIES: [
        { name: "tried-out", limits: queue, dryRun: true },
        { name: "enforced", limits: "9/minute" },
      ],
    });
    const statuses: number[] = [];
    const waits = await waitsOf(async () => {
      for (let sent = 0; sent < 3; sent++) {
        // oxlint-disable-next-line no-await-in-loop
        statuses.push(await statusOf(send("/", visitor)));
      }
    });
    expect([statuses, waits]).toEqual([[200, 200, 200], []]);
  });

  it("hold requests while the isolate decides by itself, too", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const { send } = headgate({
      LIMITS: queue,
      RATE_LIMITER: { getByName: () => ({ check: call }) },
    });
    const waits = await waitsOf(async () => {
      await send("/", visitor);
      await send("/", visitor);
    });
    expect(waits).toEqual([50]);
  });
});
