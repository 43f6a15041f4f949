/** `/api/policies`, a control plane that does not answer, and where the admin API is served. */
import { describe, expect, it } from "vitest";
import { from, headgate, statusOf } from "../http/harness.ts";
import { admin, type Answer, fieldsOf, ifMatch, tokens } from "./admin.ts";

const address = "203.0.113.7";

/** A control plane object with these methods. */
const objectWith = (methods: object) => ({ CONTROL_PLANE: { getByName: () => methods } });

describe("the policy in effect", () => {
  it("a policy without rules is shown as configured, with only the number of its configured entries", async () => {
    const { call, policy } = admin({ deny: ["198.51.100.0/24", "198.51.101.1"], limits: "5/hour" });
    const { body, headers } = await call("GET", `/policies/${policy}`);
    expect(body).toMatchObject({
      name: policy,
      key: ["ip"],
      mode: { value: "enforce", source: "configuration" },
      limits: { value: [{ limit: 5, windowMs: 3_600_000 }], source: "configuration" },
      allow: [],
      deny: [{ count: 2, source: "configuration" }],
      overrides: [],
      rules: [],
      refused: [],
    });
    expect(JSON.stringify(body)).not.toContain("198.51.100");
    expect(headers.get("ETag")).toBe(`"${body.epoch}-${body.version}"`);
    expect((await call("GET", "/policies")).body.policies).toEqual([body]);
  });

  it("a patch changes parts of a policy for two hours, the next request is decided by them, and null removes them", async () => {
    const gate = admin({ limits: "1/hour", denyCache: false });
    const { call, policy, send } = gate;
    const visit = (ip = address) => statusOf(send("/", from(ip)));
    expect([await visit(), await visit()]).toEqual([200, 429]);
    const path = `/policies/${policy}`;
    const before = await call("GET", path);
    const patch = {
      limits: "3/hour",
      deny: ["198.51.100.0/24"],
      for: "2h",
      note: "credential stuffing",
    };
    const type = { "Content-Type": "application/merge-patch+json" };
    const patched = await call("PATCH", path, patch, { ...ifMatch(before), ...type });
    expect(patched.status).toBe(200);
    expect(patched.body).toMatchObject({
      mode: { source: "configuration" },
      limits: { value: [{ limit: 3 }], source: "rule", rule: expect.any(String) },
      configured: { mode: "enforce", limits: [{ limit: 1, windowMs: 3_600_000 }] },
      deny: [{ count: 1, source: "rule" }],
    });
    expect(patched.body.rules).toHaveLength(2);
    expect([await visit(), await visit(), await visit()]).toEqual([200, 200, 429]);
    expect(await visit("198.51.100.9")).toBe(403);

    const off = await call("PATCH", path, { mode: "off" }, ifMatch(patched));
    expect([off.body.mode.value, await visit()]).toEqual(["off", 200]);
    const undo = { mode: null, limits: null, deny: null };
    const undone = await call("PATCH", path, undo, ifMatch(off));
    expect(undone.body).toMatchObject({ mode: { value: "enforce" }, rules: [] });
    expect([await visit(), await visit("198.51.100.9")]).toEqual([429, 200]);
    const again = await call("PATCH", path, undo, ifMatch(before));
    expect([again.status, again.headers.get("ETag")]).toEqual([412, undone.headers.get("ETag")]);
  });

  it.for<[object, string[]]>([
    [{}, ["body"]],
    [{ note: "x" }, ["body"]],
    [{ mode: "loud" }, ["mode"]],
    [{ limits: "0/hour", mode: "off" }, ["limits.limit"]],
    [{ strategy: "token-bucket", mode: "off" }, ["strategy"]],
    [{ strategy: "token-bucket", limits: null }, ["strategy"]],
    [{ deny: ["198.51.100.0/24"] }, ["note"]],
    [{ deny: ["?"], allow: [], note: "x" }, ["allow", "deny[0]"]],
    [{ mode: "off", for: "2h", expiresAt: "2030-01-01T00:00:00Z" }, ["expiresAt"]],
    [{ mode: null, for: "2h" }, ["for"]],
    [{ mode: null, expiresAt: "2030-01-01T00:00:00Z" }, ["expiresAt"]],
    [{ colour: "red" }, ["colour"]],
  ])("the patch %j is refused, and every wrong field is named", async ([patch, expected]) => {
    const { call, policy } = admin();
    const answer = await call("PATCH", `/policies/${policy}`, patch, { "If-Match": "*" });
    expect(new Set(fieldsOf(answer))).toEqual(new Set(expected));
  });

  it("a patch without If-Match gets 428, and a patch of an unknown policy gets 404", async () => {
    const { call, policy } = admin();
    const patch = { mode: "off" };
    expect((await call("PATCH", `/policies/${policy}`, patch)).status).toBe(428);
    expect((await call("PATCH", "/policies/unknown", patch, { "If-Match": "*" })).status).toBe(404);
  });
});

describe("a control plane that does not answer", () => {
  const unavailable = ({ status, headers }: Answer): unknown => [status, headers.get("Retry-After")];

  it("when the control plane fails, its calls get 503, and decisions and explanations continue", async () => {
    const fail = () => Promise.reject(new Error("the object is gone"));
    const names = ["rules", "createRule", "policyState", "note", "beat"];
    const methods = Object.fromEntries(names.map((name) => [name, fail]));
    const { call, policy, send } = admin({}, objectWith(methods));
    const answers = await Promise.all([
      call("GET", "/rules"),
      call("POST", "/rules", { policy, key: address, kind: "allow" }),
      call("GET", `/policies/${policy}`),
      call("DELETE", `/keys/${policy}/${"a".repeat(43)}/usage`),
    ]);
    expect(answers.map(unavailable)).toEqual(answers.map(() => [503, "2"]));
    const explained = await call("POST", "/keys/explain", { policy, key: address });
    expect(explained.body).toMatchObject({ allowed: true, versions: { controlPlane: null } });
    expect(await statusOf(send("/", from(address)))).toBe(200);
  });

  it("with credentials but without the control plane binding, the admin API gets 503 with the name of the binding", async () => {
    const { call } = admin({}, { CONTROL_PLANE: undefined });
    const { status, body } = await call("GET", "/rules");
    expect([status, body.detail]).toEqual([503, expect.stringContaining("CONTROL_PLANE")]);
  });
});

describe("the path of the admin API", () => {
  const headers = { Authorization: `Bearer ${tokens.all}` };

  it("no path below ADMIN_PATH is forwarded to the origin, in any spelling", async () => {
    const { send } = admin();
    const paths = [
      "/_headgate",
      "/_headgate/",
      "/_headgate/console",
      "/%5fheadgate/api/nothing",
      "https://headgate.example//_headgate//api/nothing/",
      "/_headgate/api",
      "/x/../_headgate/api/nothing",
    ];
    const statuses = await Promise.all(paths.map((path) => statusOf(send(path, { headers }))));
    expect(statuses).toEqual(paths.map(() => 404));
    const spelled = send("/%5Fheadgate//api/policies/", { headers });
    expect(await statusOf(spelled)).toBe(200);
  });

  it("without credentials, or for a path that only resembles ADMIN_PATH, requests go to the origin", async () => {
    const open = headgate({ LIMITS: "5/hour" });
    const origin = await open.send("/_headgate/api/policies", { headers });
    expect(await origin.json()).toMatchObject({
      url: "https://origin.example/_headgate/api/policies",
    });
    const { send } = admin();
    expect(await statusOf(send("/_headgates"))).toBe(200);
    expect(await statusOf(send("/_HEADGATE/api"))).toBe(200);
  });

  it("the variable ADMIN_PATH moves the admin API, and the OpenAPI document has the new path", async () => {
    const { send } = admin({}, { ADMIN_PATH: "/ops" });
    const document = await send("/ops/api/openapi.json", { headers });
    expect(await document.json()).toMatchObject({ servers: [{ url: "/ops/api" }] });
    expect(await statusOf(send("/_headgate/api/policies", { headers }))).toBe(200);
  });

  it("a method that a path does not support gets 405 with the supported methods", async () => {
    const { call } = admin();
    const answers = await Promise.all([
      call("PUT", "/policies/a"),
      call("POST", "/rules/a"),
      call("DELETE", "/tail/ticket"),
      call("POST", "/tail"),
      call("OPTIONS", "/rules"),
    ]);
    expect(answers.map(({ status, headers: answered }) => [status, answered.get("Allow")])).toEqual([
      [405, "GET, HEAD, PATCH"],
      [405, "GET, HEAD, PUT, DELETE"],
      [405, "POST"],
      [405, "GET, HEAD"],
      [405, "GET, HEAD, POST"],
    ]);
  });
});
