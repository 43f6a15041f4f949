/** `wrangler dev` and `wrangler deploy` in a fresh clone, without the scripts of the project. */
import { appendFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type Checkout, checkout, freePort, printed, type Run, runNpm, stopped } from "../system/checkout.ts";

let copy: Checkout;
beforeEach(() => {
  copy = checkout();
  vi.stubEnv("WRANGLER_SEND_METRICS", "false");
});
afterEach(() => {
  vi.unstubAllEnvs();
  copy.remove();
});

const wrangler = (...words: string[]): Run => runNpm(copy.folder, "exec", "--", "wrangler", ...words);
const inCopy = (path: string): string => join(copy.folder, path);

it("npx wrangler deploy --dry-run builds the console and the Worker in a fresh clone", async () => {
  const run = wrangler("deploy", "--dry-run", "--outdir", "built");
  expect([await run.ended, run.output()]).toEqual([0, expect.stringContaining("--dry-run: exiting now.")]);
  expect(readFileSync(inCopy("dist/console/index.html"), "utf8")).toContain("assets/console-");
  expect(readFileSync(inCopy("built/index.js"), "utf8")).toContain("ControlPlane");
});

it("the console is built again only after an edit of the sources", async () => {
  const build = async (): Promise<number> => {
    const run = runNpm(copy.folder, "run", "console:build");
    expect([await run.ended, run.output()]).toEqual([0, expect.any(String)]);
    return statSync(inCopy("dist/console/index.html")).mtimeMs;
  };
  const first = await build();
  expect(await build()).toBe(first);
  appendFileSync(inCopy("src/console/app/clock.ts"), "// an edit\n");
  expect(await build()).toBeGreaterThan(first);
});

it("npx wrangler dev runs a fresh clone, says where the secrets go, and builds once for an edit of the console", async () => {
  const port = await freePort();
  const run = wrangler("dev", "--port", String(port), "--inspector-port", String(await freePort()));
  const url = `http://localhost:${port}`;
  await printed(run, "Ready on");
  const unconfigured = await fetch(url);
  expect(unconfigured.status).toBe(503);
  const { detail } = await unconfigured.json<{ detail: string }>();
  expect(detail).toContain(".dev.vars locally");
  expect(detail).toContain("on Cloudflare, run `npx wrangler secret put <NAME>`");

  writeFileSync(inCopy(".dev.vars"), `KEY_SECRET="${"k".repeat(32)}"\n`);
  await vi.waitFor(async () => expect((await fetch(`${url}/check/openapi.json`)).status).toBe(200), 60_000);

  const builds = (): number => run.output().split("restarting build...").length - 1;
  for (const edit of [1, 2]) {
    appendFileSync(inCopy("src/console/app/clock.ts"), `// edit ${edit}\n`);
    // oxlint-disable-next-line no-await-in-loop -- one edit after the other
    await vi.waitFor(() => expect(builds()).toBeGreaterThanOrEqual(edit), 60_000);
    // oxlint-disable-next-line no-await-in-loop
    await vi.waitFor(async () => expect((await fetch(`${url}/check/openapi.json`)).status).toBe(200), 60_000);
  }
  expect(builds()).toBe(2);
  await stopped(run);
});
