/**
 * Runs the Workers and the configuration of the page about the Hono middleware, with the source instead of the package.
 */
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import type { TestHarness } from "wrangler";
import { buildConsoleIn } from "../../src/cli/console-build.ts";
import { pageBlock } from "./page-block.ts";
import { pageWorkers } from "./page-worker.ts";
import { readPage } from "./pages.ts";

const page = "how-to/limit-a-hono-app";
const token = "the-admin-token-of-alice";
const start = pageWorkers();

const served = (code: string, configuration: string): Promise<TestHarness> =>
  start({
    files: { "src/index.ts": code, "wrangler.toml": configuration },
    packages: ["hono"],
    secrets: { ADMIN_TOKENS: token },
    prepare: (folder) => buildConsoleIn(join(folder, "node_modules/headgate/lib/console")),
  });

/** All routes of the page in one app, behind the admin API. */
function wholeApp(): string {
  const routes = readPage("docs/how-to/limit-a-hono-app.md").blocks.filter(
    ({ language, info }) => language === "ts" && info[0] === "routes",
  );
  const [imports = "", use = ""] = pageBlock(page, "ts admin").split("\n\n");
  return [
    'import { Hono } from "hono";\nimport { streamText } from "hono/streaming";',
    'import { rateLimit } from "headgate/hono";',
    imports,
    "const app = new Hono();",
    use,
    ...routes.map(({ text }) => text),
    'app.get("/login", (c) => c.text("login", c.req.query("password") === "right" ? 200 : 401));',
    'app.get("*", (c) => c.text("ok"));',
    "export default app;",
  ].join("\n");
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

const ask = async (server: TestHarness, url: string, headers: Record<string, string> = {}): Promise<Answer> => {
  const response = await server.fetch(new URL(url, "https://app.example").href, {
    headers: { "CF-Connecting-IP": "203.0.113.7", ...headers },
    redirect: "manual",
  });
  return {
    status: response.status,
    headers: response.headers as unknown as Headers,
    text: await response.text(),
  };
};

let small: TestHarness;
let whole: TestHarness;

beforeAll(async () => {
  const configuration = pageBlock(page, "toml other", "RATE_LIMITER");
  small = await served(pageBlock(page, "ts worker"), configuration);
  whole = await served(wholeApp(), `${configuration}\n${pageBlock(page, "toml other", "CONTROL_PLANE")}`);
});

describe("the Worker with two lines", () => {
  it("a request over the limits gets problem details and the wait", async () => {
    const requests = Array.from({ length: 40 }, () => ask(small, "/api/hello"));
    const answers = await Promise.all(requests);
    const denied = answers.find(({ status }) => status === 429);
    expect(answers[0]?.headers.get("RateLimit-Policy")).toBe(
      '"default.100-per-1m";q=100;w=60, "default.10-per-1s";q=10;w=1',
    );
    expect(denied?.headers.get("Content-Type")).toBe("application/problem+json");
    expect(denied?.headers.get("Retry-After")).toBe("1");
  });
});

describe("the routes of the page", () => {
  const statuses = async (count: number, url: string, headers = {}): Promise<number[]> => {
    const all: number[] = [];
    // oxlint-disable-next-line no-await-in-loop
    for (let index = 0; index < count; index++) all.push((await ask(whole, url, headers)).status);
    return all;
  };

  it("a request without the header of the second policy gets 403, and a user's third request gets 429", async () => {
    expect(await statuses(1, "/search")).toEqual([403]);
    expect(await statuses(3, "/search", { "X-User": "ann" })).toEqual([200, 200, 429]);
    expect(await statuses(1, "/search", { "X-User": "bob" })).toEqual([200]);
  });

  it("a function of the page's example returns the key of a team", async () => {
    expect(await statuses(3, "/teams/red/x")).toEqual([200, 200, 429]);
    expect(await statuses(1, "/teams/blue/x")).toEqual([200]);
  });

  it("a function of the page's example returns the limits of a user, and changing the limits keeps the counter", async () => {
    const ann = { "X-User": "ann" };
    expect(await statuses(4, "/plans", { "X-User": "bob" })).toEqual([200, 200, 200, 429]);
    expect(await statuses(2, "/plans", ann)).toEqual([200, 429]);
    await whole.fetch("https://app.example/plans/ann/2", { method: "PUT" });
    expect(await statuses(2, "/plans", ann)).toEqual([200, 429]);
  });

  it("one limiter that is used on two routes has one counter", async () => {
    expect(await statuses(1, "/orders")).toEqual([200]);
    expect(await statuses(1, "/invoices")).toEqual([200]);
    expect(await statuses(1, "/orders")).toEqual([429]);
  });

  it("a request without the variable of the key gets a 403 that names the policy", async () => {
    const { status, text } = await ask(whole, "/account");
    expect(status).toBe(403);
    expect(JSON.parse(text)).toMatchObject({ missing_parts: ["key:account"] });
  });

  it("a handler answers the requests that the policy denies", async () => {
    const texts: string[] = [];
    // oxlint-disable-next-line no-await-in-loop
    for (let sent = 0; sent < 2; sent++) texts.push((await ask(whole, "/quotes")).text);
    expect(texts).toEqual(["fresh", "from the cache"]);
  });

  it("a handler resets the attempts of a client", async () => {
    expect(await statuses(1, "/signed-in")).toEqual([200]);
    expect(await statuses(1, "/signed-in?password=right")).toEqual([200]);
    expect(await statuses(3, "/signed-in")).toEqual([200, 200, 429]);
  });

  it("a function of the page's example returns the cost of a request", async () => {
    expect(await statuses(3, "/export?rows=900")).toEqual([200, 429, 429]);
    expect(await statuses(2, "/export?rows=100")).toEqual([200, 429]);
    expect(await statuses(1, "/export?rows=0")).toEqual([200]);
  });

  it("a streamed response settles its reserved cost", async () => {
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await ask(whole, "/chat")).toMatchObject({ status: 200, text: "Limits that hold " });
    }
  });

  it("the page's example does not charge skipped requests", async () => {
    expect(await statuses(2, "/status?probe=yes")).toEqual([200, 200]);
    expect(await statuses(2, "/status")).toEqual([200, 429]);
  });

  it("a function of the page's example answers a denial", async () => {
    await ask(whole, "/custom");
    const { status, text, headers } = await ask(whole, "/custom");
    expect([status, JSON.parse(text)]).toMatchObject([429, { policy: "custom" }]);
    expect(headers.has("Retry-After")).toBe(true);
  });

  it("the page's login example charges only failed logins", async () => {
    expect(await statuses(3, "/login?password=right")).toEqual([200, 200, 200]);
    expect(await statuses(3, "/login")).toEqual([401, 401, 429]);
  });

  it("the page's leased policy allows requests", async () => {
    expect(await statuses(3, "/fast")).toEqual([200, 200, 200]);
  });

  it("a handler can read the decision", async () => {
    expect((await ask(whole, "/left")).text).toBe('{"remaining":4}');
  });
});

describe("the console and the admin API of the page", () => {
  it("the admin host serves the console from the package, and none of the app's routes", async () => {
    const { status, text } = await ask(whole, "https://admin.example.com/_headgate/");
    expect([status, text]).toEqual([200, expect.stringContaining('<div id="console">')]);
    const [, script = ""] = /src="(.*?)"/.exec(text) ?? [];
    expect((await ask(whole, `https://admin.example.com/_headgate/${script}`)).status).toBe(200);
    expect((await ask(whole, "https://admin.example.com/left")).status).toBe(404);
    expect((await ask(whole, "/index.html")).text).toBe("ok");
  });

  it("the admin API lists every policy of the page", async () => {
    const { text } = await ask(whole, "/_headgate/api/policies", {
      Authorization: `Bearer ${token}`,
    });
    const { policies } = JSON.parse(text) as { policies: { name: string }[] };
    expect(policies.map(({ name }) => name).toSorted()).toEqual(
      "account attempts client custom fast left login plan quotes rows shared status team tokens user".split(" "),
    );
  });
});
