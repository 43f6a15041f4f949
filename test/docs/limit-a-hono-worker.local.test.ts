/** Runs the Worker, the commands and the test of the tutorial about Hono, with the sources of the package. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { configurationOf } from "../tools/http/services.ts";
import { bundle, type RunningWorkerd, runWorkerd } from "../tools/workerd-process.ts";
import { difference } from "./output.ts";
import { pageBlock } from "./page-block.ts";

const page = "tutorials/limit-a-hono-worker";
const folder = mkdtempSync(join(tmpdir(), "headgate-hono-"));

/** The code imports the sources instead of the installed package. */
const installed = (code: string): string =>
  code.replace(/"headgate\/(\w+)"/g, (_, name: string) => JSON.stringify(resolve(`src/sdk/package/${name}.ts`)));

/** Bundles the Worker with wrangler, and runs it with its Durable Objects. */
async function run(): Promise<RunningWorkerd<"worker">> {
  const project = join(folder, "project");
  mkdirSync(join(project, "src"), { recursive: true });
  mkdirSync(join(project, "storage"));
  writeFileSync(join(project, "src/app.ts"), installed(pageBlock(page, "ts app")));
  writeFileSync(join(project, "src/index.ts"), installed(pageBlock(page, "ts index")));
  const lines = ['name = "tutorial"', 'main = "src/index.ts"', pageBlock(page, "toml other")];
  writeFileSync(join(project, "wrangler.toml"), lines.join("\n"));
  bundle(join(project, "out"), join(project, "wrangler.toml"));
  const service = {
    name: "worker",
    modules: { "index.js": "out/index.js" },
    compatibilityDate: "2026-11-01",
    flags: ["enable_request_signal"],
    texts: { KEY_SECRET: "a secret of at least 32 characters" },
    objects: { RATE_LIMITER: "RateLimiter" },
  };
  const socket = { name: "worker", service: "worker" };
  const configuration = configurationOf([service], [socket], [], "storage");
  writeFileSync(join(project, "workerd.capnp"), configuration);
  return runWorkerd(project, { worker: 0 });
}

beforeAll(() => symlinkSync(resolve("node_modules"), join(folder, "node_modules")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the Worker of the tutorial", () => {
  let worker: RunningWorkerd<"worker">;

  beforeAll(async () => {
    worker = await run();
  }, 60_000);

  afterAll(() => worker.kill());

  const printedBy = async (command: string): Promise<string> => {
    const local = command.replaceAll("localhost:8787", `127.0.0.1:${worker.ports.worker}`);
    return (await promisify(execFile)("bash", ["-c", local])).stdout;
  };

  it("the commands of the Hono tutorial print the fields and the denial that the tutorial shows", async () => {
    const fields = { language: "http", text: pageBlock(page, "http fields") };
    expect(difference(fields, await printedBy(pageBlock(page, "bash worker")))).toBeNull();
    const denied = { language: "text", text: pageBlock(page, "text denied") };
    expect(difference(denied, await printedBy(pageBlock(page, "bash denial")))).toBeNull();
  });
});

describe("the test of the tutorial", async () => {
  const sources = join(folder, "tested");
  mkdirSync(sources);
  symlinkSync(resolve("node_modules"), join(sources, "node_modules"));
  writeFileSync(join(sources, "app.ts"), installed(pageBlock(page, "ts app")));
  writeFileSync(join(sources, "app-test.ts"), installed(pageBlock(page, "ts test")));
  // The test file of the tutorial registers its tests in this suite.
  await import(join(sources, "app-test.ts"));
});

it("the Worker of the Hono tutorial needs two lines for its limit", () => {
  const code = pageBlock(page, "ts app") + pageBlock(page, "ts index");
  const lines = code.split("\n").filter((line) => /rateLimit\(|RateLimiter/.test(line));
  expect(lines).toHaveLength(2);
});
