/** Key rules reach the objects of their keys, even if messages are lost on the way. */
import { describe, expect, it, vi } from "vitest";
import { ada, beat, done, info, key, keyRule, perKey, sharded, TestPlane } from "./test-plane.ts";
import { startMs } from "../../fakes/isolate.ts";

const actor = ada;
const never = new Promise<never>(() => undefined);
const lost = (): Promise<never> => Promise.reject(new Error("Network connection lost."));

/** Creates a rule and waits for its answer. */
async function createdLate(plane: TestPlane, ms: number) {
  const creation = plane.create(keyRule());
  await plane.pass(ms);
  return creation;
}

describe("a push that is not confirmed", () => {
  it("a rule whose object does not reply is stored, and answered as pending after a second", async () => {
    const plane = new TestPlane();
    plane.beforePush = () => never;
    let isAnswered = false;
    const creation = plane.create(keyRule()).finally(() => (isAnswered = true));
    await plane.pass(999);
    expect(isAnswered).toBe(false);
    await plane.pass(1);
    expect(await creation).toMatchObject({
      isPending: true,
      value: { appliedAtMs: null, state: "pending" },
    });
  });

  it("a rule whose push fails is at once answered as pending, and the alarm repeats the push", async () => {
    const plane = new TestPlane();
    plane.beforePush = lost;
    const created = await plane.create(keyRule());
    expect(created).toMatchObject({ isPending: true });
    plane.beforePush = () => Promise.resolve();
    await plane.pass(1_000);
    const { id } = done(created);
    expect(plane.heldIds()).toEqual([id]);
    const applied = { state: "applied", appliedAtMs: startMs + 1_000, revision: 1 };
    expect(plane.control.rule(id)).toMatchObject(applied);
  });

  it("a failed push is repeated after 1 s, then after twice the last wait up to 60 s, and logged without the key", async () => {
    const plane = new TestPlane();
    const log = vi.spyOn(console, "error").mockReturnValue(undefined);
    const pushedAtMs: number[] = [];
    plane.beforePush = () => {
      pushedAtMs.push(plane.clock.nowMs - startMs);
      return lost();
    };
    await createdLate(plane, 250_000);
    const delays = pushedAtMs.slice(1).map((atMs, index) => atMs - (pushedAtMs[index] ?? 0));
    expect(delays).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 60].map((seconds) => seconds * 1_000));
    const lines = log.mock.calls.join("\n");
    log.mockRestore();
    expect(lines).toContain('"call":"setRules","policies":["p"]');
    expect(lines).not.toContain(key);
  });

  it("a push without a reply is repeated after 5 s", async () => {
    const plane = new TestPlane();
    plane.beforePush = () => never;
    await createdLate(plane, 4_900);
    plane.beforePush = () => Promise.resolve();
    await plane.pass(2_000);
    expect(plane.control.rules({ limit: 1 }).items).toMatchObject([{ state: "applied" }]);
  });

  it("a push whose reply is lost is repeated, and has no second effect", async () => {
    const plane = new TestPlane();
    plane.afterPush = lost;
    const created = await plane.create(keyRule());
    const held = plane.held();
    expect(created).toMatchObject({ isPending: true });
    plane.afterPush = () => Promise.resolve();
    await plane.pass(1_000);
    expect(plane.held()).toEqual(held);
    expect(plane.control.rule(done(created).id)?.state).toBe("applied");
  });

  it("after a crash between storing and pushing a rule, the alarm pushes the rule", async () => {
    const plane = new TestPlane();
    plane.beforePush = () => never;
    void plane.create(keyRule());
    await plane.pass(10);
    plane.restart();
    plane.beforePush = () => Promise.resolve();
    await plane.pass(1_000);
    expect(plane.heldIds()).toHaveLength(1);
  });

  it("after a crash that also loses the alarm, the next beat pushes the rule", async () => {
    const plane = new TestPlane();
    plane.beforePush = () => never;
    void plane.create(keyRule());
    await plane.pass(10);
    plane.storage.alarmAtMs = null;
    plane.restart();
    plane.beforePush = () => Promise.resolve();
    plane.control.beat(beat());
    await plane.pass(10);
    expect(plane.heldIds()).toHaveLength(1);
  });

  it("an unconfirmed deletion is pushed until the object has removed the rule", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule());
    plane.beforePush = lost;
    const deletion = { id, revision: 1, actor, note: null };
    expect(await plane.control.deleteRule(deletion)).toMatchObject({ isPending: true });
    plane.restart();
    plane.beforePush = () => Promise.resolve();
    await plane.pass(1_000);
    expect(plane.heldIds()).toEqual([]);
    expect(plane.storage.sql.exec("SELECT key FROM rule_sets").toArray()).toEqual([]);
  });
});

describe("pushes that overtake each other", () => {
  it("a late push of older rules does not replace newer rules, and confirms only the older rules", async () => {
    const plane = new TestPlane();
    const { promise: delayed, resolve } = Promise.withResolvers<void>();
    plane.beforePush = () => delayed;
    const first = plane.create(keyRule());
    await plane.pass(10);
    plane.beforePush = () => Promise.resolve();
    const second = await plane.created(keyRule());
    const held = plane.held();
    expect(held?.rules.map(({ id }) => id)).toContain(second.id);
    resolve();
    await plane.pass(10);
    expect(plane.held()).toEqual(held);
    expect(await first).not.toHaveProperty("isPending");
    expect(held?.rules).toHaveLength(2);
  });

  it("the confirmation of older rules leaves a newer change pending", async () => {
    const plane = new TestPlane();
    const { promise: delayed, resolve } = Promise.withResolvers<void>();
    plane.beforePush = () => delayed;
    const first = plane.create(keyRule());
    await plane.pass(10);
    plane.beforePush = lost;
    const second = await plane.create(keyRule());
    resolve();
    await plane.pass(10);
    expect(plane.control.rule(done(await first).id)?.state).toBe("applied");
    expect(plane.control.rule(done(second).id)?.state).toBe("pending");
    plane.beforePush = () => Promise.resolve();
    await plane.pass(2_000);
    expect(plane.control.rule(done(second).id)?.state).toBe("applied");
  });
});

describe("expired rules that are not removed yet", () => {
  it("a key gets 16 new rules in place of 16 expired ones, and no push has more than 16 rules", async () => {
    const plane = new TestPlane();
    const expiresAtMs = plane.clock.nowMs + 60_000;
    // One call removes at most 100 expired rules.
    const keys = Array.from({ length: 300 }, (_, number) => String(number).padStart(43, "k"));
    const expiring = [...keys, ...Array.from({ length: 16 }, () => key)];
    await Promise.all(expiring.map((each) => plane.created(keyRule({ key: each, expiresAtMs }))));
    plane.clock.nowMs = expiresAtMs;
    const ids: string[] = [];
    for (let count = 0; count < 16; count++) {
      // oxlint-disable-next-line no-await-in-loop -- calls remove the expired rules one after the other
      ids.unshift((await plane.created(keyRule())).id);
    }
    expect(plane.heldIds()).toEqual(ids);
    expect(plane.pushes.every(([, , , rules]) => rules.length <= 16)).toBe(true);
    expect(await plane.create(keyRule())).toEqual({ kind: "too-many", most: 16 });
  });
});

describe("placements", () => {
  const location = (call: readonly unknown[]): unknown => Object(call[0]).name;

  it("when two deployments place the keys of a policy in different objects, both objects get the rules of a key", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat({ deployment: "a" }));
    plane.control.beat(beat({ deployment: "b", policies: [info("p", sharded)] }));
    const { id } = await plane.created(keyRule());
    expect(plane.heldIds("p", perKey)).toEqual([id]);
    expect(plane.heldIds("p", sharded)).toEqual([id]);
  });

  it("a rule is shown as applied only when the objects of both placements have confirmed it", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat({ deployment: "a" }));
    plane.control.beat(beat({ deployment: "b", policies: [info("p", sharded)] }));
    plane.beforePush = ({ name }) => (name === key ? Promise.resolve() : lost());
    expect(await plane.create(keyRule())).toMatchObject({ isPending: true });
    plane.beforePush = () => Promise.resolve();
    await plane.pass(1_000);
    expect(plane.control.rules({ limit: 1 }).items).toMatchObject([{ state: "applied" }]);
  });

  it("the objects of a deployment that ended 10 minutes ago get no rules", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat({ deployment: "a" }));
    await plane.pass(600_001);
    plane.control.beat(beat({ deployment: "b", policies: [info("p", sharded)] }));
    await plane.created(keyRule({ objects: sharded }));
    expect(plane.heldIds("p", perKey)).toBeNull();
  });

  it("a rule is pushed to the placement that its isolate uses, even before that isolate has sent a beat", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat({ deployment: "a" }));
    const { id } = await plane.created(keyRule({ objects: sharded }));
    expect(plane.heldIds("p", sharded)).toEqual([id]);
  });

  it("when a deployment moves a policy to other objects, all of its rules are pushed to them", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat({ deployment: "a" }));
    const { id } = await plane.created(keyRule());
    plane.control.beat(beat({ deployment: "b", policies: [info("p", sharded)] }));
    await plane.pass(10);
    expect(plane.heldIds("p", sharded)).toEqual([id]);
  });

  it("a rule that is deleted after its policy has moved is also removed from the earlier objects, which a roll-back may use again", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat({ deployment: "a" }));
    const { id } = await plane.created(keyRule());
    plane.control.beat(beat({ deployment: "b", policies: [info("p", sharded)] }));
    await plane.pass(700_000);
    plane.control.beat(beat({ deployment: "b" }));
    const input = keyRule({ objects: sharded });
    await plane.control.replaceRule({ id, revision: 1, input, actor });
    await plane.pass(700_000);
    await plane.control.deleteRule({ id, revision: 2, actor, note: null });
    expect([plane.heldIds("p", perKey), plane.heldIds("p", sharded)]).toEqual([[], []]);
    expect(plane.storage.sql.exec("SELECT key FROM rule_sets").toArray()).toEqual([]);
  });

  it("all rules are pushed again when a deployment begins, and one and ten minutes later", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat({ deployment: "a" }));
    await plane.created(keyRule());
    plane.pushes.splice(0);
    const beganAtMs = plane.clock.nowMs;
    const pushedAtMs: number[] = [];
    plane.beforePush = async () => void pushedAtMs.push(plane.clock.nowMs - beganAtMs);
    for (let minute = 0; minute < 30; minute++) {
      plane.control.beat(beat({ deployment: "a" }));
      plane.control.beat(beat({ deployment: "b" }));
      // oxlint-disable-next-line no-await-in-loop
      await plane.pass(60_000);
    }
    expect(pushedAtMs.map((ms) => Math.round(ms / 1_000))).toEqual([0, 60, 600]);
    expect(plane.pushes.map(location)).toEqual([key, key, key]);
  });

  it("rules that a deployment with older code has dropped are restored when that deployment ends", async () => {
    const plane = new TestPlane();
    const bothBeat = () => {
      plane.control.beat(beat({ deployment: "old" }));
      plane.control.beat(beat({ deployment: "new" }));
    };
    bothBeat();
    const { id } = await plane.created(keyRule());
    for (let minute = 0; minute < 20; minute++) {
      bothBeat();
      // oxlint-disable-next-line no-await-in-loop
      await plane.pass(60_000);
    }
    plane.objects.clear();
    for (let minute = 0; minute < 12; minute++) {
      plane.control.beat(beat({ deployment: "new" }));
      // oxlint-disable-next-line no-await-in-loop
      await plane.pass(60_000);
    }
    expect(plane.heldIds()).toEqual([id]);
  });

  it("a large number of rules is pushed again in steps, and continues after a restart", async () => {
    const plane = new TestPlane();
    plane.control.beat(beat({ deployment: "a" }));
    const keys = Array.from({ length: 450 }, (_, number) => String(number).padStart(43, "k"));
    await Promise.all(keys.map((each) => plane.created(keyRule({ key: each }))));
    plane.objects.clear();
    plane.control.beat(beat({ deployment: "b" }));
    await plane.pass(500);
    expect(plane.objects.size).toBe(200);
    plane.restart();
    await plane.pass(2_000);
    expect(plane.objects.size).toBe(450);
  });
});

describe("a restored or recreated control plane", () => {
  it("when an object has newer rules, the control plane begins a new epoch and pushes all rules", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule());
    const bookmark = plane.storage.copy();
    const { epoch } = plane.control.policyState("p");
    await plane.control.deleteRule({ id, revision: 1, actor, note: null });
    await plane.pass(5);
    plane.restart(bookmark);
    plane.control.beat(beat());
    plane.control.beat(beat({ deployment: "e" }));
    await plane.pass(2_000);
    expect(plane.control.policyState("p").epoch).toBeGreaterThan(epoch);
    expect(plane.heldIds()).toEqual([id]);
    expect(plane.held()?.version.epoch).toBe(plane.control.policyState("p").epoch);
  });

  it("when an isolate has a later epoch, the control plane begins an epoch above it", async () => {
    const plane = new TestPlane();
    const { id } = await plane.created(keyRule());
    const epoch = plane.clock.nowMs + 1_000_000;
    const reply = plane.control.beat(beat({ epoch }));
    expect(reply.epoch).toBe(epoch + 1);
    await plane.pass(2_000);
    expect(plane.held()).toMatchObject({ version: { epoch: epoch + 1 }, rules: [{ id }] });
    plane.restart();
    expect(plane.control.policyState("p").epoch).toBe(epoch + 1);
  });
});
