/** Time zones of calendar windows: the spelling of names, the cache of formatters, and states of other versions. */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import * as fc from "fast-check";
import { Temporal } from "temporal-polyfill";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { createMeter, parseLimits } from "../../src/strategies/index.ts";
import { offsetMs } from "../../src/strategies/calendar.ts";
import { forAll } from "../for-all.ts";
import * as previous from "../previous-version/app.js";

const zones = Intl.supportedValuesOf("timeZone");
const aliases = [
  ..."Asia/Kolkata Asia/Ho_Chi_Minh Europe/Kyiv America/Argentina/Buenos_Aires US/Pacific GMT".split(" "),
  ..."Etc/UTC Etc/GMT0 Etc/Universal EST5EDT PST8PDT NZ-CHAT W-SU Australia/NSW America/Knox_IN".split(" "),
  ..."Mexico/BajaNorte America/Argentina/ComodRivadavia".split(" "),
];

const perDay = { limit: 5, window: "1d", strategy: "fixed-window", align: "calendar" } as const;

const timezoneOf = (timezone: string): unknown => {
  const [limit] = parseLimits({ ...perDay, timezone });
  return limit === undefined ? null : Reflect.get(limit, "timezone");
};

/** The name with each letter in either case. */
const spelledBy = (name: string, bits: readonly boolean[]): string =>
  Array.from(name, (letter, index) =>
    bits[index % bits.length] === true ? letter.toUpperCase() : letter.toLowerCase(),
  ).join("");

afterEach(() => vi.unstubAllGlobals());

describe("the name of a time zone", () => {
  test("a time zone name is converted to the spelling of the time zone database", () => {
    const names = ["europe/berlin", "AMERICA/PORT-AU-PRINCE", "utc", "etc/gmt+5", "asia/HO_CHI_MINH"];
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
    "a time zone name in any letter case gives the same limit",
    forAll([fc.constantFrom(...zones, ...aliases), fc.array(fc.boolean(), { minLength: 1 })], (name, bits) => {
      const spelled = { ...perDay, timezone: spelledBy(name, bits) };
      expect(parseLimits(spelled)).toEqual(parseLimits({ ...perDay, timezone: name }));
    }),
  );

  test("a time zone name with look-alike letters is refused", () => {
    // In lower case, the Kelvin sign becomes "k".
    for (const timezone of ["Asia/\u212Aolkata", "\u017Fystem", "Europe/Berlin\u200B", "+01:00", "GMT+1"]) {
      expect(() => timezoneOf(timezone)).toThrow("an IANA time zone");
    }
  });
});

test(
  "the offset of a time zone equals that of the time zone database, to the second",
  forAll(
    [fc.constantFrom(...zones, ...aliases), fc.integer({ min: Date.UTC(1900, 0, 1), max: Date.UTC(2037, 0, 1) })],
    (timezone, atMs) => {
      const shown = Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO(timezone);
      expect(offsetMs(timezone, atMs)).toBe(shown.offsetNanoseconds / 1e6);
    },
  ),
);

describe("the cache of time zone formatters", () => {
  const formatters: WeakRef<object>[] = [];
  const { DateTimeFormat } = Intl;
  class CountedFormat extends DateTimeFormat {
    constructor(...options: ConstructorParameters<typeof DateTimeFormat>) {
      super(...options);
      formatters.push(new WeakRef(this));
    }
  }
  beforeEach(() => {
    formatters.length = 0;
    vi.stubGlobal("Intl", { DateTimeFormat: CountedFormat });
  });

  /** The number of formatters that are created while the offsets of these time zones are computed in turn. */
  function createdFor(...timezones: readonly string[]): number {
    const before = formatters.length;
    for (const timezone of timezones) offsetMs(timezone, 0);
    return formatters.length - before;
  }

  test("a time zone that was parsed before needs no new formatter, whatever the case of its letters", () => {
    const spelled = ["Asia/Tokyo", "asia/tokyo", "ASIA/TOKYO", "ASIA/tokyo"];
    spelled.map(timezoneOf);
    formatters.length = 0;
    spelled.map(timezoneOf);
    expect(formatters).toHaveLength(0);
    expect(createdFor("Asia/Tokyo")).toBeLessThanOrEqual(1);
    expect(createdFor(...spelled)).toBe(0);
  });

  test("the cache of time zones keeps 32 formatters and evicts the least recently used", () => {
    const [first = "", second = "", ...others] = zones.slice(0, 32);
    createdFor(first, second, ...others);
    expect(createdFor(first, second, ...others)).toBe(0);
    // The second time zone is now the least recently used.
    expect(createdFor(first, "Pacific/Apia", first)).toBe(1);
    expect(createdFor(...others, first)).toBe(0);
    expect(createdFor(second)).toBe(1);
  });

  test("after 400 time zones in several spellings, at most 40 formatters stay in memory", async () => {
    setFlagsFromString("--expose-gc");
    const collect: unknown = runInNewContext("gc");
    if (typeof collect !== "function") throw new Error("expected a garbage collector");
    const names = zones.slice(0, 400);
    for (const [index, name] of names.entries()) {
      for (const timezone of [name, name.toLowerCase(), name.toUpperCase()]) {
        const limits = parseLimits({ ...perDay, timezone });
        // An isolate of the previous version sends the name as written.
        const asWritten = limits.map((limit) => ({ ...limit, timezone }));
        for (const each of [limits, asWritten]) {
          expect(createMeter(each).consume(1, Date.UTC(2026, 0, index)).allowed).toBe(true);
        }
      }
    }
    // A WeakRef keeps its target alive until the end of the turn that created it.
    await new Promise((resolve) => setTimeout(resolve));
    collect();
    expect(formatters.length).toBeGreaterThan(300);
    expect(formatters.filter((each) => each.deref() !== undefined).length).toBeLessThanOrEqual(40);
  });
});

describe("a calendar window during a rolling deploy", () => {
  const atMs = Date.UTC(2026, 5, 1, 12);

  test.for(["Europe/Berlin", "eUROPE/bERLIN", ...aliases])(
    "a calendar window in %s keeps the units that the other version has spent",
    (timezone) => {
      const older = previous.parseLimits({ ...perDay, timezone });
      const newer = parseLimits({ ...perDay, timezone });
      const before = previous.createMeter(older);
      before.consume(3, atMs);
      const during = createMeter(newer, before.snapshot());
      expect(during.consume(1, atMs).limits[0]?.remaining).toBe(1);
      const after = previous.createMeter(older, during.snapshot());
      expect(after.look(1, atMs).limits[0]?.remaining).toBe(1);
      // An object also receives limits that isolates of the previous version have parsed.
      expect(createMeter(older, after.snapshot()).look(1, atMs)).toEqual(
        previous.createMeter(newer, after.snapshot()).look(1, atMs),
      );
    },
  );
});
