/** The answers of a Worker that is not fully configured, and how they change with each variable that is set. */
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf, token } from "./harness.ts";

const asBrowser = (address = "203.0.113.7", accept = browserTypes) => ({
  headers: { ...from(address).headers, Accept: accept },
});
const browserTypes = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

const demo = { ORIGIN: undefined };
const noSecret = { LIMITS: "5/minute", KEY_SECRET: undefined };

beforeEach(() => {
  for (const level of ["warn", "error"] as const) {
    vi.spyOn(console, level).mockReturnValue(undefined);
  }
});

describe("without limits and without ORIGIN", () => {
  it("a browser gets a page with status 200, its RateLimit fields and the variables to set", async () => {
    const response = await headgate(demo).send("/", asBrowser());
    expect(response.status).toBe(200);
    expect(response.headers.get("Content-Type")).toBe("text/html; charset=utf-8");
    expect(response.headers.get("RateLimit-Policy")).toBe('"default";q=5;w=10');
    const page = await response.text();
    const shown = page.replaceAll("&quot;", '"');
    expect(shown).toContain('RateLimit-Policy: "default";q=5;w=10');
    expect(shown).toContain(`RateLimit: ${response.headers.get("RateLimit")}`);
    expect(shown).toContain('LIMITS = "100/minute; 10/second"');
    expect(shown).toContain('ORIGIN = "https://api.example.com"');
    expect(shown).toContain("npm run deploy");
    expect(shown).toContain("Variables and Secrets");
    expect(shown).not.toContain("KEY_SECRET");
  });

  it("the sixth request of an address within ten seconds is denied, and other addresses are not", async () => {
    const { send } = headgate(demo);
    for (let request = 1; request <= 5; request++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(send("/any/path", asBrowser()))).toBe(200);
    }
    const denial = await send("/", asBrowser());
    expect(denial.status).toBe(429);
    expect(denial.headers.get("Retry-After")).toMatch(/^\d+$/);
    expect(await denial.json()).toMatchObject({ "violated-policies": ["default"] });
    expect(await statusOf(send("/", asBrowser("203.0.113.8")))).toBe(200);
  });

  it("a client that does not ask for HTML gets a problem about the missing origin, with RateLimit fields", async () => {
    const { send } = headgate(demo);
    const response = await send("/", from("203.0.113.7"));
    expect(response.status).toBe(404);
    expect(response.headers.get("RateLimit")).toBe('"default";r=4;t=10');
    expect(await response.json()).toMatchObject({ detail: expect.stringContaining("ORIGIN") });
    expect(await statusOf(send("/", { ...asBrowser(), method: "POST" }))).toBe(404);
  });

  it.each([
    ["text/html", 200],
    ["application/json, text/html;q=0.9", 404],
    ["text/html;q=0, */*", 404],
    ["application/problem+json", 404],
    ["*/*", 404],
  ])("Accept: %s gets the status %i", async (accept, status) => {
    expect(await statusOf(headgate(demo).send("/", asBrowser("203.0.113.7", accept)))).toBe(status);
  });

  it("/check decides with the demo limits, and /check/health responds with 200", async () => {
    const { send, check } = headgate(demo);
    const answer = await check("POST", "/check", { key: "203.0.113.7", cost: 2 });
    expect(await answer.json()).toMatchObject({ allowed: true, limits: [{ remaining: 3 }] });
    expect(await statusOf(send("/check/health", asBrowser()))).toBe(200);
  });

  it("the page obeys a strict Content Security Policy, is not stored, and is not indexed", async () => {
    const { send } = headgate(demo);
    const response = await send("/", asBrowser());
    const policy = response.headers.get("Content-Security-Policy") ?? "";
    const [, nonce] = /style-src 'nonce-([\w-]+)'/.exec(policy) ?? [];
    expect(policy).toContain("default-src 'none'");
    expect(policy).not.toContain("unsafe");
    const page = await response.text();
    expect(page.match(/<style[^>]*>/g)).toEqual([`<style nonce="${nonce}">`]);
    expect(page).not.toMatch(/<script|\sstyle=|\son\w+=|<img|https?:\/\/(?!api\.example\.com)/);
    // Without it, browsers would also request /favicon.ico, which would be charged.
    expect(page).toContain('<link rel="icon" href="data:,"');
    expect(page.length).toBeLessThan(5_000);
    expect(response.headers.get("Cache-Control")).toBe("no-store");
    expect(response.headers.get("X-Robots-Tag")).toBe("noindex");
    const other = await send("/", asBrowser());
    expect(other.headers.get("Content-Security-Policy")).not.toBe(policy);
  });
});

describe("without KEY_SECRET", () => {
  it("without KEY_SECRET, a browser gets a page with 503 that names the secret and the command to set it", async () => {
    const response = await headgate(noSecret).send("/", asBrowser());
    expect(response.status).toBe(503);
    expect(response.headers.get("Retry-After")).toBe("60");
    expect(response.headers.get("RateLimit")).toBeNull();
    const page = await response.text();
    expect(page).toContain("npx wrangler secret put KEY_SECRET");
    expect(page).toContain("On your machine, in .dev.vars");
    expect(page).toContain("No request is charged or forwarded");
    expect(page).not.toContain("Set LIMITS");
  });

  it("without KEY_SECRET, other clients get a 503 problem that names it, even at /check and /check/health", async () => {
    const { send, check } = headgate(noSecret);
    const sent = [send("/"), send("/check/health"), check("POST", "/check", { key: "k" })];
    for (const answer of sent) {
      // oxlint-disable no-await-in-loop
      const response = await answer;
      expect(response.status).toBe(503);
      expect(response.headers.get("Content-Type")).toBe("application/problem+json");
      expect(response.headers.get("Retry-After")).toBe("60");
      expect(await response.json()).toMatchObject({
        detail: expect.stringMatching(/\.dev\.vars locally.*; on Cloudflare, run `npx wrangler secret put <NAME>`/),
        errors: [{ variable: "KEY_SECRET" }],
      });
      // oxlint-enable no-await-in-loop
    }
  });

  it("without KEY_SECRET, no object is called, not even for the demo limits", async () => {
    const calls = vi.spyOn(env.RATE_LIMITER, "getByName");
    const ids = vi.spyOn(env.RATE_LIMITER, "idFromName");
    const { send } = headgate({ ...demo, KEY_SECRET: "" });
    expect(await statusOf(send("/", asBrowser()))).toBe(503);
    expect(calls.mock.calls.length + ids.mock.calls.length).toBe(0);
    vi.restoreAllMocks();
  });
});

describe("with an ORIGIN and without limits", () => {
  it("without limits, no request reaches the origin: browsers get a page with 503, and other clients a problem", async () => {
    const { send } = headgate({});
    const page = await send("/", asBrowser());
    expect(page.status).toBe(503);
    expect(await page.text()).toContain('LIMITS = "100/minute; 10/second"');
    const problem = await send("/");
    expect(problem.status).toBe(503);
    expect(await problem.json()).toMatchObject({ errors: [{ variable: "POLICIES" }] });
  });

  it("the page names limits and KEY_SECRET if both are missing, with the secret first", async () => {
    const response = await headgate({ KEY_SECRET: undefined }).send("/", asBrowser());
    const headings = (await response.text()).match(/(?<=<h2>).*(?=<\/h2>)/g);
    expect(headings).toEqual(["Set KEY_SECRET", "Set LIMITS"]);
  });
});

describe("with limits and without ORIGIN", () => {
  it("without ORIGIN, a browser gets a page with 404 that names the variable, and no policy charges the request", async () => {
    const response = await headgate({ ...demo, LIMITS: "5/minute" }).send("/", asBrowser());
    expect(response.status).toBe(404);
    expect(response.headers.get("RateLimit")).toBeNull();
    const headings = (await response.text()).match(/(?<=<h2>).*(?=<\/h2>)/g);
    expect(headings).toEqual(["Set ORIGIN"]);
  });
});

describe("a mistake is no missing variable", () => {
  it.each([
    ["a wrong limit", { ...demo, LIMITS: "5/soon" }],
    ["a wrong variable beside a missing secret", { ...noSecret, LIMITS: "5/soon" }],
    ["a placeholder in place of the secret", { ...demo, KEY_SECRET: "at least 32 random characters" }],
    ["a misspelt LIMITS", { ...demo, LIMTS: "5/minute" }],
    ["a claim without a key for tokens", { LIMITS: "5/minute", KEY: "jwt:sub" }],
  ])("%s gives browsers the problem details with 500", async (_, variables) => {
    const response = await headgate(variables).send("/", asBrowser());
    expect(response.status).toBe(500);
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
  });

  it("no setup page contains the value of a variable", async () => {
    const secrets = { CHECK_TOKENS: `${token}-canary`, ORIGIN_SECRET: "canary" };
    const states = [{ ...demo }, noSecret, { ORIGIN: "https://canary.example" }];
    for (const state of states) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await headgate({ ...secrets, ...state }).send("/canary?canary", asBrowser());
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.text()).not.toContain("canary");
    }
  });
});
