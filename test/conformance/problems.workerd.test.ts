/** R: denials, how long they say to wait, and the problem details (RFC 9457) of all that Headgate refuses. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../http/harness.ts";
import { allTold, itemsOf, startMs, type Told, visitor } from "./responses.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: startMs });
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const at = (offsetMs: number): unknown => vi.setSystemTime(startMs + offsetMs);
const denied = async (): Promise<Told[]> =>
  (await allTold()).filter(({ response }) => response.status !== 200);

interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  "violated-policies"?: string[];
}

const registered = "https://iana.org/assignments/http-problem-types#";

it("R01: every denial has a Retry-After of digits alone, from 1 to 31 bits", async () => {
  const denials = await denied();
  expect(new Set(denials.map(({ kind }) => kind)).size).toBeGreaterThanOrEqual(15);
  for (const { kind, response } of denials) {
    expect(response.status).toBe(kind === "an answer of its own" ? 503 : 429);
    expect(response.headers.get("Retry-After")).toMatch(/^[1-9]\d{0,9}$/);
    expect(Number(response.headers.get("Retry-After"))).toBeLessThanOrEqual(2 ** 31 - 1);
  }
});

describe("R02: waiting", () => {
  it.for([
    ["fixed-window", { strategy: "fixed-window" }],
    ["sliding-log", { strategy: "sliding-log" }],
    ["sliding-window-counter", { strategy: "sliding-window-counter" }],
    ["sliding-buckets", { strategy: "sliding-buckets" }],
    ["token-bucket", { strategy: "token-bucket" }],
    ["leaky-bucket", { strategy: "leaky-bucket", mode: "police" }],
  ] as const)(
    "as long as is told is enough, and a millisecond less than is needed is not: %s",
    async ([, strategy]) => {
      const { send, check } = headgate({ LIMITS: { limit: 3, window: "7s", ...strategy } });
      for (const offsetMs of [0, 400, 1_900]) {
        at(offsetMs);
        // oxlint-disable-next-line no-await-in-loop
        expect(await statusOf(send("/", visitor))).toBe(200);
      }
      // Not within the buckets that have come back meanwhile.
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

it("R03: no t is later than Retry-After", async () => {
  for (const { kind, response, limits } of await denied()) {
    const seconds = Number(response.headers.get("Retry-After"));
    for (const { parameters } of limits) {
      expect([kind, Number(parameters.get("t") ?? 0) <= seconds]).toEqual([kind, true]);
    }
  }
});

it("R04: RateLimit of a denial lists what is violated, and nothing else", async () => {
  for (const { kind, response, limits } of await denied()) {
    if (kind === "an answer of its own") continue;
    // oxlint-disable-next-line no-await-in-loop
    const problem = await response.json<Problem>();
    expect([kind, limits.map(({ name }) => name)]).toEqual([kind, problem["violated-policies"]]);
  }
});

it("R05: of several that are violated the longest wait is told", async () => {
  const LIMITS = "1/minute; 1/hour; 1/second; 9/day";
  const { send } = headgate({ LIMITS, STRATEGY: "fixed-window" });
  await statusOf(send("/", visitor));
  const response = await send("/", visitor);
  const waits = itemsOf(response.headers.get("RateLimit")).map(({ parameters }) =>
    parameters.get("t"),
  );
  expect([waits, response.headers.get("Retry-After")]).toEqual([[60, 3_600, 1], "3600"]);
});

it("R06: a denial is a problem of a registered type, whose status is the response's", async () => {
  for (const { kind, response } of await denied()) {
    if (kind === "an answer of its own") continue;
    expect(response.headers.get("Content-Type")).toBe("application/problem+json");
    // oxlint-disable-next-line no-await-in-loop
    const { type, title, status, detail } = await response.json<Problem>();
    const [fragment, expected] =
      kind === "a ban"
        ? ["abnormal-usage-detected", "Abnormal Usage Detected"]
        : ["quota-exceeded", "Quota Exceeded"];
    expect([type, title, status]).toEqual([`${registered}${fragment}`, expected, response.status]);
    expect(detail).toMatch(/^[A-Z].*\.$/);
  }
});

/** What Headgate answers with problems of its own, of every status: what is asked, of which Headgate. */
const one = { LIMITS: "1/minute", STRATEGY: "fixed-window" };
const listed = { name: "p", limits: "9/minute", deny: ["203.0.113.7"] };
const lacking = { name: "p", limits: "9/minute", key: "header:x-absent", onMissingKey: "deny" };
const closed = {
  POLICIES: [{ name: "p", limits: "9/minute", onError: "closed" }],
  RATE_LIMITER: {},
};
const token = { Authorization: "Bearer the-tests-token" };
const json = { ...token, "Content-Type": "application/json" };
type Sent = RequestInit<IncomingRequestCfProperties>;

const post = (body: string, headers: Record<string, string> = json): Sent => ({
  method: "POST",
  headers,
  body,
});

const problems: readonly (readonly [number, string, Record<string, unknown>, string, Sent])[] = [
  [400, "no JSON", one, "/check", post("{")],
  [400, "no UTF-8 in the query", one, "/check?key=%ff", { headers: token }],
  [401, "no token", one, "/check?key=k", {}],
  [401, "another token", one, "/check", post("{}", { ...json, Authorization: "Bearer x" })],
  [403, "on a list", { POLICIES: [listed] }, "/", visitor],
  [403, "no key", { POLICIES: [lacking] }, "/", visitor],
  [404, "no origin", { ...one, ORIGIN: "" }, "/", visitor],
  [404, "no such path", one, "/check/other", { headers: token }],
  [404, "no such policy", one, "/check?policy=other&key=k", { headers: token }],
  [405, "no such method", one, "/check", { method: "PUT", headers: token }],
  [413, "too large", one, "/check", post("x".repeat(16_385))],
  [415, "of another type", one, "/check", post("{}", { ...token, "Content-Type": "text/plain" })],
  [
    422,
    "wrong fields",
    one,
    "/check",
    post(`{"key": 5, "cost": "secret-k", "policy": ["secret-k"], "more": "secret-k"}`),
  ],
  [500, "a broken configuration", { LIMITS: "secret-k/minute" }, "/", visitor],
  [502, "the origin is down", one, "/unreachable", visitor],
  [503, "no decision", closed, "/", visitor],
  [508, "the origin is Headgate", { ...one, ORIGIN: "https://headgate.example" }, "/", visitor],
];

it("R07: no cache keeps what Headgate answers in the origin's place", async () => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  const answers = (await denied()).map(({ response }) => response);
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

it("R08: a HEAD counts, and has what a GET has but for the body", async () => {
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

it("R09: without a decision a closed policy answers 503 with a wait, and no fields", async () => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  const response = await headgate(closed).send("/", visitor);
  const { headers } = response;
  expect([response.status, headers.get("Retry-After")]).toEqual([503, "1"]);
  expect([headers.get("RateLimit"), headers.get("RateLimit-Policy")]).toEqual([null, null]);
  expect(await response.json()).toMatchObject({ type: "about:blank", status: 503 });
  expect(headers.get("Proxy-Status")).toMatch(/;error=proxy_internal_error$/);
});

it("R10: an open policy passes the origin's answer on as it is, and the log tells of it", async () => {
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

it("R11: what costs more than there can ever be is denied without a Retry-After", async () => {
  const cost = { from: "header:x-cost", max: 100 };
  const { send } = headgate({ POLICIES: [{ name: "p", limits: "5/minute; 200/day", cost }] });
  const headers = { ...visitor.headers, "X-Cost": "6" };
  const response = await send("/", { headers });
  expect([response.status, response.headers.get("Retry-After")]).toEqual([429, null]);
  const { detail } = await response.json<Problem>();
  expect(detail).toContain("can never be allowed");
  expect(await statusOf(send("/", { headers: { ...headers, "X-Cost": "5" } }))).toBe(200);
});

it("R12: no problem tells of a key, a token, an address, a value or the origin", async () => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  const secrets = { "X-Key": "secret-k", "X-Api-Key": "secret-k", Cookie: "sid=secret-k" };
  const bodies = await Promise.all((await denied()).map(({ response }) => response.text()));
  for (const [, , variables, path, init] of problems) {
    const headers = { ...secrets, ...Object.fromEntries(new Headers(init.headers)) };
    const { send } = headgate({ ORIGIN_SECRET: "secret-k", ...variables });
    // oxlint-disable-next-line no-await-in-loop
    bodies.push(await (await send(path, { ...init, headers })).text());
  }
  expect(bodies.join("\n")).not.toMatch(/secret-k|203\.0\.113|the-tests-token|origin\.example/);
});

it("R14: a 429 of ours is marked, and one of the origin's is not", async () => {
  const { send } = headgate({ ...one, LIMITS: "2/minute" });
  const theirs = await send("/refusing", visitor);
  expect([theirs.status, theirs.headers.get("Proxy-Status")]).toEqual([429, null]);
  await statusOf(send("/", visitor));
  const ours = await send("/", visitor);
  expect(ours.status).toBe(429);
  expect(ours.headers.get("Proxy-Status")).toMatch(/^headgate-[\w-]{8};error=http_request_error$/);
});

it("R15: X-RateLimit-Reset is an instant in whole seconds, rounded up, and all three are there", async () => {
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

it.for(problems)("R16: %i: %s, is told as a problem", async ([status, , variables, path, init]) => {
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
});

it("R16: a reservation too many is told as a problem, with a wait", async () => {
  const { check } = headgate({ ...one, LIMITS: "5000/minute" });
  const reserve = { key: "203.0.113.7", ttlMs: 30_000 };
  for (let batch = 0; batch < 10; batch++) {
    // oxlint-disable-next-line no-await-in-loop
    await Promise.all(
      Array.from({ length: 100 }, () => statusOf(check("POST", "/check/reserve", reserve))),
    );
  }
  const response = await check("POST", "/check/reserve", reserve);
  expect([response.status, response.headers.get("Retry-After")]).toEqual([429, "30"]);
  expect(await response.json()).toMatchObject({ type: "about:blank", status: 429 });
});

it("R08: a HEAD uses up what a GET would have", async () => {
  const { send } = headgate(one);
  const other = from("203.0.113.8");
  expect(await statusOf(send("/", { ...other, method: "HEAD" }))).toBe(200);
  expect(await statusOf(send("/", other))).toBe(429);
});
