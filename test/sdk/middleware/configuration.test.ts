/** Configuration problems of a Worker that uses the middleware. They name options as the app's code writes them. */
import { Hono } from "hono";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { rateLimit, type RateLimitOptions } from "../../../src/sdk/package/hono.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";
import { leastCompatibilityDate } from "../../../src/validation/compatibility.ts";
import { IsolateBudget } from "../../../src/limiter/object/key-cache.ts";

let lines: string[] = [];
beforeEach(() => {
  lines = [];
  const record = (line: unknown): void => void lines.push(String(line));
  for (const method of ["log", "warn", "error"] as const) {
    vi.spyOn(console, method).mockImplementation(record);
  }
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

async function answerTo(...options: readonly RateLimitOptions[]) {
  const { env } = createTestLimiter();
  const app = new Hono().use(rateLimit(...options));
  app.get("*", (c) => c.text("hello"));
  const response = await app.request("/", {}, env);
  return { status: response.status, body: await response.text(), log: lines.join("\n") };
}

it("a missing variable that an option needs is reported with the option, as the app's code writes it", async () => {
  const { status, body, log } = await answerTo({ limits: "5/minute", key: "jwt:sub" });
  expect(status).toBe(500);
  expect(body).toContain("for the jwt:<claim> in rateLimit({ key })");
  expect(body + log).not.toContain("POLICIES");
});

it("a problem with one of several limiters states the limiter's name", async () => {
  const { body, log } = await answerTo({ name: "api", limits: "5/minute", key: "jwt:sub" });
  expect(JSON.parse(body).errors[0].accepted).toContain('in rateLimit({ name: "api", key })');
  expect(body + log).not.toContain("POLICIES");
});

it("a warning names its option, and no variable that the middleware does not have", async () => {
  const { status, log } = await answerTo(
    { name: "client", limits: "5/minute", key: "header:X-Client", trustedProxies: 1 },
    { name: "address", limits: "9/minute" },
  );
  expect(status).toBe(200);
  expect(JSON.parse(log).warnings).toContainEqual(
    expect.stringMatching(/^rateLimit\(\{ name: "client", key \}\): the policy "client": callers/),
  );
  expect(log).not.toMatch(/POLICIES|PREFLIGHT_LIMITS/);
});

it("when the compatibility date lacks features of the platform, the response names the date", async () => {
  const { env } = createTestLimiter();
  vi.stubGlobal("Cloudflare", { compatibilityFlags: { rpc: false } });
  const app = new Hono().use(rateLimit({ name: "dated", limits: "5/minute" }));
  const response = await app.request("/", {}, env);
  expect(response.status).toBe(500);
  const accepted = `"${leastCompatibilityDate}" or later in wrangler.toml`;
  expect(await response.json()).toMatchObject({
    errors: [{ variable: "compatibility_date", accepted }],
  });
  expect(lines.join()).toContain(`compatibility_date: expected \\"${leastCompatibilityDate}\\" or later`);
});

it("a Worker with objects does not start if its compatibility date lacks the features that they need", () => {
  vi.stubGlobal("FinalizationRegistry", undefined);
  expect(() => new IsolateBudget(1)).toThrow(
    `compatibility_date: expected "${leastCompatibilityDate}" or later in wrangler.toml`,
  );
});
