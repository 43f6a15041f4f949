import { expect, test } from "vitest";
import { DueTimes } from "../../src/strategies/due-times.ts";

test("items are taken in the order of their instants, except those that were deleted", () => {
  const due = new DueTimes<{ readonly atMs: number }>();
  const items = Array.from({ length: 500 }, (_each, index) => ({ atMs: (index * 7_919) % 500 }));
  for (const item of items) due.add(item.atMs, item);
  const deleted = new Set(items.filter((_each, index) => index % 3 !== 0));
  for (const item of deleted) due.delete(item);
  const [first] = items;
  if (first !== undefined) due.delete(first);
  if (first !== undefined) due.add(600, first);
  const taken: number[] = [];
  for (let item = due.take(1_000); item !== null; item = due.take(1_000)) taken.push(item.atMs);
  const left = items.filter((item) => item !== first && !deleted.has(item)).map(({ atMs }) => atMs);
  expect(taken).toStrictEqual([...left.toSorted((a, b) => a - b), first?.atMs]);
});
