/** Arbitrary scenarios of the playground for property tests. */
import * as fc from "fast-check";
import { defaultScenario, type Scenario } from "../../../src/console/playground/model/scenario.ts";
import type { LimitInput } from "../../../src/strategies/index.ts";

const window = fc.constantFrom("1s", "10s", "1m", "90s");
const limit = fc.integer({ min: 1, max: 30 });

const plain = (strategy: string, options: Record<string, fc.Arbitrary<unknown>> = {}) =>
  fc.record(
    { limit, window, strategy: fc.constant(strategy), ...options },
    { requiredKeys: ["limit", "window", "strategy"] },
  );

const align = fc.constantFrom("first-request", "clock");
const burst = fc.integer({ min: 1, max: 40 });

export const anyLimit = fc.oneof(
  fc.record({ limit, window }),
  plain("fixed-window", { align }),
  plain("fixed-window", { elastic: fc.boolean() }),
  plain("sliding-log", { name: fc.constantFrom("true", "burst", "a.b-c_1") }),
  plain("sliding-window-counter", { align }),
  plain("sliding-buckets", {
    buckets: fc.constantFrom(1, 4, 10),
    edge: fc.constantFrom("keep", "drop"),
  }),
  plain("token-bucket", { burst, refill: fc.constantFrom("continuous", "interval") }),
  plain("leaky-bucket", { burst, mode: fc.constantFrom("queue", "police") }),
  plain("concurrency"),
  fc.constant({
    limit: 50,
    window: "1d",
    strategy: "fixed-window",
    align: "calendar",
    timezone: "Europe/Berlin",
  }),
) as fc.Arbitrary<LimitInput>;

const rate = fc.record({
  count: fc.oneof(fc.integer({ min: 1, max: 300 }), fc.constantFrom(0.5, 12.25, 1 / 3)),
  windowMs: fc.constantFrom(10_000, 60_000, 7_000),
});

const durationMs = fc.oneof(fc.integer({ min: 0, max: 3_000 }), fc.constantFrom(60_000, 90_000));

const pattern: fc.Arbitrary<Partial<Scenario>> = fc.oneof(
  fc.record({ traffic: fc.constantFrom("steady", "poisson"), rate }),
  fc.record({
    traffic: fc.constant("bursts" as const),
    size: fc.integer({ min: 1, max: 60 }),
    withinMs: durationMs,
    firstMs: durationMs,
    everyMs: fc.integer({ min: 5_000, max: 90_000 }),
  }),
  fc.record({
    traffic: fc.constant("times" as const),
    times: fc.array(
      fc.record({
        atMs: fc.integer({ min: 0, max: 120_000 }),
        count: fc.integer({ min: 1, max: 20 }),
        cost: fc.option(fc.integer({ min: 1, max: 12 })),
      }),
      { minLength: 1, maxLength: 20 },
    ),
  }),
);

const fields = fc.record({
  lengthMs: fc.integer({ min: 1, max: 30_000 }),
  keys: fc.integer({ min: 1, max: 5 }),
  skew: fc.constantFrom(0, 1, 1.5),
  cost: fc.integer({ min: 1, max: 4 }),
  runsMs: durationMs,
  retry: fc.constantFrom("none", "ignore", "obey", "jitter"),
  pauseMs: durationMs,
  attempts: fc.integer({ min: 0, max: 5 }),
  startMs: fc.integer({ min: 0, max: 2 ** 41 }),
  seed: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
});

const scenarioWith = (limits: fc.Arbitrary<LimitInput[]>): fc.Arbitrary<Scenario> =>
  fc
    .tuple(limits, pattern, fields)
    .map(([written, traffic, others]) => ({ ...defaultScenario, limits: written, ...traffic, ...others }));

/** A valid scenario with one limit. */
export const anyScenario = scenarioWith(anyLimit.map((each) => [each]));

const slots = plain("concurrency") as fc.Arbitrary<LimitInput>;

/** A scenario with two or three limits, which often hold slots. */
export const anyComposite = scenarioWith(
  fc
    .array(fc.oneof(anyLimit, slots), { minLength: 2, maxLength: 3 })
    .map((limits) => limits.map((each, index) => ({ ...each, name: `limit-${index}` }))),
);
