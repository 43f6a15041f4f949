/** The admin API, its rules and the statistics for a policy whose limits a function returns. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { Hono } from "hono";
import { expect, it, vi } from "vitest";
import { admin, rateLimit } from "../../../src/sdk/package/hono.ts";

const token = "the-admin-token-of-alice";

/**
 * An app whose requests carry their limits, as a database would return them. The policy's name is unique among the
 * tests.
 */
function administered() {
  const policy = `stated-${crypto.randomUUID().slice(0, 8)}`;
  const app = new Hono();
  app.use(admin());
  app.use(
    "/api/*",
    rateLimit({
      name: policy,
      limits: (c) => c.req.header("X-Limits") ?? "",
      strategy: "sliding-log",
      key: (c) => c.req.header("X-User"),
      denyCache: false,
    }),
  );
  app.get("*", (c) => c.text("the app"));
  const own = { ...env, KEY_SECRET: crypto.randomUUID(), ADMIN_TOKENS: token };
  const send = async (path: string, init: RequestInit) => {
    const ctx = createExecutionContext();
    const response = await app.fetch(new Request(`https://app.example${path}`, init), own, ctx);
    const text = await response.text();
    await waitOnExecutionContext(ctx);
    return { status: response.status, text };
  };
  const visit = async (user: string, limits: string): Promise<number> =>
    (await send("/api/x", { headers: { "X-User": user, "X-Limits": limits } })).status;
  // oxlint-disable-next-line typescript/no-explicit-any
  const call = async (method: string, path: string, body?: unknown): Promise<any> => {
    const headers = {
      Authorization: `Bearer ${token}`,
      "If-Match": "*",
      "Content-Type": "application/json",
    };
    const sent = body === undefined ? {} : { body: JSON.stringify(body) };
    const { status, text } = await send(`/_headgate/api${path}`, { method, headers, ...sent });
    expect(status).toBeLessThan(300);
    return text.startsWith("{") ? JSON.parse(text) : text;
  };
  return { policy, visit, call };
}

it("the admin API lists and explains a policy although its limits are not known", async () => {
  const { policy, visit, call } = administered();
  const limits = { value: [], source: "configuration" };
  expect(await call("GET", `/policies/${policy}`)).toMatchObject({ limits });
  expect([await visit("ann", "1/hour"), await visit("ann", "1/hour")]).toEqual([200, 429]);
  expect(await visit("ann", "2/hour")).toBe(200);
  const explained = await call("POST", "/keys/explain", { policy, key: "ann" });
  expect(explained).toMatchObject({ limitsFrom: "configured-limits", limits: [] });
  expect(explained.text[0]).toBe(
    "No rule denies it, but the limits of a request are not known: the Worker's code states them.",
  );
  expect(await call("GET", "/metrics")).toContain(`headgate_decisions_total{policy="${policy}"`);
});

it("a rule of the kind limits takes precedence over the limits function until the rule is removed", async () => {
  const { policy, visit, call } = administered();
  await call("PATCH", `/policies/${policy}`, { limits: "1/hour", strategy: "sliding-log" });
  expect([await visit("ann", "9/hour"), await visit("ann", "9/hour")]).toEqual([200, 429]);
  // The rule also applies to a request whose own limits are invalid.
  expect(await visit("bob", "lots")).toBe(200);
  await call("PATCH", `/policies/${policy}`, { limits: null });
  expect(await visit("ann", "2/hour")).toBe(200);
  expect(await visit("ann", "2/hour")).toBe(429);
});

it("a key rule takes precedence over the limits function", async () => {
  const { policy, visit, call } = administered();
  expect([await visit("ann", "1/hour"), await visit("ann", "1/hour")]).toEqual([200, 429]);
  const rule = { policy, key: "ann", kind: "limits", limits: "2/hour", strategy: "sliding-log" };
  await call("POST", "/rules", rule);
  expect([await visit("ann", "1/hour"), await visit("ann", "9/hour")]).toEqual([200, 429]);
});

it("mode rules apply to a policy with a limits function: off needs no limits, and a dry run denies nothing", async () => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
  const { policy, visit, call } = administered();
  await call("PATCH", `/policies/${policy}`, { mode: "dry-run" });
  const dryRuns = [await visit("ann", "1/hour"), await visit("ann", "1/hour")];
  expect([...dryRuns, await visit("ann", "lots")]).toEqual([200, 200, 500]);
  await call("PATCH", `/policies/${policy}`, { mode: "off" });
  expect(await visit("ann", "lots")).toBe(200);
});
