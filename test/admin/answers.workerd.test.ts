/** Properties of all answers of the admin API: other web origins cannot use them, and their URLs contain no host. */
import { describe, expect, it } from "vitest";
import { from } from "../http/harness.ts";
import { admin, fieldsOf, ifMatch, tokens } from "./admin.ts";

const operator = { Authorization: `Bearer ${tokens.all}` };
const isolation = ({ headers }: Response): (string | null)[] =>
  ["X-Content-Type-Options", "Cross-Origin-Resource-Policy"].map((name) => headers.get(name));

describe("every answer below ADMIN_PATH and on ADMIN_HOST", () => {
  it.for([
    ["GET", "/_headgate/api/policies", 200],
    ["GET", "/_headgate/api/metrics", 200],
    ["GET", "/_headgate/api/openapi.json", 200],
    ["GET", "/_headgate/api/samples?policy=:policy", 200],
    ["POST", "/_headgate/api/tail/ticket", 201],
    ["DELETE", `/_headgate/api/keys/:policy/${"a".repeat(43)}/usage`, 204],
    ["GET", "/_headgate/api/rules?limit=0", 422],
    ["POST", "/_headgate/api/rules", 415],
    ["GET", "/_headgate/api/rules/none", 404],
    ["GET", "/_headgate/api/nothing", 404],
    ["GET", "/_headgate/nothing", 404],
    ["PUT", "/_headgate/api/rules", 405],
    ["GET", "/_headgate/api/tail", 426],
    ["POST", "/_headgate/api/tail", 405],
    ["GET", "https://admin.example.com/_headgate", 308],
    ["GET", "https://admin.example.com/", 308],
    ["GET", "https://admin.example.com/elsewhere", 404],
  ] as const)("%s %s answers %i with nosniff and same-origin", async ([method, path, status]) => {
    const gate = admin({}, { ADMIN_HOST: "admin.example.com" });
    const response = await gate.send(path.replace(":policy", gate.policy), {
      method,
      headers: operator,
    });
    await response.arrayBuffer();
    expect([response.status, ...isolation(response)]).toEqual([status, "nosniff", "same-origin"]);
  });

  it("a response to a request without credentials has nosniff and the resource policy same-origin", async () => {
    const response = await admin().send("/_headgate/api/policies");
    expect([response.status, ...isolation(response)]).toEqual([401, "nosniff", "same-origin"]);
  });

  it("opening a tail is answered with 101, which has none of the header fields that isolate other answers", async () => {
    const gate = admin();
    const { body } = await gate.call("POST", "/tail/ticket");
    const headers = { Upgrade: "websocket" };
    const response = await gate.send(`/_headgate/api/tail?ticket=${body.ticket}`, { headers });
    expect(response.status).toBe(101);
    response.webSocket?.accept();
    response.webSocket?.close();
  });
});

describe.each(["//_headgate", "/%5fheadgate", "///_headgate/"])("a request whose path begins with %s", (prefix) => {
  const origin = "https://headgate.example";

  it("the Location of a new rule has the configured path, however the request spells it", async () => {
    const gate = admin();
    const body = JSON.stringify({ policy: gate.policy, key: "192.0.2.1", kind: "allow" });
    const headers = { ...operator, "Content-Type": "application/json" };
    const made = await gate.send(`${origin}${prefix}/api/rules`, {
      method: "POST",
      headers,
      body,
    });
    const { id } = await made.json<{ id: string }>();
    expect(made.headers.get("Location")).toBe(`/_headgate/api/rules/${id}`);
  });

  it("the Link to the next page has the configured path, however the request spells it", async () => {
    const gate = admin();
    await Promise.all(
      ["192.0.2.1", "192.0.2.2"].map((key) => gate.call("POST", "/rules", { policy: gate.policy, key, kind: "allow" })),
    );
    for (const list of ["rules", "audit"]) {
      const url = `${origin}${prefix}/api/${list}?limit=1`;
      // oxlint-disable-next-line no-await-in-loop
      const page = await gate.send(url, { headers: operator });
      expect(page.headers.get("Link")).toMatch(
        new RegExp(`^</_headgate/api/${list}\\?limit=1&cursor=\\w+>; rel="next"$`),
      );
    }
  });

  it("the OpenAPI document of the admin API has the configured path, however the request spells it", async () => {
    const url = `${origin}${prefix}/api/openapi.json`;
    const document = await admin().send(url, { headers: operator });
    const { servers } = await document.json<{ servers: object[] }>();
    expect(servers).toMatchObject([{ url: "/_headgate/api" }]);
  });
});

it("the OpenAPI document of /check has its configured path, however the request spells it", async () => {
  const { send } = admin();
  const document = await send("https://headgate.example//check/openapi.json");
  const { servers } = await document.json<{ servers: object[] }>();
  expect(servers).toMatchObject([{ url: "/check" }]);
});

describe("a repeated POST with an Idempotency-Key", () => {
  const made = async () => {
    const gate = admin();
    const headers = { "Idempotency-Key": crypto.randomUUID() };
    const rule = { policy: gate.policy, key: "192.0.2.1", kind: "allow" };
    const create = () => gate.call("POST", "/rules", rule, headers);
    return { ...gate, create, first: await create() };
  };

  it("a repeated POST whose rule was deleted gets 410 and makes no rule", async () => {
    const { call, create, first, policy } = await made();
    await call("DELETE", `/rules/${first.body.id}`, undefined, ifMatch(first));
    const again = await create();
    expect([again.status, again.body.title]).toEqual([410, "Gone"]);
    expect((await call("GET", `/rules?policy=${policy}`)).body.rules).toEqual([]);
  });

  it("a repeated POST whose rule was replaced gets the rule as it is now, with its ETag", async () => {
    const { call, create, first } = await made();
    const path = `/rules/${first.body.id}`;
    await call("PUT", path, { kind: "block", note: "Abuse" }, ifMatch(first));
    const again = await create();
    expect(again).toMatchObject({
      status: 201,
      body: { kind: "block", state: "applied", revision: 2 },
    });
    expect(again.headers.get("ETag")).toBe('"2"');
  });
});

it("an undo reverts a change before the next request, takes effect once per Idempotency-Key, and can be undone", async () => {
  const gate = admin();
  const { call, policy } = gate;
  const visit = async () => (await gate.send("/", from("203.0.113.7"))).status;
  await call("PATCH", `/policies/${policy}`, { mode: "off" }, { "If-Match": "*" });
  await call(
    "PATCH",
    `/policies/${policy}`,
    { deny: ["203.0.113.0/24"], note: "closed", mode: null },
    { "If-Match": "*" },
  );
  const { entries: latest } = (await call("GET", "/audit?limit=2")).body;
  const seqs = latest.map(({ seq }: { seq: number }) => seq);
  const denied = await visit();
  const headers = { "Idempotency-Key": crypto.randomUUID() };
  const undo = () => call("POST", "/audit/undo", { entries: seqs }, headers);
  const undone = await undo();
  expect(undone).toMatchObject({
    status: 200,
    body: { entries: [{ action: "create" }, { action: "delete" }], rules: [{ policy, kind: "mode", mode: "off" }] },
  });
  expect([denied, await visit()]).toEqual([403, 200]);
  expect((await undo()).body).toEqual(undone.body);
  expect(await call("POST", "/audit/undo", { entries: seqs })).toMatchObject({ status: 409 });
  const again = undone.body.entries.map(({ seq }: { seq: number }) => seq);
  expect(await call("POST", "/audit/undo", { entries: again })).toMatchObject({ status: 200 });
  expect(await visit()).toBe(403);
  expect(fieldsOf(await call("POST", "/audit/undo", { entries: [99_999] }))).toEqual(["entries"]);
  expect(fieldsOf(await call("POST", "/audit/undo", { entries: [] }))).toEqual(["entries"]);
});

describe("headgate_limit", () => {
  const limitsOf = async ({ call, policy }: ReturnType<typeof admin>): Promise<string[]> => {
    const { body } = await call("GET", "/metrics");
    return (body as string)
      .split("\n")
      .filter((line) => line.startsWith("headgate_limit") && line.includes(`policy="${policy}"`))
      .map((line) => line.replaceAll(policy, "p"));
  };
  const patch = (gate: ReturnType<typeof admin>, change: object) =>
    gate.call("PATCH", `/policies/${gate.policy}`, change, { "If-Match": "*" });

  it("headgate_limit shows the limits of a policy rule in effect, and none while the mode is off", async () => {
    const gate = admin({ limits: "10/hour" });
    // A beat describes the policies to the control plane.
    await gate.call("GET", "/policies");
    const configured = [
      'headgate_limit{policy="p",limit="p"} 10',
      'headgate_limit_window_seconds{policy="p",limit="p"} 3600',
    ];
    expect(await limitsOf(gate)).toEqual(configured);
    await patch(gate, { limits: "5/minute", for: "1s" });
    expect(await limitsOf(gate)).toEqual([
      'headgate_limit{policy="p",limit="p"} 5',
      'headgate_limit_window_seconds{policy="p",limit="p"} 60',
    ]);
    await patch(gate, { mode: "off" });
    expect(await limitsOf(gate)).toEqual([]);
    await patch(gate, { mode: "dry-run" });
    await expect.poll(() => limitsOf(gate), { timeout: 3_000 }).toEqual(configured);
  });

  it("headgate_limit shows the limits of a rule that the isolate does not know yet", async () => {
    const gate = admin({ limits: "10/hour" });
    await gate.call("GET", "/policies");
    await patch(gate, { limits: "5/minute" });
    const variables = { POLICIES: [{ name: gate.policy, key: "ip", limits: "10/hour" }] };
    const other = admin({}, variables);
    expect(await limitsOf({ ...other, policy: gate.policy })).toContain('headgate_limit{policy="p",limit="p"} 5');
  });
});
