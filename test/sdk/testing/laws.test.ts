/** Laws of the limiter in memory: it decides as the engine does, and the same in every run. */
import fc from "fast-check";
import { expect, it } from "vitest";
import { createMeter, type Decision, parseLimits } from "../../../src/sdk/package/strategies.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";
import { forAll } from "../../for-all.ts";

const limits = ["3/minute; 10/hour", "5/10s", "20 per 90 seconds"];
const strategies = ["fixed-window", "sliding-log", "sliding-window-counter", "sliding-buckets", "token-bucket"];

interface Step {
  readonly afterMs: number;
  readonly key: string;
  readonly cost: number;
}

const traffic = fc.record({
  limits: fc.constantFrom(...limits),
  strategy: fc.constantFrom(...strategies),
  startAt: fc.integer({ min: 0, max: Date.UTC(2100, 0, 1) }),
  steps: fc.array(
    fc.record({
      afterMs: fc.oneof(
        fc.constantFrom(0, 1, 999, 1_000, 10_000, 60_000, 3_600_000, 7_200_000),
        fc.integer({ min: 0, max: 100_000 }),
      ),
      key: fc.constantFrom("a", "b"),
      cost: fc.integer({ min: 0, max: 4 }),
    }),
    { minLength: 1, maxLength: 20 },
  ),
});
type Traffic = typeof traffic extends fc.Arbitrary<infer Value> ? Value : never;

const plain = ({ allowed, cost, delayMs, retryAfterMs, limits: each }: Decision): unknown => ({
  allowed,
  cost,
  delayMs,
  retryAfterMs,
  limits: each,
});

async function inMemory({ limits: text, strategy, startAt, steps }: Traffic): Promise<unknown[]> {
  const policy = { name: "p", key: "header:x-key", limits: text, strategy };
  const { client, clock } = createTestLimiter({ startAt, policies: [policy] });
  const decisions: unknown[] = [];
  for (const { afterMs, key, cost } of steps) {
    // oxlint-disable no-await-in-loop
    await clock.advance(afterMs);
    decisions.push(plain(await client.check({ key, cost })));
    // oxlint-enable no-await-in-loop
  }
  return decisions;
}

/** One meter for each key. */
function byEngine({ limits: text, strategy, startAt, steps }: Traffic): unknown[] {
  const parsed = parseLimits(text, { policy: "p", strategy });
  const meters = new Map(["a", "b"].map((key) => [key, createMeter(parsed)]));
  let nowMs = startAt;
  return steps.map(({ afterMs, key, cost }: Step) => {
    nowMs += afterMs;
    const meter = meters.get(key);
    if (meter === undefined) throw new Error("a key has a meter");
    return plain(cost === 0 ? meter.look(cost, nowMs) : meter.consume(cost, nowMs));
  });
}

it(
  "the limiter in memory decides as the engine does, while the clock advances by random times",
  forAll([traffic], async (drawn) => {
    expect(await inMemory(drawn)).toEqual(byEngine(drawn));
  }),
);

it(
  "two runs of the same traffic have the same decisions",
  forAll([traffic], async (drawn) => {
    expect(await inMemory(drawn)).toEqual(await inMemory(drawn));
  }),
);
