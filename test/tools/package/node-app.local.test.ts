/**
 * A Node program outside the repository that uses only the engine, and compiles with the other subpaths that Node can
 * use.
 */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { build } from "vite";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { compilers, type FreshApp, freshApp } from "./fresh-app.ts";

const program = `import { createMeter, type Decision, parseLimits } from "headgate/strategies";

const meter = createMeter(parseLimits("3/minute; 5/hour", { strategy: "sliding-log" }));
const startMs = Date.UTC(2026, 0, 1);
const seconds = [0, 1, 2, 3, 61, 62, 63];
const decisions: Decision[] = seconds.map((second) => meter.consume(1, startMs + second * 1000));
console.log(JSON.stringify(decisions.map(({ allowed, retryAfterMs }) => [allowed, retryAfterMs])));
`;

/** Type-checks all declarations of the subpaths that need no Workers types. */
const otherImports = `export * as client from "headgate/client";
export * as test from "headgate/test";
`;

/** A test of a Hono app, without the Worker that exports the Durable Object class. */
const testOfHonoApp = `import { Hono } from "hono";
import { rateLimit } from "headgate/hono";
import { createTestLimiter } from "headgate/test";

const app = new Hono();
app.use(rateLimit({ limits: "2/minute", strategy: "sliding-log", key: "header:X-User" }));
app.get("/", (c) => c.text("served"));

const { env, clock } = createTestLimiter();
const statuses: number[] = [];
const request = async (): Promise<void> => {
  const response = await app.request("/", { headers: { "X-User": "one" } }, env);
  statuses.push(response.status);
};
for (let sent = 0; sent < 3; sent += 1) await request();
await clock.advance("1m");
await request();
console.log(JSON.stringify(statuses));
`;

const expected = [
  [true, 0],
  [true, 0],
  [true, 0],
  [false, 57_000],
  [true, 0],
  [true, 0],
  [false, 3_537_000],
];

let app: FreshApp;

beforeAll(async () => {
  const files = {
    "src/index.ts": program,
    "src/imports.ts": otherImports,
    "src/hono.ts": testOfHonoApp,
  };
  app = await freshApp(files, ["@types/node", "hono"]);
});

afterAll(() => app.remove());

const printed = (file: string): unknown =>
  JSON.parse(execFileSync(process.execPath, [file], { cwd: app.folder, encoding: "utf8" }));

describe("a Node program with headgate/strategies", () => {
  it.each(compilers)(
    "the Node program compiles with TypeScript $version and $moduleResolution, without Workers types",
    async (compiler) => {
      expect(await app.typeErrors(compiler, ["node"])).toBe("");
    },
  );

  it("the Node program allows exactly its limit", () => {
    expect(printed("src/index.ts")).toEqual(expected);
  });

  it("the Node program allows exactly its limit when Vite has bundled the package", async () => {
    await build({
      root: app.folder,
      configFile: false,
      logLevel: "silent",
      ssr: { noExternal: true },
      build: { ssr: "src/index.ts", outDir: "dist" },
    });
    expect(printed(join("dist", "index.js"))).toEqual(expected);
  });

  it("a test of a Hono app runs in Node with the in-memory limiter and the virtual clock", () => {
    expect(printed("src/hono.ts")).toEqual([200, 200, 429, 200]);
  });
});
