/** Beats: isolates receive changed policy rules, and the control plane learns of deployments. */
import { describe, expect, it } from "vitest";
import { ada, beat, done, info, keyRule, mode, policyRule, rulesIn, TestPlane } from "./test-plane.ts";

describe("the rules in a beat's reply", () => {
  it("an isolate receives the rules that it does not know, and receives them only once", async () => {
    const plane = new TestPlane();
    const { version, epoch } = await plane.created(mode("dry-run"));
    const first = plane.control.beat(beat());
    expect(first).toMatchObject({ epoch, changed: [{ policy: "p", epoch, version }] });
    const second = plane.control.beat(beat({ epoch, versions: { p: version } }));
    expect(second.changed).toEqual([]);
  });

  it("a reply has only the policies whose rules have changed", async () => {
    const plane = new TestPlane();
    const policies = [info("p"), info("q")];
    await plane.created(mode("dry-run"));
    const q = { policy: "q" };
    const { version, epoch } = await plane.created(policyRule({ kind: "mode", mode: "off" }, q));
    const { changed } = plane.control.beat(beat({ policies }));
    const versions = Object.fromEntries(changed.map((each) => [each.policy, each.version]));
    await plane.created(policyRule({ kind: "allow", entries: ["192.0.2.1"] }, q));
    const reply = plane.control.beat(beat({ policies, epoch, versions }));
    expect(reply.changed.map(({ policy }) => policy)).toEqual(["q"]);
    expect(reply.changed[0]?.version).toBeGreaterThan(version);
  });

  it("when a rule is deleted, the isolate receives a new version without the rule", async () => {
    const plane = new TestPlane();
    const { id, version, epoch } = await plane.created(mode("off"));
    await plane.control.deleteRule({ id, revision: 1, actor: ada, note: null });
    const { changed } = plane.control.beat(beat({ epoch, versions: { p: version } }));
    expect(changed).toMatchObject([{ policy: "p", text: "[]" }]);
  });

  it("an isolate receives no rules of policies that its deployment does not have", async () => {
    const plane = new TestPlane();
    await plane.created(policyRule({ kind: "mode", mode: "off" }, { policy: "renamed" }));
    expect(plane.control.beat(beat()).changed).toEqual([]);
  });

  it("key rules change no policy's version", async () => {
    const plane = new TestPlane();
    await plane.created(keyRule());
    expect(plane.control.beat(beat())).toMatchObject({ changed: [], hasRules: true });
    expect(plane.control.policyState("p").version).toBe(0);
  });

  it("the reply to a beat states whether a rule was ever made", async () => {
    const plane = new TestPlane();
    expect(plane.control.beat(beat()).hasRules).toBe(false);
    const { id } = await plane.created(mode("off"));
    await plane.control.deleteRule({ id, revision: 1, actor: ada, note: null });
    expect(plane.control.beat(beat()).hasRules).toBe(true);
  });

  it("an expired rule is missing in the next reply, which has a new version", async () => {
    const plane = new TestPlane();
    const expiresAtMs = plane.clock.nowMs + 1_000;
    const { version, epoch } = await plane.created({ ...mode("off"), expiresAtMs });
    await plane.clock.pass(1_000);
    const { changed } = plane.control.beat(beat({ epoch, versions: { p: version } }));
    expect(changed[0]).toMatchObject({ policy: "p", text: "[]" });
  });
});

describe("epochs", () => {
  it("a control plane keeps its epoch and versions when it loses its memory", async () => {
    const plane = new TestPlane();
    await plane.created(mode("off"));
    const before = plane.control.policyState("p");
    await plane.pass(60_000);
    plane.restart();
    expect(plane.control.policyState("p")).toEqual(before);
  });

  it.each([
    ["of the policy", { p: 100 }],
    ["of a policy without rules", { q: 1 }],
  ])("an isolate that knows a higher version %s gets all rules in a new epoch", async (_, versions) => {
    const plane = new TestPlane();
    const { epoch, version } = await plane.created(mode("off"));
    await plane.pass(10);
    const reply = plane.control.beat(beat({ epoch, versions }));
    expect(reply.epoch).toBeGreaterThan(epoch);
    expect(reply.changed).toMatchObject([{ policy: "p", epoch: reply.epoch, version }]);
  });

  it("an isolate of an earlier epoch gets all rules and begins no new epoch", async () => {
    const plane = new TestPlane();
    const { epoch } = await plane.created(mode("off"));
    const reply = plane.control.beat(beat({ epoch: epoch - 1, versions: { p: 99 } }));
    expect(reply.epoch).toBe(epoch);
    expect(reply.changed).toHaveLength(1);
  });

  it("a recreated control plane begins an epoch later than the one that isolates know", async () => {
    const plane = new TestPlane();
    const { epoch, version } = await plane.created(mode("off"));
    await plane.pass(1);
    const recreated = new TestPlane();
    recreated.clock.nowMs = plane.clock.nowMs;
    const reply = recreated.control.beat(beat({ epoch, versions: { p: version } }));
    expect(reply.epoch).toBeGreaterThan(epoch);
    expect(reply.changed).toEqual([]);
  });

  it("a change that was made under an earlier epoch is refused as outdated", async () => {
    const plane = new TestPlane();
    const { epoch, version } = await plane.created(mode("off"));
    plane.control.beat(beat({ epoch: epoch + 5 }));
    const parts = [{ kind: "mode", rule: null }] as const;
    const call = { policy: "p", parts, epoch, version, actor: ada, note: null };
    expect(plane.control.changePolicy(call).kind).toBe("outdated");
  });
});

describe("deployments", () => {
  it("the control plane asks once for the policies of an unknown deployment", () => {
    const plane = new TestPlane();
    const { policies, ...short } = beat();
    expect(plane.control.beat(short).wantsPolicies).toBe(true);
    expect(plane.control.beat({ ...short, policies: policies ?? [] }).wantsPolicies).toBe(false);
    expect(plane.control.beat(short).wantsPolicies).toBe(false);
    plane.restart();
    expect(plane.control.beat(short).wantsPolicies).toBe(false);
  });

  it("a rule becomes an orphan when no recent deployment has its policy", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat({ deployment: "before" }));
    const { id } = await plane.created(mode("off"));
    const renamed = beat({ deployment: "after", policies: [info("renamed")] });
    plane.control.beat(renamed);
    expect(plane.control.rule(id)?.state).toBe("applied");
    await plane.pass(600_001);
    plane.control.beat(renamed);
    expect(plane.control.rule(id)?.state).toBe("orphan");
    expect(plane.control.policyState("p").rules).toMatchObject([{ state: "orphan" }]);
  });

  it("rules are no orphans while no deployment is known or no beats come", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(mode("off"));
    expect(plane.control.rule(id)?.state).toBe("applied");
    plane.control.beat(beat());
    await plane.pass(86_400_000);
    expect(plane.control.rule(id)?.state).toBe("applied");
  });

  it("a key rule is an orphan after KEY_SECRET was rotated, and a policy rule is not", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat({ secretId: "old" }));
    const ofKey = await plane.created(keyRule({ secretId: "old" }));
    const ofPolicy = await plane.created(mode("off"));
    await plane.pass(600_001);
    plane.control.beat(beat({ secretId: "new" }));
    expect(plane.control.rule(ofKey.id)?.state).toBe("orphan");
    expect(plane.control.rule(ofPolicy.id)?.state).toBe("applied");
  });
});

describe("the cost of beats", () => {
  it("beats of a known deployment write one row in five minutes, and set no alarm", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat());
    const before = plane.storage.rowsWritten;
    for (let count = 0; count < 120; count++) {
      plane.control.beat(beat());
      // oxlint-disable-next-line no-await-in-loop
      await plane.clock.pass(5_000);
    }
    expect(plane.storage.rowsWritten - before).toBeLessThanOrEqual(2);
    expect(plane.storage.alarmAtMs).toBeNull();
  });
});

describe("the text of rules", () => {
  it("the entries and limits of rules reach isolates as they were written", async () => {
    const plane = new TestPlane();
    const rule = { kind: "overrides", overrides: [{ match: "plan-a", limits: "9/minute" }] };
    const { id } = await plane.created(policyRule(rule));
    const { changed } = plane.control.beat(beat());
    expect(rulesIn(changed[0]?.text ?? "")).toEqual([{ id, ...rule }]);
    expect(done(await plane.create(keyRule())).scope).toBe("key");
  });
});
