/** The control plane object on the platform: RPC, real storage, eviction and alarm. Its decisions are tested in plain Node. */
import { evictDurableObject, runDurableObjectAlarm, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { ControlPlaneMethods } from "../../../src/control/protocol.ts";
import { startMs } from "../../fakes/isolate.ts";
import { call, charge } from "../../fakes/calls.ts";
import { ada, beat, done, keyRule, mode } from "./test-plane.ts";

// The platform fires alarms by its own clock, so an alarm in the future fires only when a test runs it.
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

/** The methods of the control plane. The RPC types drop fields of type unknown, such as limits as they were written. */
type Plane = {
  readonly [Name in keyof ControlPlaneMethods]: (
    ...parameters: Parameters<ControlPlaneMethods[Name]>
  ) => Promise<Awaited<ReturnType<ControlPlaneMethods[Name]>>>;
};

const newObject = () => env.CONTROL_PLANE.getByName(crypto.randomUUID());
const methodsOf = (object: ReturnType<typeof newObject>): Plane => object as unknown as Plane;

const newKey = (): string => crypto.randomUUID().padEnd(43, "k");
const actor = ada;
const create = (key: string) => ({ input: keyRule({ key }), actor, idempotency: null });

/** Whether a request for the key is allowed by its object. */
async function isAllowed(key: string): Promise<boolean | undefined> {
  const object = env.RATE_LIMITER.getByName(key);
  const { decisions } = await object.check(call(charge("100/hour"), key));
  return decisions[0]?.allowed;
}

describe("the control plane object", () => {
  it("a key rule is in effect at the next check, and no longer after its deletion", async () => {
    const [planeObject, key] = [newObject(), newKey()];
    const plane = methodsOf(planeObject);
    expect(await isAllowed(key)).toBe(true);
    const rule = done(await plane.createRule(create(key)));
    expect(rule.state).toBe("applied");
    expect(await isAllowed(key)).toBe(false);
    const deletion = { id: rule.id, revision: 1, actor, note: null };
    expect(await plane.deleteRule(deletion)).toEqual({ kind: "done", value: null });
    expect(await isAllowed(key)).toBe(true);
  });

  it("a Worker can call every method for rules, and an eviction changes no rule", async () => {
    const [planeObject, key] = [newObject(), newKey()];
    const plane = methodsOf(planeObject);
    const { id } = done(await plane.createRule(create(key)));
    const state = await plane.policyState("p");
    const parts = [{ kind: "mode", rule: mode("dry-run") }] as const;
    const patch = { policy: "p", parts, epoch: state.epoch, version: 0, actor, note: null };
    const { text, version } = done(await plane.changePolicy(patch));
    const input = keyRule({ key, rule: { kind: "allow" } });
    done(await plane.replaceRule({ id, revision: 1, input, actor }));
    await plane.note({ action: "reset", policy: "p", key, actor, note: null });
    await evictDurableObject(planeObject);
    expect(await plane.policyState("p")).toMatchObject({ epoch: state.epoch, version, text });
    expect(await plane.rule(id)).toMatchObject({ revision: 2, state: "applied" });
    expect((await plane.rules({ limit: 10 })).items).toHaveLength(2);
    expect((await plane.audit({ limit: 10 })).items).toHaveLength(4);
    expect(await plane.sealedKey("p", key)).toBeNull();
    const { changed, epoch } = await plane.beat(beat());
    expect([changed, epoch]).toEqual([[{ policy: "p", epoch: state.epoch, version, text }], state.epoch]);
    const undone = await plane.rollback({ toSeq: 0, actor, note: null });
    expect(undone).toMatchObject({
      kind: "done",
      value: [],
      progress: { state: "done", toSeq: 0 },
    });
    expect(undone).not.toHaveProperty("isPending");
    expect((await plane.rules({ limit: 10 })).items).toEqual([]);
  });

  it("the alarm pushes a rule that its object has not confirmed", async () => {
    const [planeObject, key] = [newObject(), newKey()];
    const plane = methodsOf(planeObject);
    await plane.createRule(create(key));
    const object = env.RATE_LIMITER.getByName(key);
    await runInDurableObject(object, (_, { storage }) => storage.deleteAll());
    await evictDurableObject(object);
    expect(await isAllowed(key)).toBe(true);
    await runInDurableObject(planeObject, (_, { storage }) => {
      storage.sql.exec("UPDATE rule_sets SET confirmed = 0");
    });
    await evictDurableObject(planeObject);
    await plane.beat(beat());
    expect(await runDurableObjectAlarm(planeObject)).toBe(true);
    expect(await isAllowed(key)).toBe(false);
  });
});
