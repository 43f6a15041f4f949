import { describe, expect, it } from "vitest";
import { createMeter, type Limit, parseLimits, strategies } from "../../src/strategies/index.ts";

const startMs = 1_800_000_000_000;

const limitsOf = (notation: string, strategy: string): Limit[] =>
  parseLimits(notation, { strategy });

describe.each([...strategies.keys()])("%s at the edges", (strategy) => {
  it("frees nothing for a limit whose neighbour, away meanwhile, has seen a later time", () => {
    const [perDay, perSecond] = [limitsOf("1000/day", strategy), limitsOf("10/second", strategy)];
    const before = createMeter(perDay);
    before.consume(1, startMs + 5_000);
    const mended = createMeter(perSecond, before.snapshot());
    const [{ capacity } = { capacity: 0 }] = mended.look(1, startMs).limits;
    expect(mended.consume(capacity, startMs).allowed).toBe(true);
    const together = createMeter([...perSecond, ...perDay], mended.snapshot());
    expect(together.refused).toBeNull();
    expect(together.consume(1, startMs + 1).allowed).toBe(false);
    expect(together.look(1, startMs + 1).limits.map(({ remaining }) => remaining)).toEqual([
      0,
      999 + capacity - 10,
    ]);
  });

  it("keeps a debt that no number holds, in memory and stored", () => {
    const limits = limitsOf("10/minute", strategy);
    const meter = createMeter(limits);
    meter.book(Number.MAX_SAFE_INTEGER, startMs, startMs);
    meter.book(Number.MAX_SAFE_INTEGER, startMs, startMs);
    const revived = createMeter(limits, structuredClone(meter.snapshot()));
    expect(revived.refused).toBeNull();
    expect(revived.consume(1, startMs)).toEqual(meter.consume(1, startMs));
    expect(revived.consume(1, startMs).allowed).toBe(false);
  });

  it("books as long ago as the caller says, however far behind its clock is", () => {
    const limits = parseLimits([{ limit: 10, window: "1m", strategy }]);
    const [booked, consumed] = [createMeter(limits), createMeter(limits)];
    for (const meter of [booked, consumed]) meter.consume(1, startMs);
    booked.book(5, startMs - 1, startMs - 1);
    consumed.consume(5, startMs - 1);
    expect(booked.look(1, startMs)).toEqual(consumed.look(1, startMs));
  });

  it("lets a look pass even in debt: a request of what remains is allowed, be it nothing", () => {
    const meter = createMeter(limitsOf("5/minute", strategy));
    meter.book(8, startMs, startMs);
    expect(meter.look(0, startMs)).toMatchObject({ allowed: true, limits: [{ remaining: 0 }] });
    expect(meter.look(1, startMs).allowed).toBe(false);
  });
});
