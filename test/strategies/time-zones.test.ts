/** Time zones of calendar windows: one spelling for each name, few of them in memory, states found by either version. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import * as fc from "fast-check";
import { Temporal } from "temporal-polyfill";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createMeter, parseLimits } from "../../src/strategies/index.ts";
import { offsetMs } from "../../src/strategies/time-zones.ts";
import { forAll } from "../for-all.ts";
import * as previous from "../previous-version/strategies.js";

const zones = Intl.supportedValuesOf("timeZone");
const aliases = [
  "Asia/Kolkata",
  "Asia/Ho_Chi_Minh",
  "Europe/Kyiv",
  "America/Argentina/Buenos_Aires",
  "US/Pacific",
  "GMT",
  "Etc/UTC",
  "Etc/GMT0",
  "Etc/Universal",
  "EST5EDT",
  "PST8PDT",
  "NZ-CHAT",
  "W-SU",
  "Australia/NSW",
  "America/Knox_IN",
  "Mexico/BajaNorte",
  "America/Argentina/ComodRivadavia",
];

const perDay = { limit: 5, window: "1d", strategy: "fixed-window", align: "calendar" } as const;

const timezoneOf = (timezone: string): unknown => {
  const [limit] = parseLimits({ ...perDay, timezone });
  return limit === undefined ? null : Reflect.get(limit, "timezone");
};

/** A name in some letter case. */
const spelledBy = (name: string, bits: readonly boolean[]): string =>
  Array.from(name, (letter, index) =>
    bits[index % bits.length] === true ? letter.toUpperCase() : letter.toLowerCase(),
  ).join("");

afterEach(() => vi.unstubAllGlobals());

describe("the name of a time zone", () => {
  test("is read as the spelling of the time zone database", () => {
    const names = [
      "europe/berlin",
      "AMERICA/PORT-AU-PRINCE",
      "utc",
      "etc/gmt+5",
      "asia/HO_CHI_MINH",
    ];
    expect(names.map(timezoneOf)).toEqual([
      "Europe/Berlin",
      "America/Port-au-Prince",
      "UTC",
      "Etc/GMT+5",
      // An alias, whose spelling the runtime does not report.
      "Asia/Ho_Chi_Minh",
    ]);
    expect(zones.map(timezoneOf)).toEqual(zones);
    expect(aliases.map(timezoneOf)).toEqual(aliases);
  });

  test(
    "is read alike in every letter case, so that no case is another limit",
    forAll(
      [fc.constantFrom(...zones, ...aliases), fc.array(fc.boolean(), { minLength: 1 })],
      (name, bits) => {
        const spelled = { ...perDay, timezone: spelledBy(name, bits) };
        expect(parseLimits(spelled)).toEqual(parseLimits({ ...perDay, timezone: name }));
      },
    ),
  );

  test("is refused with letters that only look like those of a name", () => {
    // The Kelvin sign is a "k" in lower case.
    for (const timezone of [
      "Asia/\u212Aolkata",
      "\u017Fystem",
      "Europe/Berlin\u200B",
      "+01:00",
      "GMT+1",
    ]) {
      expect(() => timezoneOf(timezone)).toThrow("an IANA time zone");
    }
  });
});

test(
  "the offset of a time zone is the one of the time zone database, to the second",
  forAll(
    [
      fc.constantFrom(...zones, ...aliases),
      fc.integer({ min: Date.UTC(1900, 0, 1), max: Date.UTC(2037, 0, 1) }),
    ],
    (timezone, atMs) => {
      const shown = Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO(timezone);
      expect(offsetMs(timezone, atMs)).toBe(shown.offsetNanoseconds / 1e6);
    },
  ),
);

describe("the formatters of time zones", () => {
  const made: WeakRef<object>[] = [];
  const { DateTimeFormat } = Intl;
  class Counted extends DateTimeFormat {
    constructor(...options: ConstructorParameters<typeof DateTimeFormat>) {
      super(...options);
      made.push(new WeakRef(this));
    }
  }
  beforeEach(() => {
    made.length = 0;
    vi.stubGlobal("Intl", { DateTimeFormat: Counted });
  });

  /** How many formatters are made to find the offsets of time zones, one after the other. */
  function madeFor(...timezones: readonly string[]): number {
    const before = made.length;
    for (const timezone of timezones) offsetMs(timezone, 0);
    return made.length - before;
  }

  test("are not made again for the name that was read before, in any letter case", () => {
    const spelled = ["Asia/Tokyo", "asia/tokyo", "ASIA/TOKYO", "ASIA/tokyo"];
    spelled.map(timezoneOf);
    made.length = 0;
    spelled.map(timezoneOf);
    expect(made).toHaveLength(0);
    expect(madeFor("Asia/Tokyo")).toBeLessThanOrEqual(1);
    expect(madeFor(...spelled)).toBe(0);
  });

  test("are 32, of which the least recently used makes room for another", () => {
    const [first = "", second = "", ...others] = zones.slice(0, 32);
    madeFor(first, second, ...others);
    expect(madeFor(first, second, ...others)).toBe(0);
    // Now the second is the one that was used the longest ago.
    expect(madeFor(first, "Pacific/Apia", first)).toBe(1);
    expect(madeFor(...others, first)).toBe(0);
    expect(madeFor(second)).toBe(1);
  });

  test("leave at most 40 in memory after every spelling of 400 time zones", async () => {
    setFlagsFromString("--expose-gc");
    const collect: unknown = runInNewContext("gc");
    if (typeof collect !== "function") throw new Error("no garbage collector");
    const names = zones.slice(0, 400);
    for (const [index, name] of names.entries()) {
      for (const timezone of [name, name.toLowerCase(), name.toUpperCase()]) {
        const limits = parseLimits({ ...perDay, timezone });
        // As an isolate of the previous version sends it.
        const asWritten = limits.map((limit) => ({ ...limit, timezone }));
        for (const each of [limits, asWritten]) {
          expect(createMeter(each).consume(1, Date.UTC(2026, 0, index)).allowed).toBe(true);
        }
      }
    }
    // A reference is kept alive until the turn in which it was made is over.
    await new Promise((resolve) => setTimeout(resolve));
    collect();
    expect(made.length).toBeGreaterThan(300);
    expect(made.filter((each) => each.deref() !== undefined).length).toBeLessThanOrEqual(40);
  });
});

describe("a calendar window of a rolling deploy", () => {
  const atMs = Date.UTC(2026, 5, 1, 12);

  test.for(["Europe/Berlin", "eUROPE/bERLIN", ...aliases])(
    "in %s keeps what the other version has spent",
    (timezone) => {
      const older = previous.parseLimits({ ...perDay, timezone });
      const newer = parseLimits({ ...perDay, timezone });
      const before = previous.createMeter(older);
      before.consume(3, atMs);
      const during = createMeter(newer, before.snapshot());
      expect(during.consume(1, atMs).limits[0]?.remaining).toBe(1);
      const after = previous.createMeter(older, during.snapshot());
      expect(after.look(1, atMs).limits[0]?.remaining).toBe(1);
      // Objects are given the limits that isolates of the other version have read.
      expect(createMeter(older, after.snapshot()).look(1, atMs)).toEqual(
        previous.createMeter(newer, after.snapshot()).look(1, atMs),
      );
    },
  );
});
