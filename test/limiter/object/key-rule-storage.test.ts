/** How an object stores the runtime rules of a key, and for how long. */
import { expect, it } from "vitest";
import type { KeyRule } from "../../../src/limiter/protocol.ts";
import { call, charge, confirmed } from "../../fakes/calls.ts";
import { startMs } from "../../fakes/isolate.ts";
import { TestObject } from "../../fakes/test-object.ts";

const dayMs = 86_400_000;
const block: KeyRule = { id: "r1", kind: "block" };
const version = (number: number, epoch = 1) => ({ epoch, version: number });

/** The stored rules for the policy `p` of the key `k` that have not expired; undefined if no version is stored. */
function storedRules(object: TestObject): unknown {
  const row = JSON.parse(object.storage.rows.get("k k") ?? "[]") as unknown[];
  return (row[8] as unknown[][] | undefined)?.find(([policy]) => policy === "p")?.[4];
}

it("before the reply, a rule of a new key is in storage, by a confirmed write of one row", async () => {
  const object = new TestObject();
  const writes = object.storage.countWrites();
  expect(object.limiter.setRules("k", "p", [block], version(3))).toEqual({ version: version(3) });
  expect([writes.rows, writes.confirmedPuts, storedRules(object)]).toEqual([1, 1, [block]]);
  expect(object.storage.rows.get("k k")).toBe(
    `[1,${startMs + 30 * dayMs},${startMs},0,[],[[]],[[]],[],[["p",1,3,${startMs},[{"id":"r1","kind":"block"}]]]]`,
  );
});

it("rules of an older version are ignored, and the reply contains the newer version", () => {
  const object = new TestObject();
  object.limiter.setRules("k", "p", [block], version(3));
  const writes = object.storage.countWrites();
  expect(object.limiter.setRules("k", "p", [], version(2))).toEqual({ version: version(3) });
  expect([writes.rows, storedRules(object)]).toEqual([0, [block]]);
  expect(object.limiter.setRules("k", "p", [], version(0, 2))).toEqual({ version: version(0, 2) });
  expect(storedRules(object)).toEqual([]);
});

it("rules of the same version are written again, so that a repeated call restores rules that were lost", () => {
  const object = new TestObject();
  object.limiter.setRules("k", "p", [block], version(3));
  object.storage.rows.clear();
  object.crash();
  expect(object.limiter.setRules("k", "p", [block], version(3))).toEqual({ version: version(3) });
  expect(storedRules(object)).toEqual([block]);
});

it("the version of removed rules is kept for an hour, so that a late call does not bring them back", async () => {
  const object = new TestObject();
  object.limiter.setRules("k", "p", [block], version(3));
  object.limiter.setRules("k", "p", [], version(4));
  await object.evict();
  await object.pass(3_599_000);
  expect(object.limiter.setRules("k", "p", [block], version(3))).toEqual({ version: version(4) });
  await object.finish();
  expect([...object.storage.rows.keys()]).toEqual([]);
});

it("the version of removed rules leaves the row of its key after the hour", async () => {
  const object = new TestObject();
  object.limiter.setRules("k", "p", [], version(3));
  object.limiter.check(confirmed(charge("10/day", 1, "q")));
  await object.pass(3_600_000);
  object.limiter.check(confirmed(charge("10/day", 1, "q")));
  expect(storedRules(object)).toBeUndefined();
});

it("more than 16 rules of one policy are refused", () => {
  const object = new TestObject();
  const rules = Array.from({ length: 17 }, (_, index) => ({ ...block, id: `r${index}` }));
  expect(() => object.limiter.setRules("k", "p", rules, version(1))).toThrow(
    "a key has at most 16 rules of a policy, not 17",
  );
  object.limiter.setRules("k", "p", rules.slice(1), version(1));
  expect(storedRules(object)).toEqual(rules.slice(1));
});

it("an object that receives no calls keeps a rule without expiry for years", async () => {
  const object = new TestObject();
  object.limiter.setRules("k", "p", [block], version(1));
  object.limiter.check(confirmed(charge("10/hour")));
  await object.evict();
  const writes = object.storage.countWrites();
  await object.pass(400 * dayMs);
  expect(storedRules(object)).toEqual([block]);
  // The row is renewed about every 30 days.
  expect([writes.rows, object.alarms, writes.deletedAll]).toEqual([13, 13, 0]);
  object.limiter.setRules("k", "p", [], version(2));
  await object.finish();
  expect(object.storage.rows.size).toBe(0);
});

it("the row of a rule that expires in more than 30 days is renewed, and is deleted after the expiry", async () => {
  const object = new TestObject();
  const expiresAtMs = startMs + 50 * dayMs;
  object.limiter.setRules("k", "p", [{ ...block, expiresAtMs }], version(1));
  await object.evict();
  await object.pass(50 * dayMs - 1);
  expect(object.storage.rows.size).toBe(1);
  await object.pass(2 * dayMs);
  expect(object.storage.rows.size).toBe(0);
});

it("a sweep renews the rows of rules, and deletes the other rows of the object", async () => {
  const object = new TestObject();
  for (let key = 0; key < 300; key++) {
    object.limiter.check(confirmed(charge("10/hour"), `k${key}`));
    if (key % 3 === 0) object.limiter.setRules(`k${key}`, "p", [block], version(1));
  }
  await object.pass(100 * dayMs);
  expect(object.storage.rows.size).toBe(100);
});

it("DELETE forgets the counts of a key and keeps its rules", async () => {
  const object = new TestObject();
  object.limiter.check(confirmed(charge("10/hour", 7)));
  object.limiter.setRules("k", "p", [block], version(1));
  object.limiter.forget({ key: "k", policy: "p" });
  await object.evict();
  expect(storedRules(object)).toEqual([block]);
  object.limiter.setRules("k", "p", [], version(2));
  expect(object.remaining(charge("10/hour"))).toBe(10);
});

it("an expired rule is dropped from storage at the next write of its key", async () => {
  const object = new TestObject();
  const boost: KeyRule = { id: "r2", kind: "allow", expiresAtMs: startMs + 1_000 };
  object.limiter.setRules("k", "p", [boost, block], version(1));
  await object.pass(1_000);
  expect(storedRules(object)).toEqual([boost, block]);
  object.limiter.check(confirmed(charge("10/hour", 1, "q")));
  expect(storedRules(object)).toEqual([block]);
});

it("a stored rule in an unknown form is ignored, and the rest of the row is kept", async () => {
  const object = new TestObject();
  object.limiter.check(confirmed(charge("10/hour", 7, "q")));
  const row = JSON.parse(object.storage.rows.get("k k") ?? "") as unknown[];
  const sets = [
    ["p", 1, 2, startMs, [{ id: "r", kind: "maybe" }]],
    ["p2", 1, 2, startMs, [{ id: "r", kind: "limits", limits: 3 }]],
    ["p3", 1, 2, startMs, [{ id: "r", kind: "block", expiresAtMs: "soon" }]],
    ["p4", 1, "2", startMs, []],
    ["p5", 1, 2, startMs],
    ["p6", 1, 2, startMs, [null]],
    7,
  ];
  object.storage.rows.set("k k", JSON.stringify([...row, [[]], [[]], [], sets, [7, ["p"]]]));
  await object.evict();
  expect(object.remaining(charge("10/hour", 1, "q"))).toBe(3);
  expect(object.limiter.check(call(charge("10/hour"))).decisions[0]?.allowed).toBe(true);
});
