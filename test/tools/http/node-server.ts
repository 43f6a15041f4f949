/**
 * `node node-server.ts <port of Redis>`: a typical Node server with Hono that limits with `rate-limiter-flexible`, or
 * with Upstash's algorithm on Redis. Prints its port.
 */
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import { Ratelimit } from "@upstash/ratelimit";
import { type Context, Hono } from "hono";
import { Redis } from "ioredis";
import { RateLimiterRedis, RateLimiterRes } from "rate-limiter-flexible";

const storeClient = new Redis({ host: "127.0.0.1", port: Number(process.argv[2]) });
const duration = 3_600;

const limiters = {
  allowed: new RateLimiterRedis({
    storeClient,
    keyPrefix: "allowed",
    points: 1_000_000_000,
    duration,
  }),
  denied: new RateLimiterRedis({ storeClient, keyPrefix: "denied", points: 1, duration }),
  // The documentation of rate-limiter-flexible recommends this option for floods: the process remembers denied keys.
  remembered: new RateLimiterRedis({
    storeClient,
    keyPrefix: "remembered",
    points: 1,
    duration,
    inMemoryBlockOnConsumed: 2,
  }),
};

/**
 * Upstash's package calls Redis over HTTP. Here its scripts run on the same Redis, and over the same connection, as
 * those of the other package. Versions after 2.0 have scripts that only Upstash's own server accepts.
 */
const upstashClient = {
  evalsha: (hash: string, keys: string[], values: unknown[]): Promise<unknown> =>
    storeClient.evalsha(hash, keys.length, ...keys, ...values.map(String)),
  eval: (script: string, keys: string[], values: unknown[]): Promise<unknown> =>
    storeClient.eval(script, keys.length, ...keys, ...values.map(String)),
} as unknown as ConstructorParameters<typeof Ratelimit>[0]["redis"];

const upstash = (tokens: number): Ratelimit =>
  new Ratelimit({
    redis: upstashClient,
    limiter: Ratelimit.slidingWindow(tokens, "1 h"),
    prefix: `upstash-${tokens}`,
  });

const upstashLimiters = { allowed: upstash(1_000_000_000), denied: upstash(1) };

async function upstashAnswer(c: Context, limiter: Ratelimit): Promise<Response> {
  const { success, reason } = await limiter.limit(c.req.header("X-Key") ?? "");
  if (reason === "timeout") throw new Error("expected a reply of Redis in time, got the fallback of a timeout");
  return success ? c.json({ allowed: true }) : c.json({ allowed: false }, 429);
}

async function answer(c: Context, limiter: RateLimiterRedis): Promise<Response> {
  try {
    await limiter.consume(c.req.header("X-Key") ?? "");
    return c.json({ allowed: true });
  } catch (error) {
    if (!(error instanceof RateLimiterRes)) throw error;
    return c.json({ allowed: false }, 429);
  }
}

const app = new Hono();
app.get("/plain", (c) => c.json({ allowed: true }));
for (const [name, limiter] of Object.entries(limiters)) {
  app.get(`/${name}`, (c) => answer(c, limiter));
}
for (const [name, limiter] of Object.entries(upstashLimiters)) {
  app.get(`/upstash/${name}`, (c) => upstashAnswer(c, limiter));
}

const server = serve({ fetch: app.fetch, hostname: "127.0.0.1", port: 0 }, () => {
  console.log(String((server.address() as AddressInfo).port));
});
