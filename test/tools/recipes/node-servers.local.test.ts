/** Runs the servers of the page about Express and Fastify in Node, against a real Headgate. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { freePort } from "../../system/checkout.ts";
import { startWorkerd, type Workerd } from "../workerd.ts";
import { killWithParent } from "../workerd-process.ts";
import { pageBlock } from "../../docs/page-block.ts";
import { linkPackage } from "../../docs/page-worker.ts";
import { readPage } from "../../docs/pages.ts";

const page = "how-to/express-and-fastify";
const token = "the-tests-token";
const folder = mkdtempSync(join(tmpdir(), "headgate-servers-"));
let workerd: Workerd;

beforeAll(async () => {
  for (const name of ["express", "fastify"]) linkPackage(folder, name);
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  workerd = await startWorkerd(join(folder, "workerd"), {
    CHECK_TOKENS: token,
    POLICIES: JSON.stringify([{ name: "api", key: "ip", match: { path: "/none" }, limits: "2/hour" }]),
  });
});

afterAll(async () => {
  await workerd.close();
  rmSync(folder, { recursive: true });
});

interface Server {
  readonly visit: () => Promise<Response>;
  readonly stop: () => void;
}

/** @param headgate the URL of Headgate */
async function started(name: string, code: string, headgate: string): Promise<Server> {
  const port = String(await freePort());
  const client = JSON.stringify(resolve("src/sdk/package/client.ts"));
  writeFileSync(join(folder, `${name}.ts`), code.replace('"headgate/client"', client));
  const env = { ...process.env, HEADGATE_URL: headgate, HEADGATE_TOKEN: token, PORT: port };
  const server = spawn(process.execPath, [`${name}.ts`], { cwd: folder, env, stdio: "ignore" });
  killWithParent(server);
  const url = `http://127.0.0.1:${port}`;
  await vi.waitUntil(() => fetch(`${url}/health`).catch(() => null), { timeout: 20_000, interval: 100 });
  return { visit: () => fetch(`${url}/api/hello`), stop: () => void server.kill() };
}

const servers = [
  { name: "express", code: pageBlock(page, "ts express") },
  // The hook limits all routes, so that the test's own request to see whether the server runs would be charged.
  {
    name: "fastify",
    code: pageBlock(page, "ts fastify").replace(
      'app.addHook("onRequest", async (request, reply) => {',
      '$&\n  if (request.url === "/health") return;',
    ),
  },
];

describe.each(servers)("the server with $name", ({ name, code }) => {
  it("the server allows as many requests as the policy, and answers others with 429 and the wait", async () => {
    expect((await fetch(`${workerd.url.origin}/check?policy=api&key=127.0.0.1`, forgetting)).status).toBe(204);
    const server = await started(name, code, workerd.url.origin);
    try {
      const [first, second, third] = [await server.visit(), await server.visit(), await server.visit()];
      expect([first?.status, second?.status, third?.status]).toEqual([200, 200, 429]);
      expect(await first?.text()).toBe("hello");
      expect(first?.headers.get("RateLimit")).toMatch(/^"api";r=1;t=\d+$/);
      expect(Number(third?.headers.get("Retry-After"))).toBeGreaterThan(0);
      expect(await third?.json()).toEqual({ error: "rate limited", retryAfterMs: expect.any(Number) });
    } finally {
      server.stop();
    }
  });

  it("the server allows requests while Headgate is not reachable", async () => {
    const server = await started(name, code, `http://127.0.0.1:${await freePort()}`);
    try {
      const answer = await server.visit();
      expect([answer.status, await answer.text()]).toEqual([200, "hello"]);
    } finally {
      server.stop();
    }
  });
});

const forgetting = { method: "DELETE", headers: { Authorization: `Bearer ${token}` } };

it.each([
  ["how-to/express-and-fastify", "Express", "express"],
  ["how-to/express-and-fastify", "Fastify", "fastify"],
  ["how-to/other-frameworks", "itty-router", "itty-router"],
])("the page %s states the version of %s with which the tests run", (path, title, name) => {
  const manifest = resolve("test/tools/node_modules", name, "package.json");
  expect(existsSync(manifest)).toBe(true);
  const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { readonly version: string };
  expect(readPage(`docs/${path}.md`).text).toContain(`${title} ${version}`);
});
