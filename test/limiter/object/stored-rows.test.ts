/** Damaged rows in storage: the object discards the damaged part, logs this and keeps the remaining parts. */
import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from "vitest";
import { call, charge } from "../../fakes/calls.ts";
import { startMs } from "../../fakes/isolate.ts";
import { TestObject } from "../../fakes/test-object.ts";

let errors: MockInstance<typeof console.error>;
beforeEach(() => {
  errors = vi.spyOn(console, "error").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

type Path = readonly number[];

/** Evicts the object and replaces the value at `path` in its row. */
async function damaged(object: TestObject, path: Path, wrong: unknown): Promise<TestObject> {
  await object.pass(2_000);
  const row: unknown = JSON.parse(object.storage.rows.get("k k") ?? "");
  let parent = row;
  for (const index of path.slice(0, -1)) parent = (parent as unknown[])[index];
  const last = path.at(-1) ?? 0;
  expect((parent as unknown[])[last]).toBeDefined();
  (parent as unknown[])[last] = wrong;
  object.storage.rows.set("k k", JSON.stringify(row));
  await object.evict();
  return object;
}

const reported = (): string => errors.mock.calls.join("\n");

/** The positions of these fields in a row. */
const [meters, reservations, slices, batches] = [4, 5, 6, 7];

describe("a stored reservation", () => {
  const open = (): TestObject => {
    const object = new TestObject();
    object.limiter.check(call(charge("10/hour", 7)));
    const other = charge("10/hour", 1, "other");
    object.limiter.reserve({ ...call(other), id: "r", ttlMs: 60_000 });
    return object;
  };

  it("a stored reservation is read back unchanged", async () => {
    const object = await damaged(open(), [reservations, 1, 0], "r");
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: true });
    expect(reported()).toBe("");
  });

  it.for<[string, Path, unknown]>([
    ["a number in place of its list", [1], 7],
    ["an id that is no text", [1, 0], 7],
    ["a ttl that is no integer of at least 0", [1, 1], -1],
    ["an end that is no integer", [1, 2], "soon"],
    ["a charge that is no list", [1, 4], 7],
    ["a policy that is no text", [1, 4, 0], 7],
    ["limits that are not in the row", [1, 4, 1], 1],
    ["an index of limits that is no integer", [1, 4, 1], "0"],
    ["a cost that is no integer", [1, 4, 2], 1.5],
    ["an instant of its spend that is no integer", [1, 4, 3], null],
    ["no lists of limits", [0], 7],
  ])("a stored reservation with %s is refused, and the rest of the row is kept", async ([, path, wrong]) => {
    const object = await damaged(open(), [reservations, ...path], wrong);
    expect(object.remaining(charge("10/hour"))).toBe(3);
    expect(reported()).toContain("reservations are not of this version");
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: false });
    expect(object.remaining(charge("10/hour", 1, "other"))).toBe(9);
  });

  it.for(["relaxed", "confirmed"] as const)(
    "a stored dry-run reservation is closed to make room for an enforced one, and others stay %s",
    async (durability) => {
      const object = new TestObject();
      const reserving = (id: string) => ({ ...call(charge("100000/hour")), id, ttlMs: 60_000 });
      const dryRun = { ...call({ ...charge("100000/hour"), isDryRun: true }), ttlMs: 60_000 };
      for (const id of ["first", "second"]) {
        object.limiter.reserve({ ...dryRun, id, isDryRun: true, durability });
      }
      for (let count = 2; count < 1_000; count++) object.limiter.reserve(reserving(`r${count}`));
      await object.evict();
      expect(object.limiter.reserve(reserving("more")).isOpen).toBe(true);
      const { confirmedPuts } = object.storage.written;
      expect(object.limiter.settle({ key: "k", id: "second", cost: 0 }).settled).toBe(true);
      const confirmed = object.storage.written.confirmedPuts - confirmedPuts;
      expect(confirmed).toBe(durability === "confirmed" ? 1 : 0);
    },
  );
});

describe("a stored slice", () => {
  const lent = (): TestObject => {
    const object = new TestObject();
    object.limiter.check(call(charge("10/hour", 7)));
    const wanted = { id: "s", units: 5, ttlMs: 60_000 };
    object.limiter.lease({ ...call(charge("100/hour", 0, "other")), wanted });
    return object;
  };

  it("a stored slice is read back unchanged", async () => {
    const object = await damaged(lent(), [slices, 1, 0], "s");
    expect(object.remaining(charge("100/hour", 1, "other"))).toBe(95);
    expect(reported()).toBe("");
  });

  it.for<[string, Path, unknown]>([
    ["a number in place of its list", [1], 7],
    ["an id that is no text", [1, 0], 7],
    ["units below 0", [1, 1], -5],
    ["0 units", [1, 1], 0],
    ["a ttl that is no integer of at least 0", [1, 2], "long"],
    ["a part that is no list", [1, 3], 7],
    ["a policy that is no text", [1, 3, 0], 7],
    ["limits that are not in the row", [1, 3, 1], 1],
    ["an end that is no integer", [1, 3, 2], null],
    ["no lists of limits", [0], 7],
  ])("a stored slice with %s is refused, and the rest of the row is kept", async ([, path, wrong]) => {
    const object = await damaged(lent(), [slices, ...path], wrong);
    expect(object.remaining(charge("10/hour"))).toBe(3);
    expect(reported()).toContain("slices are not of this version");
    expect(object.remaining(charge("100/hour", 1, "other"))).toBe(100);
  });
});

describe("a stored slice with several policies", () => {
  it("a stored slice is discarded completely when the part of one policy is damaged", async () => {
    const object = new TestObject();
    const charges = [charge("100/hour", 0, "one"), charge("100/hour", 0, "two")];
    object.limiter.lease({ ...call(charges), wanted: { id: "s", units: 5, ttlMs: 60_000 } });
    await damaged(object, [slices, 1, 4], 7);
    expect(charges.map((each) => object.remaining(each))).toEqual([100, 100]);
  });
});

describe("a stored sync batch", () => {
  const spent = charge("100/hour", 1);
  const sync = (object: TestObject, batch: number): unknown =>
    object.limiter.sync({
      isolate: "isolate",
      key: "k",
      batch,
      charges: [{ ...spent, spends: [[0, 5]] }],
    });
  const synced = (): TestObject => {
    const object = new TestObject();
    sync(object, 2);
    return object;
  };

  it("a sync batch that is stored, and all batches before it, count only once", async () => {
    const object = await damaged(synced(), [batches, 0, 0], "isolate");
    sync(object, 2);
    sync(object, 1);
    expect(object.remaining(spent)).toBe(95);
    sync(object, 3);
    expect(object.remaining(spent)).toBe(90);
  });

  it.for<[string, Path, unknown]>([
    ["a number in place of its list", [0], 7],
    ["an isolate that is no text", [0, 0], 7],
    ["a batch number that is no integer", [0, 1], "2"],
    ["an instant that is no integer", [0, 2], null],
  ])(
    "the record of a sync batch with %s is dropped, and the spends that were already counted are kept",
    async ([, path, wrong]) => {
      const object = await damaged(synced(), [batches, ...path], wrong);
      expect(object.remaining(spent)).toBe(95);
      sync(object, 2);
      expect(object.remaining(spent)).toBe(90);
    },
  );

  it("the number of an isolate's last batch is forgotten after a minute", async () => {
    const object = synced();
    object.nowMs += 59_999;
    sync(object, 2);
    expect(object.remaining(spent)).toBe(95);
    object.nowMs = startMs + 59_999 + 60_000;
    object.limiter.sync({
      isolate: "other",
      key: "k",
      batch: 1,
      charges: [{ ...spent, spends: [] }],
    });
    sync(object, 2);
    expect(object.remaining(spent)).toBe(90);
  });

  it("a key remembers the number of the last batch for the latest thousand isolates", () => {
    const object = synced();
    for (let other = 0; other < 999; other++) {
      const isolate = `other-${other}`;
      object.limiter.sync({ isolate, key: "k", batch: 1, charges: [{ ...spent, spends: [] }] });
    }
    sync(object, 2);
    expect(object.remaining(spent)).toBe(95);
    for (let other = 0; other < 1_000; other++) {
      const isolate = `more-${other}`;
      object.limiter.sync({ isolate, key: "k", batch: 1, charges: [{ ...spent, spends: [] }] });
    }
    sync(object, 2);
    expect(object.remaining(spent)).toBe(90);
  });

  it("a thousand isolates that sync without spends do not make a key forget the batch of another isolate", () => {
    const object = synced();
    for (let other = 0; other < 1_000; other++) {
      const isolate = `other-${other}`;
      object.limiter.sync({ isolate, key: "k", batch: 0, charges: [{ ...spent, spends: [] }] });
    }
    sync(object, 2);
    expect(object.remaining(spent)).toBe(95);
  });
});

describe("an unreadable row", () => {
  it.for<[string, Path, unknown]>([
    ["an unknown version", [0], 2],
    ["no instant of its first write", [2], "then"],
    ["no list of meters", [meters], 7],
    ["a meter without a snapshot", [meters, 0], ["p"]],
    ["a meter whose policy is no text", [meters, 0, 0], 7],
  ])("a row with %s is refused, and its key starts at zero", async ([, path, wrong]) => {
    const object = new TestObject();
    object.limiter.check(call(charge("10/hour", 7)));
    await damaged(object, path, wrong);
    expect(object.remaining(charge("10/hour"))).toBe(10);
    expect(reported()).toContain("not a row of this version");
    expect(object.storage.rows.has("k k")).toBe(false);
  });
});

describe("a denial", () => {
  it("a denial may never be cached when one of the limits is a concurrency limit", () => {
    const object = new TestObject();
    const [slots] = charge("1/hour", 1, "p", "concurrency").limits;
    const [perHour] = charge("1/hour").limits;
    if (slots === undefined || perHour === undefined) throw new Error("two limits were parsed");
    const each = { policy: "p", limits: [perHour, slots], cost: 2 };
    expect(object.limiter.check(call(each)).isFirm).toBeUndefined();
    expect(object.limiter.check(call({ ...each, limits: [perHour] })).isFirm).toBe(true);
  });
});
