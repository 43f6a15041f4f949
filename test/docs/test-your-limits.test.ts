/** Runs the examples of the page about testing limits, with the sources instead of the installed package. */
import { execFileSync } from "node:child_process";
import { resolve } from "node:path";
import { expect, it } from "vitest";
import { build } from "esbuild";
import { pageBlock } from "./page-block.ts";
import { pageBundles } from "./page-module.ts";

const bundled = pageBundles();

const page = "how-to/test-your-limits";
const examples = [
  { name: "hono", text: pageBlock(page, "ts hono") },
  { name: "client", text: pageBlock(page, "ts client") },
  { name: "waiting", text: pageBlock(page, "ts waiting") },
];

it.each(examples)("the tests in the page's example pass in plain Node: $name", async ({ text }) => {
  const output = execFileSync(process.execPath, [await bundled(text)], { encoding: "utf8" });
  expect(output).toMatch(/pass [1-9]\d*\n.*fail 0\n/);
});

it("the entry module of the page about testing limits exports the app and the Durable Object class", async () => {
  const app = "export default { fetch: () => new Response('app') };";
  const { outputFiles } = await build({
    stdin: { contents: pageBlock(page, "ts entry"), loader: "ts", resolveDir: resolve("test") },
    bundle: true,
    format: "esm",
    write: false,
    external: ["cloudflare:*"],
    alias: { "headgate/object": resolve("src/sdk/package/object.ts") },
    plugins: [
      {
        name: "app",
        setup(bundler) {
          bundler.onResolve({ filter: /^\.\/app\.ts$/ }, () => ({
            path: "app.ts",
            namespace: "app",
          }));
          bundler.onLoad({ filter: /.*/, namespace: "app" }, () => ({ contents: app }));
        },
      },
    ],
  });
  const exported = /export \{([^}]*)\};?\s*$/.exec(outputFiles[0]?.text ?? "")?.[1] ?? "";
  expect(exported).toMatch(/\bRateLimiter\b[^]*\bas default\b|\bas default\b[^]*\bRateLimiter\b/);
});
