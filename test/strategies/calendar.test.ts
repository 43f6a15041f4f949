/** Calendar windows in a time zone: timelines, and a comparison with Temporal. */
import * as fc from "fast-check";
import { Temporal } from "temporal-polyfill";
import { describe, expect, test } from "vitest";
import { periodAt } from "../../src/strategies/calendar.ts";
import type { LimitInput } from "../../src/strategies/index.ts";
import { forAll } from "../for-all.ts";
import { expectSame, hourMs, meterOf } from "./meters.ts";

type Row = readonly [time: string, cost: number, allowed: boolean, waitHours: number | null, windowHours: number];

/** Rows of requests: times are in UTC, and waits and windows are in hours. */
function expectCalendar(limit: LimitInput | string, rows: readonly Row[]): void {
  const meter = meterOf(limit);
  const actual = rows.map(([time, cost]): Row => {
    const { allowed, retryAfterMs, limits } = meter.consume(cost, Date.parse(time));
    const windowMs = limits[0]?.windowMs ?? Number.NaN;
    const waitHours = retryAfterMs === null ? null : retryAfterMs / hourMs;
    return [time, cost, allowed, waitHours, windowMs / hourMs];
  });
  expect(actual).toEqual(rows);
}

describe("calendar windows", () => {
  test("a calendar day begins at local midnight and has 23 or 25 hours when clocks change", () => {
    const perDay = { limit: 5, window: "1d", align: "calendar", timezone: "America/New_York" };
    expectCalendar({ ...perDay, strategy: "fixed-window" }, [
      ["2026-03-07T12:00:00Z", 5, true, 0, 24],
      ["2026-03-08T04:00:00Z", 1, false, 1, 24],
      // The day on which the clocks are set forward.
      ["2026-03-08T05:00:00Z", 5, true, 0, 23],
      ["2026-03-08T05:00:00Z", 1, false, 23, 23],
      ["2026-03-09T03:00:00Z", 1, false, 1, 23],
      ["2026-03-09T04:00:00Z", 1, true, 0, 24],
      ["2026-11-01T05:00:00Z", 6, false, null, 25],
    ]);
  });

  test('the notation "1000/month" means calendar months', () => {
    expectCalendar("1000/month", [
      ["2026-01-31T23:00:00Z", 1_000, true, 0, 31 * 24],
      ["2026-01-31T23:00:00Z", 1, false, 1, 31 * 24],
      ["2026-02-01T00:00:00Z", 1_000, true, 0, 28 * 24],
      ["2026-02-01T00:00:00Z", 1, false, 28 * 24, 28 * 24],
      ["2028-02-29T23:00:00Z", 1_001, false, null, 29 * 24],
    ]);
  });

  test("a calendar week begins on Monday, and a calendar year on 1 January", () => {
    const perWeek = { limit: 1, window: "1w", align: "calendar", strategy: "fixed-window" };
    expectCalendar(perWeek, [
      ["2026-11-22T23:00:00Z", 1, true, 0, 7 * 24],
      ["2026-11-22T23:00:00Z", 1, false, 1, 7 * 24],
      ["2026-11-23T00:00:00Z", 1, true, 0, 7 * 24],
      ["2026-11-23T00:00:00Z", 1, false, 7 * 24, 7 * 24],
    ]);
    expectCalendar({ limit: 1, window: "year", timezone: "Asia/Tokyo" }, [
      ["2027-12-31T14:00:00Z", 1, true, 0, 365 * 24],
      ["2027-12-31T14:00:00Z", 1, false, 1, 365 * 24],
      ["2027-12-31T15:00:00Z", 1, true, 0, 366 * 24],
    ]);
  });

  test("when midnight is skipped, a day begins at the first time after it, and when midnight occurs twice, at the first one", () => {
    const perDay = { limit: 1, window: "1d", align: "calendar", strategy: "fixed-window" };
    // In Cairo midnight was followed by one o'clock on 26 April 2024.
    expectCalendar({ ...perDay, timezone: "Africa/Cairo" }, [
      ["2024-04-25T21:00:00Z", 1, true, 0, 24],
      ["2024-04-25T21:00:00Z", 1, false, 1, 24],
      ["2024-04-25T22:00:00Z", 1, true, 0, 23],
    ]);
    // In Havana one o'clock was followed by midnight on 3 November 2024.
    expectCalendar({ ...perDay, timezone: "America/Havana" }, [
      ["2024-11-03T04:00:00Z", 1, true, 0, 25],
      ["2024-11-03T05:00:00Z", 1, false, 24, 25],
    ]);
  });
});

describe("the calendar period of an instant", () => {
  const zones = [
    ..."UTC Africa/Cairo Africa/Casablanca America/Asuncion America/Havana America/New_York".split(" "),
    ..."America/Nuuk America/Sao_Paulo America/St_Johns Antarctica/Troll Asia/Beirut Asia/Gaza".split(" "),
    ..."Asia/Kathmandu Asia/Tehran Atlantic/Azores Australia/Lord_Howe Europe/Berlin Pacific/Apia".split(" "),
    ..."Pacific/Chatham".split(" "),
  ];
  const instant = fc.integer({ min: Date.UTC(2012, 0, 1), max: Date.UTC(2036, 0, 1) });
  const zone = fc.constantFrom(...zones);

  /** The first instant of a day, from Temporal. */
  const firstInstant = (day: Temporal.PlainDate, timezone: string): number =>
    day.toZonedDateTime(timezone).epochMilliseconds;

  const firstDays = {
    day: (day: Temporal.PlainDate) => day,
    week: (day: Temporal.PlainDate) => day.subtract({ days: day.dayOfWeek - 1 }),
    month: (day: Temporal.PlainDate) => day.with({ day: 1 }),
    year: (day: Temporal.PlainDate) => day.with({ month: 1, day: 1 }),
  };

  test.each(["day", "week", "month", "year"] as const)(
    "the calendar period of an instant equals Temporal's (%s)",
    (period) =>
      forAll(
        [instant, zone],
        (atMs, timezone) => {
          const today = Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO(timezone).toPlainDate();
          const first = firstDays[period](today);
          expectSame(periodAt(period, timezone, atMs), {
            startMs: firstInstant(first, timezone),
            endMs: firstInstant(first.add({ [`${period}s`]: 1 }), timezone),
          });
        },
        750,
      )(),
  );

  test(
    "calendar periods follow each other without gaps",
    forAll([instant, zone, fc.constantFrom("day", "week", "month", "year")], (atMs, timezone, period) => {
      const { startMs, endMs } = periodAt(period, timezone, atMs);
      expectSame(atMs >= startMs && atMs < endMs, true);
      expectSame(periodAt(period, timezone, endMs).startMs, endMs);
      expectSame(periodAt(period, timezone, startMs - 1).endMs, startMs);
      expectSame(periodAt(period, timezone, startMs), { startMs, endMs });
    }),
  );
});
