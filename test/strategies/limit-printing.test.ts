/** Limits of every strategy with any options, printed as fields and parsed again. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { forAll } from "../for-all.ts";
import {
  formatDuration,
  formatWindow,
  type Limit,
  type LimitInput,
  parseLimits,
  strategies,
} from "../../src/strategies/index.ts";
import { dayMs } from "./meters.ts";

const longestMs = 3_650 * dayMs;
const greatest = 999_999_999_999_999;

type Options = Readonly<Record<string, unknown>>;

const duration = fc.oneof(
  fc.integer({ min: 1, max: longestMs }),
  fc
    .tuple(fc.constantFrom(1, 1_000, 60_000, 3_600_000, dayMs), fc.integer({ min: 1, max: 500 }))
    .map(([size, count]) => size * count),
);
const windowed = duration.map((windowMs): Options => ({ windowMs }));

/** Numbers small enough that every strategy accepts their product with any window. */
const units = fc.integer({ min: 1, max: 10_000 });
const anyUnits = fc.oneof(units, fc.integer({ min: 1, max: greatest }), fc.constant(greatest));

/** One object with the fields of all parts. */
const joined = (...parts: fc.Arbitrary<Options>[]): fc.Arbitrary<Options> =>
  fc.tuple(...parts).map((all) => Object.assign({}, ...all) as Options);

const fieldsOf = (arbitraries: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Options> => fc.record(arbitraries);

const optional = (arbitraries: Record<string, fc.Arbitrary<unknown>>): fc.Arbitrary<Options> =>
  fc.record(arbitraries, { requiredKeys: [] });

const calendar = fc
  .constantFrom(
    { windowMs: dayMs, period: "day" },
    { windowMs: 7 * dayMs, period: "week" },
    { windowMs: 31 * dayMs, period: "month" },
    { windowMs: 366 * dayMs, period: "year" },
  )
  .map((window): Options => ({ ...window, align: "calendar", elastic: false }));

const timezone = optional({
  timezone: fc.constantFrom("UTC", "Europe/Berlin", "America/Havana", "Etc/GMT-14", "Asia/Kolkata"),
});

const sliced = fc
  .tuple(
    fc.integer({ min: 1, max: 1_000 }),
    fc.integer({ min: 1, max: 90_000_000 }),
    fc.constantFrom("buckets", "precision", "both"),
  )
  .map(([buckets, precision, written]): Options => ({
    windowMs: buckets * precision,
    ...(written !== "precision" && { buckets }),
    ...(written !== "buckets" && { precision }),
  }));

const edge = fieldsOf({ edge: fc.constantFrom("keep", "drop") });

/** The option fields of each strategy. A strategy that is absent has no options. */
const limitsOf: Readonly<Record<string, fc.Arbitrary<Options>>> = {
  "fixed-window": joined(
    fieldsOf({ limit: anyUnits }),
    fc.oneof(
      joined(windowed, fieldsOf({ align: fc.constant("clock"), elastic: fc.constant(false) })),
      joined(windowed, fieldsOf({ align: fc.constant("first-request"), elastic: fc.boolean() })),
      joined(calendar, timezone),
    ),
  ),
  "sliding-window-counter": joined(
    fieldsOf({ limit: units, align: fc.constantFrom("first-request", "clock") }),
    windowed,
  ),
  "sliding-buckets": joined(fieldsOf({ limit: anyUnits }), fc.oneof(windowed, sliced), edge),
  "token-bucket": joined(
    fieldsOf({ limit: units, refill: fc.constantFrom("continuous", "interval") }),
    windowed,
    optional({ burst: units }),
  ),
  "leaky-bucket": joined(
    fieldsOf({ limit: units, mode: fc.constantFrom("queue", "police") }),
    windowed,
    optional({ burst: units }),
  ),
};
const withoutOptions = joined(fieldsOf({ limit: units }), windowed);

const named = optional({ name: fc.stringMatching(/^[a-z][a-z0-9_.-]{0,20}$/) });

type Unnamed = Omit<Limit, "name"> & { readonly name?: string };

const limit = fc.oneof(
  ...[...strategies.keys()].map((strategy) =>
    joined(limitsOf[strategy] ?? withoutOptions, named).map((fields) => ({ ...fields, strategy }) as Options & Unnamed),
  ),
);

/** Whether a value is the default, or follows from a window of a month or a year. */
function isDefault(name: string, value: unknown, { period }: Limit): boolean {
  const isImplied = period === "month" || period === "year";
  const byDefault: Options = {
    strategy: isImplied ? "fixed-window" : "sliding-window-counter",
    align: isImplied ? "calendar" : "first-request",
    elastic: false,
    edge: "keep",
    refill: "continuous",
    mode: "queue",
  };
  return byDefault[name] === value;
}

/** @param isShort whether to omit defaults */
function fieldsOfLimit(each: Limit, isShort: boolean): LimitInput {
  const { windowMs, period, ...rest } = each;
  const all = Object.entries(rest).filter(([name, value]) => !(isShort && isDefault(name, value, each)));
  const fields: Record<string, unknown> = Object.fromEntries(all);
  const precision = fields["precision"];
  if (typeof precision === "number") fields["precision"] = formatDuration(precision);
  const calendarPeriod = period === undefined ? {} : { period };
  return { limit: each.limit, ...fields, window: formatWindow({ windowMs, ...calendarPeriod }) };
}

describe("limits as fields", () => {
  const distinct = fc
    .uniqueArray(limit, { minLength: 1, maxLength: 16, selector: (each) => formatWindow(each) })
    .map((list) =>
      // Two configured names must not be equal.
      list.map((each, index): Limit => {
        const isTaken = list.slice(0, index).some(({ name }) => name === each.name);
        const own = `api.${each.limit}-per-${formatWindow(each)}`;
        const byDefault = list.length === 1 ? "api" : own;
        return { ...each, name: isTaken ? byDefault : (each.name ?? byDefault) };
      }),
    );

  it(
    "limits formatted as fields parse to the same limits, with and without defaults",
    forAll(
      [distinct],
      (list) => {
        for (const isShort of [false, true]) {
          const fields = list.map((each) => fieldsOfLimit(each, isShort));
          expect(parseLimits(fields, { policy: "api" })).toEqual(list);
          expect(parseLimits(JSON.parse(JSON.stringify(fields)) as LimitInput[])).toEqual(list);
        }
      },
      250,
    ),
  );

  it(
    "limits formatted without a name are named after their policy",
    forAll([distinct], (list) => {
      const fields = list.map((each) => {
        const { name: _, ...rest } = fieldsOfLimit(each, true);
        return rest;
      });
      const names = list.map((each) => `api.${each.limit}-per-${formatWindow(each)}`);
      expect(parseLimits(fields, { policy: "api" }).map(({ name }) => name)).toEqual(
        list.length === 1 ? ["api"] : names,
      );
    }),
  );
});
