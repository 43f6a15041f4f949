/** The console: static files below ADMIN_PATH on ADMIN_HOST, and nowhere else. */
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, it, vi } from "vitest";
import { statusOf } from "../http/harness.ts";
import { admin, tokens } from "./admin.ts";

const host = "https://admin.example.com";
const onHost = { ADMIN_HOST: "admin.example.com" };

/** The static assets, and the paths that the Worker requested from them. */
function watchedAssets() {
  const asked: string[] = [];
  const fetch = async (request: Request): Promise<Response> => {
    asked.push(new URL(request.url).pathname);
    return env.ASSETS.fetch(request);
  };
  return { asked, ASSETS: { fetch } };
}

afterEach(() => void vi.restoreAllMocks());

describe("the console on ADMIN_HOST", () => {
  it.for(["/", "/keys", "/policies?x=1", "/advisor", "/live", "/denied", "/audit", "/playground?limits=5%2Fminute"])(
    "the view %s is the console's page, which browsers revalidate",
    async (view) => {
      const { send } = admin({}, onHost);
      const response = await send(`${host}/_headgate${view}`);
      expect(response.status).toBe(200);
      expect(response.headers.get("Content-Type")).toMatch(/^text\/html; charset=utf-8$/i);
      expect(response.headers.get("Cache-Control")).toBe("no-cache");
      expect(await response.text()).toContain('<div id="console">');
    },
  );

  it("each file that the page names is served with its type, and browsers keep it for a year", async () => {
    const { send } = admin({}, onHost);
    const page = await (await send(`${host}/_headgate/keys`)).text();
    const files = [...page.matchAll(/(?:href|src)="(.*?)"/g)].map(([, file = ""]) => file);
    const types = [];
    for (const file of files) {
      const url = new URL(file, `${host}/_headgate/keys`);
      // oxlint-disable-next-line no-await-in-loop
      const response = await send(url.href);
      expect(response.headers.get("Cache-Control")).toBe("public, max-age=31536000, immutable");
      // oxlint-disable-next-line no-await-in-loop
      expect((await response.text()).length).toBeGreaterThan(0);
      types.push(response.headers.get("Content-Type")?.split(";")[0]);
    }
    expect(new Set(types)).toEqual(new Set(["image/svg+xml", "text/css", "text/javascript"]));
  });

  it("a conditional request with the current ETag gets 304, and HEAD gets no body", async () => {
    const { send } = admin({}, onHost);
    const first = await send(`${host}/_headgate/`);
    const etag = first.headers.get("ETag") ?? "";
    expect(etag).not.toBe("");
    await first.body?.cancel();
    const again = await send(`${host}/_headgate/`, { headers: { "If-None-Match": etag } });
    expect([again.status, await again.text()]).toEqual([304, ""]);
    expect(again.headers.get("ETag")).toBe(etag);
    // Cloudflare makes the ETag of a compressed response weak.
    const weak = send(`${host}/_headgate/`, { headers: { "If-None-Match": `W/${etag}` } });
    expect(await statusOf(weak)).toBe(304);
    const other = await send(`${host}/_headgate/`, { headers: { "If-None-Match": '"other"' } });
    expect(other.status).toBe(200);
    await other.body?.cancel();
    const head = await send(`${host}/_headgate/`, { method: "HEAD" });
    expect([head.status, await head.text()]).toEqual([200, ""]);
    expect([...head.headers]).toEqual([...first.headers]);
  });

  it("every answer of the console is isolated from other sites by its header fields", async () => {
    const { send } = admin({}, onHost);
    const page = await send(`${host}/_headgate/`);
    const script = /src="(.*?)"/.exec(await page.text())?.[1] ?? "";
    const answers = [
      page,
      await send(`${host}/_headgate/${script}`),
      await send(`${host}/_headgate/`, {
        headers: { "If-None-Match": page.headers.get("ETag") ?? "" },
      }),
      await send(`${host}/_headgate`, { redirect: "manual" }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 304, 308]);
    for (const { headers } of answers) {
      const policy = headers.get("Content-Security-Policy") ?? "";
      expect(policy).toContain("default-src 'none'; script-src 'self'; style-src 'self'");
      expect(policy).toContain("frame-ancestors 'none'; require-trusted-types-for 'script'");
      expect(policy).not.toMatch(/unsafe|http|\*/);
      expect(Object.fromEntries(headers)).toMatchObject({
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cross-origin-opener-policy": "same-origin",
        "cross-origin-resource-policy": "same-origin",
        "x-frame-options": "DENY",
      });
    }
    await answers[1]?.body?.cancel();
  });

  it("ADMIN_PATH without its final slash, and the path /, redirect to the console and keep the query", async () => {
    const { send } = admin({}, { ...onHost, ADMIN_PATH: "/ops" });
    const locations = [];
    for (const path of ["/ops?policy=a%20b", "/", "/?a=1"]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send(`${host}${path}`, { redirect: "manual" });
      locations.push([response.status, response.headers.get("Location")]);
    }
    expect(locations).toEqual([
      [308, "/ops/?policy=a%20b"],
      [308, "/ops/"],
      [308, "/ops/?a=1"],
    ]);
    expect(await statusOf(send(`${host}/ops/`))).toBe(200);
    expect(await statusOf(send(`${host}/`, { method: "POST" }))).toBe(404);
    expect(await statusOf(send(`${host}/ops/`, { method: "POST" }))).toBe(404);
  });

  it.for([
    "/_headgate/index.html",
    "/_headgate/keys/",
    "/_headgate/nothing",
    "/_headgate//",
    "//_headgate/",
    "/%5fheadgate/",
    "/_headgate/%6beys",
    "/_headgate/assets",
    "/_headgate/assets/",
    "/_headgate/assets/index.html",
    "/_headgate/assets/..%2findex.html",
    "/_headgate/assets/%2e%2e%2findex.html",
    "/_headgate/assets/..%5cindex.html",
    "/_headgate/assets//console-AAAAAAAA.js",
    "/_headgate/assets%2fconsole-AAAAAAAA.js",
    "/_headgate/assets/../index.html",
    "/_headgate/assets/console-AAAAAAAA.js/",
    "/_headgates/",
    "/index.html",
    "/assets/console-AAAAAAAA.js",
  ])("%s is neither looked up in the assets nor forwarded", async (path) => {
    const fetched = vi.spyOn(globalThis, "fetch");
    const { asked, ASSETS } = watchedAssets();
    const { send } = admin({}, { ...onHost, ASSETS });
    const response = await send(`${host}${path}`);
    expect([response.status, response.headers.get("Content-Type")]).toEqual([404, "application/problem+json"]);
    await response.body?.cancel();
    expect([asked, fetched.mock.calls]).toEqual([[], []]);
  });

  it("a browser gets the console's page with 404 for an unknown path, and goes there from a path in a folder", async () => {
    const { send } = admin({}, onHost);
    const browser = { headers: { Accept: "text/html,application/xhtml+xml,*/*;q=0.8" }, redirect: "manual" } as const;
    const page = await send(`${host}/_headgate/nothing`, browser);
    expect([page.status, page.headers.get("Cache-Control")]).toEqual([404, "no-cache"]);
    expect(await page.text()).toContain('<div id="console">');
    const folder = await send(`${host}/_headgate/keys/nothing`, browser);
    expect([folder.status, folder.headers.get("Location")]).toEqual([302, "/_headgate/not-found"]);
    const call = await send(`${host}/_headgate/api/nothing`, browser);
    expect(call.headers.get("Content-Type")).toBe("application/problem+json");
    await call.body?.cancel();
  });

  it("a hashed file name that does not exist gets 404", async () => {
    const { send } = admin({}, onHost);
    const response = await send(`${host}/_headgate/assets/console-AAAAAAAA.js`);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({ detail: expect.stringContaining("no endpoint") });
  });
});

describe("the console elsewhere", () => {
  it.for<[string, Record<string, unknown>, string]>([
    ["on another host", onHost, "on another host, that of ADMIN_HOST: https://admin.example.com/_headgate/"],
    ["without ADMIN_HOST", {}, "needs ADMIN_HOST"],
  ])("%s the console gets 404, and the problem says where the console is", async ([, variables, detail]) => {
    const { asked, ASSETS } = watchedAssets();
    const { send, call } = admin({}, { ...variables, ASSETS });
    for (const path of ["", "/", "/keys", "/assets/console-AAAAAAAA.js"]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send(`/_headgate${path}`);
      expect(response.status).toBe(404);
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.json()).toMatchObject({ detail: expect.stringContaining(detail) });
    }
    expect(asked).toEqual([]);
    expect((await call("GET", "/policies")).status).toBe(200);
  });

  it("the address of the console has the port of the request to another host, as in local runs", async () => {
    const { send } = admin({}, { ADMIN_HOST: "admin.localhost" });
    const response = await send("http://localhost:8788/_headgate/");
    expect(await response.json()).toMatchObject({
      detail: expect.stringMatching(/: http:\/\/admin\.localhost:8788\/_headgate\/$/),
    });
  });

  it("no proxied request reaches the assets, on any path", async () => {
    const { asked, ASSETS } = watchedAssets();
    const { send, check, policy } = admin({ limits: "100/hour" }, { ...onHost, ASSETS });
    for (const path of ["/", "/index.html", "/assets/x", "/assets/console-AAAAAAAA.js", "/keys"]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send(path, { headers: { "CF-Connecting-IP": "203.0.113.7" } });
      expect(response.headers.has("RateLimit")).toBe(true);
      // oxlint-disable-next-line no-await-in-loop
      await response.body?.cancel();
    }
    expect(await statusOf(check("POST", "/check", { policy, key: "203.0.113.8" }))).toBe(200);
    expect(asked).toEqual([]);
  });

  it("without the binding ASSETS, the console gets a problem that names the binding, and everything else works", async () => {
    const { send, check, call, policy } = admin({}, { ...onHost, ASSETS: undefined });
    const response = await send(`${host}/_headgate/`);
    expect(response.status).toBe(404);
    expect(await response.json()).toMatchObject({
      detail: expect.stringContaining("the binding ASSETS is missing in wrangler.toml"),
    });
    expect((await call("GET", "/policies")).status).toBe(200);
    expect(await statusOf(check("POST", "/check", { policy, key: "203.0.113.8" }))).toBe(200);
    expect(await statusOf(send("/", { headers: { "CF-Connecting-IP": "203.0.113.7" } }))).toBe(200);
  });

  it("without the binding CONTROL_PLANE, the console is served and its API gets 503", async () => {
    const { send } = admin({}, { ...onHost, CONTROL_PLANE: undefined });
    expect(await statusOf(send(`${host}/_headgate/`))).toBe(200);
    const headers = { Authorization: `Bearer ${tokens.all}` };
    expect(await statusOf(send(`${host}/_headgate/api/policies`, { headers }))).toBe(503);
  });
});
