/** Runs the page's example of a limit outside of a route that shares the counter of a Hono route. */
import type { Hono } from "hono";
import { expect, it } from "vitest";
import type { createTestLimiter } from "../../src/sdk/package/test.ts";
import { pageBlock } from "./page-block.ts";
import { pageModules } from "./page-module.ts";

const imported = pageModules();

interface Example {
  readonly app: Hono;
  readonly chargeJob: (env: object, user: string) => Promise<boolean>;
  readonly createTestLimiter: typeof createTestLimiter;
}

it("a background job of a user and the user's requests charge the same counter", async () => {
  const {
    app,
    chargeJob,
    createTestLimiter: createLimiter,
  } = await imported<Example>(`import { Hono } from "hono";
    const app = new Hono();
    ${pageBlock("how-to/limit-outside-a-route", "ts hono")}
    app.get("/api/*", (c) => c.text("ok"));
    export { createTestLimiter } from "headgate/test";
    export { app };`);
  const { env } = createLimiter();
  const visit = async (user: string): Promise<number> =>
    (await app.request("/api/x", { headers: { "X-User": user } }, env)).status;
  expect([await visit("ann"), await chargeJob(env, "ann"), await visit("ann")]).toEqual([200, true, 429]);
  expect([await chargeJob(env, "ann"), await chargeJob(env, "bob")]).toEqual([false, true]);
});
