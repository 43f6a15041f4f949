/** What each strategy's own fields may be: tables of what is accepted, and of what is refused in which words. */
import { describe, expect, it } from "vitest";
import {
  type LimitDefaults,
  type LimitInput,
  parseLimits,
  readLimits,
} from "../../src/strategies/index.ts";
import type { ConfigProblem } from "../../src/validation/problems.ts";

/** The problems of limits in any shape as place, value and what is accepted there. */
function problemsOf(input: unknown, defaults: LimitDefaults = {}): unknown[][] {
  const problems: ConfigProblem[] = [];
  readLimits(input, defaults, (problem) => problems.push(problem));
  return problems.map(({ field, value, accepted }) => [field, value, accepted]);
}

const dayMs = 24 * 3_600_000;

const units = "an integer from 1 to 999999999999999";
const product = expect.stringMatching(
  /^fewer units or a shorter window: .* must stay below 2\^52$/,
);
const buckets = "an integer from 1 to 1000 that divides the window in milliseconds";
const precision = "a duration that divides the window into at most 1000 parts";
const duration =
  'a duration from 1 ms to 10 years such as "30s", "10m", "1h", "2 minutes" or "day" (ms, s, m, h, d, w)';
const window = `${duration}, or the calendar's "month" (mo) or "year" (y)`;
const zone = 'an IANA time zone such as "Europe/Berlin" or "UTC"';
const noZone = 'nothing unless align is "calendar"';
const alignments = 'one of "first-request", "clock", "calendar"';
const implied = '"calendar", which months and years imply';
const impliedStrategy = '"fixed-window", which months and years imply';
const calendarWindow = 'one of "1d", "1w", "1mo", "1y" with align = "calendar"';
const inelastic = 'false unless align is "first-request"';
const fieldsOf = (...options: string[]): string =>
  `one of the fields ${["limit", "window", "strategy", "name", ...options].join(", ")}`;

const token = { limit: 10, window: "1m", strategy: "token-bucket" };
const leaky = { limit: 10, window: "1m", strategy: "leaky-bucket" };
const sliced = { limit: 10, window: "1m", strategy: "sliding-buckets" };
const fixed = { limit: 10, window: "1m", strategy: "fixed-window" };
const slots = { limit: 10, window: "1m", strategy: "concurrency" };
const calendar = { limit: 10, window: "1d", strategy: "fixed-window", align: "calendar" };
const monthly = { limit: 10, window: "1mo" };

type Fields = Readonly<Record<string, unknown>>;
const fromFirst = { align: "first-request", elastic: false };
const ofCalendar = { strategy: "fixed-window", align: "calendar", elastic: false };
const day = { ...ofCalendar, windowMs: dayMs, period: "day" };
const week = { ...ofCalendar, windowMs: 7 * dayMs, period: "week" };
const month = { ...ofCalendar, windowMs: 31 * dayMs, period: "month" };
const year = { ...ofCalendar, windowMs: 366 * dayMs, period: "year" };

describe("the options of a limit", () => {
  it.for<[string, LimitInput, Fields]>([
    ["a token bucket without any", token, { refill: "continuous" }],
    ["a refill by interval", { ...token, refill: "interval" }, { refill: "interval" }],
    ["the least burst", { ...token, burst: 1 }, { refill: "continuous", burst: 1 }],
    ["a burst beyond the limit", { ...token, burst: 99 }, { refill: "continuous", burst: 99 }],
    [
      "the greatest product of burst and window",
      { ...token, limit: 1, window: "5ms", burst: 900_719_925_474_099 },
      { windowMs: 5, burst: 900_719_925_474_099, refill: "continuous" },
    ],
    [
      "that product times a common divisor of limit and window",
      { ...token, limit: 10, window: "50ms", burst: 900_719_925_474_099 },
      { windowMs: 50, burst: 900_719_925_474_099, refill: "continuous" },
    ],
    [
      "the greatest burst of all",
      { ...leaky, limit: 1, window: "1ms", burst: 999_999_999_999_999 },
      { windowMs: 1, burst: 999_999_999_999_999, mode: "queue" },
    ],
    ["a leaky bucket without any", leaky, { mode: "queue" }],
    ["a policing bucket", { ...leaky, mode: "police", burst: 3 }, { mode: "police", burst: 3 }],
    ["sliding buckets without any", sliced, { edge: "keep" }],
    ["one bucket", { ...sliced, buckets: 1 }, { edge: "keep", buckets: 1 }],
    ["the most buckets", { ...sliced, buckets: 1_000 }, { edge: "keep", buckets: 1_000 }],
    [
      "buckets of a millisecond",
      { ...sliced, window: "9ms", buckets: 9 },
      { windowMs: 9, edge: "keep", buckets: 9 },
    ],
    ["a precision", { ...sliced, precision: "1 Second" }, { edge: "keep", precision: 1_000 }],
    ["the finest precision", { ...sliced, precision: "60ms" }, { edge: "keep", precision: 60 }],
    ["the coarsest precision", { ...sliced, precision: "1m" }, { edge: "keep", precision: 60_000 }],
    [
      "buckets and the precision that they have",
      { ...sliced, buckets: 60, precision: "1s", edge: "drop" },
      { buckets: 60, precision: 1_000, edge: "drop" },
    ],
    ["concurrency, which has none", slots, {}],
    ["a fixed window without any", fixed, fromFirst],
    ["windows by the clock", { ...fixed, align: "clock" }, { ...fromFirst, align: "clock" }],
    ["an elastic window", { ...fixed, elastic: true }, { ...fromFirst, elastic: true }],
    ["a calendar's day", calendar, day],
    ["a calendar's day in words", { ...calendar, window: " 1 Day " }, day],
    ["a calendar's week", { ...calendar, window: "1w" }, week],
    ["a calendar's week in a word", { ...calendar, window: "week" }, week],
    ["a time zone", { ...calendar, timezone: "Asia/Tokyo" }, { ...day, timezone: "Asia/Tokyo" }],
    ["the time zone of all", { ...calendar, timezone: "UTC" }, { ...day, timezone: "UTC" }],
    [
      "a time zone named after its offset",
      { ...monthly, timezone: "Etc/GMT+5" },
      { ...month, timezone: "Etc/GMT+5" },
    ],
    ["a month", monthly, month],
    ["a month in words", { ...monthly, window: "1 month" }, month],
    ["a month in a word", { ...monthly, window: "Months" }, month],
    ["a month with what it implies", { ...calendar, window: "mo", elastic: false }, month],
    ["a year", { ...monthly, window: "1y" }, year],
    ["a year in short", { ...monthly, window: "yr" }, year],
    ["a year with zeros before its number", { ...monthly, window: "001 YRS" }, year],
  ])("may be those of %s", ([, input, options]) => {
    const { limit, strategy } = input;
    const expected = { name: "default", limit, strategy, windowMs: 60_000, ...options };
    expect(parseLimits(input)).toEqual([expected]);
  });

  it.for(["1d", "1w", "day", "24h", "7 days"])(
    "make a calendar's of the window %j with align = calendar alone",
    (text) => {
      expect(parseLimits({ ...fixed, window: text })[0]).not.toHaveProperty("period");
      expect(parseLimits({ ...sliced, window: text })[0]).not.toHaveProperty("period");
    },
  );

  it.for<[string, Fields]>([
    ["token-bucket", { ...token, burst: undefined, refill: undefined, name: undefined }],
    ["leaky-bucket", { ...leaky, burst: undefined, mode: undefined }],
    ["sliding-buckets", { ...sliced, buckets: undefined, precision: undefined, edge: undefined }],
    ["fixed-window", { ...fixed, align: undefined, timezone: undefined, elastic: undefined }],
    ["none", { ...monthly, strategy: undefined, align: undefined, elastic: undefined }],
  ])("are left out when undefined: %s", ([, input]) => {
    const said = Object.entries(input).filter(([, value]) => value !== undefined);
    const spoken = Object.fromEntries(said) as LimitInput;
    expect(parseLimits(input as LimitInput)).toEqual(parseLimits(spoken));
  });
});

describe("a problem of an option", () => {
  it.for<[string, unknown, unknown[][]]>([
    ...[0, -1, 1.5, 10 ** 15, Infinity, Number.NaN, "5", null, [], true].flatMap(
      (burst): [string, unknown, unknown[][]][] =>
        [token, leaky].map((bucket) => [
          `${bucket.strategy} with burst ${String(burst)}`,
          { ...bucket, burst },
          [["burst", burst, units]],
        ]),
    ),
    [
      "a product that is too large for its burst",
      { ...token, limit: 1, window: "5ms", burst: 900_719_925_474_100 },
      [["burst", 900_719_925_474_100, product]],
    ],
    [
      "the same of a queue",
      { ...leaky, limit: 10, window: "50ms", burst: 900_719_925_474_100 },
      [["burst", 900_719_925_474_100, product]],
    ],
    [
      "the same where buckets are refilled by interval",
      { ...token, limit: 1, window: "3650d", burst: 10 ** 14, refill: "interval" },
      [["burst", 10 ** 14, product]],
    ],
    [
      "a product that is too large for its limit",
      { ...token, limit: 900_719_925_474_101, window: "5ms", burst: 1 },
      [["limit", 900_719_925_474_101, product]],
    ],
    [
      "refill",
      { ...token, refill: "daily" },
      [["refill", "daily", 'one of "continuous", "interval"']],
    ],
    ["mode", { ...leaky, mode: "drop" }, [["mode", "drop", 'one of "queue", "police"']]],
    [
      "mode in capitals",
      { ...leaky, mode: "QUEUE" },
      [["mode", "QUEUE", 'one of "queue", "police"']],
    ],
    ["edge", { ...sliced, edge: null }, [["edge", null, 'one of "keep", "drop"']]],
    ...[0, -1, 1.5, 7, 1_001, "60", null].map((count): [string, unknown, unknown[][]] => [
      `${String(count)} buckets`,
      { ...sliced, buckets: count },
      [["buckets", count, buckets]],
    ]),
    [
      "1001 that divide",
      { ...sliced, window: "1001s", buckets: 1_001 },
      [["buckets", 1_001, buckets]],
    ],
    [
      "more than milliseconds",
      { ...sliced, window: "5ms", buckets: 10 },
      [["buckets", 10, buckets]],
    ],
    ...["7s", "59ms", "50ms", "59 ms", "2m", "61s", "1ms"].map(
      (text): [string, unknown, unknown[][]] => [
        `a precision of ${text}`,
        { ...sliced, precision: text },
        [["precision", text, precision]],
      ],
    ),
    ...["0s", "", "1mo", "year", "fine", "3651d", 1_000, null].map(
      (text): [string, unknown, unknown[][]] => [
        `a precision of ${JSON.stringify(text)}`,
        { ...sliced, precision: text },
        [["precision", text, duration]],
      ],
    ),
    [
      "a precision that its buckets do not have",
      { ...sliced, buckets: 30, precision: "1s" },
      [["precision", "1s", "nothing, because buckets is set"]],
    ],
    [
      "a precision beside buckets that do not divide",
      { ...sliced, buckets: 7, precision: "1s" },
      [["precision", "1s", "nothing, because buckets is set"]],
    ],
    [
      "slots beyond all",
      { ...slots, limit: 100_001 },
      [["limit", 100_001, "at most 100000 for the strategy concurrency"]],
    ],
    ["elastic", { ...fixed, elastic: "true" }, [["elastic", "true", "true or false"]]],
    [
      "elastic by the clock",
      { ...fixed, align: "clock", elastic: true },
      [["elastic", true, inelastic]],
    ],
    ["an elastic calendar", { ...calendar, elastic: true }, [["elastic", true, inelastic]]],
    ["an elastic month", { ...monthly, elastic: true }, [["elastic", true, inelastic]]],
    ...["Mars/Olympus", "+01:00", "-0500", "", " UTC", "Europe/Berlin\n", "Europe", 1, null].map(
      (timezone): [string, unknown, unknown[][]] => [
        `the time zone ${JSON.stringify(timezone)}`,
        { ...calendar, timezone },
        [["timezone", timezone, zone]],
      ],
    ),
    [
      "a time zone by the clock",
      { ...fixed, align: "clock", timezone: "UTC" },
      [["timezone", "UTC", noZone]],
    ],
    ["a time zone of no calendar", { ...fixed, timezone: "UTC" }, [["timezone", "UTC", noZone]]],
    ["align", { ...fixed, align: "moon" }, [["align", "moon", alignments]]],
    ["align of a month", { ...monthly, align: null }, [["align", null, alignments]]],
    ...["24h", "2d", "90s", "7d", "1440 minutes", "52w", "365d"].map(
      (text): [string, unknown, unknown[][]] => [
        `a calendar's ${text}`,
        { ...calendar, window: text },
        [["window", text, calendarWindow]],
      ],
    ),
    ...[
      "2 months",
      "0 months",
      "12mo",
      "2y",
      "1.5 years",
      "month month",
      "monthly",
      "-1 month",
    ].map((text): [string, unknown, unknown[][]] => [
      `the window ${text}`,
      { limit: 1, window: text },
      [["window", text, window]],
    ]),
    ["a month by the clock", { ...monthly, align: "clock" }, [["align", "clock", implied]]],
    [
      "a year from the first request",
      { ...fixed, window: "year", align: "first-request" },
      [["align", "first-request", implied]],
    ],
  ])("tells its place, its value and what is accepted: %s", ([, input, expected]) => {
    expect(problemsOf(input)).toEqual(expected);
  });

  it.for([
    "sliding-log",
    "sliding-window-counter",
    "sliding-buckets",
    "token-bucket",
    "leaky-bucket",
    "concurrency",
    "magic",
    "",
    null,
  ])("is to name the strategy %j with a month", (strategy) => {
    expect(problemsOf({ ...monthly, strategy })).toEqual([["strategy", strategy, impliedStrategy]]);
  });

  it.for<[string, Fields, string[]]>([
    ["sliding-log", { burst: 5 }, []],
    ["sliding-log", { align: "clock" }, []],
    ["concurrency", { ttl: "1m" }, []],
    ["sliding-window-counter", { buckets: 5 }, ["align"]],
    ["sliding-window-counter", { timezone: "UTC" }, ["align"]],
    ["fixed-window", { burst: 5 }, ["align", "timezone", "elastic"]],
    ["sliding-buckets", { align: "clock" }, ["buckets", "precision", "edge"]],
    ["token-bucket", { mode: "police" }, ["burst", "refill"]],
    ["token-bucket", { elastic: false }, ["burst", "refill"]],
    ["leaky-bucket", { refill: "interval" }, ["burst", "mode"]],
  ])("is to be of another strategy: %s with %j", ([strategy, option, own]) => {
    const [field = "", value] = Object.entries(option)[0] ?? [];
    expect(problemsOf({ limit: 1, window: "1m", strategy, ...option })).toEqual([
      [field, value, fieldsOf(...own)],
    ]);
  });

  it.for<[string, string]>([
    ["Burst", "burst"],
    ["bursts", "burst"],
    ["limits", "limit"],
    ["windowMs", "window"],
    ["mod", "mode"],
  ])("of the unknown field %s suggests the field %s", ([field, suggestion]) => {
    const limit = { limit: 1, window: "1m", strategy: "leaky-bucket", [field]: 5 };
    expect(problemsOf(limit)).toEqual([
      [field, 5, `${fieldsOf("burst", "mode")}; did you mean ${suggestion}?`],
    ]);
  });

  it("is to align a counter with the calendar: a day implies no strategy", () => {
    expect(problemsOf({ limit: 1, window: "1d", align: "calendar" })).toEqual([
      ["align", "calendar", 'one of "first-request", "clock"'],
    ]);
  });

  it("stands beside all others, each at its place", () => {
    const list = [
      { ...token, limit: 0, burst: 0, refill: "daily", mode: "queue" },
      { ...sliced, window: "soon", buckets: 0, precision: "x", edge: "y", burst: 1 },
      { ...monthly, strategy: "token-bucket", burst: 5, timezone: "Nowhere" },
      "5/2 months; 0/month",
    ];
    const calendarFields = fieldsOf("align", "timezone", "elastic");
    expect(problemsOf(list)).toEqual([
      ["[0].limit", 0, units],
      ["[0].burst", 0, units],
      ["[0].refill", "daily", 'one of "continuous", "interval"'],
      ["[0].mode", "queue", fieldsOf("burst", "refill")],
      ["[1].window", "soon", window],
      ["[1].buckets", 0, buckets],
      ["[1].precision", "x", duration],
      ["[1].edge", "y", 'one of "keep", "drop"'],
      ["[1].burst", 1, fieldsOf("buckets", "precision", "edge")],
      ["[2].strategy", "token-bucket", impliedStrategy],
      ["[2].timezone", "Nowhere", zone],
      ["[2].burst", 5, calendarFields],
      ["[3].window", "5/2 months", window],
      ["[3].limit", "0/month", units],
    ]);
  });
});

describe("months and years", () => {
  it.for<[string, Fields]>([
    ["10/month", month],
    ["10 per month", month],
    ["10/1 Mo", month],
    ["10 PER 1 MONTHS", month],
    ["10/year", year],
    ["10/y", year],
    ["10 per 01 yr", year],
  ])("in %j are the calendar's, whatever the strategy of the policy", ([text, options]) => {
    for (const strategy of ["token-bucket", "concurrency", "sliding-log", "fixed-window"]) {
      const expected = { name: "default", limit: 10, ...options };
      expect(parseLimits(text, { strategy })).toEqual([expected]);
    }
  });

  it("leave the limits beside them to the policy's strategy", () => {
    const strategiesOf = parseLimits("1/day; 9/month", { strategy: "token-bucket" });
    expect(strategiesOf.map(({ strategy }) => strategy)).toEqual(["token-bucket", "fixed-window"]);
  });

  it.for(["10/2 months", "10/0 months", "10 per 12mo", "10/1.5 years", "10/months 1", "10/moon"])(
    "are one at a time: %j is refused and quoted",
    (text) => {
      expect(problemsOf(text)).toEqual([["window", text, window]]);
    },
  );
});
