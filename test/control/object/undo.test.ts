/** Undo: one transaction that restores the rules of audit entries to their earlier state, or changes nothing. */
import { describe, expect, it, vi } from "vitest";
import { mostAuditEntries } from "../../../src/control/object/audit-log.ts";
import { mostKeyRules } from "../../../src/limiter/protocol.ts";
import { ada, done, key, keyRule, mode, policyRule, TestPlane } from "./test-plane.ts";

const actor = ada;
const hour = 3_600_000;

const undo = (plane: TestPlane, entries: readonly number[], idempotency: Parameters<TestPlane["create"]>[1] = null) =>
  plane.control.undo({ entries, actor, idempotency });

const newest = (plane: TestPlane): number => plane.control.audit({ limit: 1 }).items[0]?.seq ?? 0;
const rulesOf = (plane: TestPlane) => plane.control.rules({ limit: 100 }).items;
/** The content of rules, without the fields that a new version changes. */
const contentsOf = (plane: TestPlane) =>
  rulesOf(plane).map(({ id, rule, note, expiresAtMs, sealedKey }) => ({ id, rule, note, expiresAtMs, sealedKey }));

describe("the undo of one entry", () => {
  it("an undo removes a new rule, also from the object of its key", async () => {
    const plane = new TestPlane();
    await plane.created(keyRule({ note: "a" }));
    const { entries, rules } = done(await undo(plane, [1]));
    expect(rules).toEqual([]);
    expect(entries).toMatchObject([{ seq: 2, action: "delete", actor: ada.name, note: null, after: null }]);
    expect([rulesOf(plane), plane.heldIds()]).toEqual([[], []]);
  });

  it("an undo restores the content, expiry and note of a replaced rule as a new revision", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule({ note: "a", expiresAtMs: plane.clock.nowMs + hour }));
    const before = contentsOf(plane);
    done(await plane.control.replaceRule({ id, revision: 1, input: keyRule({ rule: { kind: "allow" } }), actor }));
    const { entries, rules } = done(await undo(plane, [2]));
    expect(contentsOf(plane)).toEqual(before);
    expect(rules).toMatchObject([{ id, revision: 3, state: "applied", rule: { kind: "block" } }]);
    expect(entries).toMatchObject([{ action: "replace", note: "a" }]);
  });

  it("an undo restores a removed rule with its id, its sealed key and its position among the other rules", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule({ sealedKey: "sealed" }));
    await plane.created(keyRule({ rule: { kind: "allow" } }));
    const before = contentsOf(plane);
    done(await plane.control.deleteRule({ id, revision: 1, actor, note: null }));
    const { entries, rules } = done(await undo(plane, [newest(plane)]));
    expect(contentsOf(plane)).toEqual(before);
    expect(entries).toMatchObject([{ action: "create", rule: id }]);
    expect(rules).toMatchObject([{ id, revision: 2 }]);
    expect(plane.heldIds()).toContain(id);
  });

  it("an undo can be undone", async () => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    const before = contentsOf(plane);
    const { entries } = done(await undo(plane, [1]));
    expect(rulesOf(plane)).toEqual([]);
    done(
      await undo(
        plane,
        entries.map(({ seq }) => seq),
      ),
    );
    expect(contentsOf(plane)).toEqual(before);
  });
});

describe("the undo of several entries", () => {
  it("all parts of a policy that one change has set are undone in one change, and isolates get one new version", async () => {
    const plane = new TestPlane();
    const entriesRule = (address: string) => policyRule({ kind: "deny", entries: [address] }, { note: "n" });
    await plane.created(entriesRule("192.0.2.1"));
    await plane.created(entriesRule("192.0.2.2"));
    await plane.created(mode("dry-run"));
    const before = contentsOf(plane);
    const { epoch, version } = plane.control.policyState("p");
    const parts = [
      { kind: "deny", rule: entriesRule("192.0.2.3") },
      { kind: "mode", rule: null },
    ] as const;
    done(plane.control.changePolicy({ policy: "p", parts, epoch, version, actor, note: null }));
    const changes = plane.control.audit({ limit: 10 }).items.filter(({ seq }) => seq > version);
    expect(changes).toHaveLength(3);
    const undone = done(
      await undo(
        plane,
        changes.map(({ seq }) => seq),
      ),
    );
    expect(contentsOf(plane)).toEqual(before);
    expect(undone.entries).toHaveLength(3);
  });

  it("a rule that the undo has removed in the end is not in the answer's list of rules", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule({ note: "a" }));
    done(await plane.control.replaceRule({ id, revision: 1, input: keyRule({ rule: { kind: "allow" } }), actor }));
    const { entries, rules } = done(await undo(plane, [1, 2]));
    expect(entries.map(({ action }) => action)).toEqual(["delete", "replace"]);
    expect(rules).toEqual([]);
    expect(rulesOf(plane)).toEqual([]);
  });

  it("successive changes of one rule can be undone together", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule({ note: "a" }));
    done(await plane.control.replaceRule({ id, revision: 1, input: keyRule({ note: "b" }), actor }));
    done(await plane.control.replaceRule({ id, revision: 2, input: keyRule({ note: "c" }), actor }));
    done(await undo(plane, [2, 3]));
    expect(rulesOf(plane)).toMatchObject([{ note: "a" }]);
  });
});

describe("an undo that is refused changes nothing", () => {
  it("an undo is refused for a rule that has changed since, even if another of its entries could be undone", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule());
    await plane.created(mode("off"));
    done(await plane.control.replaceRule({ id, revision: 1, input: keyRule({ note: "b" }), actor }));
    const before = rulesOf(plane);
    expect(await undo(plane, [1, 2])).toEqual({ kind: "changed-since", seq: 3 });
    expect([rulesOf(plane), newest(plane)]).toEqual([before, 3]);
  });

  it("an undo is refused if its rule has expired since, or would have expired by now", async () => {
    const plane = new TestPlane();
    const expiresAtMs = plane.clock.nowMs + hour;
    const { id } = await plane.created(keyRule({ expiresAtMs }));
    done(await plane.control.deleteRule({ id, revision: 1, actor, note: null }));
    await plane.created(mode("off"));
    await plane.created(policyRule({ kind: "deny", entries: ["192.0.2.1"] }, { expiresAtMs }));
    await plane.pass(hour);
    expect(await undo(plane, [2])).toEqual({ kind: "nothing-to-undo" });
    expect(await undo(plane, [4])).toEqual({ kind: "changed-since", seq: 5 });
  });

  it("an undo is refused for an entry that does not exist or that has changed no rule", async () => {
    const plane = new TestPlane();
    await plane.created(keyRule());
    plane.control.note({ action: "reset", policy: "p", key, actor, note: null });
    expect(await undo(plane, [1, 9])).toEqual({ kind: "unknown" });
    expect(await undo(plane, [2])).toEqual({ kind: "unknown" });
    expect(rulesOf(plane)).toHaveLength(1);
  });

  it("an undo of an entry whose row is damaged is refused like that of an entry that does not exist", async () => {
    const plane = new TestPlane();
    await plane.created(keyRule());
    await plane.created(mode("off"));
    const [, first] = plane.control.audit({ limit: 10 }).items;
    plane.storage.sql.exec("UPDATE audit SET body = '{' WHERE seq = 2");
    expect(await undo(plane, [1, 2])).toEqual({ kind: "unknown" });
    expect(rulesOf(plane)).toHaveLength(2);
    expect(plane.control.audit({ limit: 1 })).toEqual({ items: [], cursor: "2" });
    expect(plane.control.audit({ limit: 10 })).toEqual({ items: [first], cursor: null });
  });

  it.each(["{", "null", "{}"])(
    "a rollback across an entry whose row is %s is refused and changes nothing, and one to that entry works",
    async (body) => {
      const plane = new TestPlane();
      await plane.created(keyRule());
      await plane.created(mode("off"));
      await plane.created(keyRule());
      plane.storage.sql.exec("UPDATE audit SET body = ? WHERE seq = 2", body);
      const rollback = (toSeq: number) => plane.control.rollback({ toSeq, actor, note: null });
      expect(await rollback(1)).toEqual({ kind: "unknown" });
      expect([rulesOf(plane).length, plane.control.rollbackProgress()?.state]).toEqual([3, "failed"]);
      await plane.pass(hour);
      expect(rulesOf(plane)).toHaveLength(3);
      done(await rollback(2));
      expect(rulesOf(plane)).toHaveLength(2);
    },
  );

  it("an undo is refused if the key would have too many rules", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule());
    done(await plane.control.deleteRule({ id, revision: 1, actor, note: null }));
    for (let count = 0; count < mostKeyRules; count++) {
      // oxlint-disable-next-line no-await-in-loop
      await plane.created(keyRule());
    }
    expect(await undo(plane, [2])).toEqual({ kind: "too-many", most: mostKeyRules });
    expect(rulesOf(plane)).toHaveLength(mostKeyRules);
  });
});

it("a repeated undo with an Idempotency-Key gets the first answer and changes nothing more", async () => {
  const plane = new TestPlane();
  await plane.created(mode("off"));
  const idempotency = { key: "k", requestHash: "h" };
  const first = done(await undo(plane, [1], idempotency));
  expect(done(await undo(plane, [1], idempotency))).toEqual(first);
  expect(newest(plane)).toBe(2);
  expect(await undo(plane, [1], { key: "k", requestHash: "other" })).toEqual({ kind: "key-reused" });
});

it("a repeated undo of many long lists gets the first answer, although a stored row could not hold it", async () => {
  const plane = new TestPlane();
  const entries = Array.from({ length: 1_200 }, (_, number) => `entry-${number}-of-a-list`);
  const listOf = (first: string) => policyRule({ kind: "deny", entries: [first, ...entries] });
  const { id } = await plane.created(listOf("a0"));
  for (let revision = 1; revision <= 60; revision++) {
    // oxlint-disable-next-line no-await-in-loop
    done(await plane.control.replaceRule({ id, revision, input: listOf(`a${revision}`), actor }));
  }
  const seqs = Array.from({ length: 60 }, (_, index) => index + 2);
  const idempotency = { key: "k", requestHash: "h" };
  const first = done(await undo(plane, seqs, idempotency));
  expect(JSON.stringify(first).length).toBeGreaterThan(2_000_000);
  expect(done(await undo(plane, seqs, idempotency))).toEqual(first);
  expect(newest(plane)).toBe(121);
  const [row] = plane.storage.sql.exec<{ size: number }>("SELECT MAX(LENGTH(rule)) AS size FROM idempotency").toArray();
  expect(row?.size).toBeLessThan(2_000_000);
});

it("a repeated undo whose push is pending says that it is pending, and pushes again", async () => {
  const plane = new TestPlane();
  await plane.created(keyRule());
  plane.beforePush = () => Promise.reject(new Error("down"));
  const idempotency = { key: "k", requestHash: "h" };
  const error = vi.spyOn(console, "error").mockReturnValue(undefined);
  expect(await undo(plane, [1], idempotency)).toMatchObject({ kind: "done", isPending: true });
  expect(await undo(plane, [1], idempotency)).toMatchObject({ kind: "done", isPending: true });
  error.mockRestore();
  plane.beforePush = () => Promise.resolve();
  expect(await undo(plane, [1], idempotency)).not.toHaveProperty("isPending");
  expect(plane.heldIds()).toEqual([]);
  const { length } = plane.pushes;
  await undo(plane, [1], idempotency);
  expect(plane.pushes).toHaveLength(length);
});

it("the oldest entries of a full log can be undone together", async () => {
  const plane = new TestPlane();
  for (const policy of ["a", "b", "c"]) {
    // oxlint-disable-next-line no-await-in-loop
    await plane.created(policyRule({ kind: "mode", mode: "off" }, { policy }));
  }
  // Moves the entry far ahead, as if changes had the numbers in between.
  plane.storage.sql.exec("UPDATE audit SET seq = ? WHERE seq = 3", mostAuditEntries);
  done(await undo(plane, [1, 2]));
  expect(rulesOf(plane).map(({ policy }) => policy)).toEqual(["c"]);
});
