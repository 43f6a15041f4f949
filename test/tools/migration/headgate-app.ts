/** The small app whose requests `rateLimit` of `headgate/hono` limits. */
import { Hono } from "hono";
import { rateLimit, type RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import { answerOf, defaults, headersOf, pathOf, remainingHeader, type Send } from "./requests.ts";

/** @param env the bindings and variables of the Worker */
export function headgateApp(options: RateLimitOptions, env: object): Send {
  const app = new Hono();
  const short = options.limits === undefined ? defaults : {};
  // Instances of an app in several isolates share their counters. Here they run in one isolate, so the limiter needs a
  // name.
  app.use(rateLimit({ name: "default", ...short, key: "header:X-Client", ...options }));
  app.all("*", (c) => {
    const remaining = c.get("headgate")?.decisions[0]?.limits[0]?.remaining;
    c.header(remainingHeader, String(remaining));
    return c.text("handled", Number(c.req.query("status")) as 200);
  });
  return async (ask) => answerOf(await app.request(pathOf(ask), { headers: headersOf(ask) }, env));
}
