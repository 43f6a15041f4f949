import { expect, it } from "vitest";
import { parseLimits, provisionalTtlMs } from "../../src/strategies/index.ts";

const limitsOf = (...limits: readonly [window: string, strategy: string][]) =>
  parseLimits(
    limits.map(([window, strategy]) => ({ limit: 5, window, strategy })),
    { policy: "p" },
  );

it("the ttl of a provisional spend is its provisional time, or the longest window of a concurrency limit if that is longer", () => {
  const spent = limitsOf(["1h", "fixed-window"], ["2h", "sliding-log"]);
  expect(provisionalTtlMs(spent, 3_000)).toBe(3_000);
  const slots = limitsOf(["1m", "concurrency"], ["2h", "sliding-log"]);
  expect([provisionalTtlMs(slots, 3_000), provisionalTtlMs(slots, 70_000)]).toEqual([60_000, 70_000]);
  const two = limitsOf(["2m", "concurrency"], ["1m", "concurrency"]);
  expect(provisionalTtlMs(two, 3_000)).toBe(120_000);
});
