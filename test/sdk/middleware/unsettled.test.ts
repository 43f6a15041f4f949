/** Reservations that no handler settles, tested on a virtual clock. */
import { Hono } from "hono";
import { expect, it } from "vitest";
import { rateLimit } from "../../../src/sdk/package/hono.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

const visitor = () => {
  const { env, clock } = createTestLimiter();
  const app = new Hono();
  app.use(rateLimit({ limits: "100/minute", strategy: "sliding-log", cost: 40, reserve: true }));
  let settle = async (_cost: number): Promise<boolean> => false;
  app.get("*", (c) => {
    const { decisions } = c.get("headgate");
    ({ settle } = c.get("headgate"));
    return c.text(String(decisions[0]?.limits[0]?.remaining));
  });
  const visit = async (): Promise<string> => (await app.request("/", {}, env)).text();
  return { visit, clock, settle: (cost: number) => settle(cost) };
};

it("a reserved cost that is never settled stays charged", async () => {
  const { visit, clock } = visitor();
  expect(await visit()).toBe("60");
  await clock.advance("5s");
  expect(await visit()).toBe("20");
});

it("a cost can be settled until one second after the end of the response, and not later", async () => {
  const { visit, clock, settle } = visitor();
  expect(await visit()).toBe("60");
  await clock.advance(999);
  expect(await settle(10)).toBe(true);
  expect(await visit()).toBe("50");
  await clock.advance(1_000);
  expect(await settle(10)).toBe(false);
  expect(await visit()).toBe("10");
});
