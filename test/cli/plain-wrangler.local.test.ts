/** `wrangler dev` and `wrangler deploy` in a fresh clone, without the scripts of the project. */
import { appendFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { type Checkout, checkout, freePort, printed, type Run, runNpm } from "../system/checkout.ts";

let copy: Checkout;
let runs: Run[];
beforeEach(() => {
  copy = checkout({ isBuilt: false });
  runs = [];
  vi.stubEnv("WRANGLER_SEND_METRICS", "false");
});
afterEach(async () => {
  await Promise.all(runs.map(interrupted));
  vi.unstubAllEnvs();
  copy.remove();
});

function wrangler(...words: string[]): Run {
  const run = runNpm(copy.folder, "exec", "--", "wrangler", ...words);
  runs.push(run);
  return run;
}

/** As by Ctrl-C, which reaches wrangler, too. npm alone would leave it running. */
async function interrupted({ npm, ended }: Run): Promise<void> {
  if (npm.exitCode === null && npm.signalCode === null && npm.pid !== undefined) process.kill(-npm.pid, "SIGINT");
  await ended;
}

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
  const url = `http://localhost:${port}`;
  const start = async (): Promise<Run> => {
    const started = wrangler("dev", "--port", String(port), "--inspector-port", String(await freePort()));
    await printed(started, "Ready on");
    return started;
  };
  const first = await start();
  const unconfigured = await fetch(url);
  expect(unconfigured.status).toBe(503);
  const { detail } = await unconfigured.json<{ detail: string }>();
  expect(detail).toContain(".dev.vars locally");
  expect(detail).toContain("on Cloudflare, run `npx wrangler secret put <NAME>`");

  await interrupted(first);
  writeFileSync(inCopy(".dev.vars"), `KEY_SECRET="${"k".repeat(32)}"\n`);
  const run = await start();
  expect((await fetch(`${url}/check/openapi.json`)).status).toBe(200);

  const builds = (): number => run.output().split("restarting build...").length - 1;
  for (const edit of [1, 2]) {
    appendFileSync(inCopy("src/console/app/clock.ts"), `// edit ${edit}\n`);
    // oxlint-disable-next-line no-await-in-loop -- one edit after the other
    await vi.waitFor(() => expect(builds()).toBeGreaterThanOrEqual(edit), 60_000);
    // oxlint-disable-next-line no-await-in-loop
    await vi.waitFor(async () => expect((await fetch(`${url}/check/openapi.json`)).status).toBe(200), 60_000);
  }
  expect(builds()).toBe(2);
});
