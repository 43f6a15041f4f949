import { describe, expect, it } from "vitest";
import { type Limit, parseLimits, strategies } from "../../src/strategies/index.ts";
import { configOf, problemsIn } from "./parsed.ts";

/** Every strategy and each of its options, as an operator writes them. */
const forms: readonly Record<string, unknown>[] = [
  { strategy: "fixed-window" },
  { strategy: "fixed-window", align: "clock" },
  { strategy: "fixed-window", elastic: true },
  { strategy: "fixed-window", window: "1d", align: "calendar", timezone: "Europe/Berlin" },
  { strategy: "fixed-window", window: "1w", align: "calendar" },
  { window: "1mo", timezone: "Asia/Tokyo" },
  { strategy: "sliding-log" },
  { strategy: "sliding-window-counter" },
  { strategy: "sliding-window-counter", align: "clock" },
  { strategy: "sliding-buckets" },
  { strategy: "sliding-buckets", buckets: 6, edge: "drop" },
  { strategy: "sliding-buckets", precision: "5s" },
  { strategy: "token-bucket" },
  { strategy: "token-bucket", burst: 20, refill: "interval" },
  { strategy: "leaky-bucket" },
  { strategy: "leaky-bucket", mode: "police", burst: 2 },
  { strategy: "concurrency" },
];

const limitsOf = (variables: Record<string, unknown>): readonly Limit[] =>
  configOf(variables).policies[0]?.limits ?? [];

describe("a strategy and its options", () => {
  it.for(forms)("a strategy and its options are read wherever a limit is written: %j", (form) => {
    const limit = { limit: 5, window: "1m", ...form };
    const { window: _, precision: __, ...kept } = { precision: "", ...limit };
    const expected = parseLimits(limit);
    expect(expected).toMatchObject([kept]);
    expect(limitsOf({ LIMITS: limit })).toEqual(expected);
    expect(limitsOf({ LIMITS: JSON.stringify(limit) })).toEqual(expected);
    const POLICIES = [{ name: "default", limits: [limit] }];
    expect(limitsOf({ POLICIES })).toEqual(expected);
    expect(limitsOf({ POLICIES: JSON.stringify(POLICIES) })).toEqual(expected);
  });

  it("the cases of the strategy tests include every strategy and every option", () => {
    const tried = forms.map(({ strategy }) => strategy).filter((name) => name !== undefined);
    expect(new Set(tried)).toEqual(new Set(strategies.keys()));
  });

  it.for(["sliding-log", "sliding-buckets", "token-bucket", "leaky-bucket", "concurrency"])(
    "a policy's strategy applies to limits without one: %s",
    (strategy) => {
      const limits = ["5/minute", { limit: 9, window: "1h", strategy: "fixed-window" }];
      const expected = [{ strategy }, { strategy: "fixed-window" }];
      expect(limitsOf({ LIMITS: limits, STRATEGY: strategy })).toMatchObject(expected);
      expect(limitsOf({ POLICIES: [{ name: "a", limits, strategy }] })).toMatchObject(expected);
    },
  );

  it("a limit per month in notation has a calendar window, whatever strategy the policy has", () => {
    expect(limitsOf({ LIMITS: "9/month; 99/year; 5/s", STRATEGY: "token-bucket" })).toMatchObject([
      { strategy: "fixed-window", period: "month", name: "default.9-per-1mo" },
      { strategy: "fixed-window", period: "year", name: "default.99-per-1y" },
      { strategy: "token-bucket", name: "default.5-per-1s" },
    ]);
  });
});

describe("an invalid option", () => {
  it.for<[Record<string, unknown>, string]>([
    [{ strategy: "fixed-window", align: "moon" }, "align"],
    [{ strategy: "fixed-window", elastic: "yes" }, "elastic"],
    [{ strategy: "fixed-window", elastic: true, align: "clock" }, "elastic"],
    [{ strategy: "fixed-window", align: "calendar" }, "window"],
    [{ window: "1mo", timezone: "Mars/Olympus" }, "timezone"],
    [{ window: "1mo", strategy: "sliding-log" }, "strategy"],
    [{ strategy: "sliding-window-counter", align: "calendar" }, "align"],
    [{ strategy: "sliding-buckets", buckets: 7 }, "buckets"],
    [{ strategy: "sliding-buckets", buckets: 1_001 }, "buckets"],
    [{ strategy: "sliding-buckets", precision: "7s" }, "precision"],
    [{ strategy: "sliding-buckets", edge: "blunt" }, "edge"],
    [{ strategy: "token-bucket", burst: 0 }, "burst"],
    [{ strategy: "token-bucket", refill: "never" }, "refill"],
    [{ strategy: "leaky-bucket", mode: "drip" }, "mode"],
    [{ strategy: "concurrency", burst: 2 }, "burst"],
    [{ strategy: "sliding-log", align: "clock" }, "align"],
  ])("an invalid option is reported with its place and value: %j", ([written, field]) => {
    const limits = { limit: 5, window: "1m", ...written };
    const value = Object.entries(limits).find(([name]) => name === field)?.[1];
    expect(problemsIn({ KEY_SECRET: "s", LIMITS: ["1/s", limits] })).toMatchObject([
      { variable: "LIMITS", field: `[1].${field}`, value },
    ]);
    const POLICIES = [
      { name: "a", limits: "1/s" },
      { name: "b", limits },
    ];
    expect(problemsIn({ KEY_SECRET: "s", POLICIES })).toMatchObject([
      { variable: "POLICIES", field: `[1].limits.${field}`, value },
    ]);
  });
});

describe("warnings", () => {
  const elastic = { limit: 5, window: "1m", strategy: "fixed-window", elastic: true };

  it("a warning about a limit names the variable, the field, the policy and the limit", () => {
    const { warnings: inLimits } = configOf({ LIMITS: [elastic, "9/hour"] });
    const { warnings: inPolicies } = configOf({
      POLICIES: [{ name: "a", limits: "1/s" }],
      POLICIES_2: [
        { name: "b", limits: "1/s" },
        { name: "c", limits: ["1/s", { ...elastic, name: "grudge" }] },
      ],
    });
    const warnings = [...inLimits, ...inPolicies];
    const deprecated = expect.stringContaining("elastic windows are deprecated");
    expect(warnings).toEqual([deprecated, deprecated]);
    expect(warnings.map((line) => line.replace(/: elastic.*/, ""))).toEqual([
      'LIMITS: the limit "default.5-per-1m" of the policy "default"',
      'POLICIES_2[1].limits: the limit "grudge" of the policy "c"',
    ]);
  });

  it("a cost that the limits can never allow gives a warning, whether the cost is fixed or reserved", () => {
    const warningsOf = (cost: unknown): readonly string[] =>
      configOf({ POLICIES: [{ name: "a", limits: "100/s; 9/ms", cost }] }).warnings;
    const denied =
      'POLICIES[0].cost: the policy "a": every request is denied, because its cost is greater than the limits can ever allow';
    expect(warningsOf(10)).toEqual([denied]);
    expect(warningsOf({ from: "response-header:x", reserve: 10, max: 99 })).toEqual([denied]);
    expect(warningsOf(9)).toEqual([]);
    expect(warningsOf({ from: "response-header:x", reserve: 9, max: 99 })).toEqual([]);
    expect(warningsOf({ from: "header:x", max: 99 })).toEqual([]);
    const overrides = [{ key: "192.0.2.1", limits: "9/hour" }];
    const overridden = { name: "a", limits: "100/hour", cost: 10, overrides };
    expect(configOf({ POLICIES: [overridden] }).warnings).toEqual([denied]);
  });

  it("a concurrency limit with more slots than the proxy allows requests in flight gives a warning", () => {
    const warningsOf = (limit: number): readonly string[] =>
      configOf({ LIMITS: { limit, window: "1m", strategy: "concurrency" } }).warnings;
    expect(warningsOf(1_000)).toEqual([]);
    expect(warningsOf(1_001)).toEqual([
      'LIMITS: the limit "default" of the policy "default": the proxy allows at most 1000 requests of a key in flight',
    ]);
  });

  it("a ban on a key that clients share gives a warning", () => {
    const warningsOf = (fields: object): readonly string[] =>
      configOf({
        JWT_KEY: "k".repeat(32),
        POLICIES: [{ name: "a", limits: "1/s", ban: "1h", ...fields }],
      }).warnings;
    const shared = expect.stringContaining('POLICIES[0].ban: the policy "a": one denied client bans all');
    expect(warningsOf({ key: "global" })).toEqual([shared]);
    expect(warningsOf({ key: "jwt:sub" })).toEqual([shared]);
    expect(warningsOf({ key: "jwt:sub", onMissingKey: "ip" })).toEqual([]);
    expect(warningsOf({ key: "ip" })).toEqual([]);
  });

  it("a short concurrency window, an elastic window of an override, and a long wait each give a warning", () => {
    const slots = { limit: 5, window: "900ms", strategy: "concurrency" };
    const queue = { limit: 1, window: "1m", strategy: "leaky-bucket", burst: 61 };
    const overrides = [{ key: "192.0.2.1", limits: [elastic] }];
    expect(configOf({ POLICIES: [{ name: "a", limits: slots, overrides }] }).warnings).toEqual([
      expect.stringMatching(/^POLICIES\[0\]\.limits: .* a window under a second may free a slot/),
      expect.stringMatching(/^POLICIES\[0\]\.overrides: .* elastic windows are deprecated/),
    ]);
    const waits = (fields: object): readonly string[] =>
      configOf({ POLICIES: [{ name: "a", limits: queue, ...fields }] }).warnings;
    expect(waits({})).toEqual([expect.stringContaining("more than an hour; maxDelay denies")]);
    expect(waits({ maxDelay: "1h" })).toEqual([]);
    expect(waits({ limits: { ...queue, burst: 60 } })).toEqual([]);
  });

  it("a configuration in common use gives no warnings", () => {
    expect(configOf({ LIMITS: { ...elastic, elastic: false } }).warnings).toEqual([]);
  });
});
