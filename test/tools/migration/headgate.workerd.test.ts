/** The options of `rateLimit` have the results that the migration table promises, with real Durable Objects. */
import { createExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { Hono } from "hono";
import { admin, rateLimit, type RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import { type Case, cases, resultOf, statedResult } from "./cases.ts";
import { headgateApp } from "./headgate-app.ts";
import type { Answer } from "./requests.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"] }));
afterEach(() => void vi.useRealTimers());

async function answersOf(options: RateLimitOptions, { steps, variables }: Case): Promise<Answer[]> {
  const bindings = { ...env, KEY_SECRET: crypto.randomUUID(), ...variables };
  // Each isolate has its own `env`.
  const copies = [headgateApp(options, { ...bindings }), headgateApp(options, { ...bindings })];
  const answers: Answer[] = [];
  for (const { afterMs = 0, copy = 0, ...ask } of steps) {
    vi.setSystemTime(Date.now() + afterMs);
    const answer = await copies[copy]?.(ask);
    if (answer !== undefined) answers.push(answer);
  }
  return answers;
}

describe.each(cases)("the row $row of the migration table", (each) => {
  it.each(each.headgate.map((options) => [options]))("rateLimit(%j) has the result in the row", async (options) => {
    expect(resultOf(await answersOf(options, each), each)).toEqual(statedResult(each));
  });
});

it("the admin API resets a key, which replaces resetKey of requestStorePropertyName", async () => {
  const app = new Hono();
  app.use(admin());
  app.use(rateLimit({ name: "reset", limits: "1/minute", key: "header:X-Client" }));
  app.all("*", (c) => c.text("handled"));
  const token = "the-admin-token-of-alice";
  const bindings = { ...env, KEY_SECRET: crypto.randomUUID(), ADMIN_TOKENS: token };
  const visit = async (): Promise<number> =>
    (await app.request("/", { headers: { "X-Client": "a" } }, bindings, createExecutionContext())).status;
  const call = (method: string, path: string, body?: object): Response | Promise<Response> =>
    app.request(
      `/_headgate/api/keys/${path}`,
      {
        method,
        headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
        ...(body && { body: JSON.stringify(body) }),
      },
      bindings,
      createExecutionContext(),
    );
  expect([await visit(), await visit()]).toEqual([200, 429]);
  const explained = await call("POST", "explain", { policy: "reset", key: "a" });
  const { id } = await explained.json<{ id: string }>();
  expect((await call("DELETE", `reset/${id}/usage`)).status).toBe(204);
  // An isolate may repeat a denial from memory for a second.
  vi.setSystemTime(Date.now() + 1_001);
  expect(await visit()).toBe(200);
});
