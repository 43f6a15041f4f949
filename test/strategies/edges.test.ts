import { describe, expect, it } from "vitest";
import { createMeter, type Limit, parseLimits, strategies } from "../../src/strategies/index.ts";
import { remainders, startMs } from "./meters.ts";

const limitsOf = (notation: string, strategy: string): Limit[] => parseLimits(notation, { strategy });

describe.each([...strategies.keys()])("edge cases of the strategy %s", (strategy) => {
  it("a limit that was absent from some calls adds no quota when it is used again at a time before those in its state", () => {
    const [perDay, perSecond] = [limitsOf("1000/day", strategy), limitsOf("10/second", strategy)];
    const before = createMeter(perDay);
    before.consume(1, startMs + 5_000);
    const corrected = createMeter(perSecond, before.snapshot());
    const [{ capacity } = { capacity: 0 }] = corrected.look(1, startMs).limits;
    expect(corrected.consume(capacity, startMs).allowed).toBe(true);
    const together = createMeter([...perSecond, ...perDay], corrected.snapshot());
    expect(together.refused).toBeNull();
    expect(together.consume(1, startMs + 1).allowed).toBe(false);
    expect(remainders(together, startMs + 1)).toEqual([0, 999 + capacity - 10]);
  });

  it("a debt beyond the greatest safe integer is kept in memory and in storage", () => {
    const limits = limitsOf("10/minute", strategy);
    const meter = createMeter(limits);
    meter.book(Number.MAX_SAFE_INTEGER, startMs, startMs);
    meter.book(Number.MAX_SAFE_INTEGER, startMs, startMs);
    const revived = createMeter(limits, structuredClone(meter.snapshot()));
    expect(revived.refused).toBeNull();
    expect(revived.consume(1, startMs)).toEqual(meter.consume(1, startMs));
    expect(revived.consume(1, startMs).allowed).toBe(false);
  });

  it("a booking at the time of a lagging clock has the same effect as a spend at that time", () => {
    const limits = parseLimits([{ limit: 10, window: "1m", strategy }]);
    const [booked, consumed] = [createMeter(limits), createMeter(limits)];
    for (const meter of [booked, consumed]) meter.consume(1, startMs);
    booked.book(5, startMs - 1, startMs - 1);
    consumed.consume(5, startMs - 1);
    expect(booked.look(1, startMs)).toEqual(consumed.look(1, startMs));
  });

  it("a look with cost 0 is allowed while the limit is in debt", () => {
    const meter = createMeter(limitsOf("5/minute", strategy));
    meter.book(8, startMs, startMs);
    expect(meter.look(0, startMs)).toMatchObject({ allowed: true, limits: [{ remaining: 0 }] });
    expect(meter.look(1, startMs).allowed).toBe(false);
  });
});
