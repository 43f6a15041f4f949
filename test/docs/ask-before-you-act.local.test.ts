/** Runs the programs and the Worker of the tutorial about `/check`, with the client of this repository. */
import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startWorkerd, type Workerd } from "../tools/workerd.ts";
import { bundle } from "../tools/workerd-process.ts";
import { isConfiguration, readConfiguration } from "./configuration-blocks.ts";
import { pageAt, pageBlock } from "./page-block.ts";

const token = "the-token-of-check";
const page = "tutorials/ask-before-you-act";
const folder = mkdtempSync(join(tmpdir(), "headgate-ask-"));
let workerd: Workerd;

/** The code imports the source instead of the installed package. */
const installed = (code: string): string =>
  code.replaceAll('"headgate/client"', JSON.stringify(resolve("src/sdk/package/client.ts")));

function bundledWorker(): string {
  mkdirSync(join(folder, "src"));
  writeFileSync(join(folder, "src/index.ts"), installed(pageBlock(page, "ts worker")));
  writeFileSync(join(folder, "wrangler.toml"), pageBlock(page, "toml other"));
  bundle(join(folder, "out"), join(folder, "wrangler.toml"));
  return readFileSync(join(folder, "out/index.js"), "utf8");
}

async function printedBy(code: string): Promise<string> {
  const file = join(folder, "program.ts");
  writeFileSync(file, installed(code).replace("http://localhost:8787", workerd.url.origin));
  const env = { ...process.env, TOKEN: token };
  return (await promisify(execFile)(process.execPath, [file], { env })).stdout;
}

beforeAll(async () => {
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  bundle(join(folder, "headgate"));
  const [configuration] = pageAt(page).blocks.filter(isConfiguration);
  if (configuration === undefined) throw new Error("the page has no configuration");
  workerd = await startWorkerd(
    join(folder, "workerd"),
    { ...readConfiguration(configuration).vars, CHECK_TOKENS: token },
    { bundledIn: join(folder, "headgate"), other: bundledWorker() },
  );
}, 60_000);

afterAll(async () => {
  await workerd.close();
  rmSync(folder, { recursive: true, force: true });
});

describe("the tutorial about asking before an act", () => {
  it("the tutorial's program sends three mails, and prints the wait before the fourth", async () => {
    expect(await printedBy(pageBlock(page, "ts node"))).toBe(pageBlock(page, "text printed"));
  });

  it("the tutorial's program with reservations charges only the mails that were sent", async () => {
    expect(await printedBy(pageBlock(page, "ts careful"))).toBe(pageBlock(page, "text careful"));
  });

  it("the tutorial's Worker allows three mails of a user, forwards the header fields, and denies the fourth mail", async () => {
    const send = (): Promise<Response> => fetch(workerd.otherUrl, { headers: { "X-User": "dave" } });
    const answers = [await send(), await send(), await send(), await send()];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429]);
    expect(answers.map(({ headers }) => headers.get("RateLimit-Policy"))).toEqual(Array(4).fill('"mail";q=3;w=3600'));
    expect(Number(answers[3]?.headers.get("Retry-After"))).toBeGreaterThan(3_500);
    expect((await fetch(workerd.otherUrl)).status).toBe(401);
  });
});
