/** Rules are created, replaced and deleted. Each change has a version and an audit entry. */
import { describe, expect, it } from "vitest";
import type { PolicyChange, RuleInput } from "../../../src/control/protocol.ts";
import { ada, done, key, keyRule, mode, policyRule, rulesIn, TestPlane } from "./test-plane.ts";

const actor = ada;
const otherKey = "o".repeat(43);
const limits = (text: string): RuleInput => policyRule({ kind: "limits", limits: text });

describe("creating rules", () => {
  it("a new key rule is pushed before its request is answered, and is shown as applied", async () => {
    const plane = new TestPlane();
    const changed = await plane.create(keyRule({ note: "abuse" }));
    expect(changed).toMatchObject({
      kind: "done",
      value: { revision: 1, note: "abuse", actor: ada.name, state: "applied" },
    });
    expect(changed).not.toHaveProperty("isPending");
    expect(plane.heldIds()).toEqual([done(changed).id]);
    expect(done(changed).appliedAtMs).toBe(plane.clock.nowMs);
  });

  it("a new policy rule is applied at once, and isolates receive it as text", async () => {
    const plane = new TestPlane();
    const rule = await plane.created(mode("dry-run"));
    expect(rule).toMatchObject({ state: "applied", appliedAtMs: plane.clock.nowMs });
    const { version, text } = plane.control.policyState("p");
    expect(version).toBe(rule.version);
    expect(rulesIn(text)).toEqual([{ id: rule.id, kind: "mode", mode: "dry-run" }]);
    expect(plane.pushes).toEqual([]);
  });

  it("the rules of a policy are listed newest first, with their expiry if they have one", async () => {
    const plane = new TestPlane();
    const expiresAtMs = plane.clock.nowMs + 1_000;
    const first = await plane.created(mode("off"));
    const second = await plane.created({ ...limits("5/minute"), expiresAtMs });
    expect(rulesIn(plane.control.policyState("p").text)).toEqual([
      { id: second.id, kind: "limits", limits: "5/minute", expiresAtMs },
      { id: first.id, kind: "mode", mode: "off" },
    ]);
  });

  it("a policy without rules has the version 0 and no rules", () => {
    const plane = new TestPlane();
    const state = plane.control.policyState("p");
    expect(state).toEqual({ epoch: plane.clock.nowMs, version: 0, text: "[]", rules: [] });
  });

  it("a key with 16 rules gets no further rule, and another key still does", async () => {
    const plane = new TestPlane();
    for (let count = 0; count < 16; count++) {
      // oxlint-disable-next-line no-await-in-loop
      await plane.created(keyRule());
    }
    expect(await plane.create(keyRule())).toEqual({ kind: "too-many", most: 16 });
    expect(await plane.create(keyRule({ key: otherKey }))).toMatchObject({ kind: "done" });
  });
});

describe("the text of a policy's rules", () => {
  const allow = (kilobytes: number): RuleInput => policyRule({ kind: "allow", entries: ["é".repeat(kilobytes * 512)] });
  const tooLarge = { kind: "too-large", mostBytes: 32_768 };

  it("a rule that would make the text of its policy's rules longer than 32 KB is refused, and changes nothing", async () => {
    const plane = new TestPlane();
    await plane.created(allow(16));
    const before = plane.control.policyState("p");
    expect(await plane.create(allow(16))).toEqual(tooLarge);
    expect(plane.control.policyState("p")).toEqual(before);
    expect(plane.control.audit({ limit: 10 }).items).toHaveLength(1);
    expect(await plane.create({ ...allow(16), policy: "q" })).toMatchObject({ kind: "done" });
    expect(await plane.create(allow(15))).toMatchObject({ kind: "done" });
  });

  it("the size limit applies to replacements too, and a change of several parts is measured after its removals", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(allow(20));
    await plane.created(mode("off"));
    const change = { id, revision: 1, actor };
    expect(await plane.control.replaceRule({ ...change, input: allow(32) })).toEqual(tooLarge);
    const { epoch, version } = plane.control.policyState("p");
    const deny = policyRule({ kind: "deny", entries: ["x".repeat(20 * 1_024)] });
    const patch = { policy: "p", epoch, version, actor, note: null };
    const added = { kind: "deny", rule: deny } as const;
    const removed = { kind: "allow", rule: null } as const;
    expect(plane.control.changePolicy({ ...patch, parts: [added] })).toEqual(tooLarge);
    expect(plane.control.changePolicy({ ...patch, parts: [added, removed] }).kind).toBe("done");
  });
});

describe("idempotency keys", () => {
  const idempotency = { key: "once", requestHash: "a" };

  it("a repeated request returns the first rule and creates no second one", async () => {
    const plane = new TestPlane();
    const first = done(await plane.create(keyRule(), idempotency));
    const second = done(await plane.create(keyRule(), idempotency));
    expect(second).toEqual(first);
    expect(plane.control.rules({ limit: 10 }).items).toHaveLength(1);
    expect(plane.control.audit({ limit: 10 }).items).toHaveLength(1);
  });

  it("a repeated request waits for the push for which the first request still waits", async () => {
    const plane = new TestPlane();
    plane.beforePush = () => Promise.reject(new Error("Network connection lost."));
    expect(await plane.create(keyRule(), idempotency)).toMatchObject({ isPending: true });
    const second = await plane.create(keyRule(), idempotency);
    expect(second).toMatchObject({ isPending: true, value: { state: "pending" } });
    plane.beforePush = () => Promise.resolve();
    const third = await plane.create(keyRule(), idempotency);
    expect(third).toMatchObject({ value: { state: "applied", revision: 1 } });
    expect(third).not.toHaveProperty("isPending");
    expect(plane.control.audit({ limit: 10 }).items).toHaveLength(1);
  });

  it("a repeated request returns the current rule, and nothing once the rule was deleted", async () => {
    const plane = new TestPlane();
    const first = done(await plane.create(keyRule(), idempotency));
    const { id, revision } = first;
    await plane.control.replaceRule({ id, revision, input: keyRule({ note: "new" }), actor });
    const again = done(await plane.create(keyRule(), idempotency));
    expect(again).toMatchObject({ id, revision: 2, note: "new", state: "applied" });
    await plane.control.deleteRule({ id, revision: 2, actor, note: null });
    expect(await plane.create(keyRule(), idempotency)).toEqual({ kind: "unknown" });
    expect(plane.control.rules({ limit: 10 }).items).toEqual([]);
  });

  it("a repeated request returns nothing once its rule has expired", async () => {
    const plane = new TestPlane();
    const input = keyRule({ expiresAtMs: plane.clock.nowMs + 1_000 });
    await plane.create(input, idempotency);
    await plane.pass(1_000);
    expect(await plane.create(input, idempotency)).toEqual({ kind: "unknown" });
  });

  it("a different request with the same idempotency key is refused", async () => {
    const plane = new TestPlane();
    await plane.create(keyRule(), idempotency);
    const other = { key: "once", requestHash: "b" };
    expect(await plane.create(keyRule(), other)).toEqual({ kind: "key-reused" });
  });

  it("two actors may use the same idempotency key", async () => {
    const plane = new TestPlane();
    const first = done(await plane.create(keyRule(), idempotency));
    const bob = { name: "bob", via: "token" } as const;
    const call = { input: keyRule(), actor: bob, idempotency: { key: "once", requestHash: "b" } };
    expect(done(await plane.control.createRule(call)).id).not.toBe(first.id);
  });

  it("an idempotency key is forgotten after 24 hours", async () => {
    const plane = new TestPlane();
    await plane.create(keyRule(), idempotency);
    await plane.pass(24 * 3_600_000);
    expect(await plane.create(keyRule(), { key: "once", requestHash: "b" })).toMatchObject({
      kind: "done",
    });
  });
});

describe("replacing and deleting rules", () => {
  it("a replaced rule keeps its id, and has a new revision and version", async () => {
    const plane = new TestPlane();
    const { id, version, startsAtMs } = await plane.created(keyRule());
    await plane.pass(5_000);
    const input = keyRule({ rule: { kind: "allow" } });
    const rule = done(await plane.control.replaceRule({ id, revision: 1, input, actor }));
    expect(rule).toMatchObject({ id, revision: 2, startsAtMs, state: "applied" });
    expect(rule.version).toBeGreaterThan(version);
    expect(plane.held()?.rules).toEqual([{ id, kind: "allow" }]);
  });

  it("a rule that is moved to another key is removed from the object of the previous key", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule());
    const input = keyRule({ key: otherKey });
    await plane.control.replaceRule({ id, revision: 1, input, actor });
    expect(plane.heldIds()).toEqual([]);
    expect(plane.heldIds("p", input.objects ?? undefined, otherKey)).toEqual([id]);
  });

  it("the second of two changes of the same revision is outdated", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule());
    const change = { id, revision: 1, actor };
    await plane.control.replaceRule({ ...change, input: keyRule({ note: "first" }) });
    const outdated = { kind: "outdated", revision: "2" };
    expect(await plane.control.replaceRule({ ...change, input: keyRule() })).toEqual(outdated);
    expect(await plane.control.deleteRule({ ...change, note: null })).toEqual(outdated);
    expect(plane.control.rule(id)?.note).toBe("first");
  });

  it("the deletion of the last rule pushes an empty set", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule());
    const deleted = await plane.control.deleteRule({ id, revision: 1, actor, note: "appeal" });
    expect(deleted).toEqual({ kind: "done", value: null });
    expect(plane.heldIds()).toEqual([]);
    expect(plane.control.rule(id)).toBeNull();
  });

  it("a change of a rule that does not exist is refused as unknown", async () => {
    const { control } = new TestPlane();
    const change = { id: "none", revision: 1, actor };
    const unknown = { kind: "unknown" };
    expect(await control.replaceRule({ ...change, input: keyRule() })).toEqual(unknown);
    expect(await control.deleteRule({ ...change, note: null })).toEqual(unknown);
    expect(await control.rollback({ toSeq: 1, actor, note: null })).toEqual(unknown);
  });
});

describe("changing a policy", () => {
  const patch = (plane: TestPlane, parts: PolicyChange["parts"]) => {
    const { epoch, version } = plane.control.policyState("p");
    return plane.control.changePolicy({ policy: "p", parts, epoch, version, actor, note: "n" });
  };
  const modePart = (each: string) => ({ kind: "mode", rule: mode(each) }) as const;
  const limitsPart = { kind: "limits", rule: limits("1/minute") } as const;

  it.each([
    ["a named part is added", [], [modePart("off")], ["mode off"]],
    ["a part of the same kind is replaced", [mode("off")], [modePart("dry-run")], ["mode dry-run"]],
    ["several rules of a kind become one", [mode("off"), mode("enforce")], [modePart("dry-run")], ["mode dry-run"]],
    [
      "a null part is removed",
      [mode("off"), limits("5/minute")],
      [{ kind: "mode" as const, rule: null }],
      ["limits 5/minute"],
    ],
    ["an absent part stays", [limits("5/minute")], [modePart("off")], ["mode off", "limits 5/minute"]],
    ["removing a part without rules changes nothing", [], [{ kind: "mode" as const, rule: null }], []],
  ])("by a change of a policy's rules, %s", async (_, before, parts, after) => {
    const plane = new TestPlane();
    for (const input of before) {
      // oxlint-disable-next-line no-await-in-loop
      await plane.created(input);
    }
    const { text } = done(patch(plane, parts));
    const shown = rulesIn(text).map((rule) =>
      rule.kind === "mode" ? `mode ${rule.mode}` : `limits ${String(Object(rule).limits)}`,
    );
    expect(shown).toEqual(after);
    expect(text).toBe(plane.control.policyState("p").text);
  });

  it("a change of two parts is one transaction with one audit entry for each rule", () => {
    const plane = new TestPlane();
    done(patch(plane, [modePart("off"), limitsPart]));
    const entries = plane.control.audit({ limit: 10 }).items;
    expect(entries.map(({ action, note }) => [action, note])).toEqual([
      ["create", "n"],
      ["create", "n"],
    ]);
    expect(plane.control.policyState("p").version).toBe(entries[0]?.seq);
  });

  it("the second of two changes of the same version is outdated and changes nothing", () => {
    const plane = new TestPlane();
    const { epoch, version } = plane.control.policyState("p");
    const call = { policy: "p", epoch, version, actor, note: null };
    const first = done(plane.control.changePolicy({ ...call, parts: [modePart("off")] }));
    const second = plane.control.changePolicy({ ...call, parts: [limitsPart] });
    expect(second).toEqual({ kind: "outdated", revision: `${epoch}-${first.version}` });
    expect(plane.control.policyState("p")).toEqual(first);
  });

  it("a change that fails midway leaves rules, versions and the audit log as they were", async () => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    const before = plane.control.policyState("p");
    plane.storage.before = (query) => {
      if (query.startsWith("INSERT INTO audit") && plane.storage.rowsWritten > 0) {
        throw new Error("storage operation failed");
      }
    };
    expect(() => patch(plane, [modePart("enforce"), limitsPart])).toThrow(/storage/);
    plane.storage.before = () => undefined;
    expect(plane.control.policyState("p")).toEqual(before);
    expect(plane.control.audit({ limit: 10 }).items).toHaveLength(1);
  });
});

describe("expiry", () => {
  it("1,200 rules that expire at once are missing in every answer, and no call waits until all are removed", async () => {
    const plane = new TestPlane();
    const expiresAtMs = plane.clock.nowMs + 10_000;
    const subject = (number: number): string => String(number).padStart(43, "k");
    const ids: string[] = [];
    for (let number = 0; number < 1_200; number++) {
      // oxlint-disable-next-line no-await-in-loop
      ids.push((await plane.created(keyRule({ key: subject(number), expiresAtMs }))).id);
    }
    const ofPolicy = await plane.created({ ...mode("off"), expiresAtMs });
    plane.clock.nowMs = expiresAtMs;
    const before = plane.storage.rowsWritten;
    const { control } = plane;
    expect(control.rules({ limit: 500 })).toEqual({ items: [], cursor: null });
    expect(plane.storage.rowsWritten - before).toBeLessThan(1_000);
    const [id = ""] = ids.slice(-1);
    expect([control.rule(id), control.rule(ofPolicy.id)]).toEqual([null, null]);
    expect(control.policyState("p").rules).toEqual([]);
    expect(control.rulesMetrics().rules).toEqual([]);
    const change = { id, revision: 1, actor, note: null };
    expect(await control.deleteRule(change)).toEqual({ kind: "unknown" });
    const replacement = { ...change, input: keyRule() };
    expect(await control.replaceRule(replacement)).toEqual({ kind: "unknown" });
    await plane.pass(1_000);
    const [row] = plane.storage.sql.exec("SELECT COUNT(*) AS rules FROM rules").toArray();
    expect(row).toEqual({ rules: 0 });
    expect(control.audit({ limit: 500 }).items.every(({ action }) => action === "expire")).toBe(true);
  });

  it("at its expiry a rule is missing in every answer, and the audit log records the expiry", async () => {
    const plane = new TestPlane();
    const expiresAtMs = plane.clock.nowMs + 10_000;
    const ofKey = await plane.created(keyRule({ expiresAtMs }));
    const ofPolicy = await plane.created({ ...mode("off"), expiresAtMs });
    await plane.clock.pass(9_999);
    expect(plane.control.rules({ limit: 10 }).items).toHaveLength(2);
    await plane.clock.pass(1);
    expect(plane.control.rules({ limit: 10 }).items).toEqual([]);
    expect(plane.control.rule(ofKey.id)).toBeNull();
    const { version, text } = plane.control.policyState("p");
    expect(text).toBe("[]");
    expect(version).toBeGreaterThan(ofPolicy.version);
    const [last] = plane.control.audit({ limit: 1 }).items;
    expect(last).toMatchObject({ action: "expire", actor: "system", via: "system", after: null });
  });

  it("the alarm removes an expired rule without any call to the object, and pushes nothing", async () => {
    const plane = new TestPlane();
    await plane.created(keyRule({ expiresAtMs: plane.clock.nowMs + 10_000 }));
    plane.pushes.splice(0);
    await plane.pass(11_000);
    const stored = plane.storage.sql.exec("SELECT id FROM rules").toArray();
    expect(stored).toEqual([]);
    expect(plane.storage.sql.exec("SELECT key FROM rule_sets").toArray()).toEqual([]);
    expect(plane.pushes).toEqual([]);
  });

  it("after 16 rules of a key have expired, a new rule can be created", async () => {
    const plane = new TestPlane();
    const expiresAtMs = plane.clock.nowMs + 10_000;
    for (let count = 0; count < 16; count++) {
      // oxlint-disable-next-line no-await-in-loop
      await plane.created(keyRule({ expiresAtMs }));
    }
    await plane.clock.pass(10_000);
    expect(await plane.create(keyRule())).toMatchObject({ kind: "done" });
  });
});

describe("sealed keys", () => {
  it("the sealed key of a partition key comes from the newest rule that has a sealed key", async () => {
    const plane = new TestPlane();
    expect(plane.control.sealedKeys("p", [key])).toEqual([null]);
    await plane.created(keyRule({ sealedKey: "older" }));
    await plane.created(keyRule({ sealedKey: "newer" }));
    await plane.created(keyRule());
    expect(plane.control.sealedKeys("p", [key])).toEqual(["newer"]);
    expect(plane.control.sealedKeys("q", [key])).toEqual([null]);
  });
});
