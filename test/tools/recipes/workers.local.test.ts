/** Runs the Workers of recipes in workerd: other frameworks, GraphQL, and messages of WebSockets. */
import { describe, expect, it } from "vitest";
import type { TestHarness } from "wrangler";
import { pageBlock } from "../../docs/page-block.ts";
import { pageWorkers } from "../../docs/page-worker.ts";

const start = pageWorkers();
const frameworks = "how-to/other-frameworks";
const configuration = pageBlock("how-to/limit-a-hono-app", "toml other", "RATE_LIMITER");

const visitor = { "CF-Connecting-IP": "203.0.113.7" };

/** The statuses and the first response of concurrent requests. */
async function answers(server: TestHarness, path: string, count: number): Promise<readonly [number[], Response]> {
  const all = await Promise.all(
    Array.from({ length: count }, () => server.fetch(`https://app.example${path}`, { headers: visitor })),
  );
  const [first] = all as unknown as Response[];
  if (first === undefined) throw new Error("no response");
  return [all.map(({ status }) => status).toSorted((a, b) => a - b), first];
}

/** The code that a framework generates or exports, reduced to the handler that Cloudflare calls. */
const handler = `(request, env, ctx) => {
  if (typeof ctx?.waitUntil !== "function" && !("isRouterContext" in env)) throw new Error("no context");
  return new Response("Hello, Ada!", { headers: { "X-Page": new URL(request.url).pathname } });
}`;
const generated = `export default { fetch: ${handler} };`;
/** Revalidates as the queue of OpenNext does. */
const openNext = `const respond = ${handler};
export default {
  fetch: (request, env, ctx) =>
    new URL(request.url).pathname === "/revalidate"
      ? env.WORKER_SELF_REFERENCE.fetch("https://app.example/hello/Ada", { method: "HEAD" })
      : respond(request, env, ctx),
};
export class DOQueueHandler {}`;

const reactRouter = `export class RouterContextProvider { isRouterContext = true; }
export function createRequestHandler(build, mode) {
  if (mode !== "production") throw new Error(mode);
  return async (request, context) => (await build()).handle(request, context);
}`;

/** The names that the bundler of React Router defines. */
const bundler = `
[alias]
"virtual:react-router/server-build" = "./build.js"

[define]
"import.meta.env.MODE" = "'production'"
`;

interface Framework {
  readonly name: string;
  readonly files?: Readonly<Record<string, string>>;
  readonly packages?: readonly string[];
  /** Lines of the Worker's configuration besides those of the limiter. */
  readonly more?: string;
}

const next = {
  name: "next",
  files: { ".open-next/worker.js": openNext },
  more: pageBlock(frameworks, "toml other", "WORKER_SELF_REFERENCE"),
};

const all: readonly Framework[] = [
  { name: "itty-router", packages: ["itty-router"] },
  { name: "sveltekit", files: { ".svelte-kit/cloudflare/_worker.js": generated } },
  next,
  {
    name: "react-router",
    more: bundler,
    files: {
      "node_modules/react-router/package.json": '{ "type": "module", "exports": "./index.js" }',
      "node_modules/react-router/index.js": reactRouter,
      "build.js": `export const handle = ${handler};`,
    },
  },
  {
    name: "astro",
    files: {
      "node_modules/@astrojs/cloudflare/package.json":
        '{ "type": "module", "exports": { "./handler": "./handler.js" } }',
      "node_modules/@astrojs/cloudflare/handler.js": `export const handle = ${handler};`,
    },
  },
];

describe.each(all)("the main module for $name", ({ name, files = {}, packages = [], more = "" }) => {
  it("the main module passes ten requests of a second on to the framework, and answers the eleventh with 429", async () => {
    const server = await start({
      files: {
        ...files,
        "src/index.ts": mainModule(name),
        "src/limited.ts": pageBlock(frameworks, "ts limited"),
        "wrangler.toml": configuration + more,
      },
      packages,
    });
    const [statuses, first] = await answers(server, "/hello/Ada", 11);
    expect(statuses).toEqual([...Array<number>(10).fill(200), 429]);
    expect(first.headers.get("RateLimit-Policy")).toBe(
      '"visitors.100-per-1m";q=100;w=60, "visitors.10-per-1s";q=10;w=1',
    );
    const passed = await server.fetch("https://app.example/hello/Ada", {
      headers: { "CF-Connecting-IP": "203.0.113.8" },
    });
    expect(await passed.text()).toBe("Hello, Ada!");
  });
});

it("revalidations of Next.js are neither limited nor charged", async () => {
  const server = await start({
    files: {
      ...next.files,
      "src/index.ts": mainModule("next"),
      "src/limited.ts": pageBlock(frameworks, "ts limited"),
      "wrangler.toml": configuration + next.more,
    },
  });
  const pages = await Promise.all(
    Array.from({ length: 11 }, async (_, number) => {
      const headers = { "CF-Connecting-IP": `203.0.113.${number}` };
      const response = await server.fetch("https://app.example/revalidate", { headers });
      return response.headers.get("X-Page");
    }),
  );
  expect(pages).toEqual(Array<string>(11).fill("/hello/Ada"));
});

function mainModule(name: string): string {
  switch (name) {
    case "itty-router":
      return pageBlock(frameworks, "ts itty-router");
    case "sveltekit":
      return pageBlock(frameworks, "ts sveltekit");
    case "next":
      return pageBlock(frameworks, "ts next");
    case "react-router":
      return pageBlock(frameworks, "ts react-router");
    default:
      return pageBlock(frameworks, "ts astro");
  }
}

const schema = `import { buildSchema, execute, validate } from "graphql";
const users = Array.from({ length: 500 }, (_, id) => ({ name: "user " + id, friends: [] }));
const schema = buildSchema(\`
  type User { name: String, friends(first: Int): [User] }
  type Query { users(first: Int): [User], version: String }
\`);
const rootValue = { users: ({ first }) => users.slice(0, first), version: "1" };
export const answer = async (document, variableValues) => {
  const errors = validate(schema, document);
  return errors.length > 0 ? { errors } : execute({ schema, document, rootValue, variableValues });
};
`;

describe("GraphQL", () => {
  const page = "how-to/graphql";

  it("the GraphQL recipe charges fields times the sizes of lists, and denies in the form of GraphQL", async () => {
    const server = await start({
      files: { "src/index.ts": pageBlock(page, "ts worker"), "src/schema.ts": schema, "wrangler.toml": configuration },
      packages: ["graphql", "hono"],
    });
    const ask = async (query: string, variables = {}, address = "203.0.113.7") => {
      const response = await server.fetch("https://app.example/graphql", {
        method: "POST",
        headers: { "Content-Type": "application/json", "CF-Connecting-IP": address },
        body: JSON.stringify({ query, variables }),
      });
      const [, left] = /;r=(\d+)/.exec(response.headers.get("RateLimit") ?? "") ?? [];
      return { status: response.status, left, body: await response.json() };
    };
    const version = await ask("{ version }");
    expect(version).toEqual({ status: 200, left: "1999", body: { data: { version: "1" } } });
    // One list of users, and a name for each.
    expect(await ask("{ users(first: 100) { name } }")).toMatchObject({ status: 200, left: "1898" });
    const query = "query ($n: Int) { users(first: $n) { ...friends } } fragment friends on User { friends { name } }";
    expect(await ask(query, { n: 50 })).toMatchObject({ status: 200, left: "1797" });
    // The most expensive query costs 1,000 units, whatever it asks for.
    const deep = "{ users(first: 500) { friends(first: 500) { name } } }";
    expect(await ask(deep)).toMatchObject({ status: 200, left: "797" });
    const denied = await ask(deep);
    expect(denied).toMatchObject({ status: 429, body: { errors: [{ extensions: { code: "RATE_LIMITED" } }] } });
    expect(await ask("{ version }")).toMatchObject({ status: 200, left: "796" });
    expect(await ask("{")).toMatchObject({ status: 400, body: { errors: [{ message: expect.any(String) }] } });
    const cycle = "{ users { ...a } } fragment a on User { friends { ...a } }";
    expect(await ask(cycle, {}, "203.0.113.8")).toMatchObject({ status: 200, body: { errors: expect.any(Array) } });
  });
});

describe("WebSockets", () => {
  it("the WebSocket recipe answers each message within the limits of the user", async () => {
    const room = `\n[[durable_objects.bindings]]\nname = "ROOM"\nclass_name = "Room"\n`;
    const server = await start({
      files: {
        "src/index.ts": pageBlock("how-to/websockets", "ts socket"),
        "wrangler.toml": configuration
          .replace("\n[[migrations]]", `${room}\n[[migrations]]`)
          .replace('["RateLimiter"]', '["RateLimiter", "Room"]'),
      },
    });
    const received: string[] = [];
    const { webSocket } = await server.fetch("https://app.example/?user=ann", { headers: { Upgrade: "websocket" } });
    if (webSocket === null) throw new Error("the object has not accepted the WebSocket");
    webSocket.addEventListener("message", ({ data }) => {
      if (typeof data === "string") received.push(data);
    });
    webSocket.accept();
    for (const text of ["one", "two", "three", "four"]) webSocket.send(text);
    await expect.poll(() => received.length).toBe(4);
    expect(received.toSorted()).toEqual(["one", "three", "two", expect.stringMatching(/^wait \d+ s$/)]);
    webSocket.close();
  });
});
