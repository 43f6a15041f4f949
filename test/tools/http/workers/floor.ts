/**
 * What Headgate is measured against: the least that a Worker does which answers, which asks an object before it answers,
 * which passes a request on, and which asks an object before it passes one on.
 */
import { DurableObject } from "cloudflare:workers";
import { Hono } from "hono";

interface Bindings {
  readonly NOOP: DurableObjectNamespace<Noop>;
  readonly ORIGIN: string;
}

/** The same object for each request of a key. */
export class Noop extends DurableObject {
  noop(): void {}
}

const app = new Hono<{ Bindings: Bindings }>();

app.get("/plain", (c) => c.json({ allowed: true }));

/** What `/check` is asked, read and answered at once. */
app.post("/plain-json", async (c) => {
  const { key } = await c.req.json<{ key: string }>();
  return c.json({ allowed: true, key });
});

app.get("/noop", async (c) => {
  await c.env.NOOP.getByName(c.req.header("X-Key") ?? "").noop();
  return c.json({ allowed: true });
});

/** The same, answered by nobody who limits. */
app.post("/noop-json", async (c) => {
  const { key } = await c.req.json<{ key: string }>();
  await c.env.NOOP.getByName(key).noop();
  return c.json({ allowed: true, key });
});

/** Without a router in the way where there is nothing to route. */
export const bare: ExportedHandler<Bindings> = { fetch: pass };

export const bareNoop: ExportedHandler<Bindings> = {
  async fetch(request, env) {
    await env.NOOP.getByName(request.headers.get("X-Key") ?? "").noop();
    return pass(request, env);
  },
};

function pass(request: Request, { ORIGIN }: Bindings): Promise<Response> {
  const url = new URL(request.url);
  return fetch(new Request(new URL(url.pathname + url.search, ORIGIN), request));
}

export default app;
