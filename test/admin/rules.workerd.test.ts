/** `/api/rules`, `/api/audit`, `/api/rollback` and resets, with the real control plane object. */
import { describe, expect, it } from "vitest";
import { from, statusOf } from "../http/harness.ts";
import { admin, type Admin, fieldsOf, ifMatch } from "./admin.ts";

const address = "203.0.113.7";
type Actions = Record<"action" | "actor" | "via", string>;
const visit = ({ send }: Admin): Promise<number> => statusOf(send("/", from(address)));

describe("a rule of one key", () => {
  it("an operator doubles a limit, blocks the key, and undoes both", async () => {
    const gate = admin({ limits: "1/hour", denyCache: false });
    const { call, policy } = gate;
    expect([await visit(gate), await visit(gate)]).toEqual([200, 429]);

    const boost = await call("POST", "/rules", {
      policy,
      key: address,
      kind: "limits",
      limits: "2/hour",
      factor: 2,
      for: "2h",
      note: "migration",
    });
    expect(boost.status).toBe(201);
    expect(boost.body).toMatchObject({
      policy,
      scope: "key",
      kind: "limits",
      limits: "2/hour",
      factor: 2,
      keyId: expect.stringMatching(/^[\w-]{43}$/),
      state: "applied",
      note: "migration",
      actor: "alice",
    });
    const lengthMs = Date.parse(boost.body.expiresAt) - Date.parse(boost.body.startsAt);
    expect(Math.abs(lengthMs - 7_200_000)).toBeLessThan(5_000);
    expect(boost.headers.get("Location")).toBe(`/_headgate/api/rules/${boost.body.id}`);
    expect([await visit(gate), await visit(gate)]).toEqual([200, 429]);
    const { body: explained } = await call("POST", "/keys/explain", { policy, key: address });
    expect(explained.text).toContainEqual(expect.stringMatching(/^ {2}limits 2x \(rule /));

    const block = await call("POST", "/rules", {
      policy,
      id: boost.body.keyId,
      kind: "block",
      note: "abuse",
    });
    expect(block.body.keyId).toBe(boost.body.keyId);
    expect(await visit(gate)).toBe(403);
    const deleted = await call("DELETE", `/rules/${block.body.id}`, undefined, ifMatch(block));
    expect(deleted).toMatchObject({ status: 204, body: null });
    expect(await visit(gate)).toBe(429);
    expect(await call("GET", `/rules/${block.body.id}`)).toMatchObject({ status: 404 });

    const { body: audit } = await call("GET", "/audit?limit=3");
    expect(audit.entries.map(({ action, actor, via }: Actions) => [action, actor, via])).toEqual([
      ["delete", "alice", "token"],
      ["create", "alice", "token"],
      ["create", "alice", "token"],
    ]);
    expect(audit.entries[0]).toMatchObject({ policy, keyId: boost.body.keyId, after: null });
    expect(audit.entries[0].before).toMatchObject({ id: block.body.id, note: "abuse" });
    // An audit entry never changes, so it cannot show whether the key's object has confirmed the rule.
    expect(audit.entries[0].before).not.toHaveProperty("state");
  });

  it("a rule names its key as /check does, and accepts an address in any form", async () => {
    const { call, policy } = admin();
    const ids = await Promise.all(
      ["203.0.113.7", "203.0.113.7:80", ["203.0.113.7"]].map(async (key) => {
        const made = await call("POST", "/rules", { policy, key, kind: "allow" });
        return made.body.keyId;
      }),
    );
    expect(new Set(ids).size).toBe(1);
    const ofTenant = await call("POST", "/rules", {
      policy,
      key: address,
      tenant: "acme",
      kind: "allow",
    });
    expect(ids).not.toContain(ofTenant.body.keyId);
  });

  it("a rule names a missing key part as null", async () => {
    const shared = admin({ key: ["ip", "header:x-user"] });
    const rule = { policy: shared.policy, key: [address, null], kind: "allow" };
    expect((await shared.call("POST", "/rules", rule)).status).toBe(201);
    const denying = admin({ key: ["ip", "header:x-user"], onMissingKey: "deny" });
    const refused = await denying.call("POST", "/rules", { ...rule, policy: denying.policy });
    expect(fieldsOf(refused)).toEqual(["key"]);
  });

  it("a replacement changes the content of a rule and keeps its key", async () => {
    const { call, policy } = admin();
    const made = await call("POST", "/rules", { policy, key: address, kind: "allow" });
    const path = `/rules/${made.body.id}`;
    const replacement = { kind: "limits", limits: "7/hour", expiresAt: "2030-01-01T00:00:00Z" };
    const replaced = await call("PUT", path, replacement, ifMatch(made));
    expect(replaced.status).toBe(200);
    expect(replaced.body).toMatchObject({
      kind: "limits",
      limits: "7/hour",
      keyId: made.body.keyId,
      expiresAt: "2030-01-01T00:00:00.000Z",
      revision: made.body.revision + 1,
    });
    expect((await call("GET", `${path}?reveal=true`)).body.key).toBe(`ip=${address}`);
  });
});

describe("a rule of one policy", () => {
  it("a rule needs no scope if only policies can have its kind", async () => {
    const gate = admin();
    const { call, policy } = gate;
    const body = { policy, kind: "deny", entries: ["203.0.113.0/24"], note: "abuse" };
    const made = await call("POST", "/rules", body);
    expect(made).toMatchObject({ status: 201, body: { scope: "policy", keyId: null } });
    expect(await visit(gate)).toBe(403);
  });

  it("an isolate that makes, replaces, deletes or restores a rule applies the change at once", async () => {
    const gate = admin();
    const { call, policy } = gate;
    const body = { policy, scope: "policy", kind: "deny", note: "abuse" };
    const made = await call("POST", "/rules", { ...body, entries: ["203.0.113.0/24"] });
    expect(made).toMatchObject({ status: 201, body: { scope: "policy", keyId: null } });
    expect(await visit(gate)).toBe(403);
    const { body: audit } = await call("GET", "/audit?limit=1");

    const path = `/rules/${made.body.id}`;
    const elsewhere = { kind: "deny", entries: ["192.0.2.0/24"], note: "abuse" };
    const replaced = await call("PUT", path, elsewhere, ifMatch(made));
    expect(await visit(gate)).toBe(200);

    await call("POST", "/rollback", { to: audit.entries[0].seq });
    expect(await visit(gate)).toBe(403);

    expect(replaced.status).toBe(200);
    const deleted = await call("DELETE", path, undefined, { "If-Match": "*" });
    expect(deleted.status).toBe(204);
    expect(await visit(gate)).toBe(200);
  });
});

describe("two operators at once", () => {
  it("two concurrent changes of the same version of a rule: the second is refused, so that the first is not lost", async () => {
    const { call, policy } = admin();
    const made = await call("POST", "/rules", { policy, key: address, kind: "allow" });
    const path = `/rules/${made.body.id}`;
    const change = (limits: string) => call("PUT", path, { kind: "limits", limits }, ifMatch(made));
    const answers = await Promise.all([change("7/hour"), change("8/hour")]);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 412]));
    const lost = answers.find(({ status }) => status === 412);
    const current = await call("GET", path);
    expect(lost?.headers.get("ETag")).toBe(current.headers.get("ETag"));
    const won = answers.find(({ status }) => status === 200);
    expect(current.body.limits).toBe(won?.body.limits);
  });

  it.for<[string, Record<string, string>, number]>([
    ["without If-Match", {}, 428],
    ["with an older ETag", { "If-Match": '"999"' }, 412],
    ["with an ETag that compression made weak", { "If-Match": 'W/"1"' }, 204],
    ["with an older weak ETag", { "If-Match": 'W/"999"' }, 412],
    ["with an ETag without quotes", { "If-Match": "1" }, 412],
    ["with one of several ETags", { "If-Match": '"999", "1"' }, 204],
    ["with any ETag", { "If-Match": "*" }, 204],
  ])("a deletion %s gets the status that the ETag deserves", async ([, headers, status]) => {
    const { call, policy } = admin();
    const made = await call("POST", "/rules", { policy, key: address, kind: "allow" });
    expect(made.headers.get("ETag")).toBe('"1"');
    const answer = await call("DELETE", `/rules/${made.body.id}`, undefined, headers);
    expect(answer.status).toBe(status);
  });
});

describe("an Idempotency-Key", () => {
  it("a repeated request creates one rule, and a different request with the same Idempotency-Key is refused", async () => {
    const { call, policy } = admin();
    const headers = { "Idempotency-Key": crypto.randomUUID() };
    const rule = { policy, key: address, kind: "allow", for: "2h" };
    const [first, second] = [await call("POST", "/rules", rule, headers), await call("POST", "/rules", rule, headers)];
    expect([first.status, second.status]).toEqual([201, 201]);
    expect(second.body.id).toBe(first.body.id);
    const other = await call("POST", "/rules", { ...rule, for: "3h" }, headers);
    expect([other.status, other.body.detail]).toEqual([
      422,
      "This Idempotency-Key was used for a request with another body.",
    ]);
    const { body: list } = await call("GET", `/rules?policy=${policy}`);
    expect(list.rules).toHaveLength(1);
    const invalid = await call("POST", "/rules", rule, { "Idempotency-Key": "k".repeat(256) });
    expect(fieldsOf(invalid)).toEqual(["Idempotency-Key"]);
  });
});

describe("the list of rules", () => {
  it("the Link fields lead through all pages of rules, and each rule is on exactly one page", async () => {
    const { call, policy } = admin();
    const made = [];
    for (const host of [1, 2, 3, 4, 5]) {
      const rule = { policy, key: `203.0.113.${host}`, kind: "allow" };
      // oxlint-disable-next-line no-await-in-loop
      made.push((await call("POST", "/rules", rule)).body.id);
    }
    const seen = [];
    let path: string | undefined = `/rules?policy=${policy}&kind=allow&limit=2`;
    while (path !== undefined) {
      // oxlint-disable-next-line no-await-in-loop
      const page = await call("GET", path);
      seen.push(...page.body.rules.map(({ id }: { id: string }) => id));
      const link = page.headers.get("Link");
      expect(link === null).toBe(page.body.next === null);
      path = /^<\/_headgate\/api(.*)>; rel="next"$/.exec(link ?? "")?.[1];
    }
    expect(seen).toEqual(made.toReversed());
    const { body: ofKey } = await call("GET", `/rules?policy=${policy}&kind=block`);
    expect(ofKey).toEqual({ rules: [], next: null });
  });

  it.for<[string, string]>([
    ["limit=0", "limit"],
    ["limit=201", "limit"],
    ["limit=x", "limit"],
    ["kind=ban", "kind"],
    ["reveal=yes", "reveal"],
    ["cursor=%20", "cursor"],
    ["cursor=", "cursor"],
    ["limit=1&limit=2", "limit"],
    ["color=red", "color"],
  ])("the query %s is refused", async ([query, field]) => {
    expect(fieldsOf(await admin().call("GET", `/rules?${query}`))).toEqual([field]);
  });

  it("an id that is no partition key gets 404, so that a plain key in a URL never works", async () => {
    expect(await admin().call("GET", `/rules?id=${address}`)).toMatchObject({ status: 404 });
  });

  it("an audit cursor that no page returned is refused, and so is a parameter for a call that takes none", async () => {
    const { call } = admin();
    expect(fieldsOf(await call("GET", "/audit?cursor=x"))).toEqual(["cursor"]);
    const refused = await call("GET", "/policies?color=red");
    expect(refused.body.errors).toEqual([{ field: "color", accepted: "no fields" }]);
  });
});

describe("invalid input of a rule", () => {
  const key = address;
  const limits = "9/hour";
  const longNote = "n".repeat(1_025);
  it.for<[object, string[]]>([
    [{ key, kind: "ban" }, ["kind"]],
    [{ key, kind: "mode", mode: "off" }, ["key"]],
    [{ kind: "mode", mode: "loud" }, ["mode"]],
    [{ key, scope: "key", kind: "mode", mode: "off" }, ["scope"]],
    [{ scope: "key", kind: "deny", entries: ["198.51.100.0/24"], note: "x" }, ["scope"]],
    [{ key, kind: "limits" }, ["limits"]],
    [{ key, kind: "limits", limits: "0/hour" }, ["limits.limit"]],
    [{ key, kind: "limits", limits, strategy: "magic" }, ["strategy"]],
    [{ key, kind: "limits", limits, factor: 0 }, ["factor"]],
    [{ key, kind: "limits", limits, factor: "2x" }, ["factor"]],
    [{ key, kind: "allow", factor: 2 }, ["factor"]],
    [{ scope: "policy", kind: "limits", limits, factor: 2 }, ["factor"]],
    [{ key, kind: "allow", limits, mode: "off" }, ["limits", "mode"]],
    [{ key, kind: "block" }, ["note"]],
    [{ key, kind: "allow", note: " " }, ["note"]],
    [{ key, kind: "allow", note: longNote }, ["note"]],
    [{ key, kind: "allow", for: "2 parsecs" }, ["for"]],
    [{ key, kind: "allow", for: "1ms" }, ["for"]],
    [{ key, kind: "allow", for: "2h", expiresAt: "2030-01-01T00:00:00Z" }, ["expiresAt"]],
    [{ key, kind: "allow", expiresAt: "2020-01-01T00:00:00Z" }, ["expiresAt"]],
    [{ key, kind: "allow", expiresAt: "2099-01-01T00:00:00Z" }, ["expiresAt"]],
    [{ key, kind: "allow", expiresAt: "tomorrow" }, ["expiresAt"]],
    [{ key, kind: "allow", expiresAt: "2030-02-30T25:00:00Z" }, ["expiresAt"]],
    [{ key, kind: "allow", expiresAt: "2030-02-30T00:00:00Z" }, ["expiresAt"]],
    [{ key, kind: "allow", expiresAt: "2030-01-01T24:00:00Z" }, ["expiresAt"]],
    [{ key: "not an address", kind: "allow" }, ["key"]],
    [{ key: [key, key], kind: "allow" }, ["key"]],
    [{ kind: "allow" }, ["key"]],
    [{ key, id: "a".repeat(43), kind: "allow" }, ["key"]],
    [{ key, tenant: "", kind: "allow" }, ["tenant"]],
    [{ key, scope: "policy", kind: "mode", mode: "off" }, ["key"]],
    [{ scope: "policy", kind: "deny", entries: ["198.51.100.0/24"] }, ["note"]],
    [{ scope: "policy", kind: "block", note: "x" }, ["scope"]],
    [{ scope: "policy", kind: "mode", mode: "loud" }, ["mode"]],
    [{ scope: "policy", kind: "deny", entries: ["?"], note: "x" }, ["entries[0]"]],
    [{ key, kind: "block", limits, for: "-1h", colour: "red" }, ["colour"]],
    [{ key, kind: "block", limits, for: "-1h" }, ["limits", "note", "for"]],
  ])("the rule %j is refused, and every wrong field is named", async ([rule, expected]) => {
    const { call, policy } = admin();
    const refused = await call("POST", "/rules", { policy, ...rule });
    expect(fieldsOf(refused).toSorted()).toEqual(expected.toSorted());
  });

  it("a replacement cannot turn a rule of a key into a rule of a policy, or the reverse", async () => {
    const { call, policy } = admin();
    const made = await call("POST", "/rules", { policy, key, kind: "allow" });
    const other = { kind: "mode", mode: "off" };
    const refused = await call("PUT", `/rules/${made.body.id}`, other, ifMatch(made));
    expect(fieldsOf(refused)).toEqual(["kind"]);
  });

  it("a rule without a key is refused, and the problem names both ways to correct it", async () => {
    const { call, policy } = admin();
    const refused = await call("POST", "/rules", { policy, kind: "limits", limits });
    expect(refused.body.detail).toBe(
      'key: expected a key or an id, or the scope "policy" for a rule of the whole policy',
    );
  });

  it("limits that the configuration would reject are refused in a rule, with the same message", async () => {
    const { call, policy } = admin();
    const rule = { policy, key, kind: "limits", limits: "0/hour" };
    const refused = await call("POST", "/rules", rule);
    expect(refused.body.errors).toEqual([{ field: "limits.limit", accepted: "an integer from 1 to 999999999999999" }]);
  });

  it.for<[string, unknown, Record<string, string>, number]>([
    ["an unknown policy", { policy: "unknown", key, kind: "allow" }, {}, 404],
    ["an id that is no partition key", { policy: "P", id: "not-an-id", kind: "allow" }, {}, 404],
    ["a body that is no JSON", "{", {}, 400],
    ["a body of 1 MB", `"${"x".repeat(1_000_000)}"`, {}, 413],
    ["another media type", "{}", { "Content-Type": "text/plain" }, 415],
    ["JSON that is nested too deep", "[".repeat(100), {}, 400],
    ["a list", "[]", {}, 422],
  ])("a rule with %s is refused", async ([, body, headers, status]) => {
    const { call, policy } = admin();
    const text = typeof body === "string" ? body : JSON.stringify(body).replace('"P"', `"${policy}"`);
    expect((await call("POST", "/rules", text, headers)).status).toBe(status);
  });
});

describe("a reset", () => {
  it("a reset forgets the usage of a key, keeps its rules, and has an audit entry", async () => {
    const gate = admin({ limits: "1/hour" });
    const { call, policy } = gate;
    expect([await visit(gate), await visit(gate)]).toEqual([200, 429]);
    const explained = await call("POST", "/keys/explain", { policy, key: address });
    expect(explained.body).toMatchObject({ policy, allowed: false, reason: "limit" });
    expect(explained.body.versions.controlPlane).not.toBeNull();
    const { id } = explained.body;
    expect((await call("DELETE", `/keys/${policy}/${id}/usage`)).status).toBe(204);
    expect(await visit(gate)).toBe(200);
    const { body: audit } = await call("GET", "/audit?limit=1");
    expect(audit.entries).toMatchObject([{ action: "reset", policy, keyId: id }]);
  });

  it("a reset of an unknown policy, or of an id that is no partition key, gets 404", async () => {
    const { call, policy } = admin();
    const paths = [`/keys/unknown/${"a".repeat(43)}/usage`, `/keys/${policy}/short/usage`];
    const answers = await Promise.all(paths.map((path) => call("DELETE", path)));
    expect(answers.map(({ status }) => status)).toEqual([404, 404]);
  });
});

describe("a rollback", () => {
  it("a rollback restores the rules of an earlier audit entry as new versions", async () => {
    const { call, policy } = admin();
    const made = await call("POST", "/rules", { policy, key: address, kind: "allow" });
    const { body: audit } = await call("GET", "/audit?limit=1");
    const path = `/rules/${made.body.id}`;
    await call("PUT", path, { kind: "block", note: "mistake" }, ifMatch(made));
    const rolledBack = await call("POST", "/rollback", { to: audit.entries[0].seq, note: "undo" });
    expect(rolledBack.status).toBe(200);
    const restored = await call("GET", path);
    expect(restored.body).toMatchObject({ kind: "allow" });
    expect(restored.body.revision).toBeGreaterThan(2);
  });

  it.for([{ to: -1 }, { to: "1" }, {}, { to: 9_999_999 }])("a rollback to %j is refused", async (body) => {
    expect(fieldsOf(await admin().call("POST", "/rollback", body))).toEqual(["to"]);
  });
});
