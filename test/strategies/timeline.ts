/** Timelines: requests to a new meter, and the meter's decisions. */
import { expect } from "vitest";
import { type LimitInput, parseLimits, createMeter } from "../../src/strategies/index.ts";
import { remainingOf, startMs } from "./meters.ts";

/** The time written as `h:mm:ss` or `m:ss`, with or without a fraction. All times are on the same day. */
export function at(time: string): number {
  const seconds = time.split(":").reduce((sum, part) => sum * 60 + Number(part), 0);
  return startMs + Math.round(seconds * 1_000);
}

/**
 * A row of a timeline. `remaining` is the least of all limits, and `waitMs` is `retryAfterMs`. Columns after `allowed`
 * are optional.
 */
export type Row = readonly [time: string, cost: number, allowed: boolean, remaining?: number, waitMs?: number | null];

/** Consumes the costs of the rows from a new meter, and expects the decisions in the rows. */
export function expectTimeline(limits: string | LimitInput, strategy: string, rows: readonly Row[]): void {
  const meter = createMeter(parseLimits(limits, { strategy }));
  const decided = rows.map((row): Row => {
    const [time, cost] = row;
    const decision = meter.consume(cost, at(time));
    const { allowed, retryAfterMs } = decision;
    const complete = [time, cost, allowed, remainingOf(decision), retryAfterMs] as const;
    return complete.slice(0, row.length) as unknown as Row;
  });
  expect(decided).toEqual(rows);
}
