/** What an isolate counts by itself, for when the objects give no answer. */
import { describe, expect, it } from "vitest";
import { LocalMeters } from "../../../src/limiter/client/local-meters.ts";
import type { Outcome, Spend } from "../../../src/limiter/client/outcome.ts";
import { spendOf, TestClock } from "../../fakes/isolate.ts";

const leftOf = ([outcome]: readonly Outcome[]): number | undefined =>
  outcome !== undefined && "decision" in outcome
    ? outcome.decision.limits[0]?.remaining
    : undefined;

function meters(): { clock: TestClock; local: LocalMeters; left: (spend: Spend) => unknown } {
  const clock = new TestClock();
  const local = new LocalMeters(clock);
  return { clock, local, left: (spend) => leftOf([local.fallBackLook(spend)]) };
}

const log = { limits: "100/hour", strategy: "sliding-log" };

describe("the isolate's own meters", () => {
  it("are looked at without spending", () => {
    const { left } = meters();
    expect([left(spendOf(log)), left(spendOf(log))]).toEqual([100, 100]);
  });

  it("count what objects admitted of policies that are local, and of no others", () => {
    const { local, clock } = meters();
    const spends = ["local", "open", "closed"].map((onError) =>
      spendOf({ ...log, name: onError, onError }),
    );
    const { spends: counted } = local.book(spends, clock.nowMs);
    expect(counted.map(({ policy }) => policy.name)).toEqual(["local"]);
  });

  it("do not count what objects admitted under logs that may grow long", () => {
    const { local, clock } = meters();
    const long = spendOf({ limits: "100000/hour", strategy: "sliding-log" });
    expect(local.book([long], clock.nowMs).spends).toEqual([]);
    const short = spendOf(log);
    expect(local.book([short], clock.nowMs).spends).toEqual([short]);
  });

  it("have nothing counted, and nothing to settle, of what they deny", () => {
    const { local, left } = meters();
    const [wide, narrow] = [spendOf(log, 2), spendOf({ ...log, name: "q", limits: "1/hour" }, 2)];
    const denied = local.fallBack([wide, narrow]);
    expect([denied.counted.spends, left(wide)]).toEqual([[], 100]);
    const dryRun = spendOf({ ...log, name: "dry", limits: "1/hour", dryRun: true }, 2);
    expect(local.fallBack([wide, dryRun]).counted.spends).toEqual([wide]);
    expect([left(wide), left(dryRun)]).toEqual([98, 1]);
  });

  it("give back what they spent at the instant at which it was spent", () => {
    for (const provisionalMs of [0, 60_000]) {
      const { local, clock, left } = meters();
      const spend = spendOf({ limits: "100/hour", strategy: "token-bucket" }, 10);
      const { counted } = local.fallBack([spend], provisionalMs);
      clock.nowMs += 10_000;
      local.settle(counted, () => 0);
      expect(left(spend)).toBe(100);
    }
  });

  it("correct what objects admitted to what it cost, however much later", () => {
    const { local, clock, left } = meters();
    const spend = spendOf(log, 10);
    const counted = local.book([spend], clock.nowMs);
    clock.nowMs += 3_000_000;
    local.settle(counted, () => 4);
    expect(left(spend)).toBe(96);
  });

  it("hold a slot for the time in which it is to be settled, and free it then", () => {
    const { local, clock, left } = meters();
    const slots = { ...spendOf({ limits: "5/hour", strategy: "concurrency" }), ttlMs: 10_000 };
    const { counted } = local.fallBack([slots]);
    expect(counted.openForMs).toBe(10_000);
    expect(left(slots)).toBe(4);
    local.settle(counted, () => 1);
    expect(left(slots)).toBe(5);
    clock.nowMs += 1;
    expect(local.fallBack([slots], 30_000).counted.openForMs).toBe(30_000);
  });

  it("lengthen an elastic window by what they deny", () => {
    const { local, clock } = meters();
    const elastic = spendOf({
      limits: { limit: 1, window: "10s", strategy: "fixed-window", elastic: true },
    });
    expect(leftOf(local.fallBack([elastic]).outcomes)).toBe(0);
    clock.nowMs += 9_000;
    expect(local.fallBack([elastic]).outcomes).toMatchObject([{ decision: { allowed: false } }]);
    clock.nowMs += 9_000;
    expect(local.fallBack([elastic]).outcomes).toMatchObject([{ decision: { allowed: false } }]);
  });

  it("are the 1,024 that were used last", () => {
    const { local, left } = meters();
    const spend = spendOf(log);
    const useOthers = (count: number, name: string): void => {
      for (let key = 0; key < count; key++) {
        local.fallBack([{ ...spend, partitionKey: `${name}-${key}` }]);
      }
    };
    local.fallBack([spend]);
    useOthers(1_000, "first");
    expect(left(spend)).toBe(99);
    useOthers(1_023, "second");
    expect(left(spend)).toBe(99);
    useOthers(1_024, "third");
    expect(left(spend)).toBe(100);
  });
});
