/** Every route, and the order in which a request meets what stands before it. */
import { Hono } from "hono";
import type { Config } from "./config/index.ts";
import { checkRoutes } from "./http/check.ts";
import { enforce } from "./http/enforce.ts";
import { problemResponse } from "./http/problems.ts";
import { proxy, refuseUnforwardable } from "./http/proxy.ts";
import { LimiterClient } from "./limiter/client.ts";
import type { RateLimiter } from "./limiter/rate-limiter.ts";
import { errorText, report } from "./observability/events.ts";
import { Partitions } from "./policies/partitions.ts";

export function createApp(config: Config, objects: DurableObjectNamespace<RateLimiter>): Hono {
  const partitions = new Partitions(config.keySecret);
  const limiter = new LimiterClient(objects);
  const app = new Hono();

  app.route(config.checkPath, checkRoutes(config, partitions, limiter));
  app.all("*", refuseUnforwardable(config), enforce(config, partitions, limiter), proxy(config));

  app.onError((error) => {
    report({ event: "internal-error", error: errorText(error) });
    return problemResponse({ kind: "internal" });
  });
  return app;
}
