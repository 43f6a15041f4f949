/** Explanations when only the id is known, when an object or the control plane is silent, and with stored rules. */
import { describe, expect, it, vi } from "vitest";
import type { PolicyRule } from "../../src/policy/runtime-rules.ts";
import type { PolicyState, Rule } from "../../src/control/protocol.ts";
import type { Explanation, StepName } from "../../src/admin/wire.ts";
import { startMs } from "../fakes/isolate.ts";
import { callerAddress, decidingStep, ExplainedPolicy, idOf, outcomeOf } from "./explained-policy.ts";

describe("an explanation that knows only a part", () => {
  it("the explanation of an unknown policy is refused", async () => {
    const login = new ExplainedPolicy();
    expect(await login.answer({ policy: "logn" })).toEqual({ kind: "unknown-policy" });
  });

  it("an explanation by the id of a key knows the key's own rules, but not whether list entries match", async () => {
    const login = new ExplainedPolicy({
      deny: ["192.0.2.1"],
      overrides: [{ key: "192.0.2.2", limits: "1/minute" }],
    });
    await login.setKeyRules({ id: "kb", kind: "block" });
    const explained = await login.explain({ id: await idOf(callerAddress) });
    expect(explained.isKeyKnown).toBe(false);
    expect(decidingStep(explained)).toEqual(["key-rule-block"]);
    const notKnown = explained.steps.filter(({ matches }) => matches === null);
    expect(notKnown.map(({ step }) => step)).toEqual(["configured-deny", "configured-overrides"]);
    expect(explained.text.at(-1)).toMatch(/^ {2}Only the id of the key is given, so entries/);
  });

  it.each([
    ["local", true],
    ["open", true],
    ["closed", false],
  ])("when the key's object does not answer, onError = %s decides as for a request", async (onError, allowed) => {
    const login = new ExplainedPolicy({ onError });
    login.isolate.before = () => Promise.reject(new Error("unreachable"));
    const explained = await login.explain();
    expect(explained).toMatchObject({ allowed, reason: "object-silent" });
    expect(explained.hasObjectAnswered).toBe(false);
    expect(explained.steps.find(({ step }) => step === "ban")?.matches).toBeNull();
    expect(explained.text[0]).toBe(
      `${allowed ? "Allowed" : "Denied"} by onError = "${onError}": the key's object does not answer.`,
    );
  });

  it("when an object does not support explain, the explanation looks at the key instead", async () => {
    const login = new ExplainedPolicy();
    await login.spend(5);
    login.isolate.before = ({ name }) =>
      name === "explain" ? Promise.reject(new TypeError("no method explain")) : Promise.resolve();
    login.isolate.callNames();
    const explained = await login.explain();
    expect(explained).toMatchObject({ allowed: false, hasObjectAnswered: false });
    expect(explained.limits).toMatchObject([{ used: null, sentence: null, remaining: 0 }]);
    expect(login.isolate.callNames()).toEqual(["explain", "look"]);
  });

  it("an explanation mentions that isolates may have spends that they have not yet reported", async () => {
    const { text } = await new ExplainedPolicy({ consistency: "eventual" }).explain();
    expect(text.at(-1)).toMatch(/^ {2}With consistency = eventual, isolates may have spends/);
  });

  it("an explanation in which a step of the isolate decides needs no object", async () => {
    const login = new ExplainedPolicy({ deny: [callerAddress], onError: "open" });
    login.isolate.before = () => Promise.reject(new Error("unreachable"));
    const explained = await login.explain();
    expect(outcomeOf(explained)).toEqual([false, "deny", null]);
    expect(decidingStep(explained)).toEqual(["configured-deny"]);
  });

  it("an explanation does not contain the key that was sent to it", async () => {
    const login = new ExplainedPolicy({ deny: [callerAddress] }, [
      { id: "d", kind: "deny", entries: [callerAddress] },
      { id: "o", kind: "overrides", overrides: [{ key: callerAddress, limits: "9/minute" }] },
    ]);
    expect(JSON.stringify(await login.explain())).not.toContain(callerAddress);
  });
});

describe("an explanation without an attribute that entries compare", () => {
  const notKnown = "unless an entry that is not known applies";
  const note = '  To compare the entries that are not known, send attributes: {"ip": "…"}.';
  const byApiKey = { key: "header:X-Api-Key" };
  const listed = { ...byApiKey, deny: [callerAddress] };
  const openSteps = ({ steps }: Explanation) => steps.filter(({ matches }) => matches === null).map(({ step }) => step);

  it.each<[StepName, object, PolicyRule[]]>([
    ["policy-rule-deny", byApiKey, [{ id: "d", kind: "deny", entries: ["203.0.113.0/24"] }]],
    ["configured-deny", listed, []],
    ["configured-overrides", { ...byApiKey, overrides: [{ key: callerAddress, limits: "1/minute" }] }, []],
  ])("%s is not known, and the first line says so", async (step, fields, rules) => {
    const explained = await new ExplainedPolicy(fields, rules).explain({ key: ["k1"] });
    expect(openSteps(explained)).toEqual([step]);
    expect(explained.allowed).toBe(true);
    expect(explained.text[0]).toBe(`Allowed, ${notKnown}: every limit has room.`);
    expect(explained.text).toContain(note);
  });

  it("an explanation that is given the attribute decides by the entry", async () => {
    const attributes = new Map([["ip", [callerAddress]]]);
    const explained = await new ExplainedPolicy(listed).explain({ key: ["k1"], attributes });
    expect(outcomeOf(explained)).toEqual([false, "deny", null]);
    expect(openSteps(explained)).toEqual([]);
    expect(explained.text).not.toContain(note);
  });

  it("when the given attribute does not match an entry, the explained outcome has no reservation about it", async () => {
    const attributes = new Map([["ip", ["192.0.2.9"]]]);
    const explained = await new ExplainedPolicy(listed).explain({ key: ["k1"], attributes });
    expect(explained.text[0]).toBe("Allowed: every limit has room.");
  });

  it("an override with a condition is unknown until the attribute of its condition is given", async () => {
    const overrides = [{ when: "country=DE", limits: "1/minute" }];
    const { text } = await new ExplainedPolicy({ overrides }).explain();
    expect(text[0]).toContain(notKnown);
    expect(text.at(-1)).toBe(note.replace("ip", "country"));
  });

  it("an explained denial mentions an unknown allow entry, but not an unknown deny entry", async () => {
    const spent = { key: "header:X-Api-Key", limits: "5/minute" };
    const firstLine = async (fields: object) => {
      const login = new ExplainedPolicy({ ...spent, ...fields });
      const { id } = await login.explain({ key: ["k1"] });
      await login.isolate.admit({ policy: login.policy, partitionKey: id, cost: 5 });
      return (await login.explain({ key: ["k1"] })).text[0];
    };
    const because = "the limit login is exceeded.";
    expect(await firstLine({ allow: [callerAddress] })).toBe(`Denied for another 1 min, ${notKnown}: ${because}`);
    expect(await firstLine({ deny: [callerAddress] })).toBe(`Denied for another 1 min: ${because}`);
  });

  it("an explanation by the id of a key mentions in its first line that entries are not known", async () => {
    const login = new ExplainedPolicy({ deny: ["192.0.2.1"] });
    const { text } = await login.explain({ id: await idOf(callerAddress) });
    expect(text[0]).toBe(`Allowed, ${notKnown}: every limit has room.`);
  });

  it("an explained dry run allows the request, whether or not unknown deny entries match", async () => {
    const login = new ExplainedPolicy({ ...listed, dryRun: true });
    const { text } = await login.explain({ key: ["k1"] });
    expect(text[0]).toBe("Allowed: every limit has room.");
  });
});

describe("an explanation with the rules of the control plane", () => {
  const stored = (id: string, fields: Partial<Rule> = {}): Rule =>
    ({
      id,
      policy: "login",
      scope: "key",
      rule: { kind: "block" },
      expiresAtMs: null,
      actor: "alice",
      note: "abuse",
      appliedAtMs: startMs,
      ...fields,
    }) as Rule;
  const state: PolicyState = { epoch: 7, version: 4, text: "[]", rules: [] };

  it("an explanation shows the author and note of each rule, and a rule that the object does not have yet as pending", async () => {
    const login = new ExplainedPolicy();
    await login.setKeyRules({ id: "k1", kind: "block" });
    login.known = {
      keyRules: [stored("k2", { appliedAtMs: null, note: null }), stored("k1"), stored("k0", { expiresAtMs: startMs })],
      policy: state,
    };
    const explained = await login.explain();
    const rule = { kind: "block", expiresInMs: null, actor: "alice" };
    expect(explained.keyRules).toEqual([
      { ...rule, id: "k1", state: "in-effect", note: "abuse" },
      { ...rule, id: "k2", state: "pending", note: null },
    ]);
    expect(explained.text).toContain("  block (rule k1), no expiry, by alice: abuse");
    expect(explained.text).toContain("  block (rule k2), not in effect yet, no expiry, by alice");
  });

  it("when the object has seen newer rules, the isolate adopts them before it explains", async () => {
    const login = new ExplainedPolicy({}, [{ id: "old", kind: "limits", limits: "9/minute" }]);
    const { policy } = login;
    const newest = {
      epoch: 7,
      version: 2,
      text: JSON.stringify([{ id: "new", kind: "limits", limits: "3/minute" }]),
    };
    login.adopt(newest);
    await login.spend(1);
    login.policy = policy;
    const explained = await login.explain();
    expect(explained.versions).toMatchObject({
      isolate: { epoch: 7, version: 2 },
      object: { epoch: 7, version: 2 },
    });
    expect(explained.limits).toMatchObject([{ capacity: 3, used: 1 }]);
    expect(explained.policyRules).toMatchObject([{ id: "new", state: "in-effect" }]);
  });

  it("an isolate that cannot adopt newer rules explains a decision by onError, which is also how it decides", async () => {
    const login = new ExplainedPolicy({ onError: "closed" }, [{ id: "old", kind: "limits", limits: "9/minute" }]);
    const { policy } = login;
    login.adopt({ epoch: 7, version: 2, text: "[ ]" });
    await login.spend(1);
    login.policy = policy;
    vi.spyOn(login, "adopt").mockReturnValue(undefined);
    const explained = await login.explain();
    expect(explained).toMatchObject({ allowed: false, reason: "object-silent" });
  });

  it("an explanation states that the isolate has older rules than the control plane", async () => {
    const login = new ExplainedPolicy({}, [{ id: "l", kind: "limits", limits: "9/minute" }]);
    login.known = { keyRules: [], policy: state };
    const explained = await login.explain();
    expect(explained.versions).toEqual({
      isolate: { epoch: 7, version: 1 },
      controlPlane: { epoch: 7, version: 4 },
      object: null,
      key: null,
    });
    expect(explained.text.at(-1)).toBe("  This isolate does not have the newest rules of the policy yet.");
  });
});
