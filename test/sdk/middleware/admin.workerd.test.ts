/** The middleware `admin` together with `rateLimit`: operators see and change the policies of a Hono app. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { expect, it } from "vitest";
import { admin, rateLimit } from "../../../src/sdk/package/hono.ts";

const token = "the-admin-token-of-alice";
const consoleHost = "https://admin.example.com";

interface Point {
  readonly outcomes: Readonly<Record<string, number>>;
}

interface Visit {
  readonly method?: string;
  readonly headers?: Record<string, string>;
  readonly body?: unknown;
}

/**
 * An app with the console, an API below `/api`, and a policy whose key a function returns and whose name is unique
 * among the tests.
 */
function administeredApp(variables: Record<string, unknown> = {}) {
  const policy = `admin-${crypto.randomUUID().slice(0, 8)}`;
  const app = new Hono();
  app.use(admin());
  app.use(
    "/api/*",
    rateLimit({
      name: policy,
      limits: "2/hour",
      strategy: "sliding-log",
      key: (c) => c.req.header("X-User")?.split(" "),
      denyCache: false,
    }),
  );
  const keyed = `${policy}-keyed`;
  app.use("/keyed", rateLimit({ name: keyed, limits: "9/hour", key: "header:x-user" }));
  app.get("*", (c) => c.text("the app"));
  const own = {
    ...env,
    KEY_SECRET: crypto.randomUUID(),
    ADMIN_TOKENS: token,
    ADMIN_HOST: "admin.example.com",
    ...variables,
  };
  const send = async (url: string, { method = "GET", headers = {}, body }: Visit = {}) => {
    const ctx = createExecutionContext();
    const request = new Request(new URL(url, "https://app.example"), {
      method,
      headers: { ...headers, ...(body !== undefined && { "Content-Type": "application/json" }) },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      redirect: "manual",
    });
    const response = await app.fetch(request, own, ctx);
    const text = await response.text();
    await waitOnExecutionContext(ctx);
    return { status: response.status, headers: response.headers, text };
  };
  const visit = async (user: string): Promise<number> => (await send("/api/x", { headers: { "X-User": user } })).status;
  // oxlint-disable-next-line typescript/no-explicit-any
  const call = async (method: string, path: string, body?: unknown): Promise<any> => {
    const headers = { Authorization: `Bearer ${token}`, "If-Match": "*" };
    const { status, text } = await send(`/_headgate/api${path}`, { method, headers, body });
    return { status, body: text === "" ? null : JSON.parse(text) };
  };
  return { policy, keyed, send, visit, call };
}

it("the admin API lists the policies of routes that have not received a request yet", async () => {
  const { policy, call } = administeredApp();
  const { status, body } = await call("GET", `/policies/${policy}`);
  expect(status).toBe(200);
  expect(body).toMatchObject({ name: policy, mode: { value: "enforce", source: "configuration" } });
});

it("the middleware applies rules for the mode and for the limits of a policy", async () => {
  const { policy, call, visit } = administeredApp();
  expect([await visit("ann"), await visit("ann"), await visit("ann")]).toEqual([200, 200, 429]);
  const patch = (rules: object) => call("PATCH", `/policies/${policy}`, rules);
  expect((await patch({ mode: "off" })).body).toMatchObject({ mode: { value: "off" } });
  expect(await visit("ann")).toBe(200);
  await patch({ mode: null, limits: "3/hour", strategy: "sliding-log" });
  expect([await visit("ann"), await visit("ann")]).toEqual([200, 429]);
});

it("an operator can explain, block and reset a key that a function returns, by the text of the key", async () => {
  const { policy, call, visit } = administeredApp();
  expect([await visit("ann"), await visit("ann"), await visit("ann")]).toEqual([200, 200, 429]);
  const { body } = await call("POST", "/keys/explain", { policy, key: "ann" });
  expect(body).toMatchObject({ allowed: false, reason: "limit", limits: [{ used: 2, limit: 2 }] });
  const reset = await call("DELETE", `/keys/${policy}/${body.id}/usage`);
  expect([reset.status, await visit("ann")]).toEqual([204, 200]);
  const block = { policy, key: "ann", kind: "block", note: "abuse" };
  expect((await call("POST", "/rules", block)).status).toBe(201);
  expect([await visit("ann"), await visit("bob")]).toEqual([403, 200]);
});

it("an operator names a key that consists of several texts as a JSON list", async () => {
  const { policy, call, visit } = administeredApp();
  await visit("ann berlin");
  for (const key of ['["ann","berlin"]', '["ann", "berlin"]']) {
    // oxlint-disable-next-line no-await-in-loop
    const { body } = await call("POST", "/keys/explain", { policy, key });
    expect(body).toMatchObject({ isKeyKnown: true, limits: [{ used: 1 }] });
  }
  await visit("[x");
  const { body } = await call("POST", "/keys/explain", { policy, key: "[x" });
  expect(body).toMatchObject({ limits: [{ used: 1 }] });
});

it("a client cannot evade a rule that blocks the first value of a header by adding a second value", async () => {
  const { call, send, keyed } = administeredApp();
  const block = { policy: keyed, key: "evil", kind: "block", note: "abuse" };
  expect((await call("POST", "/rules", block)).status).toBe(201);
  const status = async (user: string): Promise<number> =>
    (await send("/keyed", { headers: { "X-User": user } })).status;
  expect([await status("evil"), await status("evil, x"), await status("x, y")]).toEqual([403, 403, 200]);
});

it("the statistics count the decisions of the middleware", async () => {
  const { policy, call, visit } = administeredApp();
  expect([await visit("ann"), await visit("ann"), await visit("ann")]).toEqual([200, 200, 429]);
  const counted = async (): Promise<object> => {
    const { body } = await call("GET", `/stats?policy=${policy}`);
    const sumOf = (name: string): number =>
      body.points.reduce((sum: number, { outcomes }: Point) => sum + (outcomes[name] ?? 0), 0);
    return { allowed: sumOf("allowed"), denied: sumOf("denied") };
  };
  await expect.poll(counted, { timeout: 30_000 }).toEqual({ allowed: 2, denied: 1 });
});

it("on ADMIN_HOST, the console is served and no route of the app; elsewhere the console is not served", async () => {
  const { send } = administeredApp();
  const page = await send(`${consoleHost}/_headgate/`);
  expect(page.status).toBe(200);
  expect(page.text).toContain('<div id="console">');
  const [, script = ""] = /src="(.*?)"/.exec(page.text) ?? [];
  expect((await send(`${consoleHost}/_headgate/${script}`)).status).toBe(200);
  expect((await send(consoleHost)).headers.get("Location")).toBe("/_headgate/");
  expect((await send(`${consoleHost}/api/x`)).status).toBe(404);
  const elsewhere = await send("/_headgate/");
  expect([elsewhere.status, elsewhere.text]).toEqual([404, expect.not.stringContaining("<div")]);
});

it("requests to other hosts and paths than ADMIN_HOST and ADMIN_PATH reach the app", async () => {
  const { send } = administeredApp();
  for (const path of ["/", "/_headgates", "/other/_headgate/api/policies"]) {
    expect(await send(path)).toMatchObject({ status: 200, text: "the app" });
  }
});

it("without admin credentials in the configuration, all requests reach the app", async () => {
  const { send } = administeredApp({ ADMIN_TOKENS: undefined, ADMIN_HOST: undefined });
  for (const path of ["/", "/_headgate/", "/_headgate/api/policies"]) {
    expect(await send(path)).toMatchObject({ status: 200, text: "the app" });
  }
});

it("without valid ADMIN_TOKENS, or without the binding of the control plane, a problem names what is missing", async () => {
  const { send } = administeredApp();
  expect((await send("/_headgate/api/policies")).status).toBe(401);
  const unbound = administeredApp({ CONTROL_PLANE: undefined });
  const { status, body } = await unbound.call("GET", "/policies");
  expect([status, body.detail]).toEqual([503, expect.stringContaining("CONTROL_PLANE")]);
  expect([await unbound.visit("ann"), await unbound.visit("ann")]).toEqual([200, 200]);
  expect(await unbound.visit("ann")).toBe(429);
});

it("the admin API omits a policy whose route lacks its variables, and lists the others", async () => {
  const broken = `broken-${crypto.randomUUID().slice(0, 8)}`;
  rateLimit({ name: broken, limits: "1/minute", key: "jwt:sub" });
  const { policy, call } = administeredApp();
  const { body } = await call("GET", "/policies");
  const names = body.policies.map(({ name }: { name: string }) => name);
  expect(names).toContain(policy);
  expect(names).not.toContain(broken);
});

it.for([
  [undefined, "1/64"],
  ["1/8", "1/8"],
  ["off", "off"],
])("with SAMPLE = %j, the traffic sample of the middleware is %j", async ([SAMPLE, sample]) => {
  const { policy, call } = administeredApp({ SAMPLE });
  const { status, body } = await call("GET", `/samples?policy=${policy}`);
  expect([status, body]).toEqual([200, expect.objectContaining({ policy, sample, arrivals: 0 })]);
});
