/** Keys whose state is larger than one row of storage. */
import { describe, expect, it } from "vitest";
import { KeyObject } from "../../../src/limiter/object/key-object.ts";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { parseLimits } from "../../../src/strategies/index.ts";
import { MemoryStorage } from "../../../src/sdk/testing/memory-storage.ts";
import { eventsOf } from "../../fakes/calls.ts";
import { startMs } from "../../fakes/isolate.ts";

/** A row of storage holds 2 MB including its name. Local workerd does not enforce this. */
const mostRowBytes = 2_000_000;

/** Logs just short enough to have no segments, so that they are stored whole in the key's row. */
const entries = 500;
const windows = Array.from({ length: 16 }, (_, index) => `${100 + index}d`);

const chargesOf = (policies: number): Charge[] =>
  Array.from({ length: policies }, (_, index) => {
    const policy = `policy-${index}`;
    const input = windows.map((window) => ({ limit: 1_000, window, strategy: "sliding-log" }));
    return { policy, limits: parseLimits(input, { policy }), cost: 1 };
  });

/** Fills the logs of one key, and writes the key. */
function filled(policies: number): { storage: MemoryStorage; nowMs: number } {
  const storage = new MemoryStorage();
  let nowMs = startMs;
  const limiter = new KeyObject({ storage, now: () => nowMs, after: () => () => undefined });
  const charges = chargesOf(policies);
  // Uses syncs, which book units without decisions in a hundredth of the time.
  for (const { policy, limits } of charges) {
    const spends = Array.from({ length: entries }, (_, index) => [index * 7_777_777, 1] as const);
    limiter.sync({
      isolate: "isolate",
      key: "k",
      batch: Number(policy.slice("policy-".length)) + 1,
      charges: [{ policy, limits, spends: spends.toReversed() }],
    });
  }
  nowMs += 1;
  limiter.check({ key: "k", charges, durability: "confirmed" });
  return { storage, nowMs };
}

const sizesOf = ({ rows }: MemoryStorage): number[] => [...rows].map(([name, row]) => name.length + row.length);

describe("a large key", () => {
  it("a key too large for one row is stored in several, logged once, read back, and swept completely", async () => {
    let written = { storage: new MemoryStorage(), nowMs: 0 };
    const policies = 50;
    const events = await eventsOf(() => (written = filled(policies)));
    const { storage, nowMs } = written;
    const sizes = sizesOf(storage);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(mostRowBytes);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(mostRowBytes);
    expect(events.match(/"event":"state-oversized","policies":\["policy-/g)).toHaveLength(1);
    const next = new KeyObject({ storage, now: () => nowMs, after: () => () => undefined });
    const { decisions } = next.look({ key: "k", charges: chargesOf(policies) });
    const left = decisions.flatMap(({ limits }) => limits.map(({ remaining }) => remaining));
    expect(left).toEqual(Array.from({ length: policies * 16 }, () => 1_000 - entries - 1));
    const sweepMs = nowMs + 200 * 86_400_000;
    await new KeyObject({ storage, now: () => sweepMs, after: () => () => undefined }).alarm();
    expect(storage.rows.size).toBe(0);
  });

  it("a key that fits in one row is stored in one row, without an event", async () => {
    let written = { storage: new MemoryStorage(), nowMs: 0 };
    const events = await eventsOf(() => (written = filled(20)));
    expect([written.storage.rows.size, events]).toEqual([1, ""]);
  });
});
