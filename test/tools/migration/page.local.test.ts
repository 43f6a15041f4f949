/** Compiles the examples of the page about other rate limiters, and runs those whose packages are installed. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { stripTypeScriptTypes } from "node:module";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pageBlock } from "../../docs/page-block.ts";
import { startWorkerd, type Workerd } from "../workerd.ts";
import { bundle } from "../workerd-process.ts";
import { isConfiguration, readConfiguration } from "../../docs/configuration-blocks.ts";
import { readPage } from "../../docs/pages.ts";

const page = "docs/how-to/migrate-from.md";
const checkToken = "the-token-of-check";
const parent = mkdtempSync(join(tmpdir(), "headgate-migrate-"));
const folder = join(parent, "app");

/** The examples by the package that they use. */
const examples = {
  expressRateLimit: pageBlock("how-to/migrate-from", "ts express-rate-limit"),
  honoRateLimiter: pageBlock("how-to/migrate-from", "ts hono-rate-limiter"),
  headgate: pageBlock("how-to/migrate-from", "ts headgate/hono"),
  upstash: pageBlock("how-to/migrate-from", "ts @upstash/ratelimit"),
  check: pageBlock("how-to/migrate-from", "ts check"),
  binding: pageBlock("how-to/migrate-from", "ts binding"),
  service: pageBlock("how-to/migrate-from", "ts service"),
};

beforeAll(() => {
  // The examples can import packages of the project and packages of test/tools.
  symlinkSync(resolve("node_modules"), join(parent, "node_modules"));
  mkdirSync(folder);
  symlinkSync(resolve("test/tools/node_modules"), join(folder, "node_modules"));
  bundle(join(folder, "headgate"));
});

afterAll(() => rmSync(parent, { recursive: true, force: true }));

/** Types for the packages that are not installed, copied from their documentation, as far as the examples use them. */
const declarations = `
declare module "@upstash/redis" {
  export class Redis {
    static fromEnv(): Redis;
  }
}
declare module "@upstash/ratelimit" {
  interface Algorithm {
    readonly name: string;
  }
  export class Ratelimit {
    constructor(options: { redis: import("@upstash/redis").Redis; limiter: Algorithm });
    static slidingWindow(tokens: number, window: \`\${number} \${"ms" | "s" | "m" | "h" | "d"}\`): Algorithm;
    limit(identifier: string): Promise<{ success: boolean; reset: number }>;
  }
}
`;

const compilerOptions = {
  target: "es2024",
  module: "esnext",
  moduleResolution: "bundler",
  types: ["@cloudflare/workers-types", "node"],
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  noPropertyAccessFromIndexSignature: true,
};

/** The Worker of an example, bundled as wrangler bundles it. */
function bundled(name: string, code: string, configuration = ""): string {
  const project = join(folder, name);
  mkdirSync(project, { recursive: true });
  writeFileSync(join(project, "index.ts"), code);
  const lines = [`name = "${name}"`, 'main = "index.ts"', 'compatibility_date = "2026-11-01"'];
  writeFileSync(join(project, "wrangler.toml"), `${lines.join("\n")}\n${configuration}`);
  bundle(join(project, "out"), join(project, "wrangler.toml"));
  return readFileSync(join(project, "out", "index.js"), "utf8");
}

/** The compiler's errors for a folder with tsconfig.json. */
const compiled = (project: string): string =>
  spawnSync(process.execPath, [resolve("node_modules/typescript/bin/tsc"), "-p", project], {
    encoding: "utf8",
  }).stdout;

async function imported(name: keyof typeof examples): Promise<unknown> {
  const file = join(folder, `${name}.mjs`);
  writeFileSync(file, stripTypeScriptTypes(examples[name]));
  return import(pathToFileURL(file).href);
}

const policyApi = (): Readonly<Record<string, unknown>> => {
  const block = readPage(page).blocks.find(
    (each) => isConfiguration(each) && /name = "api"\nmatch = .*\nkey = "ip"/.test(each.text),
  );
  return block === undefined ? {} : readConfiguration(block).vars;
};

describe("the examples of the page about migrating", () => {
  it("every TypeScript example of the page about migrating compiles", () => {
    const sources = join(folder, "sources");
    mkdirSync(sources);
    const { headgate: _, ...others } = examples;
    for (const [name, code] of Object.entries(others)) {
      writeFileSync(join(sources, `${name}.ts`), code);
    }
    writeFileSync(join(sources, "peers.d.ts"), declarations);
    writeFileSync(join(sources, "tsconfig.json"), JSON.stringify({ compilerOptions }));
    expect(compiled(sources)).toBe("");
  });

  it("the example with headgate/hono compiles with the sources of the package", () => {
    const sources = join(folder, "headgate-hono");
    mkdirSync(sources);
    writeFileSync(join(sources, "worker.ts"), examples.headgate);
    const tsconfig = {
      extends: resolve("tsconfig.json"),
      compilerOptions: {
        types: ["@cloudflare/workers-types", resolve("src/worker-configuration.d.ts")],
        paths: { "headgate/*": [resolve("src/sdk/package/*.ts")] },
      },
      include: ["worker.ts"],
    };
    writeFileSync(join(sources, "tsconfig.json"), JSON.stringify(tsconfig));
    expect(compiled(sources)).toBe("");
  });

  it("the old Hono app allows 100 requests per key, and denies the next", async () => {
    const { default: app } = (await imported("honoRateLimiter")) as {
      default: { request: (path: string, init: RequestInit) => Promise<Response> };
    };
    const headers = { "CF-Connecting-IP": "203.0.113.1" };
    const statuses: number[] = [];
    for (let count = 0; count <= 100; count++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await app.request("/", { headers })).status);
    }
    expect([statuses.slice(0, 100), statuses[100]]).toEqual([Array(100).fill(200), 429]);
  });

  it("with the old options, rateLimit throws the error that the page shows", async () => {
    const hono = resolve("src/sdk/package/hono.ts");
    const code = examples.honoRateLimiter
      .replace('"hono-rate-limiter"', JSON.stringify(hono))
      .replace("{ rateLimiter }", "{ rateLimit as rateLimiter }");
    const file = join(folder, "old-options.mjs");
    writeFileSync(file, code);
    await expect(import(pathToFileURL(file).href)).rejects.toThrow(
      pageBlock("how-to/migrate-from", "text hint").trim(),
    );
  });

  it("wrangler accepts the binding's configuration and Worker", () => {
    const configuration = pageBlock("how-to/migrate-from", "toml other", "[[ratelimits]]");
    expect(bundled("binding", examples.binding, configuration)).toContain("LIMITER.limit");
  });

  it("the WAF rule on the page is JSON with the parameters that the table translates", () => {
    const rule = JSON.parse(pageBlock("how-to/migrate-from", "js")) as { ratelimit: object };
    const rows =
      readFileSync(page, "utf8")
        .match(/^\|.*$/gm)
        ?.join("\n") ?? "";
    const parameters = Object.keys(rule.ratelimit).filter((name) => name !== "characteristics");
    expect(parameters.filter((name) => !rows.includes(`\`${name}\``))).toEqual([]);
  });
});

const serviceBinding = pageBlock("how-to/migrate-from", "toml other", "[[services]]");

it("the page about migrating binds Headgate as the page about calls from another Worker does", () => {
  expect(pageBlock("how-to/from-another-worker", "toml other")).toContain(serviceBinding);
});

describe("the Worker of the example service", () => {
  let workerd: Workerd;

  beforeAll(async () => {
    workerd = await startWorkerd(
      join(folder, "workerd-service"),
      { ...policyApi(), CHECK_TOKENS: checkToken },
      {
        bundledIn: join(folder, "headgate"),
        other: bundled("service", examples.service, serviceBinding),
      },
    );
  });

  afterAll(() => workerd.close());

  it("the example service allows 100 requests per address, forwards the RateLimit fields, and denies the next", async () => {
    const request = (): Promise<Response> =>
      fetch(new URL("/api/orders", workerd.otherUrl), {
        headers: { "CF-Connecting-IP": "203.0.113.1" },
      });
    const answers = await Promise.all(Array.from({ length: 101 }, request));
    const denied = answers.filter(({ status }) => status === 429);
    expect([answers.filter(({ status }) => status === 200).length, denied.length]).toEqual([100, 1]);
    expect(denied[0]?.headers.get("Retry-After")).toMatch(/^\d+$/);
    for (const { headers } of answers) {
      expect(headers.get("RateLimit-Policy")).toBe('"api";q=100;w=60');
    }
  });
});

describe("the example check", () => {
  it("the example check allows 10 requests per user in 10 s, and denies the next", async () => {
    const workerd = await startWorkerd(
      join(folder, "workerd-check"),
      { LIMITS: "1/hour", CHECK_TOKENS: checkToken },
      { bundledIn: join(folder, "headgate") },
    );
    try {
      process.env["HEADGATE_URL"] = workerd.url.origin;
      process.env["HEADGATE_TOKEN"] = checkToken;
      const { handle } = (await imported("check")) as {
        handle: (userId: string) => Promise<Response>;
      };
      const answers = await Promise.all(Array.from({ length: 11 }, () => handle("alice")));
      const denied = answers.filter(({ status }) => status === 429);
      expect(denied).toHaveLength(1);
      expect(denied[0]?.headers.get("RateLimit-Policy")).toBe('"adhoc";q=10;w=10');
      expect((await handle("bob")).status).toBe(200);
    } finally {
      delete process.env["HEADGATE_URL"];
      delete process.env["HEADGATE_TOKEN"];
      await workerd.close();
    }
  });
});
