/** Denials that the app answers itself, with real Durable Objects. */
import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { expect, it } from "vitest";
import { rateLimit } from "../../../src/sdk/package/hono.ts";
import { visitor } from "./visitor.ts";

it("an error that a function throws for a denial keeps the fields of the denial", async () => {
  const app = new Hono();
  const onDeny = (): never => {
    const headers = { "X-Own": "1", "Retry-After": "7" };
    throw new HTTPException(418, { res: new Response("own", { status: 418, headers }) });
  };
  app.use(rateLimit({ limits: "1/minute", onDeny }));
  app.get("*", (c) => c.text("hello"));
  const visit = visitor(app);
  await visit();
  const { status, headers, body } = await visit();
  expect([status, body, headers.get("X-Own")]).toEqual([418, "own", "1"]);
  expect(headers.get("RateLimit")).toMatch(/^"default";r=0;t=\d+$/);
  expect(headers.get("Retry-After")).toBe("7");
});

it('a denied request goes on with onDeny: "continue", and stays charged to other policies', async () => {
  const app = new Hono();
  app.use(
    rateLimit(
      { name: "soft", limits: "1/minute", onDeny: "continue" },
      { name: "hard", limits: "3/minute", strategy: "sliding-log", key: "global" },
      { name: "trial", limits: "1/minute", key: "header:X-User", dryRun: true },
    ),
  );
  app.get("*", (c) => {
    const { allowed, decisions } = c.get("headgate");
    return c.json([allowed, decisions.map(({ policy, dryRun }) => [policy, dryRun])]);
  });
  const visit = visitor(app);
  const decisions = [
    ["soft", false],
    ["hard", false],
    ["trial", true],
  ];
  expect(JSON.parse((await visit()).body)).toEqual([true, decisions]);
  expect(JSON.parse((await visit()).body)).toEqual([false, decisions]);
  expect((await visit()).headers.get("RateLimit")).toMatch(/^"soft";r=0;t=\d+$/);
  expect((await visit()).status).toBe(429);
});
