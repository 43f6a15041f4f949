/** Rules, resets and explanations of keys within others, with the real objects. */
import { describe, expect, it } from "vitest";
import { statusOf } from "../http/harness.ts";
import { admin, type Admin, fieldsOf, ifMatch } from "./admin.ts";

const log = { strategy: "sliding-log", denyCache: false };
const id = expect.stringMatching(/^[\w-]{43}\.[\w-]{43}$/);

/** An organisation with a limit of 5 requests, and its users with 2 each. Names are unique among the tests. */
function organisation(): Admin & { readonly org: string; readonly user: string } {
  const unique = crypto.randomUUID().slice(0, 8);
  const org = `org-${unique}`;
  const user = `user-${unique}`;
  const gate = admin(
    {},
    {
      POLICIES: [
        { name: org, key: "header:x-org", limits: "5/hour", ...log },
        { name: user, within: org, key: "header:x-user", limits: "2/hour", strategy: "sliding-log" },
      ],
    },
  );
  return { ...gate, org, user };
}

const visit = ({ send }: Pick<Admin, "send">, person: string): Promise<number> =>
  statusOf(send("/", { headers: { "X-Org": "acme", "X-User": person } }));

describe("a rule of one user of an organisation", () => {
  it("blocks that user while a colleague goes on, and its removal lets the user in again", async () => {
    const gate = organisation();
    const { call, user } = gate;
    expect(await visit(gate, "ann")).toBe(200);
    const block = await call("POST", "/rules", { policy: user, key: ["acme", "ann"], kind: "block", note: "abuse" });
    expect(block).toMatchObject({ status: 201, body: { keyId: id, state: "applied" } });
    expect([await visit(gate, "ann"), await visit(gate, "bob")]).toEqual([403, 200]);

    const { body: audit } = await call("GET", "/audit?limit=1");
    const undone = await call("POST", "/audit/undo", { entries: [audit.entries[0].seq] });
    expect(undone.status).toBe(200);
    expect(await visit(gate, "ann")).toBe(200);
  });

  it("is made by the id of the key, too, and gives that user other limits", async () => {
    const gate = organisation();
    const { call, user } = gate;
    const { body: explained } = await call("POST", "/keys/explain", { policy: user, key: ["acme", "ann"] });
    const boost = await call("POST", "/rules", { policy: user, id: explained.id, kind: "limits", limits: "3/hour" });
    expect(boost).toMatchObject({ status: 201, body: { keyId: explained.id, state: "applied" } });
    const statuses = [];
    for (const person of ["ann", "ann", "ann", "ann", "bob"]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      statuses.push(await visit(gate, person));
    }
    expect(statuses).toEqual([200, 200, 200, 429, 200]);
    const { body: rules } = await call("GET", `/rules?policy=${user}&id=${explained.id}`);
    expect(rules.rules.map((rule: { id: string }) => rule.id)).toEqual([boost.body.id]);
    expect(await call("DELETE", `/rules/${boost.body.id}`, undefined, ifMatch(boost))).toMatchObject({ status: 204 });
  });

  it("with too few or too many parts is refused, and the answer names the missing part", async () => {
    const { call, user, org } = organisation();
    const rule = { policy: user, kind: "allow" };
    const few = await call("POST", "/rules", { ...rule, key: "acme" });
    expect(fieldsOf(few)).toEqual(["key"]);
    expect(few.body.errors[0].accepted).toContain("header:x-user is missing");
    expect(fieldsOf(await call("POST", "/rules", { ...rule, key: ["acme", "core", "ann"] }))).toEqual(["key"]);

    const { body: whole } = await call("POST", "/keys/explain", { policy: user, key: ["acme", "ann"] });
    const [rootId] = whole.id.split(".");
    const ofRoot = await call("POST", "/rules", { ...rule, id: rootId });
    expect(fieldsOf(ofRoot)).toEqual(["id"]);
    expect(ofRoot.body.errors[0].accepted).toContain(`the part of ${user} is missing`);
    expect(fieldsOf(await call("DELETE", `/keys/${user}/${rootId}/usage`))).toEqual(["id"]);
    expect(fieldsOf(await call("POST", "/keys/explain", { policy: org, id: whole.id }))).toEqual(["id"]);
  });
});

describe("a reset of a user", () => {
  it("forgets the usage of the user, and leaves that of the organisation", async () => {
    const gate = organisation();
    const { call, user } = gate;
    expect([await visit(gate, "ann"), await visit(gate, "ann"), await visit(gate, "ann")]).toEqual([200, 200, 429]);
    const { body: before } = await call("POST", "/keys/explain", { policy: user, key: ["acme", "ann"] });
    expect(await call("DELETE", `/keys/${user}/${before.id}/usage`)).toMatchObject({ status: 204 });
    const { body: after } = await call("POST", "/keys/explain", { policy: user, id: before.id });
    const used = after.levels.map((level: { limits: { used: number }[] }) => level.limits[0]?.used);
    expect(used).toEqual([2, 0]);
    expect(await visit(gate, "ann")).toBe(200);
  });
});

describe("the explanation of a user", () => {
  it.each(["key", "id"])("by its %s names the organisation as the level that denies", async (by) => {
    const gate = organisation();
    const { call, org, user } = gate;
    for (const person of ["ann", "ann", "bob", "bob", "eve"]) {
      // oxlint-disable-next-line no-await-in-loop -- one after the other
      expect(await visit(gate, person)).toBe(200);
    }
    const { body: named } = await call("POST", "/keys/explain", { policy: user, key: ["acme", "joe"] });
    const reference = by === "key" ? { key: ["acme", "joe"] } : { id: named.id };
    const { body } = await call("POST", "/keys/explain", { policy: user, ...reference });
    expect(body).toMatchObject({ allowed: false, reason: "limit", retryAfterMs: expect.any(Number) });
    expect(body.levels).toMatchObject([
      { policy: org, id: body.id.split(".")[0], allowed: false, limits: [{ used: 5, capacity: 5 }] },
      { policy: user, id: body.id, allowed: true, limits: [{ used: 0, capacity: 2 }] },
    ]);
    expect(body.retryAfterMs).toBe(body.levels[0].retryAfterMs);
    expect(body.text[0]).toMatch(
      new RegExp(
        `^Denied for another .* by ${org}: the limit ${org} is exceeded. The policy ${user} alone allows it.$`,
      ),
    );
    expect(body.lines.usage).toMatch(/^5 of 5 in the last hour/);
  });
});

describe("the top keys within a key", () => {
  it("are those of one organisation, and a policy that is within none has none", async () => {
    const { call, org, user } = organisation();
    const { body: ann } = await call("POST", "/keys/explain", { policy: user, key: ["acme", "ann"] });
    const [acme] = ann.id.split(".");
    const { body: policy } = await call("GET", `/policies/${user}`);
    expect(policy.within).toBe(org);
    expect(await call("GET", `/top?policy=${user}&by=cost&within=${acme}`)).toMatchObject({ status: 200 });
    expect(fieldsOf(await call("GET", `/top?policy=${org}&by=cost&within=${acme}`))).toEqual(["within"]);
    expect(fieldsOf(await call("GET", `/top?policy=${user}&by=cost&within=${ann.id}`))).toEqual(["within"]);
  });
});
