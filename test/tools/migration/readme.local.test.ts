/**
 * The examples in the READMEs of hono-rate-limiter limit with Headgate after the edits that the page about migrating
 * names.
 */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pageBlock } from "../../docs/page-block.ts";
import { configurationOf } from "../http/services.ts";
import { bundle, type RunningWorkerd, runWorkerd } from "../workerd-process.ts";

const page = "how-to/migrate-from";
const folder = mkdtempSync(join(tmpdir(), "headgate-readme-"));

beforeAll(() => symlinkSync(resolve("node_modules"), join(folder, "node_modules")));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The first block of TypeScript below a heading of a README. */
function exampleOf(name: string, heading: string): string {
  const readme = readFileSync(`test/tools/node_modules/${name}/README.md`, "utf8");
  const [, code] = /```ts\n([^]*?)```/.exec(readme.slice(readme.indexOf(heading))) ?? [];
  if (code === undefined) throw new Error(`the README of ${name} has no example of ${heading}`);
  return code;
}

/** Applies edits to a text, in which each edit must find its place. */
function edited(code: string, edits: readonly (readonly [from: string | RegExp, to: string])[]): string {
  return edits.reduce((text, [from, to]) => {
    const next = text.replace(from, to);
    expect(next, `${from} is in the example`).not.toBe(text);
    return next;
  }, code);
}

const importEdit = [
  /import \{ rateLimiter \} from "hono-rate-limiter";/,
  'import { rateLimit as rateLimiter } from "headgate/hono";',
] as const;
const optionEdits = [
  ["keyGenerator:", "key:"],
  [/^ *standardHeaders:.*\n/m, ""],
] as const;
const classExport = 'export { RateLimiter } from "headgate/object";\n';

const start = `import { Hono } from "hono";\nconst app = new Hono();\n`;
const end = `app.get("/", (c) => c.text("Hello Hono!"));\nexport default app;\n`;

const workers = {
  "on the page": pageBlock(page, "ts headgate/hono"),
  "of hono-rate-limiter": edited(start + exampleOf("hono-rate-limiter", "### Rest APIs") + end + classExport, [
    importEdit,
    ...optionEdits,
  ]),
  "of @hono-rate-limiter/cloudflare, with Durable Objects": edited(
    exampleOf("@hono-rate-limiter/cloudflare", "#### Using `DurableObjectStore`"),
    [
      importEdit,
      ...optionEdits,
      [/^import \{ DurableObjectStore.*\n/m, ""],
      [/^ *store:.*\n/m, ""],
      // The page says that the limiter must be constructed outside of the handler.
      ["(c: Context, next: Next) =>", ""],
      ["})(c, next)", "})"],
      ["export { DurableObjectRateLimiter };\n", classExport],
      // The example omits these, or states a type that no longer exists.
      [/^/, 'import { Hono } from "hono";\n'],
      ["// ...\n", 'app.get("/", (c) => c.text("Hello Hono!"));\n'],
      [/^import \{ DurableObjectNamespace \}.*\n/m, ""],
    ],
  ),
};

/** Bundles the Worker with the page's lines of wrangler.toml, and runs it with its own objects. */
async function run(name: string, code: string): Promise<RunningWorkerd<"worker">> {
  const project = join(folder, name.replaceAll(/\W+/g, "-"));
  mkdirSync(project);
  writeFileSync(join(project, "index.ts"), code);
  const aliases = ["hono", "object"].map(
    (each) => `"headgate/${each}" = ${JSON.stringify(resolve(`src/sdk/package/${each}.ts`))}`,
  );
  const lines = [
    'name = "migrated"',
    'main = "index.ts"',
    pageBlock(page, "toml other", "RATE_LIMITER"),
    "[alias]",
    ...aliases,
  ];
  writeFileSync(join(project, "wrangler.toml"), lines.join("\n"));
  bundle(join(project, "out"), join(project, "wrangler.toml"));
  mkdirSync(join(project, "storage"));
  const service = {
    name: "worker",
    modules: { "index.js": "out/index.js" },
    compatibilityDate: "2026-11-01",
    flags: ["enable_request_signal"],
    texts: { KEY_SECRET: "a secret of at least 32 characters" },
    objects: { RATE_LIMITER: "RateLimiter" },
  };
  const socket = { name: "worker", service: "worker" };
  writeFileSync(join(project, "workerd.capnp"), configurationOf([service], [socket], [], "storage"));
  return runWorkerd(project, { worker: 0 });
}

describe.each(Object.entries(workers))("the example %s", (name, code) => {
  it("the edited example allows 100 requests in 15 minutes with RateLimit fields, and denies the next with problem details", async () => {
    const worker = await run(name, code);
    try {
      const visit = (): Promise<Response> =>
        fetch(`http://127.0.0.1:${worker.ports.worker}/`, {
          headers: { "CF-Connecting-IP": "203.0.113.7" },
        });
      const answers = await Promise.all(Array.from({ length: 101 }, visit));
      const allowed = answers.filter(({ status }) => status === 200);
      const [denied, ...others] = answers.filter(({ status }) => status !== 200);
      expect([allowed.length, denied?.status, others.length]).toEqual([100, 429, 0]);
      expect(await allowed[0]?.text()).toBe("Hello Hono!");
      expect(allowed[0]?.headers.get("RateLimit-Policy")).toBe('"default";q=100;w=900');
      expect(denied?.headers.get("Content-Type")).toBe("application/problem+json");
      expect(Number(denied?.headers.get("Retry-After"))).toBeGreaterThan(0);
    } finally {
      await worker.kill();
    }
  }, 60_000);
});
