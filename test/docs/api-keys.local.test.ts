/** Loads the configurations of the page about API keys, and sends the traffic that the page describes. */
import { writeFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { checkout, freePort, started, stopped } from "../system/checkout.ts";
import { pageBlock } from "./page-block.ts";
import { withBlock } from "./configuration-blocks.ts";
import { type Answer, having, many, pageTraffic } from "./page-traffic.ts";

const page = "docs/how-to/limit-by-api-key-and-plan.md";
const { serve, send, remaining } = pageTraffic();

const order = (apiKey: string, address: string): Promise<Answer> => send("/api/orders", { apiKey, address });

describe("API keys with two plans", () => {
  serve(page);

  it("an API key without an override gets 60 requests, and a key with an override gets 600", async () => {
    const [free, pro] = await Promise.all(
      ["sk_free_1", "sk_pro_1"].map((key, index) => many(61, () => order(key, `203.0.113.${index}`))),
    );
    expect(having(free ?? [], 200)).toHaveLength(60);
    expect(having(free ?? [], 429, '"violated-policies":["api-key"]')).toHaveLength(1);
    expect(having(pro ?? [], 200)).toHaveLength(61);
    expect(await remaining("api-key", "sk_pro_1")).toBe(539);
  });

  it("a caller who invents an API key for each request is limited by address only", async () => {
    const spend = (): Promise<Answer> => order(crypto.randomUUID(), "203.0.113.9");
    const answers = await many(100, spend);
    expect(having(answers, 200)).toHaveLength(100);
    expect(await remaining("address", "203.0.113.9")).toBe(1_100);
  });

  it("a blocklisted API key and a request without a key get 403", async () => {
    expect((await order("sk_leaked", "203.0.113.10")).status).toBe(403);
    expect((await send("/api/orders", { address: "203.0.113.10" })).status).toBe(403);
  });
});

describe("unknown API keys", () => {
  serve(page, "unknown-keys");

  it("with the page's configuration, only requests that the origin answers with 401 count by address", async () => {
    const address = "203.0.113.11";
    for (let count = 0; count < 3; count++) {
      // Requests in flight count until their response is known.
      // oxlint-disable-next-line no-await-in-loop
      await order("sk_free_1", address);
    }
    expect((await order("sk_unknown_1", address)).status).toBe(401);
    await vi.waitFor(async () => expect(await remaining("unknown-keys", address)).toBe(99), 5_000);
  });

  it("an address that invents API keys is denied after 100 unknown keys", async () => {
    const answers = await many(120, () => order(`sk_unknown_${crypto.randomUUID()}`, "203.0.113.12"));
    expect(having(answers, 401)).toHaveLength(100);
    expect(having(answers, 429, '"violated-policies":["unknown-keys"]')).toHaveLength(20);
  });
});

describe("API keys in a secret", () => {
  const { folder, remove } = checkout();
  afterAll(remove);

  it("npm start adds the overrides of the secret POLICIES_2 and does not print the keys", async () => {
    const toml = pageBlock("how-to/limit-by-api-key-and-plan", "toml", "[secrets]");
    const local = toml.replace(/^ORIGIN = .*\n/m, "");
    const shipped = readFileSync("wrangler.toml", "utf8");
    writeFileSync(join(folder, "wrangler.toml"), withBlock(shipped, local));
    writeFileSync(join(folder, ".dev.vars"), pageBlock("how-to/limit-by-api-key-and-plan", "dotenv"));
    const port = await freePort();
    const run = await started(folder, port);
    try {
      const request = async (key: string): Promise<Response> => {
        const headers = { "X-Api-Key": key };
        const response = await fetch(`http://localhost:${port}/api/orders`, { headers });
        await response.body?.cancel();
        return response;
      };
      const policyOf = async (key: string): Promise<string | null> =>
        (await request(key)).headers.get("RateLimit-Policy");
      expect(await policyOf("sk_pro_1")).toBe('"api-key";q=600;w=60');
      expect(await policyOf("sk_free_1")).toBe('"api-key";q=60;w=60');
      expect((await request("sk_leaked")).status).toBe(403);
      expect(run.output()).not.toContain("a demo, until you set LIMITS");
      expect(run.output()).not.toMatch(/sk_pro_1|sk_leaked/);
    } finally {
      await stopped(run);
    }
  });
});
