/** Reservations in the middleware: costs that handlers settle, and concurrency slots. */
import { createExecutionContext } from "cloudflare:test";
import { Hono } from "hono";
import { streamText } from "hono/streaming";
import { expect, it } from "vitest";
import { rateLimit } from "../../../src/sdk/package/hono.ts";
import { bindings, visitor } from "./visitor.ts";

it("settle has no effect in the handler of a request that skip exempts", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "1/minute", reserve: true, skip: () => true }));
  app.get("*", async (c) => {
    const { decisions, settle } = c.get("headgate");
    return c.json({ decisions, settled: await settle(5) });
  });
  expect(JSON.parse((await visitor(app)()).body)).toEqual({ decisions: [], settled: false });
});

it("a handler settles a reserved cost before it answers", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "100/minute", strategy: "sliding-log", cost: 40, reserve: true }));
  app.get("*", async (c) => {
    const { decisions, settle } = c.get("headgate");
    const settled = await settle(Number(c.req.query("cost")));
    const again = await settle(1);
    return c.json({ remaining: decisions[0]?.limits[0]?.remaining, settled, again });
  });
  const visit = visitor(app);
  const answer = { settled: true, again: false };
  expect(JSON.parse((await visit({ path: "/?cost=10" })).body)).toEqual({
    ...answer,
    remaining: 60,
  });
  expect(JSON.parse((await visit({ path: "/?cost=0" })).body)).toEqual({
    ...answer,
    remaining: 50,
  });
  expect(JSON.parse((await visit({ path: "/?cost=95" })).body)).toEqual({
    ...answer,
    remaining: 50,
  });
  expect((await visit({ path: "/?cost=1" })).status).toBe(429);
});

it("a handler settles a reserved cost while its response streams", async () => {
  const app = new Hono();
  app.use(rateLimit({ limits: "100/minute", strategy: "sliding-log", cost: 40, reserve: true }));
  app.get("*", (c) =>
    streamText(c, async (stream) => {
      await stream.write("tokens ");
      await stream.write(String(c.get("headgate").decisions[0]?.limits[0]?.remaining));
      await c.get("headgate").settle(5);
    }),
  );
  const visit = visitor(app);
  expect((await visit()).body).toBe("tokens 60");
  expect((await visit()).body).toBe("tokens 55");
});

it("the error of settle names a wrong cost, a wrong policy name, or a missing reservation", async () => {
  const app = new Hono();
  app.use("/reserved", rateLimit({ name: "r", limits: "100/minute", reserve: true }));
  app.use("/final", rateLimit({ name: "f", limits: "100/minute" }));
  app.get("/reserved", async (c) => {
    const { settle } = c.get("headgate");
    const errorOf = (cost: number | Record<string, number>): Promise<string> =>
      settle(cost).then(String, ({ message }: Error) => message);
    return c.json([await errorOf(-1), await errorOf({ other: 1 }), await errorOf({ r: 2 })]);
  });
  app.get("/final", async (c) =>
    c.text(
      await c
        .get("headgate")
        .settle(1)
        .then(String, ({ message }: Error) => message),
    ),
  );
  const visit = visitor(app);
  expect(JSON.parse((await visit({ path: "/reserved" })).body)).toEqual([
    "settle got the cost -1; expected an integer from 0 to 1000000",
    'settle: "other" is not a policy with reserve: true; expected "r"',
    "true",
  ]);
  expect((await visit({ path: "/final" })).body).toBe("settle: no policy of this request has reserve: true");
});

it("a slot is occupied until the end of the streamed response", async () => {
  const app = new Hono();
  const release = Promise.withResolvers<void>();
  app.use(rateLimit({ limits: { limit: 1, window: "1m", strategy: "concurrency" } }));
  app.get("/slow", (c) =>
    streamText(c, async (stream) => {
      await stream.write("begun");
      await release.promise;
    }),
  );
  app.get("/fast", (c) => c.text("fast"));
  const visit = visitor(app);
  const slow = visit({ path: "/slow" });
  await expect.poll(async () => (await visit({ path: "/fast" })).status).toBe(429);
  release.resolve();
  expect((await slow).body).toBe("begun");
  expect((await visit({ path: "/fast" })).status).toBe(200);
});

/** A route with one slot. Its function `send` does not wait for the end of the response's body. */
function withOneSlot(answer: () => Response) {
  const app = new Hono();
  app.use(rateLimit({ limits: { limit: 1, window: "1m", strategy: "concurrency" } }));
  app.get("/free", (c) => c.text("free"));
  app.get("*", answer);
  const own = bindings();
  const send = (method: string, signal?: AbortSignal) =>
    app.fetch(
      new Request("https://app.example/", {
        method,
        headers: { "CF-Connecting-IP": "203.0.113.7" },
        ...(signal && { signal }),
      }),
      own,
      createExecutionContext(),
    );
  const visit = visitor(app, own);
  return { send, isFree: async () => (await visit({ path: "/free" })).status === 200 };
}

const endless = (): Response =>
  new Response(new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(1_000)) }));

it("a request with the method HEAD releases its slot, although its body is never read", async () => {
  const { send, isFree } = withOneSlot(endless);
  expect((await send("HEAD")).status).toBe(200);
  await expect.poll(isFree).toBe(true);
});

it("a short body releases its slot before the client has read it, and a long body only afterwards", async () => {
  const short = withOneSlot(() => new Response("short"));
  expect((await short.send("GET")).status).toBe(200);
  await expect.poll(short.isFree).toBe(true);
  const long = withOneSlot(endless);
  const { body } = await long.send("GET");
  expect(await long.isFree()).toBe(false);
  await body?.cancel();
  await expect.poll(long.isFree).toBe(true);
});

it("a clone of a response body fails when the client goes away, since the clone would be incomplete", async () => {
  const { send } = withOneSlot(endless);
  const client = new AbortController();
  const response = await send("GET", client.signal);
  const copy = response.clone().text();
  client.abort();
  await expect(copy).rejects.toThrow("aborted");
});

it("a limiter that applies to a request twice is settled twice", async () => {
  const app = new Hono();
  const limits = {
    limits: "100/minute",
    strategy: "sliding-log",
    cost: 10,
    reserve: true,
  } as const;
  const limiter = rateLimit(limits);
  app.use(limiter, limiter);
  app.get("*", async (c) => {
    const { decisions, settle } = c.get("headgate");
    await settle(1);
    return c.json(decisions.map((decision) => decision.limits[0]?.remaining));
  });
  const visit = visitor(app);
  expect(JSON.parse((await visit()).body)).toEqual([90, 80]);
  expect(JSON.parse((await visit()).body)).toEqual([88, 78]);
});
