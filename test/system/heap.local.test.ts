/** Sends new keys to an isolate with 32 busy shards and checks the size of its heap. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  boundBytes,
  type BusyIsolate,
  Collections,
  type Consistency,
  startBusyIsolate,
} from "../tools/memory/isolate.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-heap-"));
let isolate: BusyIsolate;

beforeAll(async () => {
  isolate = await startBusyIsolate(folder);
});

afterAll(async () => {
  await isolate.close();
  rmSync(folder, { recursive: true });
});

interface Flood {
  readonly consistency: Consistency;
  readonly keys: number;
  /** The memory budgets of the objects and of the isolate's maps that are full by then, plus the code. */
  readonly mostLiveBytes: number;
}

/** The first flood fills the memory of all objects. Leased keys take the longest, so this flood has fewer of them. */
const floods: readonly Flood[] = [
  { consistency: "strict", keys: 24_000, mostLiveBytes: 18_000_000 },
  { consistency: "eventual", keys: 3_000, mostLiveBytes: 24_000_000 },
  { consistency: "leased", keys: 500, mostLiveBytes: 24_000_000 },
];

it("the heap of an isolate with 32 busy shards stays bounded while it receives new keys of each consistency", async () => {
  for (const { consistency, keys, mostLiveBytes } of floods) {
    // oxlint-disable-next-line no-await-in-loop
    const { mostBytes } = await isolate.send(consistency, keys);
    expect(mostBytes).toBeLessThan(boundBytes);
    // oxlint-disable-next-line no-await-in-loop
    expect(await isolate.liveBytes()).toBeLessThan(mostLiveBytes);
  }
});

it("the heap of an isolate stays bounded while it makes reservations of new keys that are never settled", async () => {
  const { mostBytes } = await isolate.reserve(2_000);
  expect(mostBytes).toBeLessThan(boundBytes);
  expect(await isolate.liveBytes()).toBeLessThan(24_000_000);
});

it("the heap sizes of the largest isolate are read from V8 output that arrives in chunks", () => {
  const collections = new Collections();
  const large = "[9:0x514affd16000]     7139 ms: Mark-Compact (reduce) 21.5 (44.5) -> 13.0 (44.5) MB, pooled: 0.0 MB\n";
  const small = "[9:0x514aff820000:0]   12 ms: Scavenge 2.5 (4.5) -> 1.0 (4.5) MB, 0.25 / 0.00 ms\n";
  for (const piece of [large.slice(0, 30), large.slice(30) + small + "another line\n"]) {
    collections.read(piece);
  }
  expect(collections.take()).toEqual([21.5 * 2 ** 20, 13 * 2 ** 20]);
  expect(collections.take()).toEqual([]);
});
