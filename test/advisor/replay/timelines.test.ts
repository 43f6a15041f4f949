import * as fc from "fast-check";
import { expect, it } from "vitest";
import {
  type Arrival,
  arrivalOutcomes,
  isDeniedOutcome,
  TimelinesBuilder,
} from "../../../src/advisor/replay/timelines.ts";
import { forAll } from "../../for-all.ts";
import { sourceOf } from "./timelines-of.ts";

const arrival: fc.Arbitrary<Arrival & { readonly key: string }> = fc.record(
  {
    key: fc.constantFrom("a", "b", "c", "d"),
    atMs: fc.nat(30),
    cost: fc.nat(9),
    outcome: fc.constantFrom(...arrivalOutcomes),
    reservation: fc.record({
      ttlMs: fc.nat(9),
      settledAtMs: fc.option(fc.nat(90)),
      settledCost: fc.nat(9),
    }),
  },
  { requiredKeys: ["key", "atMs", "cost", "outcome"] },
);

it(
  "arrivals that are added in any order are sorted by key and time, with allowed arrivals first within a millisecond",
  forAll([fc.array(arrival, { maxLength: 50, size: "max" })], (list) => {
    const builder = new TimelinesBuilder();
    const numbers = list.map(({ key, ...added }) => builder.add(key, added));
    expect(numbers).toEqual(list.map((_, index) => index));
    const source = sourceOf(list);
    const timelines = builder.finish(source);
    const byKey = Object.groupBy(list, ({ key }) => key);
    const expected = Object.values(byKey).flatMap((own = []) =>
      own.toSorted(
        (a, b) => a.atMs - b.atMs || Number(isDeniedOutcome(a.outcome)) - Number(isDeniedOutcome(b.outcome)),
      ),
    );
    const rows = timelines.keys.flatMap((key, index) =>
      Array.from(timelines.atMs, (_, row) => row)
        .slice(timelines.firstRow[index], timelines.firstRow[index + 1])
        .map((row) => {
          const reservation = timelines.reservations.get(row);
          return {
            key,
            atMs: timelines.atMs[row],
            cost: timelines.cost[row],
            outcome: arrivalOutcomes[timelines.outcome[row] ?? 0],
            ...(reservation && { reservation }),
          };
        }),
    );
    expect(rows).toEqual(expected);
    expect(timelines.keys).toEqual(Object.keys(byKey));
    expect(timelines.source).toBe(source);
  }),
);

it("timelines can hold more arrivals than the builder's initial capacity", () => {
  const builder = new TimelinesBuilder();
  const count = 5_000;
  for (let index = 0; index < count; index++) {
    builder.add(`key ${index % 3}`, { atMs: count - index, cost: 1, outcome: "allowed" });
  }
  const { atMs, firstRow } = builder.finish(sourceOf([{ atMs: 1 }]));
  expect(atMs).toHaveLength(count);
  expect([...firstRow]).toEqual([0, 1_667, 3_334, 5_000]);
  expect([...atMs.subarray(0, 3)]).toEqual([2, 5, 8]);
});

it.each([
  [{ atMs: 0.5, cost: 1 }, "atMs 0.5"],
  [{ atMs: -1, cost: 1 }, "atMs -1"],
  [{ atMs: Number.NaN, cost: 1 }, "atMs NaN"],
  [{ atMs: 1, cost: -1 }, "cost -1"],
  [{ atMs: 1, cost: 0.1 }, "cost 0.1"],
])("an arrival %j is refused, because replays count in integers", (numbers, found) => {
  expect(() => new TimelinesBuilder().add("a", { ...numbers, outcome: "allowed" })).toThrow(
    new RangeError(`an arrival needs integers of at least 0, got ${found}`),
  );
});
