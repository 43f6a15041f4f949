/** `POST /api/keys/explain` with real objects: why a key is denied, and which rule has changed that. */
import { env } from "cloudflare:workers";
import { runInDurableObject } from "cloudflare:test";
import { describe, expect, it } from "vitest";
import { controlPlaneName } from "../../src/control/protocol.ts";
import type { Explanation } from "../../src/admin/wire.ts";
import type { ControlPlane } from "../../src/index.ts";
import { from, statusOf } from "../http/harness.ts";
import { admin, type Admin, fieldsOf, ifMatch } from "./admin.ts";

const address = "203.0.113.7";

const visit = ({ send }: Admin): Promise<number> => statusOf(send("/", from(address)));

async function explain({ call, policy }: Admin, key: object = { key: address }): Promise<Explanation> {
  const { status, body } = await call("POST", "/keys/explain", { policy, ...key });
  expect(status).toBe(200);
  return body as Explanation;
}

const decidingStep = ({ steps }: Explanation) => {
  const { step, rule } = steps.find(({ decides }) => decides) ?? { step: null, rule: null };
  return [step, rule];
};

describe("explaining a key", () => {
  it("an address is answered with the spelling of its network, and a key in that spelling without it", async () => {
    const gate = admin();
    const typed = await explain(gate, { key: "2001:db8:bad::7" });
    expect(typed.key).toBe("ip=2001:db8:bad:0::/64");
    const canonical = await explain(gate, { key: "2001:db8:bad:0::/64" });
    expect([canonical.id, canonical.key]).toEqual([typed.id, undefined]);
  });

  it("an operator sees why a key is denied, raises its limit, blocks it, and sees each effect", async () => {
    // Without the deny cache, a new rule is in effect at the very next request.
    const gate = admin({ limits: "2/hour", strategy: "sliding-log", denyCache: false });
    const statuses = [await visit(gate), await visit(gate), await visit(gate)];
    expect(statuses).toEqual([200, 200, 429]);

    const denied = await explain(gate);
    expect(denied).toMatchObject({ allowed: false, reason: "limit", isKeyKnown: true });
    expect(decidingStep(denied)).toEqual(["configured-limits", null]);
    expect(denied.limits).toMatchObject([{ used: 2, account: { kind: "log", units: 2 } }]);
    expect(denied.limits[0]?.sentence).toMatch(
      /^2 of 2 in the last hour; the oldest(?: 2)? leaves? in (?:1 h|59 min.*); the next request fits in /,
    );
    expect(denied.text[0]).toMatch(/^Denied for another (?:1 h|59 min.*): the limit .+ is exceeded\.$/);

    const rule = { policy: gate.policy, id: denied.id };
    const boost = { ...rule, kind: "limits", limits: "9/hour", strategy: "sliding-log", for: "2h" };
    const { body: boosted } = await gate.call("POST", "/rules", boost);
    const raised = await explain(gate);
    expect(raised).toMatchObject({ allowed: true, reason: "limit", id: denied.id });
    expect(decidingStep(raised)).toEqual(["key-rule-limits", boosted.id]);
    expect(raised.limits).toMatchObject([{ used: 2, capacity: 9, remaining: 7 }]);
    expect(raised.keyRules).toMatchObject([{ id: boosted.id, kind: "limits", state: "in-effect", actor: "alice" }]);
    expect(Math.abs((raised.nextChangeInMs ?? 0) - 7_200_000)).toBeLessThan(5_000);

    const block = await gate.call("POST", "/rules", { ...rule, kind: "block", note: "abuse" });
    const blocked = await explain(gate, { id: denied.id });
    expect(blocked).toMatchObject({ allowed: false, reason: "deny", isKeyKnown: false });
    expect(decidingStep(blocked)).toEqual(["key-rule-block", block.body.id]);
    expect(blocked.text[0]).toBe("Denied: a rule blocks the key (rule by alice: abuse).");
    expect(blocked.text.join("\n")).toContain("no expiry, by alice: abuse");
    expect(JSON.stringify([denied, raised, blocked])).not.toContain(address);

    await gate.call("DELETE", `/rules/${block.body.id}`, undefined, ifMatch(block));
    expect(await explain(gate)).toMatchObject({ allowed: true });
    expect(await visit(gate)).toBe(200);
  });

  it("invalid bodies and unknown names are refused", async () => {
    const { call, policy } = admin({ key: ["ip", "header:x-user"] });
    const send = (body: object) => call("POST", "/keys/explain", body);
    expect(fieldsOf(await send({ policy, key: address }))).toEqual(["key"]);
    expect(fieldsOf(await send({ policy, key: [address, "a"], cost: 2 }))).toEqual(["cost"]);
    const id = "A".repeat(43);
    expect(fieldsOf(await send({ policy, id, key: [address, "a"] }))).toEqual(["key"]);
    expect(fieldsOf(await send({ policy, id, tenant: "t" }))).toEqual(["tenant"]);
    const stated = { "header:x-user": "b" };
    expect(fieldsOf(await send({ policy, key: [address, "a"], attributes: stated }))).toEqual([
      "attributes.header:x-user",
    ]);
    expect(await send({ policy, id: "short" })).toMatchObject({ status: 404 });
    expect(await send({ policy: "unknown", id })).toMatchObject({ status: 404 });
    expect(await send({ policy, id })).toMatchObject({ status: 200, body: { id } });
  });

  it("an explanation stays fast with 10,000 rules in the control plane", async () => {
    const gate = admin();
    const { id } = await explain(gate);
    const control = env.CONTROL_PLANE.getByName(controlPlaneName);
    await runInDurableObject(control, (_: ControlPlane, { storage }) => {
      storage.transactionSync(() => {
        for (let index = 0; index < 10_000; index++) {
          const name = `bulk-${String(index).padStart(5, "0")}`;
          storage.sql.exec(
            `INSERT INTO rules (id, policy, key, kind, version, expires_at, applied_at, body)
              VALUES (?, ?, ?, 'block', 1, NULL, 1, ?)`,
            name,
            gate.policy,
            name.padEnd(43, "0"),
            JSON.stringify({
              id: name,
              policy: gate.policy,
              scope: "key",
              rule: { kind: "block" },
            }),
          );
        }
      });
    });
    const durations: number[] = [];
    for (let index = 0; index < 10; index++) {
      const startedMs = performance.now();
      // oxlint-disable-next-line no-await-in-loop
      expect(await explain(gate, { id })).toMatchObject({ keyRules: [], allowed: true });
      durations.push(performance.now() - startedMs);
    }
    await runInDurableObject(control, (_: ControlPlane, { storage }) => {
      storage.sql.exec("DELETE FROM rules WHERE policy = ?", gate.policy);
    });
    // Other processes of the machine can only make a call slower.
    expect(Math.min(...durations)).toBeLessThan(50);
  });
});
