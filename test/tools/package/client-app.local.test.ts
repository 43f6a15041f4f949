/** A Worker outside the repository that calls Headgate through a service binding. */
import { resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestHarness, type TestHarness } from "wrangler";
import { type FreshApp, freshApp, patient, tools } from "./fresh-app.ts";
import { callingWorker } from "./workers.ts";

const configuration = `name = "app"
main = "src/index.ts"
compatibility_date = "2026-11-01"

[[services]]
binding = "HEADGATE"
service = "headgate"
entrypoint = "Headgate"
`;

const headgate = {
  configPath: resolve("wrangler.toml"),
  vars: {
    ORIGIN: "https://origin.example",
    POLICIES: [{ name: "default", key: "header:X-User", limits: ["5/hour"], timeout: patient }],
  },
  secrets: { KEY_SECRET: crypto.randomUUID(), CHECK_TOKENS: crypto.randomUUID() },
};

let app: FreshApp;

beforeAll(async () => {
  app = await freshApp({ "src/index.ts": callingWorker, "wrangler.toml": configuration }, [
    "@cloudflare/vite-plugin",
    "vite",
    "wrangler",
  ]);
});

afterAll(() => app.remove());

describe.each(tools)("a Worker with headgate/client, built with %s", (tool) => {
  let server: TestHarness;

  beforeAll(async () => {
    server = createTestHarness({ workers: [await app.builtBy(tool), headgate] });
    await server.listen();
  });

  afterAll(() => server.close());

  const answer = async (user: string): Promise<{ readonly status: number; readonly body: object }> => {
    const response = await server.fetch("https://app.example/", { headers: { "x-user": user } });
    return { status: response.status, body: (await response.json()) as object };
  };

  it("concurrent requests of a calling Worker are allowed up to exactly the limit of the policy", async () => {
    const answers = await Promise.all(Array.from({ length: 12 }, () => answer("one")));
    const statuses = answers.map(({ status }) => status).toSorted((a, b) => a - b);
    expect(statuses).toEqual([...Array<number>(5).fill(200), ...Array<number>(7).fill(429)]);
    expect((await answer("other")).status).toBe(200);
  });

  it("a calling Worker gets problem details for a key that is too long", async () => {
    const { status, body } = await answer("k".repeat(1_025));
    expect([status, body]).toMatchObject([500, { status: 422, errors: [{ field: "key" }] }]);
  });
});
