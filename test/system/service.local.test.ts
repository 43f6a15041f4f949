import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createTestHarness, type TestHarness } from "wrangler";
import { checkout } from "./checkout.ts";
import { pageAt, pageBlock } from "../docs/page-block.ts";

const page = "how-to/from-another-worker";
const configuration = pageBlock(page, "toml other");
const secrets = { KEY_SECRET: crypto.randomUUID(), CHECK_TOKENS: "the-tests-token" };

/** The code imports the source instead of the installed package. */
const installed = (code: string): string =>
  code.replaceAll('"headgate/client"', JSON.stringify(resolve("src/sdk/package/client.ts")));

/** A Worker that makes a call, with or without the client, and returns the error that the call throws. */
const prying = installed(`
import { createClient } from "headgate/client";

export default {
  async fetch(request, { HEADGATE }) {
    const { method, input, isTyped } = await request.json();
    const limiter = isTyped ? createClient({ service: HEADGATE }) : HEADGATE;
    try {
      return Response.json(await limiter[method](input));
    } catch ({ message, status, problem }) {
      return Response.json({ message, status, problem }, { status: 500 });
    }
  },
};
`);

const assistantCode = installed(pageBlock(page, "ts", "export default"));

/** The first example of the page, in a Worker. */
const [briefImport = "", ...briefLines] = installed(
  pageBlock(page, "ts", "const decision = await limiter.check"),
).split("\n");
const briefly = `
${briefImport}
export default {
  async fetch(request, env) {
    const apiKey = "brief";
    ${briefLines.join("\n")}
    return Response.json(decision);
  },
};
`;

const renamed = (name: string): string => configuration.replace('"assistant"', `"${name}"`);

const { folder: headgate, configure, remove } = checkout();
const folder = mkdtempSync(join(tmpdir(), "headgate-caller-"));
let server: TestHarness;

beforeAll(async () => {
  configure(pageBlock(page, "toml").trim().split("\n"));
  const assistant = worker("assistant", configuration, assistantCode);
  const brief = worker("brief", renamed("brief"), briefly);
  const others = ["2026-04-20", "2026-04-21"].map((date) => {
    const older = renamed(`of-${date}`).replace(/(compatibility_date = )".*"/, `$1"${date}"`);
    return worker(`of-${date}`, older, prying);
  });
  const unnamed = renamed("unnamed").replace('entrypoint = "Headgate"', "");
  others.push(worker("unnamed", unnamed, prying));
  server = createTestHarness({
    workers: [
      { configPath: assistant },
      { configPath: brief },
      { configPath: join(headgate, "wrangler.toml"), secrets },
      ...others.map((configPath) => ({ configPath })),
    ],
  });
  await server.listen();
});

afterAll(async () => {
  await server.close();
  remove();
  rmSync(folder, { recursive: true });
});

/** Writes a Worker into its own folder. */
function worker(name: string, toml: string, code: string): string {
  mkdirSync(join(folder, name, "src"), { recursive: true });
  writeFileSync(join(folder, name, "src/index.ts"), code);
  writeFileSync(join(folder, name, "wrangler.toml"), toml);
  return join(folder, name, "wrangler.toml");
}

interface Answer {
  status: number;
  headers: Headers;
  json: unknown;
}

async function answerOf(name: string, path: string, init: object): Promise<Answer> {
  const response = await server.getWorker(name).fetch(`https://worker.example${path}`, init);
  const { status, headers } = response;
  return { status, headers: new Headers([...headers]), json: await response.json() };
}

const search = (apiKey: string): Promise<Answer> =>
  answerOf("assistant", "/search", { headers: { "X-Api-Key": apiKey } });

const twentyMore = (apiKey: string): Promise<Answer[]> => Promise.all(Array.from({ length: 20 }, () => search(apiKey)));

const complete = (apiKey: string, body: string): Promise<Answer> =>
  answerOf("assistant", "/complete", { method: "POST", headers: { "X-Api-Key": apiKey }, body });

/** Charges the given cost, if any. Returns the remaining units that Headgate itself reports. */
async function remaining(body: object): Promise<number | undefined> {
  const { json } = await answerOf("headgate", "/check", {
    method: "POST",
    headers: { Authorization: "Bearer the-tests-token", "Content-Type": "application/json" },
    body: JSON.stringify({ cost: 0, ...body }),
  });
  return (json as { limits: { remaining: number }[] }).limits[0]?.remaining;
}

describe("a Worker with the documented service binding", () => {
  it("a Worker with a service binding can check before its work, and is allowed up to the limit", async () => {
    const [first, ...others] = [await search("one"), ...(await twentyMore("one"))];
    expect([first?.status, first?.json]).toEqual([200, { found: [] }]);
    expect(first?.headers.get("RateLimit")).toMatch(/^"search";r=19;t=\d+$/);
    expect(others.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([
      ...Array.from({ length: 19 }, () => 200),
      429,
    ]);
    const denied = await search("one");
    expect([denied.status, denied.json]).toEqual([429, { violated: ["search"] }]);
    expect(denied.headers.get("Retry-After")).toMatch(/^\d+$/);
    expect(denied.headers.get("RateLimit")).toMatch(/^"search";r=0;t=\d+$/);
    expect((await search("another")).status).toBe(200);
    expect(await remaining({ policy: "search", key: "another" })).toBe(19);
  });

  it("a Worker with a service binding gets a decision in a single call", async () => {
    const { json } = await answerOf("brief", "/", {});
    expect(json).toMatchObject({ allowed: true, policy: "search", limits: [{ remaining: 19 }] });
  });

  it("when Headgate gives no decision, the documented Worker allows a search and denies a completion", async () => {
    // Longer than the longest accepted key.
    const apiKey = "k".repeat(1_025);
    expect((await search(apiKey)).status).toBe(200);
    const headers = { "X-Api-Key": apiKey };
    const completion = server
      .getWorker("assistant")
      .fetch("https://worker.example/complete", { method: "POST", headers, body: "words" });
    expect((await completion).status).toBe(503);
  });

  it("a Worker with a service binding can reserve tokens, and gets a refund of the unused tokens", async () => {
    const tokens = { key: ["tokens", "one"], limits: "5000/hour" };
    const answer = await complete("one", "the words of a prompt");
    expect([answer.status, answer.json]).toEqual([200, { text: "prompt a of words the", tokens: 5 }]);
    await expect.poll(() => remaining(tokens)).toBe(4_995);
    // Leaves fewer tokens than an answer may use.
    await remaining({ ...tokens, cost: 4_000 });
    const denied = await complete("one", "more words");
    expect([denied.status, denied.json]).toEqual([429, { violated: ["adhoc"] }]);
    expect(Number(denied.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(await remaining(tokens)).toBe(995);
  });

  it("a Worker with a service binding is charged more than it reserved if it used more", async () => {
    const tokens = { key: ["tokens", "other"], limits: "5000/hour" };
    expect((await complete("other", "x ".repeat(999))).json).toMatchObject({ tokens: 1_000 });
    await expect.poll(() => remaining(tokens)).toBe(4_000);
  });
});

describe("errors of service calls", () => {
  const wrong = { method: "check", input: { key: 5, cost: -1 } };
  const names = /^Unprocessable Content: key: expected .*; cost: expected /;
  const thrownTo = async (name: string, isTyped = false): Promise<unknown> => {
    const body = JSON.stringify({ ...wrong, isTyped });
    return (await answerOf(name, "/", { method: "POST", body })).json;
  };

  it("from the documented compatibility date on, a service call throws problem details", async () => {
    expect(pageAt(page).text).toContain("2026-04-21");
    expect(await thrownTo("of-2026-04-21")).toEqual({
      message: expect.stringMatching(names),
      problem: expect.objectContaining({
        status: 422,
        errors: [expect.objectContaining({ field: "key" }), expect.objectContaining({ field: "cost" })],
      }),
    });
    expect(await thrownTo("of-2026-04-20")).toEqual({ message: expect.stringMatching(names) });
  });

  it("the client throws the status of an error at any compatibility date", async () => {
    const message = expect.stringMatching(
      /^service\.check\(\): Unprocessable Content: key: expected .*; cost: expected /,
    );
    const problem = expect.objectContaining({ status: 422 });
    expect(await thrownTo("of-2026-04-21", true)).toEqual({ message, status: 422, problem });
    expect(await thrownTo("of-2026-04-20", true)).toEqual({ message, status: 422, problem: null });
  });

  it("the client names the expected entrypoint when the service binding has none", async () => {
    expect(await thrownTo("unnamed", true)).toEqual({
      message: 'service: expected a service binding with entrypoint = "Headgate", got one without check()',
    });
  });
});

it("the documented Worker compiles in strict mode", () => {
  symlinkSync(resolve("node_modules"), join(folder, "assistant/node_modules"));
  const strict = ["--strict", "--noEmit", "--skipLibCheck", "--target", "es2024"];
  const found = ["--module", "esnext", "--moduleResolution", "bundler"];
  const types = ["--ignoreConfig", "--types", "@cloudflare/workers-types"];
  const words = [...strict, ...found, ...types, "--allowImportingTsExtensions", "src/index.ts"];
  const options = { cwd: join(folder, "assistant"), encoding: "utf8" } as const;
  const compiler = resolve("node_modules/typescript/bin/tsc");
  const { status, stdout } = spawnSync(process.execPath, [compiler, ...words], options);
  expect([stdout, status]).toEqual(["", 0]);
});
