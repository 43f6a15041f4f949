/** Other rate limiters, as functions that decide one request by its key. */
import type { Request, Response } from "express";
import { rateLimit } from "express-rate-limit";
import type { Context } from "hono";
import { rateLimiter, type Store } from "hono-rate-limiter";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { durableStore } from "./durable-store.ts";
import { UpstashRedis } from "./upstash-redis.ts";

/** The limit of each key. */
export interface KeyLimit {
  readonly limit: number;
  readonly windowMs: number;
}

/** Decides a request at the current time. Returns whether the request is allowed. */
export type DecideKey = (key: string) => boolean | Promise<boolean>;

export interface PeerLimiter {
  readonly title: string;
  /** Where the limiter keeps its counters, as text such as "each isolate". */
  readonly counters: string;
  /** Starts one instance for each place, such as a process, an isolate or a location. */
  readonly start: (limit: KeyLimit, places: number) => DecideKey[];
}

const inEach =
  (start: (limit: KeyLimit) => DecideKey): PeerLimiter["start"] =>
  (limit, places) =>
    Array.from({ length: places }, () => start(limit));

export const peerLimiters: readonly PeerLimiter[] = [
  {
    title: "`hono-rate-limiter` with Durable Objects",
    counters: "one object",
    start: (limit, places) => {
      const { store } = durableStore(limit.windowMs);
      return Array.from({ length: places }, () => honoMiddleware(limit, store as Store));
    },
  },
  {
    title: "`hono-rate-limiter` in memory",
    counters: "each isolate",
    start: inEach((limit) => honoMiddleware(limit)),
  },
  { title: "`express-rate-limit` in memory", counters: "each process", start: inEach(express) },
  { title: "`rate-limiter-flexible` in memory", counters: "each process", start: inEach(flexible) },
  {
    title: "`@upstash/ratelimit`, sliding window",
    counters: "one Redis",
    start: ({ limit, windowMs }, places) => {
      const redis = new UpstashRedis();
      return Array.from({ length: places }, () => {
        const limiter = redis.limiter(limit, windowMs);
        return async (key) => (await limiter.limit(key)).success;
      });
    },
  },
  { title: "rate limiting binding, emulated", counters: "each location", start: inEach(emulated) },
];

function honoMiddleware({ limit, windowMs }: KeyLimit, store?: Store): DecideKey {
  let key = "";
  const middleware = rateLimiter({
    limit,
    windowMs,
    standardHeaders: false,
    keyGenerator: () => key,
    handler: () => undefined,
    ...(store && { store }),
  });
  // The middleware refunds requests without a response.
  const context = { set: () => undefined, finalized: true } as unknown as Context;
  return async (given) => {
    key = given;
    let allowed = false;
    // oxlint-disable-next-line require-await
    await middleware(context, async () => {
      allowed = true;
    });
    return allowed;
  };
}

function express({ limit, windowMs }: KeyLimit): DecideKey {
  let key = "";
  const middleware = rateLimit({
    limit,
    windowMs,
    standardHeaders: false,
    legacyHeaders: false,
    validate: false,
    keyGenerator: () => key,
    handler: () => undefined,
  });
  return async (given) => {
    key = given;
    let allowed = false;
    await middleware({} as Request, {} as Response, () => {
      allowed = true;
    });
    return allowed;
  };
}

const yes = (): boolean => true;
const no = (): boolean => false;

function flexible({ limit, windowMs }: KeyLimit): DecideKey {
  const limiter = new RateLimiterMemory({ points: limit, duration: windowMs / 1_000 });
  return (key) => limiter.consume(key).then(yes, no);
}

/**
 * The rule by which Miniflare emulates the binding: windows are aligned to the clock, and denied requests are not
 * counted.
 */
function emulated({ limit, windowMs }: KeyLimit): DecideKey {
  const buckets = new Map<string, { window: number; count: number }>();
  return (key) => {
    const window = Math.floor(Date.now() / windowMs);
    const bucket = buckets.get(key);
    const count = bucket?.window === window ? bucket.count : 0;
    if (count >= limit) return false;
    buckets.set(key, { window, count: count + 1 });
    return true;
  };
}
