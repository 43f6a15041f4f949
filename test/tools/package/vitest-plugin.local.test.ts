/** The tests of a user's project with the Vitest plugin: those of the page about testing limits, with the packed package. */
import { execFile } from "node:child_process";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, it } from "vitest";
import { pageBlock } from "../../docs/page-block.ts";
import { type FreshApp, freshApp } from "./fresh-app.ts";

const page = "how-to/test-your-limits";

const app = `import { Hono } from "hono";
import { rateLimit } from "headgate/hono";

const app = new Hono();
app.use("/api/*", rateLimit({ limits: "100/minute; 10/second", key: "ip" }));
app.get("/api/hello", (c) => c.text("hello"));
export default app;
`;

let fresh: FreshApp;

beforeAll(async () => {
  fresh = await freshApp(
    {
      "src/app.ts": app,
      "src/index.ts": pageBlock(page, "ts entry"),
      "test/limits.test.ts": pageBlock(page, "ts vitest"),
      "vitest.config.ts": pageBlock(page, "ts vitest-config"),
      "wrangler.toml": pageBlock("how-to/limit-a-hono-app", "toml other", "RATE_LIMITER"),
    },
    ["@cloudflare/vitest-plugin", "hono", "vitest", "wrangler"],
  );
});

afterAll(() => fresh.remove());

it("the tests of the page pass in a project with the Vitest plugin", async () => {
  const vitest = resolve("node_modules/vitest/vitest.mjs");
  const words = [vitest, "run", "--reporter=json", "--outputFile=results.json", "--config=vitest.config.ts"];
  await promisify(execFile)(process.execPath, words, { cwd: fresh.folder });
  const { default: results } = (await import(join(fresh.folder, "results.json"), { with: { type: "json" } })) as {
    readonly default: object;
  };
  expect(results).toMatchObject({ numTotalTests: 2, numPassedTests: 2, success: true });
});
