/** Examples of durations and limits in notation. `any-text.test.ts` tests random texts. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import { formatDuration, parseDuration, parseLimits } from "../../src/strategies/index.ts";
import { ConfigProblems } from "../../src/validation/problems.ts";

const second = 1_000;
const minute = 60 * second;
const hour = 60 * minute;
const day = 24 * hour;
const week = 7 * day;
const longest = 3_650 * day;

const units: readonly (readonly [number, ...string[]])[] = [
  [1, "ms", "millisecond", "milliseconds"],
  [second, "s", "sec", "secs", "second", "seconds"],
  [minute, "m", "min", "mins", "minute", "minutes"],
  [hour, "h", "hr", "hrs", "hour", "hours"],
  [day, "d", "day", "days"],
  [week, "w", "week", "weeks"],
];
const named = units.flatMap(([size, ...names]) => names.map((name) => [name, size] as const));

const milliseconds = fc.integer({ min: 1, max: longest });
const spaces = fc.constantFrom("", " ", "  ", "\t");

/** The text with each letter in either case. */
const anyCase = (text: string): fc.Arbitrary<string> =>
  fc.infiniteStream(fc.boolean()).map((upper) =>
    Array.from(text)
      .map((c) => (upper.next().value ? c.toUpperCase() : c.toLowerCase()))
      .join(""),
  );

const unit = fc.constantFrom(...named).chain(([name, size]) => anyCase(name).map((written) => ({ written, size })));

/** The number and window of each limit. */
const parsed = (text: string): [number, number][] => parseLimits(text).map(({ limit, windowMs }) => [limit, windowMs]);

describe("the notation of durations", () => {
  it.for(named)("a duration has the unit %s", ([name, size]) => {
    expect(parseDuration(name)).toBe(size);
    expect(parseDuration(`1${name}`)).toBe(size);
    expect(parseDuration(`12 ${name.toUpperCase()}`)).toBe(12 * size);
  });

  it.for<[string, number]>([
    ["30s", 30 * second],
    ["2 minutes", 2 * minute],
    [" 1h ", hour],
    ["5\tDays", 5 * day],
    ["0030s", 30 * second],
    ["1ms", 1],
    ["3650d", longest],
    ["315360000000ms", longest],
  ])("the duration %j is %d ms", ([text, expected]) => {
    expect(parseDuration(text)).toBe(expected);
  });

  it.for([
    "",
    " ",
    "5",
    "0s",
    "0",
    "-5s",
    "+5s",
    "1.5s",
    "1,5s",
    "1e3s",
    "5x",
    "s5",
    "5s5",
    "5 s s",
    "1h30m",
    "5_0s",
    "٣s",
    "month",
    "1 year",
    "fortnight",
    "3651d",
    "315360000001ms",
    "999999999999999w",
    "9999999999999999ms",
    "constructor",
    "P1D",
  ])("%j is not a duration", (text) => {
    expect(parseDuration(text)).toBeNull();
  });

  it(
    "a duration in any letter case and spacing is its number times its unit, between 1 ms and 10 years",
    forAll([fc.integer({ min: 0, max: 10 ** 12 }), spaces, unit], (count, space, { written, size }) => {
      const product = count * size;
      const expected = product >= 1 && product <= longest ? product : null;
      expect(parseDuration(`${space}${count}${space}${written}${space}`)).toBe(expected);
    }),
  );

  it.for<[number, string]>([
    [1, "1ms"],
    [999, "999ms"],
    [1_001, "1001ms"],
    [second, "1s"],
    [90 * second, "90s"],
    [minute, "1m"],
    [hour, "1h"],
    [36 * hour, "36h"],
    [day, "1d"],
    [week, "1w"],
    [8 * day, "8d"],
    [longest, "3650d"],
  ])("a duration of %d ms is formatted as %s, in its largest whole unit", ([duration, text]) => {
    expect(formatDuration(duration)).toBe(text);
  });

  it(
    "a formatted duration parses to the same duration",
    forAll(
      [
        fc.oneof(
          milliseconds,
          fc.tuple(fc.nat(500), unit).map(([n, u]) => (n + 1) * u.size),
        ),
      ],
      (duration) => {
        expect(parseDuration(formatDuration(duration))).toBe(duration);
      },
    ),
  );
});

describe("the notation of limits", () => {
  it.for<[string, [number, number][]]>([
    ["10/minute", [[10, minute]]],
    ["10 / minute", [[10, minute]]],
    ["10/minutes", [[10, minute]]],
    ["10/Min", [[10, minute]]],
    ["10/m", [[10, minute]]],
    ["10 per minute", [[10, minute]]],
    ["10 PER MINUTE", [[10, minute]]],
    ["\t10  per\tminute\n", [[10, minute]]],
    ["10 per 2 minutes", [[10, 2 * minute]]],
    ["10 per 2minute", [[10, 2 * minute]]],
    ["5/30s", [[5, 30 * second]]],
    ["5/ 30 s", [[5, 30 * second]]],
    ["1/ms", [[1, 1]]],
    ["3/250 ms", [[3, 250]]],
    ["7/week", [[7, week]]],
    ["7 per day", [[7, day]]],
    ["010/hour", [[10, hour]]],
    ["999999999999999/512 ms", [[999_999_999_999_999, 512]]],
  ])("parseLimits accepts %j", ([text, expected]) => {
    expect(parseLimits(text, { strategy: "fixed-window" })).toMatchObject(
      expected.map(([limit, windowMs]) => ({ limit, windowMs })),
    );
  });

  it.for(["100/hour; 5/second", "100/hour,5/second", "100 per hour|5/s", " 100/h ;5 per  second "])(
    "parseLimits reads two limits from %j",
    (text) => {
      expect(parsed(text)).toEqual([
        [100, hour],
        [5, second],
      ]);
    },
  );

  it.for<[string, [number, number][]]>([
    ["100 requests per minute", [[100, minute]]],
    ["1 request per second", [[1, second]]],
    ["100 Requests / minute", [[100, minute]]],
    ["100 req/min", [[100, minute]]],
    [
      "100 reqs per 2 minutes; 5 req/s",
      [
        [100, 2 * minute],
        [5, second],
      ],
    ],
    ["1_000/minute", [[1_000, minute]]],
    ["1_000_000 requests per day", [[1_000_000, day]]],
    ["10_00/minute", [[1_000, minute]]],
    ["10/minute;", [[10, minute]]],
    [
      "100/hour; 5/second ; ",
      [
        [100, hour],
        [5, second],
      ],
    ],
  ])("parseLimits accepts %j with request words, underscores or a final semicolon", ([text, expected]) => {
    expect(parsed(text)).toEqual(expected);
  });

  it.for([
    "10/minute;;",
    ";10/minute",
    "10/minute,",
    "10/minute|",
    "10/minute;;5/second",
    ";",
    "100requests per minute",
    "100 calls per minute",
    "100 requests minute",
    "requests per minute",
    "100 requests requests per minute",
    "_1000/minute",
    "1000_/minute",
    "1__000/minute",
    "1,000/minute",
    "1 000/minute",
    "1_000_000_000_000_000_000/minute",
  ])("parseLimits refuses %j", (text) => {
    expect(() => parsed(text)).toThrow(ConfigProblems);
  });

  it.for<[string, RegExp]>([
    ["-5/minute", /: expected an integer from 1 .*, in digits such as 100 or 1_000, got "-5\/minute"$/],
    ["1.5/minute", /: expected an integer from 1 .*, in digits .*, got "1\.5\/minute"$/],
    ["1e3/minute", /: expected an integer from 1 .*, in digits .*, got "1e3\/minute"$/],
    ["0/minute", /: expected an integer from 1 .*, got "0\/minute"$/],
    ["unlimited", /got "unlimited"; to limit nothing, leave the policy out/],
    ["Unlimited/day", /got "Unlimited\/day"; to limit nothing, leave the policy out/],
  ])("the problem of %j names what is accepted", ([text, message]) => {
    expect(() => parseLimits(text)).toThrow(message);
  });

  it("separators may be mixed, and limits keep their order", () => {
    expect(parsed("1/s; 2/m, 3/h | 4/d")).toEqual([
      [1, second],
      [2, minute],
      [3, hour],
      [4, day],
    ]);
  });

  it("a list of texts is parsed like one text", () => {
    const list = parseLimits(["100/hour; 5/second", "1/day"]);
    expect(list).toEqual(parseLimits("100/hour; 5/second; 1/day"));
  });
});
