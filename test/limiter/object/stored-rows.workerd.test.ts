/** Rows in storage of which a part is wrong: the object refuses that part, reports it, and keeps the rest. */
import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from "vitest";
import { call, charge } from "../harness.ts";
import { startMs, TestObject } from "../../fakes/isolate.ts";

let errors: MockInstance<typeof console.error>;
beforeEach(() => {
  errors = vi.spyOn(console, "error").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

type Path = readonly number[];

/** The object after it was out of memory, and one value of its row was replaced in between. */
async function withWrong(object: TestObject, path: Path, wrong: unknown): Promise<TestObject> {
  await object.clock.pass(2_000);
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

/** Where the parts of a row are. */
const [meters, reservations, slices, batches] = [4, 5, 6, 7];

describe("a stored reservation", () => {
  const open = (): TestObject => {
    const object = new TestObject();
    object.limiter.check(call(charge("10/hour", 7)));
    const other = charge("10/hour", 1, "other");
    object.limiter.reserve({ ...call(other), id: "r", ttlMs: 60_000 });
    return object;
  };

  it("is read as it was written", async () => {
    const object = await withWrong(open(), [reservations, 1, 0], "r");
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: true });
    expect(reported()).toBe("");
  });

  it.for<[string, Path, unknown]>([
    ["no list", [1], 7],
    ["an id that is no text", [1, 0], 7],
    ["a ttl that is no count", [1, 1], -1],
    ["an end that is no count", [1, 2], "soon"],
    ["a charge that is no list", [1, 4], 7],
    ["a policy that is no text", [1, 4, 0], 7],
    ["limits that the row lacks", [1, 4, 1], 1],
    ["limits whose number is no count", [1, 4, 1], "0"],
    ["a cost that is no count", [1, 4, 2], 1.5],
    ["a time of spending that is no count", [1, 4, 3], null],
    ["no lists of limits", [0], 7],
  ])("is refused alone where it has %s", async ([, path, wrong]) => {
    const object = await withWrong(open(), [reservations, ...path], wrong);
    expect(object.remaining(charge("10/hour"))).toBe(3);
    expect(reported()).toContain("reservations are not of this version");
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: false });
    expect(object.remaining(charge("10/hour", 1, "other"))).toBe(9);
  });

  it.for(["relaxed", "confirmed"] as const)(
    "of a dry run gives its place to another, and its writes are %s as before",
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

  it("is read as it was written", async () => {
    const object = await withWrong(lent(), [slices, 1, 0], "s");
    expect(object.remaining(charge("100/hour", 1, "other"))).toBe(95);
    expect(reported()).toBe("");
  });

  it.for<[string, Path, unknown]>([
    ["no list", [1], 7],
    ["an id that is no text", [1, 0], 7],
    ["units that are no count", [1, 1], -5],
    ["no unit", [1, 1], 0],
    ["a ttl that is no count", [1, 2], "long"],
    ["a part that is no list", [1, 3], 7],
    ["a policy that is no text", [1, 3, 0], 7],
    ["limits that the row lacks", [1, 3, 1], 1],
    ["an end that is no count", [1, 3, 2], null],
    ["no lists of limits", [0], 7],
  ])("is refused alone where it has %s", async ([, path, wrong]) => {
    const object = await withWrong(lent(), [slices, ...path], wrong);
    expect(object.remaining(charge("10/hour"))).toBe(3);
    expect(reported()).toContain("slices are not of this version");
    expect(object.remaining(charge("100/hour", 1, "other"))).toBe(100);
  });
});

describe("a stored slice of two policies", () => {
  it("is refused whole where one of its parts is wrong", async () => {
    const object = new TestObject();
    const charges = [charge("100/hour", 0, "one"), charge("100/hour", 0, "two")];
    object.limiter.lease({ ...call(charges), wanted: { id: "s", units: 5, ttlMs: 60_000 } });
    await withWrong(object, [slices, 1, 4], 7);
    expect(charges.map((each) => object.remaining(each))).toEqual([100, 100]);
  });
});

describe("a stored batch of an isolate", () => {
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

  it("counts once, and so does each before it", async () => {
    const object = await withWrong(synced(), [batches, 0, 0], "isolate");
    sync(object, 2);
    sync(object, 1);
    expect(object.remaining(spent)).toBe(95);
    sync(object, 3);
    expect(object.remaining(spent)).toBe(90);
  });

  it.for<[string, Path, unknown]>([
    ["no list", [0], 7],
    ["an isolate that is no text", [0, 0], 7],
    ["a number that is no count", [0, 1], "2"],
    ["a time that is no count", [0, 2], null],
  ])("is left out where it has %s, and what was spent stays", async ([, path, wrong]) => {
    const object = await withWrong(synced(), [batches, ...path], wrong);
    expect(object.remaining(spent)).toBe(95);
    sync(object, 2);
    expect(object.remaining(spent)).toBe(90);
  });

  it("is forgotten a minute after the isolate's last", async () => {
    const object = synced();
    object.clock.nowMs += 59_999;
    sync(object, 2);
    expect(object.remaining(spent)).toBe(95);
    object.clock.nowMs = startMs + 59_999 + 60_000;
    object.limiter.sync({
      isolate: "other",
      key: "k",
      batch: 1,
      charges: [{ ...spent, spends: [] }],
    });
    sync(object, 2);
    expect(object.remaining(spent)).toBe(90);
  });

  it("is forgotten first of all where more than a thousand isolates spend on a key", () => {
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
});

describe("a row of another version", () => {
  it.for<[string, Path, unknown]>([
    ["a version that is unknown", [0], 2],
    ["no time of its first writing", [2], "then"],
    ["no list of counts", [meters], 7],
    ["a count without its policy", [meters, 0], ["p"]],
    ["a count whose policy is no text", [meters, 0, 0], 7],
  ])("is refused whole where it has %s, and its key begins afresh", async ([, path, wrong]) => {
    const object = new TestObject();
    object.limiter.check(call(charge("10/hour", 7)));
    await withWrong(object, path, wrong);
    expect(object.remaining(charge("10/hour"))).toBe(10);
    expect(reported()).toContain("not a row of this version");
    expect(object.storage.rows.has("k k")).toBe(false);
  });
});

describe("a denial", () => {
  it("by several limits is never firm while one of them counts slots", () => {
    const object = new TestObject();
    const [slots] = charge("1/hour", 1, "p", "concurrency").limits;
    const [perHour] = charge("1/hour").limits;
    if (slots === undefined || perHour === undefined) throw new Error("two limits were parsed");
    const each = { policy: "p", limits: [perHour, slots], cost: 2 };
    expect(object.limiter.check(call(each)).isFirm).toBeUndefined();
    expect(object.limiter.check(call({ ...each, limits: [perHour] })).isFirm).toBe(true);
  });
});
