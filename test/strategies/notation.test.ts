import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import {
  ConfigProblems,
  formatDuration,
  parseDuration,
  parseLimits,
} from "../../src/strategies/index.ts";

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

/** A text in any mixture of upper and lower case. */
const anyCase = (text: string): fc.Arbitrary<string> =>
  fc.infiniteStream(fc.boolean()).map((upper) =>
    Array.from(text)
      .map((c) => (upper.next().value ? c.toUpperCase() : c.toLowerCase()))
      .join(""),
  );

const unit = fc
  .constantFrom(...named)
  .chain(([name, size]) => anyCase(name).map((written) => ({ written, size })));

/** What a text asks for: of each limit the number and the window. */
const read = (text: string): [number, number][] =>
  parseLimits(text).map(({ limit, windowMs }) => [limit, windowMs]);

describe("a duration", () => {
  it.for(named)("may be written in %s", ([name, size]) => {
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
  ])("of %j is %d ms", ([text, expected]) => {
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
  ])("is not what %j is", (text) => {
    expect(parseDuration(text)).toBeNull();
  });

  it(
    "is its number times its unit, between 1 ms and 10 years, in any case and spacing",
    forAll(
      [fc.integer({ min: 0, max: 10 ** 12 }), spaces, unit],
      (count, space, { written, size }) => {
        const product = count * size;
        const expected = product >= 1 && product <= longest ? product : null;
        expect(parseDuration(`${space}${count}${space}${written}${space}`)).toBe(expected);
      },
    ),
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
  ])("of %d ms is printed as %s, in its largest whole unit", ([duration, text]) => {
    expect(formatDuration(duration)).toBe(text);
  });

  it(
    "is read back as it was printed",
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
  ])("reads %j", ([text, expected]) => {
    expect(parseLimits(text, { strategy: "fixed-window" })).toMatchObject(
      expected.map(([limit, windowMs]) => ({ limit, windowMs })),
    );
  });

  it.for(["100/hour; 5/second", "100/hour,5/second", "100 per hour|5/s", " 100/h ;5 per  second "])(
    "reads several limits from %j",
    (text) => {
      expect(read(text)).toEqual([
        [100, hour],
        [5, second],
      ]);
    },
  );

  it("mixes its separators and keeps the order", () => {
    expect(read("1/s; 2/m, 3/h | 4/d")).toEqual([
      [1, second],
      [2, minute],
      [3, hour],
      [4, day],
    ]);
  });

  it("reads the texts of a list like one text", () => {
    const list = parseLimits(["100/hour; 5/second", "1/day"]);
    expect(list).toEqual(parseLimits("100/hour; 5/second; 1/day"));
  });

  const limit = fc.record({
    limit: fc.integer({ min: 1, max: 100_000 }),
    count: fc.integer({ min: 1, max: 20 }),
    unit,
    per: fc.oneof(
      fc.tuple(spaces, spaces).map(([before, after]) => `${before}/${after}`),
      anyCase("per").map((per) => ` ${per} `),
    ),
  });
  const windowOf = (each: { count: number; unit: { size: number } }): number =>
    each.count * each.unit.size;
  const limits = fc.uniqueArray(limit, { minLength: 1, maxLength: 16, selector: windowOf });
  const separator = fc.tuple(spaces, fc.constantFrom(";", ",", "|"), spaces);

  it(
    "is read in any case, spacing, number and separator",
    forAll([limits, separator], (list, separated) => {
      const text = list
        .map((each) => `${each.limit}${each.per}${each.count} ${each.unit.written}`)
        .join(separated.join(""));
      expect(read(text)).toEqual(list.map((each) => [each.limit, windowOf(each)]));
    }),
  );

  it(
    "is read back as it was printed",
    forAll([limits, fc.constantFrom("/", " per ")], (list, per) => {
      const text = list.map((each) => `${each.limit}/${each.count} ${each.unit.written}`).join(";");
      const parsed = parseLimits(text);
      const printed = parsed.map((each) => `${each.limit}${per}${formatDuration(each.windowMs)}`);
      expect(parseLimits(printed.join("; "))).toEqual(parsed);
      expect(parseLimits(printed)).toEqual(parsed);
    }),
  );
});

describe("any text", () => {
  /** Whether a text is read, or refused with problems of which each quotes it or a part of it. */
  function isReadOrQuoted(text: string): boolean {
    try {
      return parseLimits(text).every(
        ({ limit, windowMs }) =>
          Number.isSafeInteger(limit) && limit >= 1 && windowMs >= 1 && windowMs <= longest,
      );
    } catch (error) {
      if (!(error instanceof ConfigProblems)) throw error;
      return (
        error.problems.length > 0 &&
        error.problems.every(
          ({ value, accepted }) =>
            typeof value === "string" &&
            text.includes(value) &&
            accepted !== "" &&
            error.message.includes(`is ${JSON.stringify(value)}: accepted is ${accepted}`),
        )
      );
    }
  }

  const token = fc.constantFrom(
    ..."0123456789 /;,|.-_+eE%\n\t\u00a0\ud800".split(""),
    "per",
    "PER",
    "ms",
    "s",
    "minute",
    "hours",
    "w",
    "10/m",
    "5/30s",
    " per ",
    "1e3",
    "∞",
    "NaN",
  );
  it(
    "is read or quoted when made of the pieces of the notation",
    forAll([fc.string({ unit: token, maxLength: 24 })], isReadOrQuoted, 15_000),
  );

  it(
    "is read or quoted when made of any characters",
    forAll([fc.string({ unit: "binary", maxLength: 30 })], isReadOrQuoted, 6_000),
  );

  it.for<[string, string]>([
    ["digits", "9".repeat(5_000)],
    ["spaces", `1${" ".repeat(5_000)}x`],
    ["spaces before a line's end", `1/${" ".repeat(5_000)}a\nb`],
    ["slashes", "/".repeat(5_000)],
    ["letters", `1/${"m".repeat(5_000)}!`],
    ["words", "1 per ".repeat(800)],
  ])("is refused at once when a whole variable is full of %s", ([, text]) => {
    expect(() => parseLimits(text)).toThrow(ConfigProblems);
  });
});
