/** A limiter in memory, as users have it in their own tests. */
import { Hono } from "hono";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { rateLimit } from "../../../src/sdk/package/hono.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

const visitor = { headers: { "CF-Connecting-IP": "203.0.113.7" } };

function app(options: object): Hono {
  const hono = new Hono();
  hono.use("/api/*", rateLimit({ strategy: "fixed-window", ...options }));
  return hono.get("/api/items", (c) => c.text("items"));
}

describe("a Hono app with a limiter in memory", () => {
  it("a request is denied until the clock has passed the window", async () => {
    const { env, clock } = createTestLimiter();
    const hono = app({ limits: "2/minute" });
    const status = async (): Promise<number> => (await hono.request("/api/items", visitor, env)).status;
    expect([await status(), await status(), await status()]).toEqual([200, 200, 429]);
    await clock.advance(59_999);
    expect(await status()).toBe(429);
    await clock.advance(1);
    expect(await status()).toBe(200);
  });

  it("a new test limiter shares no state with another one", async () => {
    const hono = app({ limits: "1/minute" });
    const statuses: number[] = [];
    for (let count = 0; count < 3; count++) {
      const { env } = createTestLimiter();
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await hono.request("/api/items", visitor, env)).status);
    }
    expect(statuses).toEqual([200, 200, 200]);
  });

  it("queued requests are answered when the test clock reaches their turns", async () => {
    const { env, clock } = createTestLimiter();
    const hono = app({ limits: { limit: 1, window: "10s", strategy: "leaky-bucket", burst: 3 } });
    const beganAtMs = clock.now();
    const answeredAtMs: number[] = [];
    const requests = [1, 2, 3].map(async () => {
      await hono.request("/api/items", visitor, env);
      answeredAtMs.push(clock.now() - beganAtMs);
    });
    await clock.advance("9s");
    expect(answeredAtMs).toEqual([0]);
    await clock.advance("1m");
    await Promise.all(requests);
    expect(answeredAtMs).toEqual([0, 10_000, 20_000]);
  });

  it.each([
    ["open", 200],
    ["closed", 503],
    ["local", 200],
  ])("while every call of an object fails, onError = %j answers at once with %i", async (onError, status) => {
    const { env, clock, fail, recover } = createTestLimiter();
    const hono = app({ limits: "1/minute", onError });
    fail();
    const first = await hono.request("/api/items", visitor, env);
    expect(first.status).toBe(status);
    recover();
    await clock.advance("1s");
    expect((await hono.request("/api/items", visitor, env)).status).toBe(200);
    expect((await hono.request("/api/items", visitor, env)).status).toBe(429);
  });

  it("a request to an object that does not answer is answered when its timeout has passed", async () => {
    const { env, clock, fail } = createTestLimiter();
    const hono = app({ limits: "1/minute", onError: "closed", timeout: "250ms" });
    fail("silent");
    let status = 0;
    const request = (async () => {
      status = (await hono.request("/api/items", visitor, env)).status;
    })();
    await clock.advance(249);
    expect(status).toBe(0);
    await clock.advance(1);
    expect(status).toBe(503);
    await request;
  });
});
