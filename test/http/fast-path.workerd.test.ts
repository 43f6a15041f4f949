/** The fast path of `app.ts` returns the same responses as Hono's routes. */
import { createExecutionContext, waitOnExecutionContext } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, expect, it, vi } from "vitest";
import { type App, createApp } from "../../src/app.ts";
import { LimiterClient } from "../../src/limiter/isolate/client.ts";

function appOf(variables: Record<string, unknown>): App {
  const own = {
    ...env,
    ORIGIN: "https://origin.example",
    CHECK_TOKENS: "the-tests-token",
    KEY_SECRET: crypto.randomUUID(),
    ...variables,
  };
  return createApp(own);
}

interface Init extends Omit<RequestInit, "headers"> {
  readonly headers?: Record<string, string>;
}

/**
 * The status, fields and body of a response, without the names in `Via` and `Proxy-Status` and the instances of denials,
 * which differ by app.
 */
async function answerOf(fetch: App["fetch"], url: string, init: Init): Promise<object> {
  const ctx = createExecutionContext();
  const headers = { "CF-Connecting-IP": "203.0.113.7", ...init.headers };
  const request = new Request(url, { redirect: "manual", ...init, headers });
  const response = await fetch(request, env, ctx);
  const { status, statusText, headers: fields } = response;
  const body = await response.text();
  await waitOnExecutionContext(ctx);
  const text = JSON.stringify({ status, statusText, fields: [...fields], body });
  const sameNames = text.replace(/headgate-[\w-]{8}/g, "headgate-x");
  return JSON.parse(sameNames.replace(/urn:uuid:[\da-f-]{36}/g, "urn:uuid:x")) as object;
}

/** A call of `/check`, with the tests' token. */
const checkWith = (body: unknown, headers: Record<string, string> = {}): Init => ({
  method: "POST",
  headers: {
    Authorization: "Bearer the-tests-token",
    "Content-Type": "application/json",
    ...headers,
  },
  body: JSON.stringify(body),
});

const requests: readonly (readonly [string, Init?])[] = [
  ["/"],
  ["/plain/path?q=1&r=a%20b"],
  ["/plain/path/"],
  ["/a%2Fb"],
  ["//two"],
  ["/a/../b"],
  ["/.hidden"],
  ["/a;b=c"],
  ["/", { method: "HEAD" }],
  ["/check", { method: "HEAD" }],
  ["/checkout"],
  ["/check/"],
  ["/check/unknown"],
  ["/check/health"],
  ["//check"],
  ["/%63heck"],
  ["/check?policy=tight&key=k"],
  ["/check", checkWith({ policy: "tight", key: "k" })],
  ["/check?deny=429", checkWith({ policy: "tight", key: "k" })],
  ["/check/", checkWith({ policy: "tight", key: "k" })],
  ["/%63heck", checkWith({ policy: "tight", key: "k" })],
  ["/check", checkWith({ policy: "none", key: 1, other: 2 })],
  ["/check", checkWith({ policy: "tight", key: "k" }, { Authorization: "Bearer other" })],
  ["/check", checkWith({ policy: "tight", key: "k" }, { "Content-Type": "text/plain" })],
  ["/check?unknown=1", checkWith({ policy: "tight", key: "k" })],
  ["/check", { method: "PUT", body: "{}" }],
  ["/_headgate"],
  ["/_headgate/"],
  ["/_headgate/api/nothing"],
  ["/_headgates"],
  ["https://admin.example/"],
  ["https://admin.example:8443/a"],
  ["https://headgate.example:8443/a"],
  ["http://203.0.113.9/a"],
  ["https://origin.example/loop"],
  ["/", { method: "OPTIONS" }],
  ["/", { method: "OPTIONS", headers: { "Max-Forwards": "0" } }],
  ["/", { method: "OPTIONS", headers: { "Max-Forwards": "3" } }],
  [
    "/",
    {
      method: "OPTIONS",
      headers: { Origin: "https://site.example", "Access-Control-Request-Method": "PUT" },
    },
  ],
  ["/", { method: "PUT", body: "a body" }],
  ["/upload", { method: "POST", body: "a body" }],
  ["/cookies"],
  ["/hops", { headers: { Connection: "X-Named", "X-Named": "1", "X-Kept": "2" } }],
  ["/refusing"],
  ["/redirect"],
  ["/not-modified"],
  ["/unreachable"],
  ["/answer?status=500"],
  ["/answer?status=200&Access-Control-Allow-Origin=*"],
  ["/tight", { headers: { Origin: "https://site.example" } }],
  ["/tight", { headers: { Origin: "https://site.example" } }],
  ["/TIGHT/"],
  ["/tight?q=1", { method: "POST", body: "a body" }],
];

afterEach(() => void vi.useRealTimers());

it("the fast path gives requests the same responses as Hono's routes", async () => {
  // Waits are rounded to seconds, so they may differ by one when time passes between the two responses.
  vi.useFakeTimers({ toFake: ["Date"] });
  const silent = (["log", "warn", "error"] as const).map((level) =>
    vi.spyOn(console, level).mockReturnValue(undefined),
  );
  const variables = {
    CORS_ORIGINS: ["https://site.example"],
    ADMIN_HOST: "admin.example",
    ADMIN_TOKENS: JSON.stringify([{ name: "admin", token: "a".repeat(32), may: ["write"] }]),
    POLICIES: [
      { name: "all", limits: "1000/minute", strategy: "fixed-window" },
      { name: "tight", match: { path: "/tight" }, limits: "1/minute", strategy: "fixed-window" },
    ],
  };
  const [fast, routed] = [appOf(variables), appOf(variables)];
  for (const [target, init = {}] of requests) {
    const url = target.startsWith("https:") ? target : `https://headgate.example${target}`;
    // Requests are sent one after the other, since each spends from the same limits.
    // oxlint-disable-next-line no-await-in-loop
    const answer = await answerOf(fast.fetch, url, init);
    // oxlint-disable-next-line no-await-in-loop
    const expected = await answerOf((...call) => routed.routes.fetch(...call), url, init);
    expect(answer, `${init.method ?? "GET"} ${target}`).toEqual(expected);
  }
  for (const spy of silent) spy.mockRestore();
});

it("the fast path and Hono's routes give the same 500 response to an error in the proxy", async () => {
  const reported = vi.spyOn(console, "error").mockReturnValue(undefined);
  const broken = vi.spyOn(LimiterClient.prototype, "admit").mockImplementation(() => {
    throw new Error("broken");
  });
  const app = appOf({ LIMITS: "10/minute", CORS_ORIGINS: "*" });
  const request = ["https://headgate.example/a", { headers: { Origin: "https://a.example" } }] as const;
  const answer = await answerOf(app.fetch, ...request);
  expect(answer).toMatchObject({ status: 500 });
  expect(answer).toEqual(await answerOf((...call) => app.routes.fetch(...call), ...request));
  broken.mockRestore();
  reported.mockRestore();
});
