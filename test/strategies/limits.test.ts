/** Limits in every form. The options of each strategy are tested in `limit-options.test.ts`. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import {
  createMeter,
  type Limit,
  type LimitDefaults,
  parseLimits,
  readLimits,
  strategies,
} from "../../src/strategies/index.ts";
import { ConfigProblems, type ConfigProblem } from "../../src/validation/problems.ts";
import { dayMs, problemsOf } from "./meters.ts";

const longestMs = 3_650 * dayMs;

/** The fields that have problems, without repetitions. */
const fieldsOf = (input: unknown): string[] => [...new Set(problemsOf(input).map(({ field }) => field))];

describe("a parsed limit", () => {
  it("a limit has its own strategy, or else that of its policy, or else sliding-window-counter", () => {
    const strategiesOf = (defaults?: LimitDefaults): string[] =>
      parseLimits(["1/s", { limit: 1, window: "1m", strategy: "sliding-log" }], defaults).map(
        ({ strategy }) => strategy,
      );
    expect(strategiesOf()).toEqual(["sliding-window-counter", "sliding-log"]);
    expect(strategiesOf({ strategy: "fixed-window" })).toEqual(["fixed-window", "sliding-log"]);
  });

  it("notation, fields and a list of one give the same limit", () => {
    const expected = parseLimits("10/minute");
    expect(parseLimits({ limit: 10, window: "minute" })).toEqual(expected);
    expect(parseLimits(["10 per 60s"])).toEqual(expected);
    expect(parseLimits([{ limit: 10, window: "1m" }])).toEqual(expected);
  });
});

describe("a problem of a limit", () => {
  const fine = { limit: 1, window: "1s" };

  it.for<[string, unknown, string, unknown, RegExp]>([
    ["limit of 0", { ...fine, limit: 0 }, "limit", 0, /integer from 1/],
    ["negative limit", { ...fine, limit: -3 }, "limit", -3, /integer from 1/],
    ["limit that is not an integer", { ...fine, limit: 1.5 }, "limit", 1.5, /integer from 1/],
    ["limit above the maximum", { ...fine, limit: 10 ** 15 }, "limit", 10 ** 15, /to 999999999999999/],
    ["limit as a string", { ...fine, limit: "5" }, "limit", "5", /integer/],
    ["missing limit", { window: "1s" }, "limit", undefined, /integer/],
    ["missing window", { limit: 1 }, "window", undefined, /a duration/],
    ["bad window", { ...fine, window: "soon" }, "window", "soon", /a duration .*"30s"/],
    ["window as a number", { ...fine, window: 60 }, "window", 60, /a duration/],
    ["window of 0", { ...fine, window: "0s" }, "window", "0s", /from 1 ms/],
    ["window above the maximum", { ...fine, window: "3651d" }, "window", "3651d", /to 10 years/],
    ["unknown strategy", { ...fine, strategy: "magic" }, "strategy", "magic", /"sliding-log"/],
    ["strategy that is not a string", { ...fine, strategy: 1 }, "strategy", 1, /"fixed-window"/],
    ["unknown field", { ...fine, limits: 3 }, "limits", 3, /limit, window, strategy, name, align/],
    ["inherited field", { ...fine, toString: 3 }, "toString", 3, /limit, window/],
    [
      "option of another strategy",
      { ...fine, strategy: "sliding-log", align: "clock" },
      "align",
      "clock",
      /fields limit, window, strategy, name$/,
    ],
    ["bad option", { ...fine, align: "moon" }, "align", "moon", /"first-request", "clock"/],
    [
      "log that is too long",
      { ...fine, limit: 100_001, strategy: "sliding-log" },
      "limit",
      100_001,
      /100000.*sliding-log/,
    ],
    [
      "product that is too large",
      { limit: 2 ** 49 - 1, window: "16ms" },
      "limit",
      2 ** 49 - 1,
      /sliding-window-counter.*2\^52/,
    ],
    ["limit that is a number", 5, "", 5, /, or an object$/],
    ["limit that is null", null, "", null, /, or an object$/],
    ["empty list", [], "", [], /from 1 to 16/],
    ["empty text", "", "", "", /"10\/minute"/],
    ["nested list", [["1/s"]], "[0]", ["1/s"], /, or an object$/],
    // oxlint-disable-next-line no-sparse-arrays
    ["hole in a list", [, "1/s"], "[0]", undefined, /, or an object$/],
  ])("a problem names the field, the value and the accepted values (%s)", ([, input, field, value, accepted]) => {
    const [problem, ...others] = problemsOf(input);
    expect(others).toEqual([]);
    expect(problem).toEqual({ variable: "", field, value, accepted: expect.any(String) });
    expect(problem?.accepted).toMatch(accepted);
  });

  it.for<[string, string, RegExp]>([
    ["0/minute", "0/minute", /integer from 1/],
    ["-5/minute", "-5/minute", /integer from 1/],
    ["1.5/minute", "1.5/minute", /integer from 1/],
    ["1e3/minute", "1e3/minute", /integer from 1/],
    ["many/minute", "many/minute", /integer from 1/],
    ["99999999999999999/minute", "99999999999999999/minute", /integer from 1/],
    ["10/fortnight", "10/fortnight", /a duration/],
    ["1/s;  10/0s ", "10/0s", /a duration/],
    ["1/s/s", "1/s/s", /a duration/],
    ["ten", "ten", /"10\/minute".*hour, day, week/],
    ["10", "10", /"10\/minute"/],
    ["/minute", "/minute", /"10\/minute"/],
    ["10/", "10/", /"10\/minute"/],
    ["10 minute", "10 minute", /"10\/minute"/],
    ["10per minute", "10per minute", /"10\/minute"/],
    ["10 perminute", "10 perminute", /"10\/minute"/],
    ["999999999999989/day", "999999999999989/day", /2\^52/],
  ])("a problem of the notation %j quotes the text", ([text, quoted, accepted]) => {
    const [problem, ...others] = problemsOf(text);
    expect(others).toEqual([]);
    expect(problem?.value).toBe(quoted);
    expect(problem?.accepted).toMatch(accepted);
    expect(() => parseLimits(text)).toThrow(`, got ${JSON.stringify(quoted)}`);
  });

  it("all problems of a list of limits are reported together", () => {
    const list = [
      { limit: 0, window: "soon", strategy: "magic", name: "No" },
      "1/s; 0/eon",
      7,
      { limit: 200_000, window: "1s", strategy: "sliding-log" },
      { window: "1s", align: "moon", extra: true },
    ];
    expect(fieldsOf(list)).toEqual([
      "[0].limit",
      "[0].window",
      "[0].strategy",
      "[0].name",
      "[1].limit",
      "[1].window",
      "[2]",
      "[3].limit",
      "[4].limit",
      "[4].align",
      "[4].extra",
    ]);
  });

  it("a limit with an unknown strategy has one problem, even if its options are invalid too", () => {
    expect(fieldsOf({ limit: 1, window: "1s", strategy: "magic", burst: 5 })).toEqual(["strategy"]);
  });

  it("parseLimits throws one line per problem, with the field, the value and the accepted values", () => {
    expect(() => parseLimits([{ limit: 1, window: "soon" }, "0/s"])).toThrow(
      /^\[0\]\.window: expected a duration .+, got "soon"\n\[1\]\.limit: expected .+, got "0\/s"$/,
    );
    expect(() => parseLimits([] as string[])).toThrow(ConfigProblems);
  });
});

describe("the bounds of limits", () => {
  const windows = (count: number): string => Array.from({ length: count }, (_, index) => `1/${index + 1}s`).join(";");

  it("a policy has at most 16 limits, in a text or a list", () => {
    expect(parseLimits(windows(16))).toHaveLength(16);
    expect(problemsOf(windows(17))).toMatchObject([{ field: "", value: windows(17) }]);
    expect(problemsOf(windows(17).split(";"))).toHaveLength(1);
  });

  it("the states of a policy's limits together take at most 1,900,000 bytes, which fit in one row of storage", () => {
    const logs = (count: number): unknown[] =>
      Array.from({ length: count }, (_, index) => ({
        limit: 100_000,
        window: `${index + 1}h`,
        strategy: "sliding-log",
      }));
    expect(problemsOf(logs(3))).toEqual([]);
    expect(problemsOf(logs(4))).toMatchObject([
      { field: "", accepted: expect.stringContaining("at most 1900000 bytes; these take 2400400") },
    ]);
  });

  it("a log may have at most 100,000 units, and for a counter 2 × limit × window must be below 2^53", () => {
    const log = { limit: 100_000, window: "10w", strategy: "sliding-log" };
    expect(problemsOf(log)).toEqual([]);
    // Limit and window are first divided by their greatest common divisor.
    const counter = { strategy: "sliding-window-counter" };
    expect(problemsOf({ ...counter, limit: 999_999_999_999_999, window: "4ms" })).toEqual([]);
    expect(problemsOf({ ...counter, limit: 999_999_999_999_999, window: "5ms" })).toHaveLength(1);
    expect(problemsOf({ ...counter, limit: 864 * 10 ** 12, window: "10d" })).toEqual([]);
    expect(problemsOf({ ...counter, limit: 864 * 10 ** 12 + 1, window: "10d" })).toHaveLength(1);
  });
});

describe("limits of any shape", () => {
  const isWhole = ({ limit, windowMs, name }: Limit): boolean =>
    Number.isSafeInteger(limit) && limit >= 1 && windowMs >= 1 && windowMs <= longestMs && name !== "";

  const any = fc.anything({ maxDepth: 2 });
  const values: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
    limit: fc.integer({ min: 0, max: 200_000 }),
    window: fc.constantFrom("1m", "7ms", "day", "1 week", "1mo", "year", "0s"),
    name: fc.constant("a"),
    align: fc.constantFrom("first-request", "clock", "calendar"),
    timezone: fc.constantFrom("UTC", "Asia/Tokyo", "Mars"),
    elastic: fc.boolean(),
    burst: fc.oneof(fc.nat(100), fc.nat()),
    refill: fc.constantFrom("interval", "continuous"),
    mode: fc.constantFrom("police", "queue"),
    buckets: fc.oneof(fc.constantFrom(1, 60), fc.nat(1_001)),
    precision: fc.constantFrom("1s", "7s", "1ms"),
    edge: fc.constantFrom("drop", "keep"),
  };
  const common = ["limit", "window", "name"];

  /** The fields of each strategy, most of them with valid values. */
  const plausible = fc.oneof(
    ...[...strategies].map(([name, { options }]) => {
      const own = [...common, ...Object.keys(options)].map((field) => {
        const fine = { weight: 19, arbitrary: values[field] ?? any };
        return [field, fc.oneof(fine, { weight: 1, arbitrary: any })] as const;
      });
      const fields: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
        ...Object.fromEntries(own),
        strategy: fc.constant(name),
      };
      return fc.record(fields, { requiredKeys: ["limit", "window"] });
    }),
  );
  const entry = fc.oneof(
    plausible,
    fc.record({ ...values, strategy: fc.oneof(fc.constantFrom(...strategies.keys()), any) }, { requiredKeys: [] }),
  );
  it(
    "any value is either parsed to complete limits or has problems",
    forAll(
      [fc.oneof(any, plausible, entry, fc.array(fc.oneof(entry, fc.constant("1/s"))))],
      (input) => {
        const problems: ConfigProblem[] = [];
        const limits = readLimits(input, {}, (problem) => problems.push(problem));
        expect(problems.length > 0 || limits.every(isWhole)).toBe(true);
        // A meter can decide with every accepted limit.
        const decided = problems.length > 0 ? [] : createMeter(limits).look(1, 0).limits;
        expect(decided.every(({ remaining, capacity }) => remaining === capacity)).toBe(true);
        expect(problems.every(({ accepted }) => accepted !== "")).toBe(true);
      },
      500,
    ),
  );
});
