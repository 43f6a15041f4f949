/** `/api/keys/reveal` and reads with `reveal=true`, with the real control plane object. */
import { expect, it } from "vitest";
import { admin, tokens } from "./admin.ts";

const address = "203.0.113.7";

it("only a caller with the right reveal sees plain keys, and the audit log records the reveal once an hour", async () => {
  const { call, policy } = admin();
  const { body: rule } = await call("POST", "/rules", { policy, key: address, kind: "allow" });
  const plain = await call("GET", `/rules/${rule.id}`);
  expect(JSON.stringify(plain.body)).not.toContain(address);
  const list = await call("GET", `/rules?policy=${policy}&reveal=true`);
  expect(list.body.rules).toMatchObject([{ id: rule.id, key: `ip=${address}` }]);
  const revealed = await call("POST", "/keys/reveal", { policy, id: rule.keyId });
  expect(revealed.body).toEqual({ policy, id: rule.keyId, key: `ip=${address}` });
  const { body: audit } = await call("GET", "/audit?limit=2");
  expect(audit.entries).toMatchObject([
    { action: "reveal", keyId: rule.keyId, actor: "alice" },
    { action: "create", keyId: rule.keyId },
  ]);
  const asReader = { Authorization: `Bearer ${tokens.read}` };
  const paths = [`/rules?reveal=true`, `/rules/${rule.id}?reveal=true`];
  const refused = await Promise.all(paths.map((path) => call("GET", path, undefined, asReader)));
  expect(refused.map(({ status }) => status)).toEqual([403, 403]);
  const unknown = { policy, id: "a".repeat(43) };
  expect((await call("POST", "/keys/reveal", unknown)).status).toBe(404);
});

it("one call reveals several keys, with null for an unknown key, and the audit log records each revealed key", async () => {
  const { call, policy } = admin();
  const addresses = [address, "203.0.113.9"];
  const rules = await Promise.all(addresses.map((key) => call("POST", "/rules", { policy, key, kind: "allow" })));
  const [first, second] = rules.map(({ body }) => body.keyId);
  const unknown = "a".repeat(43);
  const revealed = await call("POST", "/keys/reveal", { policy, ids: [second, unknown, first] });
  expect(revealed.body).toEqual({
    policy,
    keys: [
      { id: second, key: `ip=${addresses[1]}` },
      { id: unknown, key: null },
      { id: first, key: `ip=${address}` },
    ],
  });
  const { body: audit } = await call("GET", "/audit?limit=3");
  expect(audit.entries).toMatchObject([
    { action: "reveal", keyId: first, actor: "alice" },
    { action: "reveal", keyId: second, actor: "alice" },
    { action: "create" },
  ]);
});

it.each([
  [{}, "id"],
  [{ id: "a".repeat(43), ids: ["a".repeat(43)] }, "ids"],
  [{ ids: [] }, "ids"],
  [{ ids: Array<string>(101).fill("a".repeat(43)) }, "ids"],
])("a reveal of %j is refused, with the field", async (names, field) => {
  const { call, policy } = admin();
  const refused = await call("POST", "/keys/reveal", { policy, ...names });
  expect([refused.status, refused.body.errors[0].field]).toEqual([422, field]);
});
