/**
 * The least work with which Headgate is compared, in four Workers: one answers, one first calls an object, one forwards
 * to the origin, and one calls an object before it forwards.
 */
import { DurableObject } from "cloudflare:workers";
import { Hono } from "hono";
import { countCalls, countRequest } from "./counter.ts";

export { counts } from "./counter.ts";

interface Bindings {
  readonly NOOP: DurableObjectNamespace<Noop>;
  readonly ORIGIN: string;
}

/** One object for each key. */
export class Noop extends DurableObject {
  noop(): void {}
}
countCalls(Noop);

const app = new Hono<{ Bindings: Bindings }>();

app.get("/plain", (c) => c.json({ allowed: true }));

/** Parses the JSON of a `/check` call and answers immediately. */
app.post("/plain-json", async (c) => {
  const { key } = await c.req.json<{ key: string }>();
  return c.json({ allowed: true, key });
});

app.get("/noop", async (c) => {
  await c.env.NOOP.getByName(c.req.header("X-Key") ?? "").noop();
  return c.json({ allowed: true });
});

/** Parses the same JSON and calls an object that does nothing. */
app.post("/noop-json", async (c) => {
  const { key } = await c.req.json<{ key: string }>();
  await c.env.NOOP.getByName(key).noop();
  return c.json({ allowed: true, key });
});

/** A Worker without a router. */
export const bare: ExportedHandler<Bindings> = {
  fetch(request, env) {
    countRequest();
    return pass(request, env);
  },
};

export const bareNoop: ExportedHandler<Bindings> = {
  async fetch(request, env) {
    countRequest();
    await env.NOOP.getByName(request.headers.get("X-Key") ?? "").noop();
    return pass(request, env);
  },
};

function pass(request: Request, { ORIGIN }: Bindings): Promise<Response> {
  const url = new URL(request.url);
  return fetch(new Request(new URL(url.pathname + url.search, ORIGIN), request));
}

export default {
  fetch(request, env, ctx) {
    countRequest();
    return app.fetch(request, env, ctx);
  },
} satisfies ExportedHandler<Bindings>;
