/** Policy rules: an object never decides a call under rules that are older than those it has seen. */
import { describe, expect, it } from "vitest";
import type { PolicyRules } from "../../../src/policy/runtime-rules.ts";
import type { Charge, CheckReply } from "../../../src/limiter/protocol.ts";
import { call, charge, confirmed } from "../../fakes/calls.ts";
import { TestObject } from "../../fakes/test-object.ts";

const textOf = (version: number): string => `[{"id":"rule-${version}","kind":"mode","mode":"enforce"}]`;
const rules = (version: number, epoch = 1, text = textOf(version)): PolicyRules => ({
  epoch,
  version,
  text,
});
const under = (version: number, limits = "10/hour", policy = "p"): Charge => ({
  ...charge(limits, 1, policy),
  rules: rules(version),
});
const newest = { policy: "p", ...rules(2) };

/** An object that has decided a call under version 2 of the rules of the policy `p`. */
function decided(): TestObject {
  const object = new TestObject();
  object.limiter.check(call(under(2)));
  return object;
}

const reserving = (charges: Charge | Charge[]) => ({ ...call(charges), id: "r", ttlMs: 60_000 });

const isDecided = ({ decisions, stale }: CheckReply): boolean => decisions.length > 0 && stale === undefined;

describe("a call under older rules", () => {
  it.for<[string, (object: TestObject, charges: Charge[]) => CheckReply]>([
    ["check", (object, charges) => object.limiter.check(call(charges))],
    ["look", (object, charges) => object.limiter.look(call(charges))],
    ["reserve", (object, charges) => object.limiter.reserve(reserving(charges))],
    ["lease", (object, charges) => object.lease(charges)],
  ])("a %s is not decided, spends nothing of any policy, and gets the newer rules", ([, ask]) => {
    const object = decided();
    const other = under(1, "10/hour", "q");
    expect(ask(object, [other, under(1)])).toMatchObject({
      decisions: [],
      spentAtMs: [],
      stale: [newest],
    });
    expect([object.remaining(charge("10/hour")), object.remaining(charge("10/hour", 1, "q"))]).toEqual([9, 10]);
    expect(isDecided(ask(object, [other, under(2)]))).toBe(true);
  });

  it("a stale call opens no reservation and borrows no slice", () => {
    const object = decided();
    expect(object.limiter.reserve(reserving(under(1)))).toMatchObject({
      isOpen: false,
      fullForMs: 0,
    });
    expect(object.lease(under(1)).lentUnits).toBe(0);
  });

  it("a stale call makes no provisional spend", () => {
    const object = decided();
    object.limiter.check({ ...call(under(1)), provisionalMs: 1_000 });
    const denial = object.limiter.check(call({ ...under(2), cost: 10 }));
    expect([denial.isFirm, denial.firmForMs]).toEqual([true, undefined]);
  });

  it("a stale lease call settles the slices that it returns", () => {
    const object = decided();
    const { id } = object.lease({ ...under(2, "100/hour"), cost: 0 });
    const reply = object.lease(under(1, "100/hour"), { returned: [{ id, used: 3 }] });
    expect([reply.stale?.length, reply.settled?.[0]?.length]).toEqual([1, 1]);
    expect(object.remaining(charge("100/hour"))).toBe(96);
  });

  it("each check of a batch is decided or refused on its own", () => {
    const calls = [call(under(1)), call(under(2)), call(under(1), "k2"), call(charge("10/hour"))];
    const { limiter } = decided();
    expect(calls.map((each) => isDecided(limiter.check(each)))).toEqual([false, true, false, true]);
  });

  it("a stale reply lists each policy of the call with older rules", () => {
    const object = decided();
    object.limiter.check(call(under(5, "10/hour", "q")));
    const { stale } = object.limiter.check(call([under(1), under(4, "10/hour", "q"), under(1, "10/hour", "r")]));
    expect(stale).toEqual([newest, { policy: "q", ...rules(5) }]);
  });

  it("a dry run under older rules is stale too", () => {
    expect(isDecided(decided().limiter.check(call({ ...under(1), isDryRun: true })))).toBe(false);
  });

  it("an explanation that is asked for under older rules returns the newer rules and no decisions", () => {
    const object = decided();
    expect(object.limiter.explain(call(under(1))).reply.stale).toEqual([newest]);
  });
});

describe("a call that is never stale", () => {
  it("a charge without rules is decided, so that isolates without a control plane still work", () => {
    expect(isDecided(decided().limiter.check(call(charge("10/hour"))))).toBe(true);
  });

  it("a caller with the same version of the rules is decided by its own limits, which a deployment may have changed", () => {
    const object = decided();
    for (const limits of ["20/hour", "10/hour", "5/hour"]) {
      const { decisions } = object.limiter.check(call(under(2, limits)));
      expect(decisions[0]?.limits[0]?.limit).toBe(Number.parseInt(limits, 10));
    }
  });

  it("an isolate that has not received rules yet is decided if the policy has no rules", () => {
    const object = new TestObject();
    object.limiter.check(call({ ...under(0), rules: rules(0, 1_000, "[]") }));
    const unknowing = { ...under(0), rules: rules(0, 0, "[]") };
    expect(isDecided(object.limiter.check(call(unknowing)))).toBe(true);
    object.limiter.check(call({ ...under(0), rules: rules(1, 1_000) }));
    expect(isDecided(object.limiter.check(call(unknowing)))).toBe(false);
  });

  it("a policy without rules in a newer epoch replaces the rules of the older epoch", () => {
    const object = decided();
    const recreated = { ...under(0), rules: rules(0, 2, "[]") };
    expect(isDecided(object.limiter.check(call(recreated)))).toBe(true);
    expect(object.limiter.check(call(under(2))).stale).toEqual([{ policy: "p", ...rules(0, 2, "[]") }]);
  });
});

describe("the rules that a key stores", () => {
  it("after a crash the object still refuses callers with older rules", () => {
    const object = new TestObject();
    object.limiter.check(call(under(2)));
    object.crash();
    expect(object.limiter.check(call(under(1))).stale).toEqual([newest]);
  });

  it("newer rules are confirmed in storage as soon as a call brings them, even if it is denied or a look", () => {
    for (const act of [
      (object: TestObject) => object.limiter.check(call({ ...under(2), cost: 11 })),
      (object: TestObject) => object.limiter.look(call(under(2))),
      (object: TestObject) => object.limiter.check(call(under(2))),
    ]) {
      const object = new TestObject();
      object.limiter.check(call(under(1)));
      const writes = object.storage.countWrites();
      act(object);
      expect([writes.rows, writes.confirmedPuts]).toEqual([1, 1]);
      object.limiter.look(call(under(2)));
      object.limiter.check(call({ ...under(2), cost: 11 }));
      expect(writes.rows).toBe(1);
      object.crash();
      expect(isDecided(object.limiter.check(call(under(1))))).toBe(false);
    }
  });

  it("for a key without a row, the rules alone cause no write", async () => {
    const object = new TestObject();
    object.limiter.look(call(under(2)));
    object.limiter.check(call({ ...under(3), cost: 11 }));
    for (const version of [4, 5]) {
      object.limiter.check(call({ ...charge("10/s"), rules: rules(version) }));
    }
    await object.evict();
    expect(object.storage.written.rows).toBe(0);
  });

  it("rules are stored in a row while it has state of their policy, and then removed", async () => {
    const object = new TestObject();
    object.limiter.check(confirmed([under(2, "10/minute"), under(2, "10/hour", "q")]));
    const stored = () => {
      const row = JSON.parse(object.storage.rows.get("k k") ?? "[]") as unknown[][];
      return row[9]?.map((each) => (each as unknown[])[0]);
    };
    expect(stored()).toEqual(["p", "q"]);
    await object.pass(60_000);
    object.limiter.check(confirmed(under(2, "10/hour", "q")));
    expect(stored()).toEqual(["q"]);
    object.limiter.forget({ key: "k", policy: "q" });
    expect(object.storage.rows.size).toBe(0);
  });

  it("rules are stored along with the key rules and the open reservations of their policy", async () => {
    const object = new TestObject();
    object.limiter.setRules("k", "p", [{ id: "b", kind: "block" }], rules(1));
    object.limiter.check(call(under(3)));
    object.limiter.reserve({ ...call(under(3, "10/s", "q")), id: "r", ttlMs: 60_000 });
    object.crash();
    const older = call([under(2), under(2, "10/s", "q")]);
    object.limiter.look({ key: "k", charges: [] });
    expect(object.limiter.check(older).stale?.map(({ policy }) => policy)).toEqual(["p", "q"]);
  });

  it("rules are stored with a slice or a reservation, even when the counts of their policy have expired", () => {
    const object = new TestObject();
    const log = { ...charge("10/s", 1, "q", "sliding-log"), rules: rules(3) };
    object.limiter.reserve({ ...call(log), id: "r", ttlMs: 60_000 });
    object.lease({ ...under(3, "100/hour"), cost: 0 }, { ttlMs: 60_000 });
    object.at(30_000);
    object.limiter.check(confirmed(charge("10/hour", 1, "other")));
    object.crash();
    object.limiter.look({ key: "k", charges: [] });
    const older = call([under(2), under(2, "10/s", "q")]);
    expect(object.limiter.check(older).stale?.map(({ policy }) => policy)).toEqual(["p", "q"]);
  });

  it("the text of long rules is stored in its own row, and written again only when it changes", async () => {
    const object = new TestObject();
    const long = { ...under(0), rules: rules(7, 1, `["${"x".repeat(50_000)}"]`) };
    object.limiter.check(confirmed(long));
    expect([...object.storage.rows.keys()]).toEqual(["k k", "s k 0"]);
    const writes = object.storage.countWrites();
    object.limiter.check(confirmed(long));
    expect(writes.rows).toBe(1);
    object.crash();
    expect(object.limiter.check(call(under(6))).stale?.[0]?.text).toBe(long.rules.text);
    object.limiter.check(confirmed(under(8)));
    expect([...object.storage.rows.keys()]).toEqual(["k k"]);
  });
});

describe("a sharded object", () => {
  it("the rules that a call for one key has brought apply to the callers of all keys", async () => {
    const object = new TestObject();
    object.limiter.check(confirmed(under(1), "k1"));
    object.limiter.check(confirmed(under(2), "k2"));
    expect(isDecided(object.limiter.check(call(under(1), "k1")))).toBe(false);
    object.crash();
    // After a restart, the object knows the newer rules once it has read the row of a key that has them.
    object.limiter.look(call(charge("10/hour"), "k2"));
    expect(isDecided(object.limiter.check(call(under(1), "k1")))).toBe(false);
  });
});
