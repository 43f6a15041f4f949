/** Stories told as timelines: what is asked of a fresh meter and when, and what it answers. */
import { expect } from "vitest";
import { createMeter, type LimitInput, parseLimits } from "../../src/strategies/index.ts";

const midnightMs = Date.UTC(2026, 2, 14);

/** The instant of `h:mm:ss` or `m:ss`, with or without a fraction, on one and the same day. */
export function at(time: string): number {
  const seconds = time.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
  return midnightMs + Math.round(seconds * 1_000);
}

/** `waitMs` is `retryAfterMs`; the columns after `allowed` may be left out. */
export type Row = readonly [
  time: string,
  cost: number,
  allowed: boolean,
  remaining?: number,
  waitMs?: number | null,
];

/** Tells the costs to a fresh meter and expects what the rows say of them; `remaining` is the least of all limits. */
export function expectStory(
  limits: string | LimitInput,
  strategy: string,
  rows: readonly Row[],
): void {
  const meter = createMeter(parseLimits(limits, { strategy }));
  const told = rows.map((row): Row => {
    const [time, cost] = row;
    const decision = meter.consume(cost, at(time));
    const remaining = Math.min(...decision.limits.map((limit) => limit.remaining));
    const full = [time, cost, decision.allowed, remaining, decision.retryAfterMs] as const;
    return full.slice(0, row.length) as unknown as Row;
  });
  expect(told).toEqual(rows);
}
