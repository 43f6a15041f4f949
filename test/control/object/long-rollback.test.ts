/**
 * A rollback of many rules runs in parts: it completes even after crashes, and other calls are answered between the
 * parts.
 */
import { describe, expect, it } from "vitest";
import type { AuditEntry } from "../../../src/control/protocol.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { ada, done, keyRule, mode, TestPlane } from "./test-plane.ts";

const actor = ada;
const bob = { name: "bob", via: "token" } as const;
const note = "undo";
const rules = 300;

const keyOf = (number: number): string => String(number).padStart(43, "k");

/** A control plane with key rules, which a rollback to `seq` removes, and a mode rule, which it restores. */
async function planeWithRules(): Promise<{ plane: TestPlane; seq: number; ids: string[] }> {
  const plane = new TestPlane();
  const { id } = await plane.created(mode("dry-run"));
  const seq = 1;
  const ids: string[] = [];
  for (let number = 0; number < rules; number++) {
    // oxlint-disable-next-line no-await-in-loop
    ids.push((await plane.created(keyRule({ key: keyOf(number) }))).id);
  }
  await plane.control.replaceRule({ id, revision: 1, input: mode("off"), actor });
  return { plane, seq, ids };
}

const liveRules = (plane: TestPlane): number =>
  [...allEntries(plane)].reduce(
    (count, { before, after }) => count + (after === null ? 0 : 1) - (before === null ? 0 : 1),
    0,
  );

function* allEntries({ control }: TestPlane): Generator<AuditEntry> {
  let cursor: string | null = "";
  while (cursor !== null) {
    const page = control.audit({ limit: 500, ...(cursor !== "" && { cursor }) });
    yield* page.items;
    ({ cursor } = page);
  }
}

const modeOf = ({ control }: TestPlane): unknown => control.policyState("p").rules[0]?.rule;

const stateOf = (plane: TestPlane) => plane.control.rollbackProgress()?.state;

/** Crashes the object. As on the platform, an alarm whose handler has not returned is due again. */
function crash(plane: TestPlane): void {
  const storage = plane.storage.copy();
  storage.alarmAtMs ??= plane.clock.nowMs;
  plane.restart(storage);
}

describe("a long rollback", () => {
  it("a long rollback changes all policy rules and a few key rules at once, and the alarm changes the remaining key rules", async () => {
    const { plane, seq } = await planeWithRules();
    const answer = plane.control.rollback({ toSeq: seq, actor, note });
    expect(modeOf(plane)).toEqual({ kind: "mode", mode: "dry-run" });
    const begun = liveRules(plane);
    expect(begun).toBeGreaterThan(rules - 100);
    expect(plane.control.rollbackProgress()).toMatchObject({ state: "running", toSeq: seq, actor });
    await plane.pass(60_000);
    expect(done(await answer).length).toBeLessThanOrEqual(100);
    expect(plane.control.rollbackProgress()).toMatchObject({
      state: "done",
      total: rules + 1,
      examined: rules + 1,
      changed: rules + 1,
    });
    expect(liveRules(plane)).toBe(1);
    expect(plane.control.rules({ limit: 10 }).items).toHaveLength(1);
    const own = [...allEntries(plane)].filter(({ action }) => action === "rollback");
    expect(own).toHaveLength(rules + 1);
    expect(own.every((entry) => entry.note === note && entry.actor === ada.name)).toBe(true);
    expect(plane.heldIds("p", undefined, keyOf(rules - 1))).toEqual([]);
  });

  it("after a crash in any part of a rollback, the alarm completes it, with one audit entry for each rule", async () => {
    let interrupted = 0;
    for (let afterMs = 0; afterMs < 25; afterMs += 5) {
      // oxlint-disable no-await-in-loop -- one plane after the other
      const { plane, seq } = await planeWithRules();
      void plane.control.rollback({ toSeq: seq, actor, note });
      await plane.pass(afterMs);
      if (stateOf(plane) === "running") interrupted++;
      crash(plane);
      await plane.pass(60_000);
      // oxlint-enable no-await-in-loop
      expect(liveRules(plane)).toBe(1);
      const own = [...allEntries(plane)].filter(({ action }) => action === "rollback");
      expect(own).toHaveLength(rules + 1);
      expect(plane.control.rollbackProgress()).toMatchObject({ state: "done", changed: rules + 1 });
    }
    expect(interrupted).toBeGreaterThanOrEqual(3);
  });

  it.each(["without", "with"])(
    "a change that an operator makes during a rollback stays, %s a crash after it",
    async (crashing) => {
      const { plane, seq, ids } = await planeWithRules();
      const [id = ""] = ids.slice(-1);
      void plane.control.rollback({ toSeq: seq, actor, note });
      const input = keyRule({ key: keyOf(rules - 1), rule: { kind: "allow" }, note: "bob" });
      await plane.control.replaceRule({ id, revision: 1, input, actor: bob });
      const other = plane.created(keyRule({ key: keyOf(rules), note: "new" }));
      if (crashing === "with") crash(plane);
      await plane.pass(60_000);
      const { items } = plane.control.rules({ limit: 10 });
      const notes = items.map((rule) => rule.note).filter((each) => each !== null);
      expect(notes.toSorted()).toEqual(["bob", "new"]);
      expect((await other).note).toBe("new");
      expect(stateOf(plane)).toBe("done");
    },
  );

  it("a new rollback replaces the one that is running, and can undo its changes", async () => {
    const { plane, seq } = await planeWithRules();
    const before = plane.control.audit({ limit: 1 }).items[0]?.seq ?? 0;
    void plane.control.rollback({ toSeq: seq, actor, note });
    void plane.control.rollback({ toSeq: before, actor: bob, note: "stop" });
    await plane.pass(60_000);
    expect(plane.control.rollbackProgress()).toMatchObject({ state: "done", toSeq: before });
    expect(liveRules(plane)).toBe(rules + 1);
    expect(modeOf(plane)).toEqual({ kind: "mode", mode: "off" });
  });

  it("two concurrent rollbacks get separate answers: the first is refused because the second replaced it", async () => {
    const { plane, seq } = await planeWithRules();
    const before = plane.control.audit({ limit: 1 }).items[0]?.seq ?? 0;
    const first = plane.control.rollback({ toSeq: seq, actor, note });
    const second = plane.control.rollback({ toSeq: before, actor: bob, note: "stop" });
    await plane.pass(60_000);
    expect(await first).toEqual({ kind: "replaced" });
    expect(await second).toMatchObject({
      kind: "done",
      progress: { toSeq: before, actor: bob, note: "stop" },
    });
    expect(done(await second)[0]).toMatchObject({ rule: { kind: "mode", mode: "off" } });
  });

  it("a completed rollback is answered with its own rules, even if another rollback has begun since", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(mode("dry-run"));
    await plane.control.replaceRule({ id, revision: 1, input: mode("off"), actor });
    const first = plane.control.rollback({ toSeq: 1, actor, note });
    const second = plane.control.rollback({ toSeq: 0, actor: bob, note: "all" });
    await plane.pass(1_000);
    expect(await first).toMatchObject({
      kind: "done",
      value: [{ id, rule: { kind: "mode", mode: "dry-run" } }],
      progress: { state: "done", toSeq: 1, actor, changed: 1 },
    });
    expect(await second).toMatchObject({
      kind: "done",
      value: [],
      progress: { toSeq: 0, changed: 1 },
    });
  });

  it("a rollback request that is repeated while the rollback runs, for example after a lost answer, changes each rule once", async () => {
    const { plane, seq } = await planeWithRules();
    void plane.control.rollback({ toSeq: seq, actor, note });
    await plane.pass(20);
    void plane.control.rollback({ toSeq: seq, actor, note });
    await plane.pass(60_000);
    const own = [...allEntries(plane)].filter(({ action }) => action === "rollback");
    expect(own).toHaveLength(rules + 1);
  });

  it("the alarm repeats a part of a rollback after the part has failed", async () => {
    const { plane, seq } = await planeWithRules();
    let failures = 0;
    const answer = plane.control.rollback({ toSeq: seq, actor, note }).catch(() => "failed");
    plane.storage.before = (query) => {
      if (!query.startsWith("DELETE FROM rules ") || failures === 3) return;
      failures++;
      throw new Error("disk full");
    };
    await plane.pass(600_000);
    expect([failures, await answer]).toEqual([3, "failed"]);
    expect(liveRules(plane)).toBe(1);
  });
});

describe("the audit log during a rollback", () => {
  it("a full audit log keeps all entries until a rollback has read them, and at most 100,000 afterwards", async () => {
    const { plane, seq } = await planeWithRules();
    // Fills the log as if another rule had been changed many times before.
    const storage: MemorySql = plane.storage;
    const shift = 100_000 - rules - 2;
    storage.sql.exec("UPDATE audit SET seq = -seq - ?", shift);
    storage.sql.exec("UPDATE audit SET seq = -seq");
    storage.sql.exec(
      `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
        INSERT INTO audit (seq, at, rule, body) SELECT i, 0, NULL, '{}' FROM n`,
      shift,
    );
    plane.restart();
    void plane.control.rollback({ toSeq: seq + shift, actor, note });
    await plane.pass(60_000);
    expect(stateOf(plane)).toBe("done");
    expect(plane.control.rules({ limit: 10 }).items).toHaveLength(1);
    const [row] = storage.sql.exec<{ n: number }>("SELECT COUNT(*) AS n FROM audit").toArray();
    expect(row?.n).toBe(100_000);
  });
});
