/** The names of limits, and limits in one list that would share a state. */
import { describe, expect, it } from "vitest";
import { type LimitDefaults, type LimitInput, parseLimits } from "../../src/strategies/index.ts";
import { problemsOf } from "./meters.ts";

const namesOf = (input: Parameters<typeof parseLimits>[0], defaults?: LimitDefaults): string[] =>
  parseLimits(input, defaults).map(({ name }) => name);

describe("the name of a limit", () => {
  it("a single limit has the name of its policy, or default without a policy", () => {
    expect(namesOf("10/minute", { policy: "api" })).toEqual(["api"]);
    expect(namesOf("10/minute")).toEqual(["default"]);
    expect(namesOf({ limit: 1, window: "1s" }, { policy: "login" })).toEqual(["login"]);
  });

  it("several limits are named <policy>.<limit>-per-<window>", () => {
    expect(namesOf("10/minute; 100 per 90 seconds | 5/7d", { policy: "api" })).toEqual([
      "api.10-per-1m",
      "api.100-per-90s",
      "api.5-per-1w",
    ]);
  });

  it("the name of a limit includes the strategy only if two names would otherwise be equal", () => {
    const list = ["10/minute", { limit: 10, window: "60s", strategy: "sliding-log" }, { limit: 10, window: "1h" }];
    expect(namesOf(list, { policy: "api" })).toEqual([
      "api.10-per-1m.sliding-window-counter",
      "api.10-per-1m.sliding-log",
      "api.10-per-1h",
    ]);
  });

  it("the name of a calendar limit has the shortest notation of its period", () => {
    const daily = { limit: 3, window: "day", strategy: "fixed-window", align: "calendar" };
    const list = ["1000/month; 9 per 1 Year", daily, { ...daily, window: "1 week" }, "4/31d"];
    expect(namesOf(list, { policy: "api" })).toEqual([
      "api.1000-per-1mo",
      "api.9-per-1y",
      "api.3-per-1d",
      "api.3-per-1w",
      "api.4-per-31d",
    ]);
  });

  it("equal names of limits with the same strategy are numbered, but configured names are kept", () => {
    const daily = { limit: 3, window: "1d", strategy: "fixed-window" };
    const list = [daily, { ...daily, align: "calendar" }, { ...daily, align: "clock" }];
    expect(namesOf(list, { policy: "api" })).toEqual([
      "api.3-per-1d.fixed-window",
      "api.3-per-1d.fixed-window.2",
      "api.3-per-1d.fixed-window.3",
    ]);
    const named = [daily, { ...daily, align: "calendar", name: "a-day" }];
    expect(namesOf(named, { policy: "api" })).toEqual(["api.3-per-1d", "a-day"]);
  });

  it("a configured name is used both for a single limit and in a list", () => {
    expect(namesOf({ limit: 1, window: "1s", name: "burst" }, { policy: "api" })).toEqual(["burst"]);
    const list = [{ limit: 1, window: "1s", name: "burst" }, "10/minute"];
    expect(namesOf(list, { policy: "api" })).toEqual(["burst", "api.10-per-1m"]);
  });

  it("the strategy is added to a generated name that equals a configured name", () => {
    const list = ["10/minute", { limit: 3, window: "1d", name: "api.10-per-1m" }];
    expect(namesOf(list, { policy: "api" })).toEqual(["api.10-per-1m.sliding-window-counter", "api.10-per-1m"]);
  });

  it("two limits with the same configured name are a problem", () => {
    const list = ["1s", "1m"].map((window) => ({ limit: 1, window, name: "same" }));
    expect(problemsOf(list)).toEqual([expect.objectContaining({ field: "[1].name", value: "same" })]);
  });

  it.for(["", "A", "1a", "-a", "a b", "a/b", "ä", 'a"b', `a${"b".repeat(64)}`, "a\n", 5, null])(
    "%j is refused as the name of a limit",
    (name) => {
      const [problem, ...others] = problemsOf({ limit: 1, window: "1s", name });
      expect(others).toEqual([]);
      expect(problem).toMatchObject({ field: "name", value: name });
      expect(problem?.accepted).toMatch(/1 to 64 characters/);
    },
  );
});

describe("limits of one list that would share a state", () => {
  it.for<[string, (string | LimitInput)[]]>([
    ["in one text", ["10/minute; 20/minute"]],
    ["with windows of equal length", ["10/day", "20 per 24 hours"]],
    ["with different names", [{ limit: 1, window: "1s", name: "a" }, "2/s"]],
    [
      "with equal options",
      [
        { limit: 1, window: "1s", align: "first-request" },
        { limit: 2, window: "1s" },
      ],
    ],
  ])("two limits that would share a state are refused (%s)", ([, list]) => {
    const problems = problemsOf(list);
    expect(problems).toHaveLength(1);
    expect(problems[0]?.accepted).toMatch(/differ/);
  });

  it.for<[string, object, object]>([
    ["token-bucket", { burst: 5 }, { burst: 7, refill: "continuous" }],
    ["leaky-bucket", { burst: 5 }, { mode: "queue" }],
    ["sliding-buckets", { window: "1m" }, { window: "60s", buckets: 60 }],
    ["sliding-buckets", { window: "59s" }, { window: "59s", precision: "1s" }],
    // The default is the greatest divisor of the window up to 60.
    ["sliding-buckets", { window: "61s" }, { window: "61s", buckets: 50 }],
    ["sliding-buckets", { window: "61ms" }, { window: "61ms", buckets: 1 }],
    ["sliding-buckets", { buckets: 10 }, { precision: "100ms", edge: "keep" }],
    ["fixed-window", { window: "1mo" }, { window: "month", timezone: "UTC", align: "calendar" }],
    ["fixed-window", { window: "1mo" }, { window: "1mo", timezone: "utc" }],
    ["concurrency", { window: "60s" }, { window: "1 minute" }],
  ])("two limits of %s with %j and %j would share a state and are refused", ([strategy, one, other]) => {
    const problems = problemsOf([
      { limit: 1, window: "1s", strategy, ...one },
      { limit: 2, window: "1s", strategy, ...other },
    ]);
    expect(problems).toMatchObject([{ field: "[1]", accepted: expect.stringMatching(/differ/) }]);
  });

  it("limits that differ in window, strategy or an option have separate states, so a list may contain them", () => {
    const list = [
      { strategy: "sliding-window-counter" },
      { strategy: "sliding-window-counter", window: "2s" },
      { strategy: "sliding-window-counter", align: "clock" },
      { strategy: "sliding-log" },
      { strategy: "concurrency" },
      { strategy: "token-bucket" },
      { strategy: "token-bucket", refill: "interval" },
      { strategy: "leaky-bucket" },
      { strategy: "leaky-bucket", mode: "police" },
      { strategy: "sliding-buckets", buckets: 1 },
      { strategy: "sliding-buckets", buckets: 1, edge: "drop" },
      { strategy: "sliding-buckets", buckets: 2 },
    ];
    const windows = [
      {},
      { window: "1d" },
      { align: "clock" },
      { elastic: true },
      { window: "1d", align: "calendar" },
      { window: "1d", align: "calendar", timezone: "Europe/Berlin" },
      { window: "1w", align: "calendar" },
      { window: "1mo" },
      { window: "31d" },
      { window: "1y" },
    ].map((each) => ({ strategy: "fixed-window", ...each }));
    for (const limits of [list, windows]) {
      const all = limits.map((each, index) => ({
        limit: 1,
        window: "1s",
        name: `limit-${index}`,
        ...each,
      }));
      expect(problemsOf(all)).toEqual([]);
    }
  });
});
