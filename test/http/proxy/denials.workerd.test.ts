import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fillReservations, from, type Headgate, headgate, impatientObjects, statusOf } from "../harness.ts";

const startMs = Date.UTC(2100, 0, 1);
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const setTime = (offsetMs: number): unknown => vi.setSystemTime(startMs + offsetMs);
const address = "203.0.113.7";
const visitor = from(address);
const strict = { name: "p", limits: "1/minute", strategy: "fixed-window" };

/** The status of a response, and the values of the named header fields. */
const statusAndFields = (response: Response, ...names: string[]): (string | number | null)[] => [
  response.status,
  ...names.map((name) => response.headers.get(name)),
];

describe("a ban", () => {
  const banned = { ...strict, ban: { after: 2, within: "10m", for: "1h" } };

  it("a denial by a ban has its own problem type and the ban's duration in Retry-After", async () => {
    const { send } = headgate({ POLICIES: [banned] });
    await statusOf(send("/", visitor));
    const first = await send("/", visitor);
    expect(await first.json()).toMatchObject({ type: expect.stringMatching(/#quota-exceeded$/) });
    const second = await send("/", visitor);
    expect(statusAndFields(second, "Retry-After", "RateLimit", "Content-Type", "Cache-Control")).toEqual([
      429,
      "3600",
      '"p";r=0;t=60',
      "application/problem+json",
      "no-store",
    ]);
    expect(await second.json()).toEqual({
      type: "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
      title: "Abnormal Usage Detected",
      status: 429,
      detail: "Temporarily blocked after repeated rate-limit violations. Retry in 3600 seconds.",
      reason: "ban",
      "violated-policies": ["p"],
    });
  });

  it("a ban denies although no limit is violated, and its response has no RateLimit field", async () => {
    const { send } = headgate({ POLICIES: [banned] });
    for (let request = 0; request < 3; request++) {
      // oxlint-disable-next-line no-await-in-loop
      await statusOf(send("/", visitor));
    }
    setTime(1_800_000);
    const response = await send("/", visitor);
    expect(statusAndFields(response, "Retry-After", "RateLimit", "RateLimit-Policy")).toEqual([
      429,
      "1800",
      null,
      '"p";q=1;w=60',
    ]);
    expect(await response.json()).toMatchObject({ "violated-policies": [] });
    expect(await statusOf(send("/", from("203.0.113.8")))).toBe(200);
    setTime(3_600_000);
    expect(await statusOf(send("/", visitor))).toBe(200);
  });

  it("/check starts, reports and lifts bans", async () => {
    const { send, check } = headgate({ POLICIES: [{ ...strict, ban: "10m" }] });
    const key = address;
    await statusOf(check("POST", "/check", { key }));
    const denied = await check("POST", "/check", { key });
    expect(await denied.json()).toMatchObject({
      allowed: false,
      bannedForMs: 600_000,
      retryAfterMs: 600_000,
      violated: ["p"],
      headers: { "Retry-After": "600" },
    });
    setTime(60_000);
    expect(await statusOf(send("/", visitor))).toBe(429);
    const looked = await check("GET", `/check?key=${key}`);
    expect(await looked.json()).toMatchObject({
      allowed: false,
      bannedForMs: 540_000,
      violated: [],
      limits: [{ allowed: true, remaining: 1 }],
    });
    expect(await statusOf(check("DELETE", `/check?key=${key}`))).toBe(204);
    expect(await statusOf(send("/", visitor))).toBe(200);
  });
});

describe("onDeny", () => {
  it("onDeny sets status, body and Content-Type of a denial, which still has its rate limit fields", async () => {
    const onDeny = { status: 503, body: "<p>Later!</p>", contentType: "text/html; charset=utf-8" };
    const { send } = headgate({ POLICIES: [{ ...strict, onDeny }] });
    expect(await statusOf(send("/", visitor))).toBe(200);
    const response = await send("/", visitor);
    expect(statusAndFields(response, "Content-Type", "Retry-After", "RateLimit", "Cache-Control")).toEqual([
      503,
      "text/html; charset=utf-8",
      "60",
      '"p";r=0;t=60',
      "no-store",
    ]);
    expect(await response.text()).toBe("<p>Later!</p>");
  });

  it("when onDeny has no body, a denial is answered with problem details and the status of onDeny", async () => {
    const { send } = headgate({ POLICIES: [{ ...strict, onDeny: { status: 403 } }] });
    await statusOf(send("/", visitor));
    const response = await send("/", visitor);
    expect(statusAndFields(response, "Content-Type")).toEqual([403, "application/problem+json"]);
    expect(await response.json()).toMatchObject({ status: 403, title: "Quota Exceeded" });
  });

  it("when onDeny has only a body, even an empty one, a denial is answered with 429 as text/plain", async () => {
    for (const body of ["Slow down, naïve one", ""]) {
      const { send } = headgate({ POLICIES: [{ ...strict, onDeny: { body } }] });
      // oxlint-disable-next-line no-await-in-loop
      await statusOf(send("/", visitor));
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/", visitor);
      expect(statusAndFields(response, "Content-Type")).toEqual([429, "text/plain; charset=utf-8"]);
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.text()).toBe(body);
    }
  });

  it("the first policy that denies and has onDeny sets the response; denials by a blocklist ignore onDeny", async () => {
    const policies = [
      { ...strict, name: "wide", limits: "9/minute", onDeny: { status: 418 } },
      { ...strict, name: "plain" },
      { ...strict, name: "own", onDeny: { status: 420 }, deny: ["198.51.100.1"] },
    ];
    const { send } = headgate({ POLICIES: policies });
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(420);
    expect(await statusOf(send("/", from("198.51.100.1")))).toBe(403);
  });
});

describe("a dry run", () => {
  const shadow = { ...strict, name: "shadow", dryRun: true };

  it("a dry run denies nothing and adds no RateLimit fields", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { send } = headgate({ POLICIES: [{ ...strict, limits: "3/minute" }, shadow] });
    const answers = [];
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send("/", visitor);
      // oxlint-disable-next-line no-await-in-loop
      await response.body?.cancel();
      answers.push(statusAndFields(response, "RateLimit-Policy", "RateLimit"));
    }
    const policy = '"p";q=3;w=60';
    expect(answers).toEqual([
      [200, policy, '"p";r=2;t=60'],
      [200, policy, '"p";r=1;t=60'],
      [200, policy, '"p";r=0;t=60'],
      [429, policy, '"p";r=0;t=60'],
    ]);
  });

  it("a dry run without other policies sends no RateLimit fields", async () => {
    const { send } = headgate({ POLICIES: [shadow] });
    const response = await send("/", visitor);
    await response.body?.cancel();
    expect(statusAndFields(response, "RateLimit-Policy", "RateLimit")).toEqual([200, null, null]);
  });

  it.for([
    ["on the key of an enforced policy", "ip"],
    ["on a key of its own", "global"],
  ])("a dry run logs each denial with a key pseudonym, %s", async ([, key]) => {
    const warn = vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { send, check } = headgate({
      POLICIES: [
        { ...strict, limits: "9/minute" },
        { ...shadow, key },
      ],
    });
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(warn).not.toHaveBeenCalledWith(expect.stringContaining("dry-run"));
    expect(await statusOf(send("/", visitor))).toBe(200);
    const lines = warn.mock.calls.map(([line]) => String(line));
    expect(lines.filter((line) => line.includes("dry-run"))).toEqual([
      expect.stringMatching(
        /^\{"event":"dry-run-denied","policy":"shadow","violated":\["shadow"\],"key":"[\w-]{16}"\}$/,
      ),
    ]);
    const looked = await check("GET", `/check?policy=shadow${key === "ip" ? "&key=203.0.113.7" : ""}`);
    expect(await looked.json()).toMatchObject({ limits: [{ remaining: 0 }] });
  });

  it("a dry run never delays, bans, applies its blocklist or requires a key", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { RATE_LIMITER, waitsMs } = impatientObjects((waitMs) => waitMs > 1_000);
    const queue = { limit: 1, window: "1m", strategy: "leaky-bucket" };
    const policies = [
      { ...shadow, name: "queue", limits: queue },
      { ...shadow, name: "ban", ban: "1h" },
      { ...shadow, name: "list", deny: ["203.0.113.0/24"] },
      { ...shadow, name: "key", key: "header:x-key", onMissingKey: "deny" },
      { ...shadow, name: "answer", onDeny: { status: 418 } },
      { ...shadow, name: "closed", onError: "closed" },
    ];
    const { send } = headgate({ POLICIES: policies, RATE_LIMITER });
    const statuses = [];
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await statusOf(send("/", visitor)));
    }
    expect([statuses, waitsMs]).toEqual([[200, 200, 200, 200], []]);
  });

  it("/check allows a request that a dry run would deny, and names the limits that would have denied", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const { check } = headgate({ POLICIES: [shadow] });
    const spend = { key: "203.0.113.7" };
    await statusOf(check("POST", "/check", spend));
    const response = await check("POST", "/check?deny=429", spend);
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({
      allowed: true,
      retryAfterMs: 0,
      violated: ["shadow"],
      headers: {},
      limits: [{ allowed: false, remaining: 0, retryAfterMs: 60_000 }],
    });
  });

  it("a dry run with onError = closed allows requests when the object is unavailable", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const closed = { ...shadow, onError: "closed" };
    const { send } = headgate({
      POLICIES: [closed, { ...strict, onError: "open" }],
      RATE_LIMITER: { getByName: () => ({ decide: call }) },
    });
    expect(await statusOf(send("/", visitor))).toBe(200);
  });
});

/** A Worker whose key has 1,000 open reservations, which is the maximum. */
async function withFullKey(policies: readonly object[], more: object = {}): Promise<Headgate> {
  const own = headgate({
    ...more,
    POLICIES: [...policies, { name: "opener", match: { path: "/none" }, limits: "9/hour" }],
  });
  const reservation = { policy: "opener", key: address, cost: 1, ttlMs: 86_400_000 };
  await fillReservations(await own.check("POST", "/check/reserve", reservation));
  return own;
}

const slots = { limit: 5_000, window: "1m", strategy: "concurrency" };
const quota = { name: "quota", limits: "9/hour", strategy: "fixed-window" };

describe("a key with 1,000 open reservations", () => {
  it("a key with 1,000 open reservations is denied a further reservation, with Retry-After: 1", async () => {
    const { send } = await withFullKey([{ name: "slots", limits: slots }]);
    const response = await send("/", visitor);
    expect([response.status, response.headers.get("Retry-After")]).toEqual([429, "1"]);
    expect(await response.json()).toEqual({
      type: "about:blank",
      title: "Too Many Requests",
      status: 429,
      detail: "Too many requests for this key are in flight. Retry in 1 second.",
      reason: "reservations",
    });
  });

  it("a denial for too many reservations charges no policy", async () => {
    const { send, check } = await withFullKey([{ name: "slots", limits: slots }, quota]);
    expect(await statusOf(send("/", visitor))).toBe(429);
    const response = await check("GET", `/check?policy=quota&key=${address}`);
    expect(await response.json()).toMatchObject({ limits: [{ remaining: 9 }] });
  });

  it("a request on a key with 1,000 open reservations is allowed when only a dry run would reserve", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const shadow = { name: "slots", limits: slots, dryRun: true };
    const { send } = await withFullKey([shadow, quota]);
    const response = await send("/", visitor);
    await response.body?.cancel();
    expect([response.status, response.headers.get("RateLimit")]).toEqual([200, '"quota";r=8;t=3600']);
    const alone = await withFullKey([shadow]);
    expect(await statusOf(alone.send("/", visitor))).toBe(200);
  });
});

describe("reservations of dry runs", () => {
  it("a reservation of an enforced policy replaces a dry run's reservation, whose charge becomes final", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const own = headgate({
      POLICIES: [
        { ...quota, name: "watch", limits: "5000/hour", count: { status: ["401"] }, dryRun: true },
        { ...quota, name: "slots", match: { path: "/slots" }, limits: slots },
      ],
    });
    const reservation = { policy: "watch", key: address, cost: 1, ttlMs: 86_400_000 };
    const { object, partitionKey } = await fillReservations(await own.check("POST", "/check/reserve", reservation), {
      policy: "watch",
      isDryRun: true,
      ttlMs: 9_000,
    });
    expect(await statusOf(own.send("/slots", visitor))).toBe(200);
    expect(await object.settle({ key: partitionKey, id: "0", cost: 0 })).toEqual({
      settled: false,
    });
    expect(await object.settle({ key: partitionKey, id: "998", cost: 0 })).toEqual({
      settled: true,
    });
  });
});
