/** Runs the code of recipes in Node with limiters in memory: budgets, organisations, and a hook of SvelteKit. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Hono } from "hono";
import { describe, expect, it } from "vitest";
import { unstable_readConfig } from "wrangler";
import { createTestLimiter } from "../../src/sdk/package/test.ts";
import { pageBlock } from "./page-block.ts";
import { pageModules } from "./page-module.ts";

const importPage = pageModules();

interface Budget {
  readonly paid: <Result>(
    env: object,
    user: string,
    mostDollars: number,
    work: () => Promise<{ readonly result: Result; readonly dollars: number }>,
  ) => Promise<Result | null>;
  readonly dollarsLeft: (env: object, user: string) => Promise<number>;
}

describe("dollars per month in a Worker", async () => {
  const { paid, dollarsLeft } = await importPage<Budget>(pageBlock("how-to/dollars-per-month", "ts budget"));

  it("the budget recipe charges what the work has cost, and runs no work that the budget may not cover", async () => {
    const { env, clock } = createTestLimiter({ startAt: "2026-01-30T12:00:00Z" });
    const work = (dollars: number) => async () => ({ result: `worth ${dollars}`, dollars });
    expect(await dollarsLeft(env, "ann")).toBe(50);
    expect(await paid(env, "ann", 40, work(12.5))).toBe("worth 12.5");
    expect(await dollarsLeft(env, "ann")).toBe(37.5);
    expect(await paid(env, "ann", 40, work(0))).toBeNull();
    expect(await paid(env, "bob", 40, work(0.00004))).toBe("worth 0.00004");
    expect(await dollarsLeft(env, "bob")).toBe(49.9999);
    await clock.advance("2d");
    expect(await dollarsLeft(env, "ann")).toBe(50);
  });

  it("the budget recipe keeps the reserved price when the work fails", async () => {
    const { env } = createTestLimiter();
    const failing = paid(env, "ann", 5, () => Promise.reject(new Error("the model is down")));
    await expect(failing).rejects.toThrow("the model is down");
    expect(await dollarsLeft(env, "ann")).toBe(45);
  });
});

describe("an organisation and each of its users in a Hono app", () => {
  it("the organisation recipe charges the user and the organisation, or neither", async () => {
    const { app } = await importPage<{ readonly app: Hono }>(`import { Hono } from "hono";
      import { rateLimit } from "headgate/hono";
      type AppEnv = { Variables: { org: string; user: string } };
      export const app = new Hono<AppEnv>();
      app.use(async (c, next) => {
        c.set("org", c.req.header("X-Org") ?? "");
        c.set("user", c.req.header("X-User") ?? "");
        await next();
      });
      ${pageBlock("how-to/organisations-users-and-regions", "ts routes")}
      app.get("/api/*", (c) => c.text("ok"));`);
    const { env } = createTestLimiter();
    const left = async (user: string): Promise<string | null> => {
      const { status, headers } = await app.request("/api/x", { headers: { "X-Org": "acme", "X-User": user } }, env);
      return `${status} ${headers.get("RateLimit")?.replaceAll(/;t=\d+/g, "") ?? ""}`;
    };
    expect(await left("ann")).toBe('200 "organisation";r=999, "user";r=99');
    // oxlint-disable-next-line no-await-in-loop
    for (let sent = 1; sent < 100; sent++) await left("ann");
    expect(await left("ann")).toMatch(/^429 "user";r=0/);
    // The denied request of ann is not charged to the organisation.
    expect(await left("bob")).toBe('200 "organisation";r=899, "user";r=99');
  });
});

describe("a hook of SvelteKit", () => {
  interface Hook {
    readonly handle: (input: { event: object; resolve: (event: object) => Promise<Response> }) => Promise<Response>;
  }

  it("the hook asks a service binding, and answers requests over the limit with 429 and the wait", async () => {
    const { handle } = await importPage<Hook>(pageBlock("how-to/other-frameworks", "ts sveltekit-hook"));
    const { service } = createTestLimiter({ policies: [{ name: "visitors", key: "ip", limits: "1/minute" }] });
    const fields: Record<string, string>[] = [];
    const event = {
      platform: { env: { HEADGATE: service } },
      getClientAddress: () => "203.0.113.7",
      setHeaders: (headers: Record<string, string>) => void fields.push(headers),
    };
    const visit = (): Promise<Response> => handle({ event, resolve: async () => new Response("page") });
    expect(await (await visit()).text()).toBe("page");
    expect(fields).toMatchObject([{ RateLimit: expect.stringContaining('"visitors";r=0') }]);
    const { status, headers } = await visit();
    expect([status, headers.has("Retry-After")]).toEqual([429, true]);
  });
});

it("the Worker that the SvelteKit adapter writes is the one that the main module imports", () => {
  const page = "how-to/other-frameworks";
  const [, file = ""] = /config: "([^"]+)"/.exec(pageBlock(page, "js svelte-config")) ?? [];
  const [, imported = ""] = /^import handler from "([^"]+)"/.exec(pageBlock(page, "ts sveltekit")) ?? [];
  const configuration = pageBlock(page, "toml other", ".svelte-kit");
  expect(configuration).toContain(`# ${file}`);
  const folder = mkdtempSync(join(tmpdir(), "headgate-sveltekit-"));
  try {
    const config = join(folder, file);
    writeFileSync(config, configuration);
    const { main } = unstable_readConfig({ config }, { hideWarnings: true });
    expect(main).toBe(join(folder, "src", imported));
  } finally {
    rmSync(folder, { recursive: true });
  }
});
