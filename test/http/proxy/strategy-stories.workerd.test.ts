import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

/**
 * Clock stories through the whole Worker. The fake clock is ahead of the real one: alarms follow the real clock, and
 * one that was set in the past would fire at once.
 */
const midnight = Date.UTC(2100, 0, 1);

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

/** Plays `m:ss requests -> statuses` in order; equal statuses are written `ten 200`. */
async function play(variables: Record<string, string>, lines: [string, number[]][]): Promise<void> {
  const { send } = headgate(variables);
  for (const [clock, expected] of lines) {
    const [minutes = 0, seconds = 0] = clock.split(":").map(Number);
    vi.setSystemTime(midnight + (minutes * 60 + seconds) * 1000);
    const statuses: number[] = [];
    while (statuses.length < expected.length) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await statusOf(send("/", from("203.0.113.7"))));
    }
    expect([clock, statuses]).toEqual([clock, expected]);
  }
}

const times = (count: number, status: number): number[] => Array<number>(count).fill(status);

describe("10 per minute", () => {
  it("in a fixed window: from the first request at 0:45 until 1:45", () =>
    play({ LIMITS: "10/minute", STRATEGY: "fixed-window" }, [
      ["0:45", [200]],
      ["1:20", times(5, 200)],
      ["1:44", [...times(4, 200), 429, 429]],
      ["1:44.999", [429]],
      ["1:45", [...times(10, 200), 429]],
      ["2:44", [429]],
    ]));

  it("in a sliding log: each request counts for a minute of its own", () =>
    play({ LIMITS: "10/minute", STRATEGY: "sliding-log" }, [
      ["0:10", [200]],
      ["0:20", times(2, 200)],
      ["0:30", times(4, 200)],
      ["0:50", [...times(3, 200), 429]],
      ["1:11", [200]],
      ["1:12", [429]],
      ["1:20", [200, 200, 429]],
    ]));
});

describe("waiting as told", () => {
  it("is enough, and a millisecond less is not", async () => {
    for (const STRATEGY of ["fixed-window", "sliding-log", "sliding-window-counter"]) {
      const { check } = headgate({ LIMITS: "7/90s", STRATEGY, KEY: "global" });
      const spend = async (cost: number): Promise<{ allowed: boolean; retryAfterMs: number }> =>
        (await check("POST", "/check", { cost })).json();
      vi.setSystemTime(midnight);
      // oxlint-disable no-await-in-loop
      await spend(3);
      vi.setSystemTime(midnight + 31_007);
      await spend(4);
      const { allowed, retryAfterMs } = await spend(2);
      expect(allowed).toBe(false);
      vi.setSystemTime(midnight + 31_007 + retryAfterMs - 1);
      expect(await spend(2)).toMatchObject({ allowed: false, retryAfterMs: 1 });
      vi.setSystemTime(midnight + 31_007 + retryAfterMs);
      expect(await spend(2)).toMatchObject({ allowed: true });
      // oxlint-enable no-await-in-loop
    }
  });
});

describe("500 requests at once for one key", () => {
  it.for(["fixed-window", "sliding-log", "sliding-window-counter"])(
    "let in exactly the limit: %s",
    async (strategy) => {
      const limits = "37/minute; 200/hour";
      // A machine that is busy with other things must not make the isolate decide by itself.
      const policy = { name: "p", limits, strategy, timeout: "30s" };
      const { send } = headgate({ POLICIES: [policy] });
      const statuses = await Promise.all(
        Array.from({ length: 500 }, () => statusOf(send("/", from("203.0.113.7")))),
      );
      expect(statuses.filter((status) => status === 200)).toHaveLength(37);
      expect(statuses.filter((status) => status === 429)).toHaveLength(463);
    },
  );
});
