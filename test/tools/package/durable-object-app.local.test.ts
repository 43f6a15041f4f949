/**
 * A Durable Object outside the repository that limits its own calls, as agents do, and keeps the state in its own
 * storage.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestHarness, type TestHarness } from "wrangler";
import { type FreshApp, freshApp, tools } from "./fresh-app.ts";
import { agentWorker } from "./workers.ts";

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
  app = await freshApp({ "src/index.ts": agentWorker, "wrangler.toml": configuration }, [
    "@cloudflare/vite-plugin",
    "vite",
    "wrangler",
  ]);
});

afterAll(() => app.remove());

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
