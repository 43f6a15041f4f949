import { expect, it } from "vitest";
import { BoundedMap } from "../../src/policy/caches.ts";

it("a map with a budget of bytes drops the oldest entries, and keeps the latest entry even if it exceeds the budget", () => {
  const map = new BoundedMap<number>(10, { mostBytes: 100, bytesOf: (size) => size });
  map.set("a", 40);
  map.set("b", 40);
  map.set("a", 50);
  expect([map.sizeBytes, map.size]).toEqual([90, 2]);
  expect(map.set("c", 20)).toEqual([40]);
  expect([map.get("a"), map.get("b"), map.get("c")]).toEqual([50, undefined, 20]);
  expect(map.set("d", 500)).toEqual([50, 20]);
  expect([map.sizeBytes, map.size]).toEqual([500, 1]);
});

it("a refreshed value of a bounded map is dropped after older values, and not measured again", () => {
  const measured: number[] = [];
  const bytesOf = (size: number): number => measured.push(size) && size;
  const map = new BoundedMap<number>(2, { mostBytes: 100, bytesOf });
  map.set("a", 40);
  map.set("b", 41);
  map.refresh("a");
  map.refresh("unknown");
  expect([map.size, map.sizeBytes]).toEqual([2, 81]);
  expect(map.set("c", 1)).toEqual([41]);
  expect([map.get("a"), map.get("b"), map.get("c")]).toEqual([40, undefined, 1]);
  expect(measured).toEqual([40, 41, 1]);
});
