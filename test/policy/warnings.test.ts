import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseConfig } from "../../src/policy/vars/config.ts";
import { redundantLimits } from "../../src/policy/warnings.ts";
import { createMeter, type Limit, type LimitInput, parseLimits } from "../../src/strategies/index.ts";
import { forAllCounted } from "../for-all.ts";
import { configOf } from "./parsed.ts";

const log = (limit: number, window: string): LimitInput => ({
  limit,
  window,
  strategy: "sliding-log",
});

/** The redundant limits, as `limit/window`. */
const redundantOf = (...inputs: (string | LimitInput)[]): string[] =>
  redundantLimits(parseLimits(inputs)).map(({ limit }) => `${limit.limit}/${limit.windowMs}`);

describe("a limit that can never deny", () => {
  it("a limit that can never deny gives a warning, which names the limit that always denies first", () => {
    expect(configOf({ LIMITS: "10/second; 1000000000/minute" }).warnings).toEqual([
      'LIMITS: the limit "default.1000000000-per-1m" of the policy "default": it never denies a request, because the limit "default.10-per-1s" denies first',
    ]);
    const overrides = [{ key: "203.0.113.7", limits: "10/second; 1000000000/minute" }];
    expect(configOf({ POLICIES: [{ name: "a", limits: "1/s", overrides }] }).warnings).toEqual([
      expect.stringMatching(/^POLICIES\[0\]\.overrides: the limit "a\.1000000000-per-1m" .* never denies/),
    ]);
  });

  it("a redundant limit gives no warning with leased or eventual consistency, or with a cost from the response", () => {
    const policy = { name: "a", limits: "10/second; 1000000000/minute" };
    const cost = { from: "response-header:X-Cost", reserve: 1, max: 1_000 };
    for (const fields of [{ consistency: "eventual" }, { consistency: "leased" }, { cost }]) {
      expect(configOf({ POLICIES: [{ ...policy, ...fields }] }).warnings).toEqual([]);
    }
  });

  it.for<[LimitInput, LimitInput, boolean]>([
    // A sliding log admits 10 in any second, so 600 in any minute.
    [log(10, "1s"), log(600, "1m"), true],
    [log(10, "1s"), log(599, "1m"), false],
    [log(10, "1s"), { limit: 600, window: "1m", strategy: "fixed-window" }, true],
    [log(10, "1s"), { limit: 599, window: "1m", strategy: "fixed-window" }, false],
    [log(10, "7s"), log(90, "1m"), true],
    [log(10, "7s"), log(89, "1m"), false],
    // A counter's estimate reaches at most 610: 600 units of the previous window and 10 of the current one.
    [log(10, "1s"), { limit: 610, window: "1m" }, true],
    [log(10, "1s"), { limit: 609, window: "1m" }, false],
    // A counter and a fixed window admit twice the limit across a boundary.
    [{ limit: 10, window: "1s" }, log(1_200, "1m"), true],
    [{ limit: 10, window: "1s" }, log(1_199, "1m"), false],
    [{ limit: 10, window: "1s", strategy: "fixed-window" }, log(1_199, "1m"), false],
    // The longer window admits fewer units.
    [log(10, "1m"), log(10, "1s"), true],
    [log(10, "1m"), log(9, "1s"), false],
    [log(100, "1s"), log(10, "1m"), false],
    // A token bucket also admits its burst, so the other limit is not redundant.
    [{ limit: 10, window: "1s", strategy: "token-bucket", burst: 50 }, log(3_600, "1m"), true],
    [{ limit: 10, window: "1s", strategy: "token-bucket", burst: 50 }, log(3_599, "1m"), false],
    [log(10, "1s"), { limit: 600, window: "1m", strategy: "token-bucket" }, true],
    [log(10, "1s"), { limit: 600, window: "1m", strategy: "token-bucket", burst: 599 }, false],
    [log(10, "1s"), { limit: 599, window: "1m", strategy: "token-bucket", burst: 9_999 }, false],
    [log(10, "1s"), { limit: 600, window: "1m", strategy: "leaky-bucket", mode: "police" }, true],
    [log(10, "1s"), { limit: 9_999, window: "1m", strategy: "leaky-bucket" }, false],
    // A clock-aligned bucket counts for up to two windows.
    [log(10, "1s"), { limit: 1_200, window: "1m", strategy: "sliding-buckets", buckets: 1 }, true],
    [log(10, "1s"), { limit: 1_199, window: "1m", strategy: "sliding-buckets", buckets: 1 }, false],
    // Concurrency limits, elastic windows and calendar periods are not compared.
    [log(10, "1s"), { limit: 9_999, window: "1m", strategy: "concurrency" }, false],
    [{ limit: 1, window: "1m", strategy: "concurrency" }, log(9_999, "1m"), false],
    [log(1, "1s"), { limit: 9_999, window: "1m", strategy: "fixed-window", elastic: true }, false],
    [{ limit: 1, window: "1m", strategy: "fixed-window", elastic: true }, log(60, "1h"), true],
    [log(1, "1h"), { limit: 62 * 24, window: "month" }, true],
    [log(1, "1h"), { limit: 62 * 24 - 1, window: "month" }, false],
    [{ limit: 1, window: "month" }, log(4, "31d"), true],
    [{ limit: 1, window: "month" }, log(3, "31d"), false],
  ])("together with %j, the limit %j can never deny: %s", ([other, limit, isRedundant]) => {
    const { limits } = { limits: parseLimits([other, limit]) };
    const found = redundantLimits(limits).some((each) => each.limit === limits[1]);
    expect(found).toBe(isRedundant);
  });

  it("a single limit is never redundant, and at most one of two limits is", () => {
    expect(redundantOf("10/minute")).toEqual([]);
    expect(redundantOf(log(10, "1m"), { limit: 10, window: "1m", strategy: "sliding-buckets" })).toEqual(["10/60000"]);
  });

  const anyLimit = fc
    .record({
      limit: fc.integer({ min: 1, max: 40 }),
      window: fc.constantFrom("5ms", "10ms", "25ms", "40ms"),
      form: fc.constantFrom(
        { strategy: "fixed-window" },
        { strategy: "fixed-window", align: "clock" },
        { strategy: "sliding-log" },
        { strategy: "sliding-window-counter" },
        { strategy: "sliding-window-counter", align: "clock" },
        { strategy: "sliding-buckets", buckets: 5 },
        { strategy: "sliding-buckets", buckets: 1, edge: "drop" },
        { strategy: "token-bucket" },
        { strategy: "token-bucket", refill: "interval" },
        { strategy: "leaky-bucket", mode: "police" },
      ),
    })
    .map(({ limit, window, form }): LimitInput => ({ limit, window, ...form }));
  /** The waits before the requests, many of which are zero, and the costs of the requests. */
  const trace = fc.array(
    fc.record({
      waitMs: fc.oneof(fc.constant(0), fc.nat(12)),
      cost: fc.integer({ min: 1, max: 4 }),
    }),
    { minLength: 40, maxLength: 120 },
  );

  it("a redundant limit denies no request that the other limit allows", async () => {
    let checkedRequests = 0;
    const isDeniedAlone = (limits: readonly Limit[], requests: { waitMs: number; cost: number }[]) => {
      const [first] = redundantLimits(limits);
      if (first === undefined) return false;
      const [at, by] = [limits.indexOf(first.limit), limits.indexOf(first.by)];
      const meter = createMeter(limits);
      let nowMs = 1_000_003;
      return requests.some(({ waitMs, cost }) => {
        nowMs += waitMs;
        const { limits: decisions } = meter.consume(cost, nowMs);
        checkedRequests++;
        return decisions[by]?.allowed === true && decisions[at]?.allowed === false;
      });
    };
    const holds = forAllCounted(
      [anyLimit, anyLimit, fc.array(trace, { minLength: 4, maxLength: 4 })],
      (one, other, traces) => {
        const isTwin = one["strategy"] === other["strategy"] && one.window === other.window;
        if (isTwin) return;
        const limits = parseLimits([one, other]);
        for (const requests of traces) expect(isDeniedAlone(limits, requests)).toBe(false);
      },
      2_000,
    );
    await holds();
    expect(checkedRequests).toBeGreaterThan(20_000);
  });
});

const longLog = (window: string): object => ({ limit: 90_000, window, strategy: "sliding-log" });

const sharedKeyWarnings = (...policies: readonly object[]): readonly string[] =>
  parseConfig({
    KEY_SECRET: "a secret of more than thirty-two characters",
    POLICIES: policies,
  }).warnings.filter((text) => text.includes("share the key"));

it("policies that share a key give a warning when their states together may exceed the size of a row", () => {
  const policies = [
    { name: "a", key: ["ip"], limits: [longLog("1d")] },
    { name: "b", key: ["ip"], limits: [longLog("1d")] },
    { name: "d", key: ["ip"], limits: [longLog("1d")] },
    {
      name: "c",
      key: ["ip"],
      limits: ["5/minute"],
      overrides: [{ key: "192.0.2.1", limits: [longLog("1d")] }],
    },
  ];
  const [warning, ...others] = sharedKeyWarnings(...policies);
  expect(others).toEqual([]);
  expect(warning).toMatch(
    /^POLICIES: the policies "a", "b", "d", "c" share the key ip, whose state may take 2\.\d MB: a row in storage holds 2 MB/,
  );
});

it("policies with different keys or objects, or with small states, give no warning about shared keys", () => {
  expect(
    sharedKeyWarnings(
      { name: "a", key: ["ip"], limits: [longLog("1d")] },
      { name: "b", key: ["header:x-user"], limits: [longLog("1d")] },
      { name: "c", key: ["ip"], limits: [longLog("1d")], objects: "sharded" },
      { name: "d", key: ["ip"], limits: ["100/minute"] },
    ),
  ).toEqual([]);
});
