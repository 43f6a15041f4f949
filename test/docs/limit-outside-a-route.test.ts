/** Runs the page's example of a limit outside of a route that shares the counter of a Hono route. */
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import type { Hono } from "hono";
import { afterAll, expect, it } from "vitest";
import { build } from "esbuild";
import type { createTestLimiter } from "../../src/sdk/package/test.ts";
import { pageBlock } from "./page-block.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-outside-"));
symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Example {
  readonly app: Hono;
  readonly chargeJob: (env: object, user: string) => Promise<boolean>;
  readonly createTestLimiter: typeof createTestLimiter;
}

async function example(): Promise<Example> {
  const code = `import { Hono } from "hono";
    const app = new Hono();
    ${pageBlock("how-to/limit-outside-a-route", "ts hono")}
    app.get("/api/*", (c) => c.text("ok"));
    export { createTestLimiter } from "headgate/test";
    export { app };`;
  const file = join(folder, "example.mjs");
  const alias = ["hono", "test"].map((name) => [`headgate/${name}`, resolve(`src/sdk/package/${name}.ts`)]);
  await build({
    stdin: { contents: code, loader: "ts", resolveDir: folder },
    outfile: file,
    bundle: true,
    platform: "node",
    format: "esm",
    external: ["cloudflare:*"],
    alias: Object.fromEntries(alias),
  });
  return (await import(pathToFileURL(file).href)) as Example;
}

it("a background job of a user and the user's requests charge the same counter", async () => {
  const { app, chargeJob, createTestLimiter: createLimiter } = await example();
  const { env } = createLimiter();
  const visit = async (user: string): Promise<number> =>
    (await app.request("/api/x", { headers: { "X-User": user } }, env)).status;
  expect([await visit("ann"), await chargeJob(env, "ann"), await visit("ann")]).toEqual([200, true, 429]);
  expect([await chargeJob(env, "ann"), await chargeJob(env, "bob")]).toEqual([false, true]);
});
