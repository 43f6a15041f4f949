/**
 * A Durable Object outside the repository that limits its own calls, as agents do, and keeps the state in its own
 * storage.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestHarness, type TestHarness } from "wrangler";
import { compilers, type FreshApp, freshApp, tools } from "./fresh-app.ts";

const worker = `import { DurableObject } from "cloudflare:workers";
import { createMeter, type Meter, parseLimits } from "headgate/strategies";

interface Env {
  readonly AGENT: DurableObjectNamespace<Agent>;
}

const limits = parseLimits("5/hour", { strategy: "sliding-log" });

export class Agent extends DurableObject<Env> {
  readonly #meter: Meter;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#meter = createMeter(limits, ctx.storage.kv.get("meter"));
  }

  /** Calls the model unless this would exceed the limit. */
  ask(question: string): { readonly answer: string } | { readonly retryAfterMs: number } {
    const { allowed, retryAfterMs } = this.#meter.consume(1, Date.now());
    if (!allowed) return { retryAfterMs: retryAfterMs ?? 0 };
    this.ctx.storage.kv.put("meter", this.#meter.snapshot());
    return { answer: question.toUpperCase() };
  }
}

export default {
  async fetch(request, env) {
    const agent = env.AGENT.getByName(new URL(request.url).pathname);
    const answer = await agent.ask("why");
    return Response.json(answer, { status: "answer" in answer ? 200 : 429 });
  },
} satisfies ExportedHandler<Env>;
`;

const configuration = `name = "app"
main = "src/index.ts"
compatibility_date = "2026-11-01"

[[durable_objects.bindings]]
name = "AGENT"
class_name = "Agent"

[[migrations]]
tag = "v1"
new_sqlite_classes = ["Agent"]
`;

let app: FreshApp;

beforeAll(async () => {
  app = await freshApp({ "src/index.ts": worker, "wrangler.toml": configuration }, [
    "@cloudflare/workers-types",
    "@cloudflare/vite-plugin",
    "vite",
    "wrangler",
  ]);
});

afterAll(() => app.remove());

it.each(compilers)("the Durable Object compiles with TypeScript $version and $moduleResolution", async (compiler) => {
  expect(await app.typeErrors(compiler, ["@cloudflare/workers-types"])).toBe("");
});

describe.each(tools)("a Durable Object with headgate/strategies, built with %s", (tool) => {
  let server: TestHarness;

  beforeAll(async () => {
    server = createTestHarness({ workers: [await app.builtBy(tool)] });
    await server.listen();
  });

  afterAll(() => server.close());

  const ask = async (agent: string): Promise<number> => (await server.fetch(`https://app.example/${agent}`)).status;

  it("a Durable Object with its own meter allows exactly its limit of concurrent calls", async () => {
    const statuses = await Promise.all(Array.from({ length: 12 }, () => ask("one")));
    expect(statuses.filter((status) => status === 200)).toHaveLength(5);
    expect(statuses.filter((status) => status === 429)).toHaveLength(7);
    expect(await ask("another")).toBe(200);
  });

  it("a Durable Object with its own meter that restarts still denies calls over its limit", async () => {
    for (const expected of [200, 200, 200]) expect(await ask("restarted")).toBe(expected);
    await server.getWorker().evictDurableObject("Agent", { name: "/restarted" });
    const statuses = [await ask("restarted"), await ask("restarted"), await ask("restarted")];
    expect(statuses).toEqual([200, 200, 429]);
  });
});
