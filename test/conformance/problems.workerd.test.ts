/** R: denials, their `Retry-After`, and the problem details (RFC 9457) of every failure. */
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../http/harness.ts";
import { type Exchange, itemsOf, recordExchanges, startMs, visitor } from "./responses.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: startMs });
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const at = (offsetMs: number): unknown => vi.setSystemTime(startMs + offsetMs);

let denials: readonly Exchange[] = [];
beforeAll(async () => {
  vi.useFakeTimers({ toFake: ["Date"], now: startMs });
  denials = (await recordExchanges()).filter(({ response }) => response.status !== 200);
});

interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  "violated-policies"?: string[];
}

const registered = "https://iana.org/assignments/http-problem-types#";

it("R01: every denial has a Retry-After of digits only, from 1 to 2^31 - 1", () => {
  expect(new Set(denials.map(({ kind }) => kind)).size).toBeGreaterThanOrEqual(15);
  for (const { kind, response } of denials) {
    expect(response.status).toBe(kind === "onDeny" ? 503 : 429);
    expect(response.headers.get("Retry-After")).toMatch(/^[1-9]\d{0,9}$/);
    expect(Number(response.headers.get("Retry-After"))).toBeLessThanOrEqual(2 ** 31 - 1);
  }
});

describe("R02: Retry-After", () => {
  it.for([
    ["fixed-window", { strategy: "fixed-window" }],
    ["sliding-log", { strategy: "sliding-log" }],
    ["sliding-window-counter", { strategy: "sliding-window-counter" }],
    ["sliding-buckets", { strategy: "sliding-buckets" }],
    ["token-bucket", { strategy: "token-bucket" }],
    ["leaky-bucket", { strategy: "leaky-bucket", mode: "police" }],
  ] as const)(
    "R02: waiting for Retry-After suffices, and 1 ms less than the exact wait does not: %s",
    async ([, strategy]) => {
      const { send, check } = headgate({ LIMITS: { limit: 3, window: "7s", ...strategy } });
      for (const offsetMs of [0, 400, 1_900]) {
        at(offsetMs);
        // oxlint-disable-next-line no-await-in-loop
        expect(await statusOf(send("/", visitor))).toBe(200);
      }
      // Some strategies have refilled units by then, so the requests must use them up first.
      let last = await send("/", visitor);
      while (last.status === 200) last = await send("/", visitor); // oxlint-disable-line no-await-in-loop
      const seconds = Number(last.headers.get("Retry-After"));
      const look = await check("GET", "/check?key=203.0.113.7");
      const { retryAfterMs } = await look.json<{ retryAfterMs: number }>();
      expect(seconds).toBe(Math.ceil(retryAfterMs / 1000));
      at(1_900 + retryAfterMs - 1);
      expect(await statusOf(send("/", visitor))).toBe(429);
      at(1_900 + seconds * 1_000);
      expect(await statusOf(send("/", visitor))).toBe(200);
    },
  );
});

it("R03: no t in a denial is later than its Retry-After", () => {
  for (const { kind, response, limits } of denials) {
    const seconds = Number(response.headers.get("Retry-After"));
    for (const { parameters } of limits) {
      expect([kind, Number(parameters.get("t") ?? 0) <= seconds]).toEqual([kind, true]);
    }
  }
});

it("R04: the RateLimit field of a denial lists exactly the violated limits", () => {
  for (const { kind, body, limits } of denials) {
    if (kind === "onDeny") continue;
    const problem = JSON.parse(body) as Problem;
    expect([kind, limits.map(({ name }) => name)]).toEqual([kind, problem["violated-policies"]]);
  }
});

it("R05: Retry-After is the longest wait of several violated limits", async () => {
  const LIMITS = "1/minute; 1/hour; 1/second; 9/day";
  const { send } = headgate({ LIMITS, STRATEGY: "fixed-window" });
  await statusOf(send("/", visitor));
  const response = await send("/", visitor);
  const waits = itemsOf(response.headers.get("RateLimit")).map(({ parameters }) => parameters.get("t"));
  expect([waits, response.headers.get("Retry-After")]).toEqual([[60, 3_600, 1], "3600"]);
});

it("R06: a denial is a problem of a registered type with the status of the response", () => {
  for (const { kind, response, body } of denials) {
    if (kind === "onDeny") continue;
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    const { type, title, status, detail } = JSON.parse(body) as Problem;
    const [fragment, expected] =
      kind === "a ban" ? ["abnormal-usage-detected", "Abnormal Usage Detected"] : ["quota-exceeded", "Quota Exceeded"];
    expect([type, title, status]).toEqual([`${registered}${fragment}`, expected, response.status]);
    expect(detail).toMatch(/^[A-Z].*\.$/);
  }
});

const one = { LIMITS: "1/minute", STRATEGY: "fixed-window" };
const blockedVisitor = { name: "p", limits: "9/minute", deny: ["203.0.113.7"] };
const missingKey = { name: "p", limits: "9/minute", key: "header:x-absent", onMissingKey: "deny" };
const closed = {
  POLICIES: [{ name: "p", limits: "9/minute", onError: "closed" }],
  RATE_LIMITER: {},
};
const token = { Authorization: "Bearer the-tests-token" };
const json = { ...token, "Content-Type": "application/json" };
type Init = RequestInit<IncomingRequestCfProperties>;

const post = (body: string, headers: Record<string, string> = json): Init => ({
  method: "POST",
  headers,
  body,
});

/** Requests that cause a problem of each status. Each entry has the status, cause, variables, path and request. */
const problems: readonly (readonly [number, string, Record<string, unknown>, string, Init])[] = [
  [400, "a body that is not JSON", one, "/check", post("{")],
  [400, "a query that is not UTF-8", one, "/check?key=%ff", { headers: token }],
  [401, "no token", one, "/check?key=k", {}],
  [401, "an unknown token", one, "/check", post("{}", { ...json, Authorization: "Bearer x" })],
  [403, "a visitor on a deny list", { POLICIES: [blockedVisitor] }, "/", visitor],
  [403, "a missing key part", { POLICIES: [missingKey] }, "/", visitor],
  [404, "no origin", { ...one, ORIGIN: "" }, "/", visitor],
  [404, "an unknown path", one, "/check/other", { headers: token }],
  [404, "an unknown policy", one, "/check?policy=other&key=k", { headers: token }],
  [405, "a method that is not allowed", one, "/check", { method: "PUT", headers: token }],
  [413, "a body that is too large", one, "/check", post("x".repeat(16_385))],
  [415, "a body of another type", one, "/check", post("{}", { ...token, "Content-Type": "text/plain" })],
  [
    422,
    "invalid fields",
    one,
    "/check",
    post(`{"key": 5, "cost": "secret-k", "policy": ["secret-k"], "more": "secret-k"}`),
  ],
  [500, "an invalid configuration", { LIMITS: "secret-k/minute" }, "/", visitor],
  [502, "an unreachable origin", one, "/unreachable", visitor],
  [503, "no decision in time", closed, "/", visitor],
  [508, "an origin that is Headgate itself", { ...one, ORIGIN: "https://headgate.example" }, "/", visitor],
];

it("R07: responses that Headgate makes itself forbid caches to store them", async () => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  const answers = denials.map(({ response }) => response);
  for (const [, , variables, path, init] of problems) {
    // oxlint-disable-next-line no-await-in-loop
    answers.push(await headgate(variables).send(path, init));
  }
  for (const { headers } of answers) {
    expect(headers.get("Cache-Control")).toBe("no-store");
    for (const name of ["ETag", "Expires", "Age", "Last-Modified"]) {
      expect(headers.has(name)).toBe(false);
    }
  }
});

it("R08: a HEAD request is charged, and gets the fields that a GET request would get, without a body", async () => {
  const [get, head] = await Promise.all(
    ["GET", "HEAD"].map(async (method) => {
      const { send } = headgate(one);
      const init = { ...visitor, method };
      const answers = [await send("/answer?X-A=1", init), await send("/answer?X-A=1", init)];
      return Promise.all(
        answers.map(async ({ status, headers, body }) => {
          const bytes = body === null ? 0 : (await new Response(body).arrayBuffer()).byteLength;
          const { "proxy-status": _, ...fields } = Object.fromEntries(headers);
          return { status, fields, isEmpty: bytes === 0 };
        }),
      );
    }),
  );
  expect(get?.map(({ status }) => status)).toEqual([200, 429]);
  expect(head?.[0]).toEqual({ ...get?.[0], isEmpty: true });
  expect(head?.[1]).toMatchObject({ status: 429, fields: get?.[1]?.fields });
});

it("R09: a request under a fail-closed policy without a decision gets 503, Retry-After and no RateLimit fields", async () => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  const response = await headgate(closed).send("/", visitor);
  const { headers } = response;
  expect([response.status, headers.get("Retry-After")]).toEqual([503, "1"]);
  expect([headers.get("RateLimit"), headers.get("RateLimit-Policy")]).toEqual([null, null]);
  expect(await response.json()).toMatchObject({ type: "about:blank", status: 503 });
  expect(headers.get("Proxy-Status")).toMatch(/;error=proxy_internal_error$/);
});

it("R10: a fail-open policy without a decision passes on the origin's response unchanged, and logs an event", async () => {
  const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
  const policy = { name: "p", limits: "1/minute", onError: "open" };
  const { send } = headgate({ POLICIES: [policy], RATE_LIMITER: {} });
  for (let request = 0; request < 3; request++) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await send("/answer?X-A=1", visitor);
    expect(response.status).toBe(200);
    expect(Object.fromEntries(response.headers)).toEqual({
      "content-type": "text/plain;charset=UTF-8",
      "x-a": "1",
    });
    // oxlint-disable-next-line no-await-in-loop
    expect(await response.text()).toBe("answered");
  }
  expect(errors.mock.calls.flat().join()).toContain('"policies":["p"]');
});

it("R11: a cost above the capacity is denied without a Retry-After", async () => {
  const cost = { from: "header:x-cost", max: 100 };
  const { send } = headgate({ POLICIES: [{ name: "p", limits: "5/minute; 200/day", cost }] });
  const headers = { ...visitor.headers, "X-Cost": "6" };
  const response = await send("/", { headers });
  expect([response.status, response.headers.get("Retry-After")]).toEqual([429, null]);
  const { detail } = await response.json<Problem>();
  expect(detail).toContain("can never be allowed");
  expect(await statusOf(send("/", { headers: { ...headers, "X-Cost": "5" } }))).toBe(200);
});

it("R12: no problem contains a key, a token, an address, a configured value or the origin", async () => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  const secrets = { "X-Key": "secret-k", "X-Api-Key": "secret-k", Cookie: "sid=secret-k" };
  const bodies = denials.map(({ body }) => body);
  for (const [, , variables, path, init] of problems) {
    const headers = { ...secrets, ...Object.fromEntries(new Headers(init.headers)) };
    const { send } = headgate({ ORIGIN_SECRET: "secret-k", ...variables });
    // oxlint-disable-next-line no-await-in-loop
    bodies.push(await (await send(path, { ...init, headers })).text());
  }
  expect(bodies.join("\n")).not.toMatch(/secret-k|203\.0\.113|the-tests-token|origin\.example/);
});

it("R14: a 429 of Headgate has Proxy-Status, and a 429 of the origin does not", async () => {
  const { send } = headgate({ ...one, LIMITS: "2/minute" });
  const theirs = await send("/refusing", visitor);
  expect([theirs.status, theirs.headers.get("Proxy-Status")]).toEqual([429, null]);
  await statusOf(send("/", visitor));
  const ours = await send("/", visitor);
  expect(ours.status).toBe(429);
  expect(ours.headers.get("Proxy-Status")).toMatch(/^headgate-[\w-]{8};error=http_request_error$/);
});

it("R15: all three X-RateLimit fields are sent, and Reset is Unix time in seconds, rounded up", async () => {
  at(1);
  const { send } = headgate({ ...one, LEGACY_HEADERS: true });
  for (const status of [200, 429]) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await send("/", visitor);
    const names = ["Limit", "Remaining", "Reset"].map((name) => `X-RateLimit-${name}`);
    expect([response.status, ...names.map((name) => response.headers.get(name))]).toEqual([
      status,
      "1",
      "0",
      String(startMs / 1_000 + 61),
    ]);
  }
});

it.for(problems)(
  "R16: a response of status %i for %s has problem details",
  async ([status, , variables, path, init]) => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const response = await headgate(variables).send(path, init);
    expect(response.status).toBe(status);
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    expect(await response.json()).toMatchObject({
      type: "about:blank",
      title: expect.stringMatching(/^[A-Z]/),
      status,
      detail: expect.stringMatching(/./),
    });
  },
);

it("R08: a HEAD is charged like a GET", async () => {
  const { send } = headgate(one);
  const other = from("203.0.113.8");
  expect(await statusOf(send("/", { ...other, method: "HEAD" }))).toBe(200);
  expect(await statusOf(send("/", other))).toBe(429);
});
