/** The audit log and rollback: the history is complete and never rewritten. */
import { describe, expect, it } from "vitest";
import { AuditLog, mostAuditEntries, mostReveals } from "../../../src/control/object/audit-log.ts";
import { Meta } from "../../../src/control/object/storage.ts";
import type { AuditEntry, NotedAction, RuleInput } from "../../../src/control/protocol.ts";
import { ada, done, key, keyRule, mode, policyRule, TestPlane } from "./test-plane.ts";
import { MemorySql } from "../../fakes/memory-sql.ts";
import { isFull } from "../../mode.ts";

const actor = ada;
const yearMs = 365 * 86_400_000;
const dayMs = 86_400_000;

/** The content of all rules, the newest first. */
const rulesOf = (plane: TestPlane): unknown[] =>
  plane.control.rules({ limit: 100 }).items.map(({ id, rule, note }) => ({ id, rule, note }));

const lastSeq = (plane: TestPlane): number => plane.control.audit({ limit: 1 }).items[0]?.seq ?? 0;

const rollback = async (plane: TestPlane, toSeq: number) =>
  done(await plane.control.rollback({ toSeq, actor, note: "undo" }));

describe("the audit log", () => {
  it("each change has an audit entry with the rule before and after it, newest first", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule({ note: "a" }));
    const input = keyRule({ note: "b" });
    await plane.control.replaceRule({ id, revision: 1, input, actor });
    await plane.control.deleteRule({ id, revision: 2, actor, note: "c" });
    const { items } = plane.control.audit({ limit: 10 });
    const shown = items.map(({ action, before, after, note, rule, policy, key: of }) => [
      [action, before?.note, after?.note, note],
      [rule, policy, of],
    ]);
    const subject = [id, "p", key];
    expect(shown).toEqual([
      [["delete", "b", undefined, "c"], subject],
      [["replace", "a", "b", "b"], subject],
      [["create", undefined, "a", "a"], subject],
    ]);
    expect(items[0]).toMatchObject({ actor: ada.name, via: "access", atMs: plane.clock.nowMs });
  });

  it("a reset and a reveal are audit entries without a rule", () => {
    const plane = new TestPlane();
    plane.control.note({ action: "reset", policy: "p", key, actor, note: "refunded" });
    expect(plane.control.audit({ limit: 10 }).items).toMatchObject([
      {
        action: "reset",
        policy: "p",
        key,
        rule: null,
        before: null,
        after: null,
        note: "refunded",
      },
    ]);
  });

  it("audit entries older than a year are removed, and their numbers are not used again", async () => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    await plane.created(mode("off"));
    plane.clock.nowMs += yearMs + dayMs;
    await plane.pass(dayMs);
    expect(plane.control.audit({ limit: 10 }).items.map(({ seq }) => seq)).toEqual([2]);
    await plane.created(mode("off"));
    expect(lastSeq(plane)).toBe(3);
  });

  it("the audit log keeps the latest 100,000 entries", () => {
    const storage = new MemorySql();
    expect(new Meta(storage, 0).epoch).toBe(0);
    const audit = new AuditLog(storage.sql);
    const subject = { policy: "p", rule: null, before: null, after: null, note: null };
    const who = { actor: "a", via: "token", action: "reset" } as const;
    const entry: AuditEntry = { seq: 1, atMs: 0, ...who, ...subject };
    audit.append(entry);
    audit.append({ ...entry, seq: 2 });
    audit.append({ ...entry, seq: mostAuditEntries + 1 });
    expect(audit.page(undefined, 10).items.map(({ seq }) => seq)).toEqual([mostAuditEntries + 1, 2]);
  });
});

const reveal = (subject: string, by = actor): NotedAction => ({
  action: "reveal",
  policy: "p",
  key: subject,
  actor: by,
  note: null,
});

const keyOf = (number: number): string => String(number).padStart(43, "k");

describe("reveals", () => {
  it("a reveal adds an entry, and further reveals of that key by the same operator within an hour add none", async () => {
    const plane = new TestPlane();
    const reveals = (): unknown[] =>
      plane.control
        .audit({ limit: 10 })
        .items.filter(({ action }) => action === "reveal")
        .map(({ key: of, actor: by, atMs }) => [of, by, atMs]);
    const startMs = plane.clock.nowMs;
    plane.control.noteAll([reveal(key), reveal(key), reveal(keyOf(1))]);
    plane.control.note(reveal(key));
    const bob = { name: "bob", via: "token" } as const;
    plane.control.note(reveal(key, bob));
    expect(reveals()).toEqual([
      [key, "bob", startMs],
      [keyOf(1), ada.name, startMs],
      [key, ada.name, startMs],
    ]);
    plane.clock.nowMs += 3_600_000;
    plane.control.note(reveal(key));
    expect(reveals()[0]).toEqual([key, ada.name, startMs + 3_600_000]);
    expect(reveals()).toHaveLength(4);
  });

  it("reading hundreds of lists of 200 revealed keys removes no change, and no reveal of another key, from the log", async () => {
    const plane = new TestPlane();
    await plane.created(keyRule({ note: "malicious" }));
    plane.control.note(reveal(key));
    const list = Array.from({ length: 200 }, (_, number) => reveal(keyOf(number)));
    const lists = isFull ? 501 : 30;
    for (let count = 0; count < lists; count++) plane.control.noteAll(list);
    expect(lastSeq(plane)).toBe(202);
    const { items } = plane.control.audit({ limit: 500 });
    expect(items).toHaveLength(202);
    expect(items.slice(-2)).toMatchObject([
      { action: "reveal", key },
      { action: "create", note: "malicious" },
    ]);
  });

  it.runIf(isFull)("a year of reveals of different keys removes the oldest reveals, and no change", async () => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    for (let count = 0; count < 1_010; count++) {
      plane.control.noteAll(Array.from({ length: 100 }, (_, number) => reveal(keyOf(count * 100 + number))));
    }
    await plane.created(mode("off"));
    const { sql } = plane.storage;
    const rows = (table: string): unknown =>
      sql.exec(`SELECT COUNT(*) AS rows, MAX(seq) AS last FROM ${table}`).toArray()[0];
    expect([rows("reveals"), rows("audit")]).toEqual([
      { rows: mostReveals, last: 101_001 },
      { rows: 2, last: 101_002 },
    ]);
    expect(await rollback(plane, 0)).toEqual([]);
    expect(rulesOf(plane)).toEqual([]);
  });

  it("the log keeps the latest 100,000 changes, however many reveals are between them", async () => {
    const storage = new MemorySql();
    expect(new Meta(storage, 0).epoch).toBe(0);
    const audit = new AuditLog(storage.sql);
    const subject = { policy: "p", rule: null, before: null, after: null, note: null };
    const entry = { atMs: 0, actor: "a", via: "token", ...subject } as const;
    const numbers = (): number[] => audit.page(undefined, 10).items.map(({ seq }) => seq);
    audit.append({ ...entry, seq: 1, action: "reset" });
    audit.addReveal({ ...entry, key: "k1", action: "reveal" });
    audit.addReveal({ ...entry, key: "k2", action: "reveal" });
    audit.append({ ...entry, seq: 4, action: "reset" });
    // The entries up to number 100,002 are 100,000 changes, because two of the numbers are reveals.
    audit.append({ ...entry, seq: mostAuditEntries + 2, action: "reset" });
    expect(numbers()).toEqual([mostAuditEntries + 2, 4, 3, 2, 1]);
    expect(audit.reaches(0)).toBe(true);
    audit.append({ ...entry, seq: mostAuditEntries + 3, action: "reset" });
    expect(numbers()).not.toContain(1);
    expect([audit.reaches(0), audit.reaches(1)]).toEqual([false, true]);
    audit.append({ ...entry, seq: mostAuditEntries + 4, action: "reset" });
    expect(numbers()).not.toContain(4);
    expect([audit.reaches(3), audit.reaches(4)]).toEqual([false, true]);
  });

  it("a rollback to before the first entry is possible even if the entry with the first number is a reveal", async () => {
    const plane = new TestPlane();
    plane.control.note(reveal(key));
    await plane.created(mode("off"));
    plane.restart();
    expect(await rollback(plane, 0)).toEqual([]);
    expect(rulesOf(plane)).toEqual([]);
  });

  it("reveals older than a year are removed", async () => {
    const plane = new TestPlane();
    plane.control.noteAll([reveal(key), reveal(keyOf(1))]);
    await plane.created(mode("off"));
    plane.clock.nowMs += yearMs + dayMs;
    await plane.pass(dayMs);
    const { items } = plane.control.audit({ limit: 10 });
    expect(items.map(({ seq }) => seq)).toEqual([3, 2]);
  });
});

describe("pages", () => {
  const createdMany = async (plane: TestPlane, count: number): Promise<string[]> => {
    const ids: string[] = [];
    for (let number = 0; number < count; number++) {
      const each = String(number).padStart(43, "k");
      // oxlint-disable-next-line no-await-in-loop
      ids.unshift((await plane.created(keyRule({ key: each }))).id);
    }
    return ids;
  };

  it("each rule is on exactly one page, although rules are created and deleted between the pages", async () => {
    const plane = new TestPlane();
    const ids = await createdMany(plane, 10);
    const seen: string[] = [];
    let cursor: string | null = "";
    while (cursor !== null) {
      const page = plane.control.rules({ limit: 3, ...(cursor !== "" && { cursor }) });
      seen.push(...page.items.map(({ id }) => id));
      ({ cursor } = page);
      // oxlint-disable-next-line no-await-in-loop
      await plane.created(mode("off"));
      const revision = 1;
      const last = page.items.at(-1)?.id ?? "";
      // oxlint-disable-next-line no-await-in-loop
      await plane.control.deleteRule({ id: last, revision, actor, note: null });
    }
    expect(seen).toEqual(ids);
  });

  it.each([
    ["policy", { policy: "q" }, ["q mode"]],
    ["kind", { kind: "mode" as const }, ["q mode", "p mode"]],
    ["key", { key }, ["p block"]],
    ["policy and kind", { policy: "p", kind: "mode" as const }, ["p mode"]],
    ["none", {}, ["q mode", "p block", "p mode"]],
  ])("rules are filtered by %s", async (_, filter, expected) => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    await plane.created(keyRule());
    await plane.created(policyRule({ kind: "mode", mode: "off" }, { policy: "q" }));
    const { items, cursor } = plane.control.rules({ ...filter, limit: 10 });
    expect(items.map(({ policy, rule }) => `${policy} ${rule.kind}`)).toEqual(expected);
    expect(cursor).toBeNull();
  });

  it("a page of the audit log continues after the previous page, although entries are added", async () => {
    const plane = new TestPlane();
    await createdMany(plane, 5);
    const first = plane.control.audit({ limit: 2 });
    await plane.created(mode("off"));
    const second = plane.control.audit({ limit: 10, cursor: first.cursor ?? "" });
    expect([...first.items, ...second.items].map(({ seq }) => seq)).toEqual([5, 4, 3, 2, 1]);
    expect(second.cursor).toBeNull();
  });

  it("a page of the audit log after an invalid cursor is empty", async () => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    expect(plane.control.audit({ limit: 1, cursor: "x" })).toEqual({ items: [], cursor: null });
  });
});

describe("rollback", () => {
  it("a rollback undoes creations, replacements and deletions by making new versions", async () => {
    const plane = new TestPlane();
    const kept = await plane.created(keyRule({ note: "kept" }));
    const changed = await plane.created(mode("off"));
    const deleted = await plane.created(keyRule({ rule: { kind: "allow" } }));
    const [before, seq] = [rulesOf(plane), lastSeq(plane)];
    const input = mode("dry-run");
    await plane.control.replaceRule({ id: changed.id, revision: 1, input, actor });
    await plane.control.deleteRule({ id: deleted.id, revision: 1, actor, note: null });
    await plane.created(keyRule({ note: "new" }));
    const restored = await rollback(plane, seq);
    expect(rulesOf(plane)).toEqual(before);
    expect(restored.map(({ id, revision }) => [id, revision])).toEqual([
      [changed.id, 3],
      [deleted.id, 2],
    ]);
    expect(restored.every(({ version }) => version > seq)).toBe(true);
    expect(plane.heldIds()).toEqual([deleted.id, kept.id]);
  });

  it("a rollback adds audit entries and leaves existing ones unchanged", async () => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    const before = plane.control.audit({ limit: 10 }).items;
    await rollback(plane, 0);
    const [added, ...others] = plane.control.audit({ limit: 10 }).items;
    expect(others).toEqual(before);
    expect(added).toMatchObject({ action: "rollback", note: "undo", after: null });
  });

  it("all audit entries of a rollback name the same rollback, and those of another one name another", async () => {
    const plane = new TestPlane();
    const first = await plane.created(mode("off"));
    await plane.created(keyRule());
    await plane.control.deleteRule({ id: first.id, revision: 1, actor, note: null });
    await rollback(plane, 1);
    await rollback(plane, 3);
    const named = plane.control.audit({ limit: 10 }).items.map(({ seq, rollback: ends }) => [seq, ends]);
    expect(named).toEqual([
      [7, { toSeq: 3, untilSeq: 5 }],
      [6, { toSeq: 3, untilSeq: 5 }],
      [5, { toSeq: 1, untilSeq: 3 }],
      [4, { toSeq: 1, untilSeq: 3 }],
      [3, undefined],
      [2, undefined],
      [1, undefined],
    ]);
  });

  it("a rollback can be undone by another rollback", async () => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    await plane.created(keyRule());
    const [before, seq] = [rulesOf(plane), lastSeq(plane)];
    await rollback(plane, 0);
    expect(rulesOf(plane)).toEqual([]);
    expect(plane.heldIds()).toEqual([]);
    await rollback(plane, seq);
    expect(rulesOf(plane)).toEqual(before);
  });

  it("a rollback to the last entry changes nothing", async () => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    expect(await rollback(plane, lastSeq(plane))).toEqual([]);
    expect(plane.control.audit({ limit: 10 }).items).toHaveLength(1);
  });

  it("a rollback does not restore a rule that has expired since", async () => {
    const plane = new TestPlane();
    const expiresAtMs = plane.clock.nowMs + 10_000;
    await plane.created(keyRule({ expiresAtMs }));
    const seq = lastSeq(plane);
    await plane.pass(10_000);
    expect(await rollback(plane, seq)).toEqual([]);
    expect(plane.heldIds()).toHaveLength(1);
    expect(rulesOf(plane)).toEqual([]);
  });

  it("a rollback returns a rule that was moved to another key to its original key", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule());
    const other = "o".repeat(43);
    const input: RuleInput = keyRule({ key: other });
    await plane.control.replaceRule({ id, revision: 1, input, actor });
    await rollback(plane, 1);
    expect(plane.heldIds()).toEqual([id]);
    expect(plane.heldIds("p", undefined, other)).toEqual([]);
  });

  it.each([5, -1, 1.5, Number.NaN])("a rollback to the entry %d, which does not exist, is unknown", async (toSeq) => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    const changed = await plane.control.rollback({ toSeq, actor, note: null });
    expect(changed).toEqual({ kind: "unknown" });
  });

  it("a rollback to before the oldest stored audit entry is unknown", async () => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    await plane.created(mode("off"));
    plane.clock.nowMs += yearMs + dayMs;
    await plane.pass(dayMs);
    const changed = await plane.control.rollback({ toSeq: 0, actor, note: null });
    expect(changed).toEqual({ kind: "unknown" });
  });
});
