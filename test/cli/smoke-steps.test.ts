/**
 * Every step of the smoke test fails on a deployment in which the feature under test is broken, and sends few requests.
 */
import { describe, expect, it } from "vitest";
import { NoAnswer, type ReceivedAnswer, type SentRequest } from "../../src/cli/request.ts";
import {
  printable,
  runStep,
  sentLimits,
  sentWaitSeconds,
  shownLimits,
  smokeSteps,
  type SmokeTarget,
} from "../../src/cli/smoke-steps.ts";
import { readPage, rowsOf } from "../docs/pages.ts";

const health = "health";
const openApi = "OpenAPI and version";
const unauthorized = "/check without a valid token";
const unknownPolicy = "unknown policy";
const decisions = "look, charge and reset";
const checkDenial = "denial by /check";
const proxyFields = "RateLimit fields";
const proxyDenial = "denial by the proxy";
const adminApi = "admin API without a token";
const consoleElsewhere = "no console on the public host";
const consoleOnAdminHost = "console on the admin host";
const adminHostProxiesNothing = "admin host is not proxied";

const target: SmokeTarget = {
  url: new URL("https://limits.example.com"),
  adminUrl: new URL("https://admin.example.com"),
  checkPath: "/check",
  adminPath: "/_headgate",
  path: null,
  token: "the-token",
  policy: null,
  key: [],
  mostRequests: 6,
  expectedVersion: "1.2.3",
};

type Fields = Readonly<Record<string, string>>;

const answer = (
  status: number,
  body: string | Readonly<Record<string, unknown>>,
  fields: Fields = {},
): ReceivedAnswer => {
  const isText = typeof body === "string";
  const headers = new Headers({
    "Content-Type": isText ? "text/html" : "application/json",
    ...fields,
  });
  return {
    status,
    headers,
    text: isText ? body : JSON.stringify(body),
    json: isText ? {} : body,
    isProblem: headers.get("Content-Type") === "application/problem+json",
  };
};

const problem = (
  status: number,
  members: Readonly<Record<string, unknown>> = {},
  fields: Fields = {},
): ReceivedAnswer =>
  answer(
    status,
    { type: "about:blank", status, detail: "A reason.", ...members },
    { "Content-Type": "application/problem+json", ...fields },
  );

const website = answer(200, "<h1>Welcome</h1>");
const consolePage = '<div id="console"></div>';

const allowed = (remaining: number): ReceivedAnswer =>
  answer(200, { allowed: true, reason: "limit", limits: [{ remaining }] });

const limited = (remaining: number, status = 200): ReceivedAnswer =>
  answer(status, "Hello", {
    "RateLimit-Policy": '"a";q=5;w=10',
    RateLimit: `"a";r=${remaining};t=10`,
  });

const deniedFields = {
  "Retry-After": "9",
  "RateLimit-Policy": '"a";q=5;w=10',
  RateLimit: '"a";r=0;t=9',
};
const denial = {
  type: "https://iana.org/assignments/http-problem-types#quota-exceeded",
  reason: "limit",
};

interface Sent extends SentRequest {
  readonly url: string;
}

/** Runs a step against a deployment that gives these answers in turn, and repeats the last one. */
async function ran(
  name: string,
  answers: readonly ReceivedAnswer[],
  changes: Partial<SmokeTarget> = {},
): Promise<{ outcome: string; detail: string; sent: readonly Sent[] }> {
  const step = smokeSteps[name];
  if (step === undefined) throw new Error(`expected the step ${name}`);
  const sent: Sent[] = [];
  const result = await runStep(step, { ...target, ...changes }, (url, request) => {
    sent.push({ ...request, url: url.href });
    const next = answers[Math.min(sent.length, answers.length) - 1];
    return next === undefined ? Promise.reject(new NoAnswer("ECONNRESET")) : Promise.resolve(next);
  });
  return { ...result, sent };
}

const document = (version: string, title = "Headgate"): ReceivedAnswer =>
  answer(200, { openapi: "3.1.0", info: { title, version }, paths: {} });

type Row = readonly [name: string, detail: string, answers: readonly ReceivedAnswer[], changes?: Partial<SmokeTarget>];

const named = ([step, detail, answers, changes = {}]: Row) => [step, detail, answers, changes] as const;

const bearer = { "WWW-Authenticate": 'Bearer realm="headgate"' };
const errors = [{ variable: "LIMITS", field: "limit", accepted: "an integer" }];

describe("a step that fails", () => {
  it.each(
    (
      [
        [health, "expected the health of Headgate at /check/health, got 200 with text/html", [website]],
        [health, "the configuration is invalid: LIMITS.limit: expected an integer", [problem(500, { errors })]],
        [health, "got 503 (A reason.)", [problem(503)]],
        [
          health,
          "got 308 with a redirect to https://www.example.com/check/health",
          [answer(308, "", { Location: "https://www.example.com/check/health" })],
        ],
        [openApi, "expected an OpenAPI 3.1 document", [website]],
        [openApi, "expected the API of Headgate, got Petstore", [document("1.2.3", "Petstore")]],
        [openApi, "expected the version 1.2.3, got 1.2.2", [document("1.2.2")]],
        [unauthorized, "expected the status 401, got 200", [allowed(5)]],
        [unauthorized, "expected problem details with the status 401", [answer(401, "no", bearer)]],
        [unauthorized, "no WWW-Authenticate", [problem(401)]],
        [unauthorized, "expected the status 401, got 200", [problem(401, {}, bearer), allowed(5)]],
        [unknownPolicy, "expected the status 404, got 200", [allowed(5)]],
        [unknownPolicy, "the deployment does not accept the token", [problem(401)]],
        [decisions, "a charge left 6 of 5 units", [allowed(5), allowed(6)]],
        [decisions, "expected the status 204, got 200", [allowed(5), allowed(4), allowed(4)]],
        [decisions, "a reset left 3 units, after 4", [allowed(5), allowed(4), answer(204, ""), allowed(3)]],
        [decisions, "expected a new key to be allowed, got deny", [answer(200, { allowed: false, reason: "deny" })]],
        [decisions, "the decision has no limits", [answer(200, { allowed: true, limits: [] })]],
        [
          decisions,
          "policy: expected one of a, b",
          [problem(422, { errors: [{ field: "policy", accepted: "one of a, b" }] })],
          { policy: "c" },
        ],
        [checkDenial, "expected the status 429, got 200", [allowed(0)]],
        [checkDenial, "expected Retry-After with seconds, got none", [allowed(0), answer(429, {})]],
        [checkDenial, "expected RateLimit with r=0 of q=1", [allowed(0), answer(429, {}, deniedFields)]],
        [proxyFields, '"a" has r=6, which exceeds q=5', [limited(6)]],
        [proxyFields, "GET /login has no RateLimit fields", [website], { path: "/login" }],
        [
          proxyDenial,
          "a denial needs more than the 6 requests",
          [answer(200, "", { "RateLimit-Policy": '"a";q=100' })],
        ],
        [proxyDenial, '"a" 0 of 5 per 10 s: a denial needs more than the 6 requests', [limited(0)]],
        [proxyDenial, "GET / has no RateLimit fields, so it has no limit", [website]],
        [proxyDenial, "expected Retry-After with seconds, got none", [limited(0), limited(0, 429)]],
        [proxyDenial, "expected problem details with the status 429", [answer(429, "no", deniedFields)]],
        [proxyDenial, "no type and reason of a denial", [problem(429, {}, deniedFields)]],
        [adminApi, "the admin API answers without a token", [answer(200, { name: "a", may: ["read"] })]],
        [consoleElsewhere, "the console is served on limits.example.com", [answer(200, consolePage)]],
        [consoleOnAdminHost, "expected the console at admin.example.com/_headgate/, got 200", [website]],
        [consoleOnAdminHost, "the console has no Content-Security-Policy", [answer(200, consolePage)]],
        [adminHostProxiesNothing, "expected the status 404, got 200 with text/html", [website]],
        [adminHostProxiesNothing, "expected problem details with the status 404", [answer(404, "Not found")]],
        [health, "no answer: ECONNRESET", []],
      ] satisfies Row[]
    ).map(named),
  )("the smoke step %s reports: %s", async (step, detail, answers, changes) => {
    expect(await ran(step, answers, changes)).toMatchObject({
      outcome: "fail",
      detail: expect.stringContaining(detail) as string,
    });
  });
});

describe("a step that is skipped", () => {
  it.each(
    (
      [
        [unknownPolicy, "no token: set CHECK_TOKENS or --token", [], { token: null }],
        [decisions, "the token lacks a right: 403 (A reason.)", [problem(403)]],
        [
          decisions,
          "key: expected a list of 2 texts; name a key that nobody uses with --policy and --key",
          [problem(422, { errors: [{ field: "key", accepted: "a list of 2 texts" }] })],
        ],
        [proxyFields, "name a path to which a policy applies with --path", [website]],
        [proxyDenial, "allow it with --until-denied <number>", [], { mostRequests: 0 }],
        [adminApi, "no admin API at /_headgate/api: 200 with text/html", [website]],
        [consoleOnAdminHost, "name it with --admin-host", [], { adminUrl: null }],
        [adminHostProxiesNothing, "name it with --admin-host", [], { adminUrl: null }],
      ] satisfies Row[]
    ).map(named),
  )("the smoke step %s states the reason: %s", async (step, detail, answers, changes) => {
    expect(await ran(step, answers, changes)).toMatchObject({
      outcome: "skipped",
      detail: expect.stringContaining(detail) as string,
    });
  });
});

describe("the requests of a step", () => {
  it("the smoke step without a token sends an invalid token, and all other steps send the token to the deployment only", async () => {
    const without = [health, openApi, unauthorized, proxyFields, adminApi, consoleOnAdminHost];
    for (const step of without) {
      // oxlint-disable-next-line no-await-in-loop
      const { sent } = await ran(step, [problem(401, {}, bearer)]);
      expect(sent.length).toBeGreaterThan(0);
      expect(sent.filter(({ token }) => token === "the-token")).toEqual([]);
    }
    const { sent } = await ran(decisions, [allowed(5), allowed(4), answer(204, ""), allowed(5)]);
    expect(sent.map(({ token, url }) => [token, new URL(url).host])).toEqual(
      sent.map(() => ["the-token", "limits.example.com"]),
    );
  });

  it("the smoke test checks, charges and resets a key that differs in every run", async () => {
    const answers = [allowed(5), allowed(4), answer(204, ""), allowed(5)];
    const first = await ran(decisions, answers);
    expect(first.detail).toBe("5 units, 4 after a charge, 5 after the reset");
    expect(first.sent.map(({ method = "GET" }) => method)).toEqual(["GET", "POST", "DELETE", "GET"]);
    const keys = [first, await ran(decisions, answers)].map(
      ({ sent }) => new URL(sent[0]?.url ?? "").searchParams.get("key") ?? "",
    );
    expect(keys).toEqual(keys.map(() => expect.stringMatching(/^2001:db8:[\da-f]{4}:[\da-f]{4}::1$/)));
    expect(new Set(keys).size).toBe(2);
    expect(first.sent[1]?.body).toEqual({ key: keys[0] });
  });

  it("the smoke test sends named policies and keys of several parts unchanged", async () => {
    const answers = [allowed(5), allowed(4), answer(204, ""), allowed(5)];
    const { sent } = await ran(decisions, answers, { policy: "api", key: ["a b", "/x"] });
    expect(sent[0]?.url).toBe("https://limits.example.com/check?policy=api&key=a+b&key=%2Fx");
    expect(sent[1]?.body).toEqual({ policy: "api", key: ["a b", "/x"] });
  });

  it("the smoke test sends requests to the proxy until the first denial, and never more than the allowed number", async () => {
    const answers = [limited(1), limited(0), problem(429, denial, deniedFields), limited(5)];
    expect(await ran(proxyDenial, answers)).toMatchObject({
      outcome: "pass",
      detail: expect.stringContaining("request 3 got 429") as string,
      sent: { length: 3 },
    });
    const endless = await ran(proxyDenial, [limited(0)]);
    expect(endless.sent).toHaveLength(6);
  });

  it("the smoke test sends requests to the given path, and accepts a sign-in page of Cloudflare Access", async () => {
    const { sent } = await ran(proxyFields, [limited(4)], { path: "/login?a=b" });
    expect(sent.map(({ url }) => url)).toEqual(["https://limits.example.com/login?a=b"]);
    const access = answer(302, "", { Location: "https://acme.cloudflareaccess.com/cdn-cgi/login" });
    expect(await ran(consoleOnAdminHost, [access])).toMatchObject({ outcome: "pass" });
    expect(await ran(adminHostProxiesNothing, [access])).toMatchObject({ outcome: "skipped" });
  });
});

it("the page about deploy and smoke has a row for each step of the smoke test, in their order", () => {
  const rows = rowsOf(readPage("docs/reference/deploy-and-smoke.md"), "step");
  expect(rows.map(([name = ""]) => name.replaceAll("`", ""))).toEqual(Object.keys(smokeSteps));
});

it("the smoke test does not print control characters of a server, and truncates long texts", () => {
  expect(printable("a\u001b[31mb\nc\u009b")).toBe("a?[31mb?c?");
  expect(printable("x".repeat(1000))).toHaveLength(301);
});

const fields = (policy: string, limit?: string): Headers =>
  new Headers({ "RateLimit-Policy": policy, ...(limit !== undefined && { RateLimit: limit }) });

describe("the RateLimit fields of a response", () => {
  it("each limit in the RateLimit fields has its quota, window and remaining units", () => {
    const headers = fields('"a";q=5;w=10, "slots";q=2;qu="concurrent-requests"', '"a";r=4;t=10');
    const limits = sentLimits(headers);
    expect(limits).toEqual([
      { name: "a", quota: 5, windowSeconds: 10, remaining: 4 },
      { name: "slots", quota: 2, windowSeconds: null, remaining: null },
    ]);
    expect(shownLimits(limits)).toBe('"a" 4 of 5 per 10 s, "slots" 2');
  });

  it("a response without RateLimit fields has no limits", () => {
    expect(sentLimits(new Headers())).toEqual([]);
  });

  it.each([
    ["RateLimit-Policy is not a structured field: ", '"a";q=', undefined],
    ["RateLimit-Policy has an item that is not a string", "5;w=1", undefined],
    ['"a" has no whole number q', '"a";w=10', undefined],
    ['"a" has no whole number q', '"a";q=-1', undefined],
    ['"a" has no whole number w', '"a";q=5;w=1.5', undefined],
    ['"a" has no whole number r', '"a";q=5', '"a";t=1'],
    ['"a" has r=6, which exceeds q=5', '"a";q=5', '"a";r=6'],
    ['"a" has t=11, which exceeds w=10', '"a";q=5;w=10', '"a";r=1;t=11'],
    ['RateLimit lists "b", which RateLimit-Policy does not', '"a";q=5', '"b";r=1'],
  ])("RateLimit fields are rejected because %s", (message, policy, limit) => {
    expect(() => sentLimits(fields(policy, limit))).toThrow(message);
  });
});

describe("Retry-After of a denial", () => {
  it("Retry-After is read as a number of seconds", () => {
    expect(sentWaitSeconds(new Headers({ "Retry-After": "12" }))).toBe(12);
  });

  it.each(["0", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", ""])('the value "%s" is rejected', (value) => {
    expect(() => sentWaitSeconds(new Headers({ "Retry-After": value }))).toThrow(
      `expected Retry-After with seconds, got "${value}"`,
    );
  });

  it("a missing RateLimit or RateLimit-Policy field is rejected", () => {
    expect(() => sentWaitSeconds(new Headers())).toThrow("got none");
  });
});
