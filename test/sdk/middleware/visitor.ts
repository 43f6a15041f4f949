/** Sends requests to a Hono app that uses the middleware, with the objects of the tests' Worker. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import type { Hono } from "hono";

/** Bindings with a secret that no other test has. */
export const bindings = (): Record<string, unknown> => ({
  ...env,
  KEY_SECRET: crypto.randomUUID(),
});

interface Visit {
  readonly path?: string;
  readonly headers?: Record<string, string>;
  readonly method?: string;
}

/** Sends requests to an app, one after the other. */
export function visitor(app: Hono, own = bindings()) {
  return async ({ path = "/api/x", headers = {}, method = "GET" }: Visit = {}) => {
    const ctx = createExecutionContext();
    const request = new Request(`https://app.example${path}`, {
      method,
      headers: { "CF-Connecting-IP": "203.0.113.7", ...headers },
    });
    const response = await app.fetch(request, own, ctx);
    const body = await response.text();
    await waitOnExecutionContext(ctx);
    return { status: response.status, headers: response.headers, body };
  };
}
