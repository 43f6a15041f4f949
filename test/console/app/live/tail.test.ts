/** The rows of the view "Live": filters, pauses and bounds. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { TailEntryView } from "../../../../src/admin/wire.ts";
import { denialsOf, mostKeys, TailLog } from "../../../../src/console/app/live/tail.ts";
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

/** One denial of each of many keys. */
const flood = (count: number): TailEntryView[] =>
  Array.from({ length: count }, (_, atMs) => denial({ key: String(atMs), atMs }));

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

const keysOf = (log: TailLog): string[] => log.rows.map(({ policy, key }) => `${policy} ${key}`);
const countsOf = (log: TailLog): number[] => log.rows.map(denialsOf);

describe("the log of the tail", () => {
  it(
    "each key of a policy that matches the filter has one row with the number of its denials, whether the view was paused or not",
    forAll(
      [filters, fc.array(fc.tuple(fc.array(drawn, { maxLength: 300 }), fc.boolean()))],
      (filter, messages) => {
        const log = new TailLog(filter);
        const expected = new Map<string, Map<string, number>>();
        let received = 0;
        for (const [entries, isPaused] of messages) {
          if (isPaused) log.pause();
          else log.resume();
          log.add(entries.map((entry) => denial(entry)));
          received += entries.length;
          for (const { policy, outcome, key } of entries) {
            if (filter.policy !== null && policy !== filter.policy) continue;
            if ((filter.outcome !== null && outcome !== filter.outcome) || !key.startsWith(filter.key)) continue;
            const counts = expected.get(`${policy} ${key}`) ?? new Map<string, number>();
            counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
            expected.set(`${policy} ${key}`, counts);
          }
        }
        log.resume();
        expect(keysOf(log)).toEqual([...expected.keys()].toReversed());
        for (const { policy, key, outcomes } of log.rows) {
          const counts = outcomes.map(({ outcome, count }) => [outcome, count] as const);
          expect(new Map(counts)).toEqual(expected.get(`${policy} ${key}`));
        }
        expect(log.received).toBe(received);
      },
      30,
    ),
  );

  it("a repeated denial of a key raises the count of its row, which keeps its place below newer keys", () => {
    const log = new TailLog(all);
    log.add([denial(), denial({ key: "xyz" })]);
    log.add([denial({ atMs: 5_000, outcome: "banned", retryAfterMs: 60_000 }), denial({ policy: "login" })]);
    expect(keysOf(log)).toEqual(["login abc", "api xyz", "api abc"]);
    expect(countsOf(log)).toEqual([1, 1, 2]);
    expect(log.rows[2]?.firstMs).toBe(0);
    expect(log.rows[2]?.outcomes).toMatchObject([
      { outcome: "banned", count: 1, newest: { atMs: 5_000, retryAfterMs: 60_000 } },
      { outcome: "denied", count: 1 },
    ]);
  });

  it("beyond the most rows, the key whose last denial is the oldest loses its row, and an active key keeps its count", () => {
    const log = new TailLog(all);
    log.add(flood(mostKeys));
    log.add([denial({ key: "0" })]);
    log.add([denial({ key: "another" })]);
    expect(log.rows).toHaveLength(mostKeys);
    expect(keysOf(log)[0]).toBe("api another");
    expect(log.rows.at(-1)).toMatchObject({ key: "0" });
    expect(countsOf(log).at(-1)).toBe(2);
    expect(keysOf(log)).not.toContain("api 1");
  });

  it("when a filter names one policy, a flood of another policy does not remove its rows", () => {
    const log = new TailLog({ ...all, policy: "login" });
    log.add([denial({ policy: "login" })]);
    log.add(flood(2_000));
    expect(keysOf(log)).toEqual(["login abc"]);
    expect(log.received).toBe(2_001);
  });

  it("while the view Live is paused, it counts all arriving denials and changes no row", () => {
    const log = new TailLog(all);
    log.add(flood(3));
    const { rows } = log;
    log.pause();
    log.add([...flood(700), ...flood(700)]);
    expect(log.rows).toBe(rows);
    expect(countsOf(log)).toEqual([1, 1, 1]);
    expect(log.waitingCount).toBe(1_400);
    log.resume();
    expect(log.rows.length).toBe(mostKeys);
    expect(log.waitingCount).toBe(0);
  });

  it("a new filter applies to the shown rows and to the denials that wait during a pause", () => {
    const log = new TailLog(all);
    log.add([denial(), denial({ outcome: "blocked" }), denial({ policy: "login" })]);
    log.pause();
    log.add([denial(), denial({ policy: "login", key: "xyz" }), denial({ outcome: "blocked" })]);
    log.filter({ ...all, outcome: "denied" });
    expect(keysOf(log)).toEqual(["login abc", "api abc"]);
    expect([countsOf(log), log.waitingCount]).toEqual([[1, 1], 2]);
    log.filter({ ...all, policy: "login" });
    expect([keysOf(log), log.waitingCount]).toEqual([["login abc"], 1]);
    log.resume();
    expect(keysOf(log)).toEqual(["login xyz", "login abc"]);
  });
});
