/**
 * A Worker without Hono outside the repository: the examples of the page about queues and scheduled handlers.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestHarness, type TestHarness } from "wrangler";
import { pageBlock } from "../../docs/page-block.ts";
import { compilers, type FreshApp, freshApp, tools } from "./fresh-app.ts";
import { agentWorker, callingWorker } from "./workers.ts";

const page = "how-to/limit-outside-a-route";
const [imports = "", ...consumer] = pageBlock(page, "ts queue")
  .replace("export default { queue };\n", "")
  .split("\n\n");

/** The functions of the page in one Worker, with the work that they limit. */
const worker = `${imports}

interface Mail {
  readonly to: string;
}

interface Env {
  readonly RATE_LIMITER: DurableObjectNamespace;
  readonly MAILS: Queue<Mail>;
}

const sent: string[] = [];
const send = async ({ to }: Mail): Promise<void> => void sent.push(to);
const synced = createLimiter({ name: "synced", limits: "100/hour", consistency: "eventual" });
const importRows = async (tenant: string): Promise<number> => (tenant === "red" ? 20 : 700);

${consumer.join("\n\n")}
${pageBlock(page, "ts scheduled")}
${pageBlock(page, "ts fetch")}
export default {
  queue,
  scheduled,
  async fetch(request, env) {
    const { pathname, searchParams } = new URL(request.url);
    if (pathname === "/mails") {
      await env.MAILS.sendBatch(searchParams.getAll("to").map((to) => ({ body: { to } })));
      return new Response("queued");
    }
    if (pathname === "/sent") return Response.json(sent);
    if (pathname === "/imports") {
      const answers = ["red", "blue"].map((key) => imports.look(env, { key }));
      return Response.json((await Promise.all(answers)).map(({ limits }) => limits[0]?.remaining));
    }
    if (pathname === "/synced") {
      const { limits } = await synced[request.method === "POST" ? "check" : "look"](env, { key: "a" });
      return Response.json(limits[0]?.remaining);
    }
    return fetch(request, env);
  },
} satisfies ExportedHandler<Env, Mail>;
`;

const configuration = `name = "app"
main = "src/index.ts"
compatibility_date = "2026-11-01"

[[durable_objects.bindings]]
name = "RATE_LIMITER"
class_name = "RateLimiter"

[[migrations]]
tag = "v1"
new_sqlite_classes = ["RateLimiter"]

[[queues.producers]]
binding = "MAILS"
queue = "mails"

[[queues.consumers]]
queue = "mails"
max_batch_size = 10
max_batch_timeout = 0
`;

let app: FreshApp;

beforeAll(async () => {
  const others = { "src/caller.ts": callingWorker, "src/agent.ts": agentWorker };
  app = await freshApp({ "src/index.ts": worker, ...others, "wrangler.toml": configuration }, [
    "@cloudflare/workers-types",
    "@cloudflare/vite-plugin",
    "vite",
    "wrangler",
  ]);
});

afterAll(() => app.remove());

it.each(compilers)(
  "Workers with headgate/limiter, headgate/client and headgate/strategies compile without hono, with TypeScript $version and $moduleResolution",
  async (compiler) => {
    expect(await app.typeErrors(compiler, ["@cloudflare/workers-types"])).toBe("");
  },
);

describe.each(tools)("a Worker with headgate/limiter, built with %s", (tool) => {
  let server: TestHarness;

  beforeAll(async () => {
    const secrets = { KEY_SECRET: crypto.randomUUID() };
    server = createTestHarness({ workers: [{ ...(await app.builtBy(tool)), secrets }] });
    await server.listen();
  });

  afterAll(() => server.close());

  const ask = (path: string, init = {}) => server.fetch(`https://app.example${path}`, init);
  const json = async (path: string): Promise<unknown> => (await ask(path)).json();

  it("a queue consumer sends only the mails that the limits of each address allow", async () => {
    const to = ["ann", "ann", "bob", "ann", "ann"].map((name) => `to=${name}`).join("&");
    expect(await (await ask(`/mails?${to}`)).text()).toBe("queued");
    await expect.poll(() => json("/sent")).toEqual(["ann", "ann", "bob"]);
  });

  it("a scheduled job reserves the highest cost and settles the actual cost", async () => {
    const cron = { cron: "0 * * * *", scheduledTime: new Date() };
    expect((await server.getWorker().scheduled(cron)).outcome).toBe("ok");
    await expect.poll(() => json("/imports")).toEqual([980, 300]);
    await server.getWorker().scheduled(cron);
    await expect.poll(() => json("/imports")).toEqual([960, 300]);
  });

  it("an eventual policy syncs its charges after the handler has ended, without the handler's context", async () => {
    expect(await (await ask("/synced", { method: "POST" })).json()).toBe(99);
    await expect.poll(() => json("/synced")).toBe(99);
  });

  it("a plain fetch handler answers a denied request with 429 and the RateLimit fields", async () => {
    const headers = { "CF-Connecting-IP": "203.0.113.7" };
    const answers = [await ask("/", { headers }), await ask("/", { headers }), await ask("/", { headers })];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 429]);
    expect(answers[0]?.headers.get("RateLimit")).toMatch(/^"visits";r=1;t=\d+$/);
    expect(Number(answers[2]?.headers.get("Retry-After"))).toBeGreaterThan(0);
  });
});
