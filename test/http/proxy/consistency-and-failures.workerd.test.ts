import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { SyncCall } from "../../../src/limiter/protocol.ts";
import { from, type Headgate, headgate, statusOf, token } from "../harness.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const visitor = from("203.0.113.7");
const user = { headers: { "X-User": "u1" } };
const strict = { name: "p", key: "header:x-user", strategy: "fixed-window" };
const eventual = { ...strict, limits: "3/hour", consistency: "eventual", syncEvery: "100ms" };
const leased = { ...strict, limits: "1000/hour", consistency: "leased" };

/** Objects that answer only syncs, and only after a call of `answer`. */
function hangingObjects() {
  const answering = Promise.withResolvers<void>();
  const getByName = (name: string) => ({
    sync: async (call: SyncCall) => {
      await answering.promise;
      return env.RATE_LIMITER.getByName(name).sync(call);
    },
  });
  return { objects: { getByName }, answer: answering.resolve };
}

describe("an eventual policy", () => {
  it("an eventual policy is enforced before its first sync, but sends RateLimit fields only after it", async () => {
    const { begin } = headgate({ POLICIES: [eventual] });
    const first = begin("/", user);
    const response = await first.response;
    expect([response.status, response.headers.get("RateLimit")]).toEqual([200, null]);
    // The first sync is complete when the work after the response is done.
    await first.finished();
    const second = begin("/", user);
    expect((await second.response).headers.get("RateLimit")).toMatch(/^"p";r=1;t=\d+$/);
    await second.finished();
    expect((await begin("/", user).response).status).toBe(200);
    const denied = await begin("/", user).response;
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, expect.stringMatching(/^3[56]\d\d$/)]);
  });

  it("the object receives the spends of an eventual policy, and decides its reservations", async () => {
    const { begin, check } = headgate({ POLICIES: [eventual] });
    const spent = begin("/", user);
    await spent.response;
    await spent.finished();
    const look = await check("GET", "/check?key=u1");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 2 }] });
    const reserved = await check("POST", "/check/reserve", { key: "u1", cost: 2, ttlMs: 60_000 });
    expect(await reserved.json()).toMatchObject({ allowed: true, limits: [{ remaining: 0 }] });
  });

  it("an eventual policy is decided without waiting for an object that hangs", async () => {
    const { objects, answer } = hangingObjects();
    const { begin } = headgate({
      POLICIES: [{ ...eventual, timeout: "30s", onError: "closed" }],
      RATE_LIMITER: objects,
    });
    const statuses = [];
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await begin("/", user).response).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429]);
    answer();
  });

  it("an eventual policy decides strictly when a strict policy has the same key", async () => {
    const other = { ...strict, name: "q", limits: "9/hour", consistency: "strict" };
    const { send } = headgate({ POLICIES: [eventual, other] });
    const response = await send("/", user);
    expect(response.headers.get("RateLimit")).toMatch(/^"p";r=2;t=\d+, "q";r=8;t=\d+$/);
  });

  it("each check of a batch on an eventual policy is decided by the isolate", async () => {
    const { objects, answer } = hangingObjects();
    const { begin } = headgate({ POLICIES: [eventual], RATE_LIMITER: objects });
    const body = JSON.stringify({ checks: Array.from({ length: 4 }, () => ({ key: "u1" })) });
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    const { response } = begin("/check/batch", { method: "POST", headers, body });
    const results = await (await response).json();
    const allowed = [true, true, true, false].map((each) => ({ allowed: each, headers: {} }));
    allowed[3] = { allowed: false, headers: { "Retry-After": "3600" } };
    expect(results).toMatchObject({ results: allowed });
    answer();
  });
});

/** The RateLimit fields of this many responses, one after the other. */
async function rateLimitOf({ begin }: Headgate, requests: number): Promise<(string | null)[]> {
  const fields = [];
  for (let request = 0; request < requests; request++) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await begin("/", user).response;
    fields.push(response.headers.get("RateLimit"));
  }
  return fields;
}

describe("a leased policy", () => {
  it("a leased policy sends RateLimit fields with every response, and charges each request once", async () => {
    const gate = headgate({ POLICIES: [leased] });
    const fields = await rateLimitOf(gate, 100);
    for (const each of fields) expect(each).toMatch(/^"p";r=[89]\d\d;t=\d+$/);
    // The object counts a leased slice as spent until the slice ends.
    await gate.begin("/", user).finished();
    const look = await gate.check("GET", "/check?key=u1");
    const { limits } = await look.json<{ limits: { remaining: number }[] }>();
    expect(limits[0]?.remaining).toBeLessThanOrEqual(899);
  });

  it("a leased policy of 20 per hour allows exactly 20 of 25 requests", async () => {
    const gate = headgate({ POLICIES: [{ ...leased, limits: "20/hour" }] });
    const statuses = [];
    for (let request = 0; request < 25; request++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await gate.begin("/", user).response).status);
    }
    expect(statuses.filter((status) => status === 200)).toHaveLength(20);
  });
});

const reject = (): Promise<never> => Promise.reject(new Error("the object is gone"));
const unavailable = {
  getByName: () => ({ decide: reject, look: reject, refund: reject, forget: reject }),
};

/** A Worker whose objects reject every call. */
const withoutObjects = (onError: string): ReturnType<typeof headgate> => {
  return headgate({
    POLICIES: [{ name: "p", limits: "2/minute", strategy: "fixed-window", onError }],
    RATE_LIMITER: unavailable,
  });
};

describe("when the object is unavailable", () => {
  it("when a fail-closed policy has no decision, a request gets 503 even if a policy with onError = local denies it", async () => {
    const limits = { limits: "1/minute", strategy: "fixed-window" };
    const { send } = headgate({
      POLICIES: [
        { name: "denying", ...limits, cost: 2, onError: "local" },
        { name: "closed", ...limits, onError: "closed" },
      ],
      RATE_LIMITER: unavailable,
    });
    const response = await send("/", visitor);
    expect([response.status, response.headers.get("Retry-After")]).toEqual([503, "1"]);
    expect(await response.json()).toMatchObject({ status: 503, title: "Service Unavailable" });
  });

  it("a policy with onError = local denies by the isolate's count, without RateLimit fields", async () => {
    const { send } = withoutObjects("local");
    expect([await statusOf(send("/", visitor)), await statusOf(send("/", visitor))]).toEqual([200, 200]);
    const response = await send("/", visitor);
    expect([response.status, response.headers.get("Retry-After")]).toEqual([429, "60"]);
    expect(response.headers.has("RateLimit")).toBe(false);
  });

  it("without the object, /check answers 503, or with a local decision under onError = local", async () => {
    const open = withoutObjects("open");
    expect(await statusOf(open.check("POST", "/check", { key: "203.0.113.7" }))).toBe(503);
    expect(await statusOf(open.check("DELETE", "/check?key=203.0.113.7"))).toBe(503);
    const response = await withoutObjects("local").check("POST", "/check", {
      key: "203.0.113.7",
      cost: 2,
    });
    expect(await response.json()).toMatchObject({
      allowed: true,
      headers: {},
      limits: [{ remaining: 0 }],
    });
  });
});

describe("an internal error", () => {
  it("an internal error at startup is logged once, and every request is answered with 500", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const limits = Object.defineProperty({}, "limit", {
      enumerable: true,
      get: () => {
        throw new RangeError("no such thing");
      },
    });
    const { send } = headgate({ LIMITS: limits });
    for (const path of ["/", "/", "/check/health"]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send(path, visitor);
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.json()).toMatchObject({ status: 500, title: "Internal Server Error" });
    }
    expect(errors.mock.calls).toEqual([['{"event":"internal-error","error":"RangeError: no such thing"}']]);
    errors.mockRestore();
  });

  it("an internal error in a request is logged, and the request is answered with 500 problem details", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const { send } = headgate({ LIMITS: "2/minute" });
    const digest = vi.spyOn(crypto.subtle, "sign").mockRejectedValue(new Error("no entropy"));
    const response = await send("/", visitor);
    expect(await response.json()).toMatchObject({ status: 500, title: "Internal Server Error" });
    expect(errors.mock.calls.join()).toContain('{"event":"internal-error","error":"Error: no entropy"}');
    digest.mockRestore();
    errors.mockRestore();
  });
});

describe("a client that goes away before the decision", () => {
  it("the Worker runs until a request is decided, although its client has already gone away", async () => {
    const called = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<never>();
    const decide = (): Promise<never> => {
      called.resolve();
      return answer.promise;
    };
    const { begin } = headgate({
      POLICIES: [{ name: "p", limits: "5/minute", onError: "closed", timeout: "30s" }],
      RATE_LIMITER: { getByName: () => ({ decide, refund: reject }) },
    });
    const { response, finished } = begin("/", visitor);
    await called.promise;
    let hasEnded = false;
    const ended = finished().then(() => (hasEnded = true));
    await scheduler.wait(20);
    expect(hasEnded).toBe(false);
    answer.reject(new Error("the object is gone"));
    expect(await statusOf(response)).toBe(503);
    await ended;
    expect(hasEnded).toBe(true);
  });
});
