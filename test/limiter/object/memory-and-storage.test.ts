/** The writes and the memory of an object, and how the object recovers when one of them is lost. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Charge } from "../../../src/limiter/protocol.ts";
import { mostReserved } from "../../../src/strategies/open-reservations.ts";
import { readPolicy } from "../../../src/policy/policy.ts";
import { call, charge } from "../../fakes/calls.ts";
import { startMs } from "../../fakes/isolate.ts";
import { TestObject } from "../../fakes/test-object.ts";
import { isFull } from "../../mode.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

describe("a put", () => {
  it("one put writes at most two megabytes, even when one turn of the event loop writes more", async () => {
    const object = new TestObject();
    const sizes: number[] = [];
    const put = object.storage.put.bind(object.storage);
    object.storage.put = (rows, options) => {
      sizes.push(Object.entries(rows).reduce((sum, [name, row]) => sum + name.length + row.length, 0));
      return put(rows, options);
    };
    const charges = [1, 2, 3, 4, 5].map((index) => charge("100000/hour", 1, `p${index}`.padEnd(64, "x")));
    for (let key = 0; key < 8; key++) {
      for (let id = 0; id < mostReserved; id++) {
        const reserving = {
          ...call(charges, `key-${key}`),
          id: `reservation-${id}`,
          ttlMs: 60_000,
        };
        object.limiter.reserve(reserving);
      }
    }
    sizes.length = 0;
    await object.pass(1_000);
    expect(sizes.length).toBeGreaterThan(1);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeGreaterThan(3_000_000);
    expect(Math.max(...sizes)).toBeLessThanOrEqual(2_000_000);
  });

  it("after a failed put, the next change writes the whole key with every segment of a long log", async () => {
    const object = new TestObject();
    const log = charge("100000/hour", 1, "p", "sliding-log");
    const put = object.storage.put.bind(object.storage);
    object.storage.put = () => Promise.reject(new Error("storage is broken"));
    for (let unit = 0; unit < 3_000; unit++) {
      object.nowMs += 10;
      object.limiter.check(call(log));
    }
    await object.pass(1_000);
    expect(object.storage.rows.size).toBe(0);
    object.storage.put = put;
    await object.pass(1_000);
    object.limiter.check(call(log));
    await object.evict();
    expect(object.remaining(log)).toBe(100_000 - 3_001);
  });
});

describe("a failed alarm", () => {
  it("an alarm that could not be set is set by the next write", async () => {
    const object = new TestObject();
    const setAlarm = object.storage.setAlarm.bind(object.storage);
    object.storage.setAlarm = () => Promise.reject(new Error("storage is broken"));
    object.limiter.check(call(charge("5/hour")));
    await object.pass(2_000);
    object.storage.setAlarm = setAlarm;
    object.limiter.check(call(charge("5/hour")));
    await object.pass(2_000);
    expect(object.storage.alarmAtMs).not.toBeNull();
  });
});

describe("the memory of an object", () => {
  it("memory keeps the most recently used keys, not the most recently added ones", async () => {
    const object = new TestObject();
    const small = charge("5/hour");
    const rowsReadFor = (key: string): number => {
      const before = object.storage.rowsRead;
      object.limiter.look(call(small, key));
      return object.storage.rowsRead - before;
    };
    object.limiter.check(call(small, "often"));
    let rowsRead = 0;
    for (let key = 0; key < 6_000; key++) {
      object.nowMs += 2_000;
      object.limiter.check(call(small, `key-${key}`));
      rowsRead += rowsReadFor("often");
    }
    expect([rowsRead, rowsReadFor("key-5999"), rowsReadFor("key-0")]).toEqual([0, 0, 1]);
  });
});

describe("a short ban", () => {
  const banning = (ban: object): Charge => {
    const policy = readPolicy("", "", { name: "p", limits: "1/s", ban }, () => undefined);
    if (policy?.ban == null) throw new Error("a ban was configured");
    return { ...charge("1/s"), ban: policy.ban };
  };
  const bannedForMs = (object: TestObject, each: Charge): number | undefined =>
    object.limiter.check(call(each)).decisions[0]?.bannedForMs;

  it("a ban of a few seconds and its strikes (denials that count towards a ban) survive an eviction", async () => {
    const object = new TestObject();
    const each = banning({ after: 3, within: "10s", for: "5s" });
    expect(bannedForMs(object, each)).toBe(0);
    expect([bannedForMs(object, each), bannedForMs(object, each)]).toEqual([0, 0]);
    // Without the ban, a limit of one second would not be written.
    object.advance(1_000);
    await object.evict();
    expect(bannedForMs(object, each)).toBe(0);
    expect(bannedForMs(object, each)).toBe(5_000);
    object.advance(1_000);
    await object.evict();
    expect(bannedForMs(object, each)).toBe(4_000);
  });
});

describe("a dry run's reservation", () => {
  const reserve = (object: TestObject, id: string, isDryRun: boolean) => {
    const each = { ...charge("100000/hour"), ...(isDryRun && { isDryRun }) };
    return object.limiter.reserve({ ...call(each), id, ttlMs: 60_000, isDryRun });
  };
  const full = (): TestObject => {
    const object = new TestObject();
    for (let id = 0; id < mostReserved; id++) reserve(object, `r${id}`, true);
    return object;
  };

  it("a dry run's reservation is not closed to make room for that of another dry run", () => {
    const object = full();
    expect(reserve(object, "more", true)).toMatchObject({ isOpen: false, fullForMs: 60_000 });
    expect(object.limiter.settle({ key: "k", id: "r0", cost: 0 })).toEqual({ settled: true });
  });

  it("a dry run's reservation is closed to make room for that of an enforced policy, and its cost stays spent", () => {
    const object = full();
    expect(reserve(object, "more", false)).toMatchObject({ isOpen: true, fullForMs: 0 });
    expect(object.limiter.settle({ key: "k", id: "r0", cost: 0 })).toEqual({ settled: false });
    expect(object.limiter.settle({ key: "k", id: "r1", cost: 0 })).toEqual({ settled: true });
    expect(object.limiter.settle({ key: "k", id: "more", cost: 0 })).toEqual({ settled: true });
    expect(object.remaining(charge("100000/hour"))).toBe(100_000 - mostReserved + 1);
  });
});

describe("a stored reservation", () => {
  const reserving = (each: Charge, ttlMs = 10_000) => ({ ...call(each), id: "r", ttlMs });

  it("after an eviction, a renewed reservation is still open for its whole ttl", async () => {
    const object = new TestObject();
    object.limiter.reserve(reserving(charge("100/hour")));
    await object.pass(8_000);
    expect(object.limiter.renew({ key: "k", id: "r" })).toEqual({ isOpen: true });
    await object.evict();
    await object.pass(6_000);
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: true });
  });

  it("a reservation that is settled at its reserved cost is settled only once, even across an eviction", async () => {
    const object = new TestObject();
    object.limiter.reserve(reserving(charge("100/hour")));
    await object.pass(2_000);
    expect(object.limiter.settle({ key: "k", id: "r", cost: 1 })).toEqual({ settled: true });
    await object.evict();
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: false });
    expect(object.remaining(charge("100/hour"))).toBe(99);
  });

  it("a reservation is settled only once, even if its key is evicted from memory", async () => {
    const object = new TestObject();
    object.limiter.reserve(reserving(charge("100/hour"), 3_600_000));
    await object.pass(2_000);
    // After two writes within a second, the settlement waits for a later write.
    object.limiter.check(call(charge("100/hour"), "one"));
    object.limiter.check(call(charge("100/hour"), "two"));
    expect(object.limiter.settle({ key: "k", id: "r", cost: 1 })).toEqual({ settled: true });
    object.nowMs += 2_000;
    for (let key = 0; key < 3_000; key++) object.limiter.check(call(charge("9/9s"), `key-${key}`));
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: false });
  });

  it("a limit of ten seconds is stored while one of its reservations is open", async () => {
    const object = new TestObject();
    const each = charge("10/10s");
    object.limiter.reserve(reserving(each, 60_000));
    await object.pass(2_000);
    object.limiter.check(call({ ...each, cost: 3 }));
    await object.evict();
    expect(object.remaining(each)).toBe(6);
  });

  it("a reservation that was made while the clock was ahead expires by the corrected clock", () => {
    const object = new TestObject();
    object.nowMs += 86_400_000;
    object.limiter.reserve(reserving(charge("100/minute")));
    object.nowMs -= 86_400_000;
    object.limiter.check(call(charge("100/minute")));
    object.nowMs += 10_000;
    expect(object.limiter.settle({ key: "k", id: "r", cost: 0 })).toEqual({ settled: false });
  });
});

describe("synced spends", () => {
  it("spends that a sync brings to a limit of ten seconds are written if they leave a longer debt", async () => {
    const object = new TestObject();
    const bucket = charge("10/10s", 1, "p", "token-bucket");
    object.limiter.sync({
      isolate: "i",
      key: "k",
      batch: 1,
      charges: [{ ...bucket, spends: [[0, 100]] }],
    });
    await object.evict();
    await object.pass(20_000);
    expect(object.remaining(bucket)).toBe(0);
  });
});

describe("a short limit", () => {
  it("a limit of ten seconds costs no write next to a longer limit on the same key", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("100/hour", 1, "long")));
    await object.pass(2_000);
    const { rows } = object.storage.written;
    for (let decision = 0; decision < 9; decision++) {
      object.limiter.check(call(charge("100/10s", 1, "short")));
    }
    await object.pass(2_000);
    expect(object.storage.written.rows).toBe(rows);
  });
});

describe("forget", () => {
  it("forgetting a policy ends its slices, so that its denials can be cached again", () => {
    const object = new TestObject();
    const each = charge("100/hour", 0);
    const wanted = { id: "s", units: 5, ttlMs: 5_000 };
    expect(object.limiter.lease({ ...call(each), wanted })).toMatchObject({ lentUnits: 5 });
    const denied = { ...each, cost: 101 };
    expect(object.limiter.check(call(denied)).isFirm).toBeUndefined();
    object.limiter.forget({ key: "k", policy: "p" });
    expect(object.limiter.check(call(denied)).isFirm).toBe(true);
  });
});

describe("settle", () => {
  it("settled reservations free their memory and do not count towards the 1,000 open reservations of a key", () => {
    const object = new TestObject();
    const reserve = (id: string, index: number): boolean => {
      const each = charge(`${100_000 + index}/hour`);
      return object.limiter.reserve({ ...call(each), id, ttlMs: 60_000 }).isOpen;
    };
    reserve("first", 0);
    const { cachedBytes } = object.limiter;
    for (let index = 1; index <= (isFull ? 12_000 : 2_000); index++) {
      expect(reserve("r", index % 2)).toBe(true);
      object.limiter.settle({ key: "k", id: "r", cost: 0 });
    }
    expect(object.limiter.cachedBytes).toBe(cachedBytes);
  });

  it("settling or renewing an unknown reservation writes no row", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("100/hour")));
    await object.pass(2_000);
    const { rows } = object.storage.written;
    object.limiter.renew({ key: "k", id: "unknown" });
    object.limiter.settle({ key: "k", id: "unknown", cost: 0 });
    await object.pass(2_000);
    expect(object.storage.written.rows).toBe(rows);
  });
});

describe("a returned slice", () => {
  it("a slice returned after the clock stepped back is booked at the latest time seen, which the reply states", () => {
    const object = new TestObject();
    const wanted = { id: "s", units: 5, ttlMs: 60_000 };
    object.limiter.lease({ ...call(charge("100/hour")), wanted });
    object.nowMs -= 5_000;
    const returned = [{ id: "s", used: 5 }];
    expect(object.limiter.giveBackSlices({ key: "k", returned })).toEqual({
      settled: [[{ policy: "p", atMs: startMs }]],
    });
  });
});

describe("the alarm", () => {
  it("a sweep deletes unreadable rows, reports their number and keeps the others", async () => {
    const object = new TestObject();
    object.limiter.check(call(charge("100/day")));
    await object.pass(2_000);
    object.storage.rows.set("k broken", "nonsense");
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    await object.limiter.alarm();
    expect([...object.storage.rows.keys()]).toEqual(["k k"]);
    expect(errors.mock.calls.join()).toContain("1 rows are not of this version");
    errors.mockClear();
    await object.limiter.alarm();
    expect(errors).not.toHaveBeenCalled();
  });
});
