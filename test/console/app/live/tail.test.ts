/** The rows of the view "Live": filters, pauses and bounds. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TailEntryView } from "../../../../src/admin/wire.ts";
import { isListed, mostDenials, TailLog } from "../../../../src/console/app/live/tail.ts";
import { forAll } from "../../../for-all.ts";

const all = { policy: null, outcome: null, key: "" } as const;

const denial = (others: Partial<TailEntryView> = {}): TailEntryView => ({
  atMs: 0,
  policy: "api",
  outcome: "denied",
  violated: ["api"],
  retryAfterMs: 1_000,
  cost: 1,
  colo: "AMS",
  key: "abc",
  ...others,
});

const flood = (count: number, policy: string): TailEntryView[] =>
  Array.from({ length: count }, (_, atMs) => denial({ policy, atMs }));

const drawn = fc.record({
  policy: fc.constantFrom("api", "login"),
  outcome: fc.constantFrom("denied" as const, "blocked" as const),
  key: fc.constantFrom("abc", "abd", "xyz"),
});

const filters = fc.record({
  policy: fc.constantFrom(null, "api", "login"),
  outcome: fc.constantFrom(null, "denied" as const),
  key: fc.constantFrom("", "ab", "xyz"),
});

describe("the log of the tail", () => {
  it(
    "the rows are the newest denials that match the filter, newest first, whether the view was paused or not",
    forAll(
      [filters, fc.array(fc.tuple(fc.array(drawn, { maxLength: 300 }), fc.boolean()))],
      (filter, messages) => {
        const log = new TailLog(filter);
        const expected: number[] = [];
        let number = 0;
        for (const [entries, isPaused] of messages) {
          if (isPaused) log.pause();
          else log.resume();
          log.add(entries.map((entry) => denial(entry)));
          for (const entry of entries) {
            number++;
            if (isListed(denial(entry), filter)) expected.unshift(number);
          }
          expect(log.rows.length).toBeLessThanOrEqual(mostDenials);
          expect(log.waiting.length).toBeLessThanOrEqual(mostDenials);
        }
        log.resume();
        expect(log.rows.map((row) => row.number)).toEqual(expected.slice(0, mostDenials));
        expect(log.received).toBe(number);
      },
      30,
    ),
  );

  it("when a filter names one policy, a flood of another policy does not remove its rows", () => {
    const log = new TailLog({ ...all, policy: "login" });
    log.add([denial({ policy: "login" })]);
    log.add(flood(2_000, "api"));
    expect(log.rows.map(({ policy }) => policy)).toEqual(["login"]);
    expect(log.received).toBe(2_001);
  });

  it("while the view Live is paused, it counts all arriving denials and changes no row", () => {
    const log = new TailLog(all);
    log.add(flood(3, "api"));
    const { rows } = log;
    log.pause();
    log.add(flood(700, "api"));
    expect(log.rows).toBe(rows);
    expect(log.waitingCount).toBe(700);
    log.resume();
    expect(log.rows.length).toBe(mostDenials);
    expect(log.waitingCount).toBe(0);
  });

  it("a new filter applies to the shown rows and to the rows that wait during a pause", () => {
    const log = new TailLog(all);
    log.add([denial(), denial({ policy: "login" })]);
    log.pause();
    log.add([denial(), denial({ policy: "login", key: "xyz" })]);
    log.filter({ ...all, policy: "login" });
    expect(log.rows.map(({ number }) => number)).toEqual([2]);
    expect(log.waitingCount).toBe(1);
    log.resume();
    expect(log.rows.map(({ key }) => key)).toEqual(["xyz", "abc"]);
  });
});
