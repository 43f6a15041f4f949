/**
 * Other limiters for Workers: `hono-rate-limiter` with a Durable Object store, and the platform's own binding. Each is
 * created once for an isolate. In their documentation, they are created for each request, which is slower.
 */
import { DurableObjectRateLimiter, DurableObjectStore } from "@hono-rate-limiter/cloudflare";
import { type Context, Hono, type MiddlewareHandler } from "hono";
import { rateLimiter } from "hono-rate-limiter";
import { countCall, countCalls, countRequest } from "./counter.ts";

export { counts } from "./counter.ts";

interface Bindings {
  readonly STORE: DurableObjectNamespace<DurableObjectRateLimiter>;
  readonly MANY: RateLimit;
  readonly ONE: RateLimit;
}

type BindingsContext = Context<{ Bindings: Bindings }>;

export { DurableObjectRateLimiter };
countCalls(DurableObjectRateLimiter);

const keyOf = (c: Context): string => c.req.header("X-Key") ?? "";

/** Binds the store at the first request. */
function stored(limit: number): MiddlewareHandler<{ Bindings: Bindings }> {
  let limiter: MiddlewareHandler | undefined;
  return (c, next) => {
    limiter ??= rateLimiter({
      windowMs: 3_600_000,
      limit,
      keyGenerator: keyOf,
      store: new DurableObjectStore({ namespace: c.env.STORE }),
    });
    return limiter(c, next);
  };
}

async function bound(c: BindingsContext, binding: RateLimit): Promise<Response> {
  // The emulated binding calls one object for all keys.
  countCall();
  const { success } = await binding.limit({ key: keyOf(c) });
  return success ? c.json({ allowed: true }) : c.json({ allowed: false }, 429);
}

const app = new Hono<{ Bindings: Bindings }>();

app.get("/store/allowed", stored(1_000_000_000), (c) => c.json({ allowed: true }));
app.get("/store/denied", stored(1), (c) => c.json({ allowed: true }));
app.get("/binding/allowed", (c) => bound(c, c.env.MANY));
app.get("/binding/denied", (c) => bound(c, c.env.ONE));

export default {
  fetch(request, env, ctx) {
    countRequest();
    return app.fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Bindings>;
