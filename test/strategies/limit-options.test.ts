/** The options of each strategy: accepted values, and the problems of refused values. */
import { describe, expect, it } from "vitest";
import { type LimitInput, parseLimits } from "../../src/strategies/index.ts";
import { dayMs, problemsOf } from "./meters.ts";

/** The problems of a limit, each with the field, the value and the accepted values. */
const problemRowsOf = (input: unknown): unknown[][] =>
  problemsOf(input).map(({ field, value, accepted }) => [field, value, accepted]);

const units = "an integer from 1 to 999999999999999";
const product = expect.stringMatching(/^fewer units or a shorter window: .* must stay below 2\^52$/);
const buckets = "an integer from 1 to 1000 that divides the window in milliseconds";
const precision = "a duration that divides the window into at most 1000 parts";
const duration =
  'a duration from 1 ms to 10 years such as "30s", "10m", "1h", "2 minutes" or "day" (ms, s, m, h, d, w)';
const window = `${duration}, or the calendar's "month" (mo) or "year" (y)`;
const zone = 'an IANA time zone such as "Europe/Berlin" or "UTC"';
const noZone = 'no timezone unless align is "calendar"';
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
const calendarOptions = { strategy: "fixed-window", align: "calendar", elastic: false };
const day = { ...calendarOptions, windowMs: dayMs, period: "day" };
const week = { ...calendarOptions, windowMs: 7 * dayMs, period: "week" };
const month = { ...calendarOptions, windowMs: 31 * dayMs, period: "month" };
const year = { ...calendarOptions, windowMs: 366 * dayMs, period: "year" };

describe("the options of a limit", () => {
  it.for<[string, LimitInput, Fields]>([
    ["a token bucket without options", token, { refill: "continuous" }],
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
      "the greatest burst",
      { ...leaky, limit: 1, window: "1ms", burst: 999_999_999_999_999 },
      { windowMs: 1, burst: 999_999_999_999_999, mode: "queue" },
    ],
    ["a leaky bucket without options", leaky, { mode: "queue" }],
    ["a policing bucket", { ...leaky, mode: "police", burst: 3 }, { mode: "police", burst: 3 }],
    ["sliding buckets without options", sliced, { edge: "keep" }],
    ["one bucket", { ...sliced, buckets: 1 }, { edge: "keep", buckets: 1 }],
    ["the most buckets", { ...sliced, buckets: 1_000 }, { edge: "keep", buckets: 1_000 }],
    ["buckets of a millisecond", { ...sliced, window: "9ms", buckets: 9 }, { windowMs: 9, edge: "keep", buckets: 9 }],
    ["a precision", { ...sliced, precision: "1 Second" }, { edge: "keep", precision: 1_000 }],
    ["the finest precision", { ...sliced, precision: "60ms" }, { edge: "keep", precision: 60 }],
    ["the coarsest precision", { ...sliced, precision: "1m" }, { edge: "keep", precision: 60_000 }],
    [
      "buckets and an equal precision",
      { ...sliced, buckets: 60, precision: "1s", edge: "drop" },
      { buckets: 60, precision: 1_000, edge: "drop" },
    ],
    ["concurrency, which has no options", slots, {}],
    ["a fixed window without options", fixed, fromFirst],
    ["clock-aligned windows", { ...fixed, align: "clock" }, { ...fromFirst, align: "clock" }],
    ["an elastic window", { ...fixed, elastic: true }, { ...fromFirst, elastic: true }],
    ["a calendar day", calendar, day],
    ["a calendar day in words", { ...calendar, window: " 1 Day " }, day],
    ["a calendar week", { ...calendar, window: "1w" }, week],
    ["a calendar week as one word", { ...calendar, window: "week" }, week],
    ["a time zone", { ...calendar, timezone: "Asia/Tokyo" }, { ...day, timezone: "Asia/Tokyo" }],
    ["UTC", { ...calendar, timezone: "UTC" }, { ...day, timezone: "UTC" }],
    ["a time zone named after its offset", { ...monthly, timezone: "Etc/GMT+5" }, { ...month, timezone: "Etc/GMT+5" }],
    ["a month", monthly, month],
    ["a month in words", { ...monthly, window: "1 month" }, month],
    ["a month as one word", { ...monthly, window: "Months" }, month],
    ["a month with the options that it implies", { ...calendar, window: "mo", elastic: false }, month],
    ["a year", { ...monthly, window: "1y" }, year],
    ["a year in short", { ...monthly, window: "yr" }, year],
    ["a year with zeros before its number", { ...monthly, window: "001 YRS" }, year],
  ])("the options of a limit are parsed with their defaults (%s)", ([, input, options]) => {
    const { limit, strategy } = input;
    const expected = { name: "default", limit, strategy, windowMs: 60_000, ...options };
    expect(parseLimits(input)).toEqual([expected]);
  });

  it.for(["1d", "1w", "day", "24h", "7 days"])(
    "the window %j is a calendar period only with align = calendar",
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
  ])("options with the value undefined count as absent (%s)", ([, input]) => {
    const given = Object.entries(input).filter(([, value]) => value !== undefined);
    const withoutUndefined = Object.fromEntries(given) as LimitInput;
    expect(parseLimits(input as LimitInput)).toEqual(parseLimits(withoutUndefined));
  });
});

type ProblemCase = readonly [title: string, input: Fields, field: string, accepted: unknown];

describe("a problem of an option", () => {
  it.for<ProblemCase>([
    ...[0, -1, 1.5, 10 ** 15, Infinity, Number.NaN, "5", null, [], true].flatMap((burst): ProblemCase[] =>
      [token, leaky].map((bucket) => [
        `${bucket.strategy} with burst ${String(burst)}`,
        { ...bucket, burst },
        "burst",
        units,
      ]),
    ),
    [
      "a product that is too large for its burst",
      { ...token, limit: 1, window: "5ms", burst: 900_719_925_474_100 },
      "burst",
      product,
    ],
    [
      "a product that is too large for the burst of a queue",
      { ...leaky, limit: 10, window: "50ms", burst: 900_719_925_474_100 },
      "burst",
      product,
    ],
    [
      "a product that is too large for the burst of an interval refill",
      { ...token, limit: 1, window: "3650d", burst: 10 ** 14, refill: "interval" },
      "burst",
      product,
    ],
    [
      "a product that is too large for its limit",
      { ...token, limit: 900_719_925_474_101, window: "5ms", burst: 1 },
      "limit",
      product,
    ],
    ["refill", { ...token, refill: "daily" }, "refill", 'one of "continuous", "interval"'],
    ["mode", { ...leaky, mode: "drop" }, "mode", 'one of "queue", "police"'],
    ["mode in capitals", { ...leaky, mode: "QUEUE" }, "mode", 'one of "queue", "police"'],
    ["edge", { ...sliced, edge: null }, "edge", 'one of "keep", "drop"'],
    ...[0, -1, 1.5, 7, 1_001, "60", null].map((count): ProblemCase => [
      `${String(count)} buckets`,
      { ...sliced, buckets: count },
      "buckets",
      buckets,
    ]),
    ["1001 buckets that divide the window", { ...sliced, window: "1001s", buckets: 1_001 }, "buckets", buckets],
    ["more buckets than milliseconds", { ...sliced, window: "5ms", buckets: 10 }, "buckets", buckets],
    ...["7s", "59ms", "50ms", "59 ms", "2m", "61s", "1ms"].map((text): ProblemCase => [
      `a precision of ${text}`,
      { ...sliced, precision: text },
      "precision",
      precision,
    ]),
    ...["0s", "", "1mo", "year", "fine", "3651d", 1_000, null].map((text): ProblemCase => [
      `a precision of ${JSON.stringify(text)}`,
      { ...sliced, precision: text },
      "precision",
      duration,
    ]),
    [
      "a precision that contradicts buckets",
      { ...sliced, buckets: 30, precision: "1s" },
      "precision",
      "nothing, because buckets is set",
    ],
    [
      "a precision beside buckets that do not divide",
      { ...sliced, buckets: 7, precision: "1s" },
      "precision",
      "nothing, because buckets is set",
    ],
    [
      "more slots than the maximum",
      { ...slots, limit: 100_001 },
      "limit",
      "at most 100000 for the strategy concurrency",
    ],
    ["elastic", { ...fixed, elastic: "true" }, "elastic", "true or false"],
    ["elastic with clock alignment", { ...fixed, align: "clock", elastic: true }, "elastic", inelastic],
    ["an elastic calendar", { ...calendar, elastic: true }, "elastic", inelastic],
    ["an elastic month", { ...monthly, elastic: true }, "elastic", inelastic],
    ...["Mars/Olympus", "+01:00", "-0500", "", " UTC", "Europe/Berlin\n", "Europe", 1, null].map(
      (timezone): ProblemCase => [
        `the time zone ${JSON.stringify(timezone)}`,
        { ...calendar, timezone },
        "timezone",
        zone,
      ],
    ),
    ["a time zone with clock alignment", { ...fixed, align: "clock", timezone: "UTC" }, "timezone", noZone],
    ["a time zone without a calendar window", { ...fixed, timezone: "UTC" }, "timezone", noZone],
    ["align", { ...fixed, align: "moon" }, "align", alignments],
    ["align of a month", { ...monthly, align: null }, "align", alignments],
    ...["24h", "2d", "90s", "7d", "1440 minutes", "52w", "365d"].map((text): ProblemCase => [
      `a calendar window of ${text}`,
      { ...calendar, window: text },
      "window",
      calendarWindow,
    ]),
    ...["2 months", "0 months", "12mo", "2y", "1.5 years", "month month", "monthly", "-1 month"].map(
      (text): ProblemCase => [`the window ${text}`, { limit: 1, window: text }, "window", window],
    ),
    ["a month with clock alignment", { ...monthly, align: "clock" }, "align", implied],
    ["a year from the first request", { ...fixed, window: "year", align: "first-request" }, "align", implied],
  ])("a refused option names the field, the value and the accepted values (%s)", ([, input, field, accepted]) => {
    expect(problemRowsOf(input)).toEqual([[field, input[field], accepted]]);
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
  ])("the strategy %j is refused with a window of one month", (strategy) => {
    expect(problemRowsOf({ ...monthly, strategy })).toEqual([["strategy", strategy, impliedStrategy]]);
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
  ])("an option of another strategy is refused: %s with %j", ([strategy, option, own]) => {
    const [field = "", value] = Object.entries(option)[0] ?? [];
    expect(problemRowsOf({ limit: 1, window: "1m", strategy, ...option })).toEqual([[field, value, fieldsOf(...own)]]);
  });

  it.for<[string, string]>([
    ["Burst", "burst"],
    ["bursts", "burst"],
    ["limits", "limit"],
    ["windowMs", "window"],
    ["mod", "mode"],
  ])("the problem of the unknown field %s suggests the field %s", ([field, suggestion]) => {
    const limit = { limit: 1, window: "1m", strategy: "leaky-bucket", [field]: 5 };
    expect(problemRowsOf(limit)).toEqual([[field, 5, `${fieldsOf("burst", "mode")}; did you mean ${suggestion}?`]]);
  });

  it("a window of one day with align = calendar does not imply the strategy fixed-window", () => {
    expect(problemRowsOf({ limit: 1, window: "1d", align: "calendar" })).toEqual([
      ["align", "calendar", 'one of "first-request", "clock"'],
    ]);
  });

  it("the problems of all limits in a list are reported together, each with its field", () => {
    const list = [
      { ...token, limit: 0, burst: 0, refill: "daily", mode: "queue" },
      { ...sliced, window: "soon", buckets: 0, precision: "x", edge: "y", burst: 1 },
      { ...monthly, strategy: "token-bucket", burst: 5, timezone: "Nowhere" },
      "5/2 months; 0/month",
    ];
    const calendarFields = fieldsOf("align", "timezone", "elastic");
    expect(problemRowsOf(list)).toEqual([
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

describe("windows of a month or a year", () => {
  it.for<[string, Fields]>([
    ["10/month", month],
    ["10 per month", month],
    ["10/1 Mo", month],
    ["10 PER 1 MONTHS", month],
    ["10/year", year],
    ["10/y", year],
    ["10 per 01 yr", year],
  ])("%j is a calendar window, whatever the policy's strategy is", ([text, options]) => {
    for (const strategy of ["token-bucket", "concurrency", "sliding-log", "fixed-window"]) {
      const expected = { name: "default", limit: 10, ...options };
      expect(parseLimits(text, { strategy })).toEqual([expected]);
    }
  });

  it("in a list that contains a limit per month, the other limits keep the policy's strategy", () => {
    const strategiesOf = parseLimits("1/day; 9/month", { strategy: "token-bucket" });
    expect(strategiesOf.map(({ strategy }) => strategy)).toEqual(["token-bucket", "fixed-window"]);
  });

  it.for(["10/2 months", "10/0 months", "10 per 12mo", "10/1.5 years", "10/months 1", "10/moon"])(
    "%j is refused and quoted, since a calendar window is one period",
    (text) => {
      expect(problemRowsOf(text)).toEqual([["window", text, window]]);
    },
  );
});
