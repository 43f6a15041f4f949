import { SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const strict = { name: "p", limits: "1/hour", strategy: "fixed-window" };
const secret = "a secret of at least thirty-two bytes";

const bearer = async (claims: Record<string, unknown>): Promise<Record<string, string>> => {
  const token = new SignJWT({ sub: "u1", ...claims }).setProtectedHeader({ alg: "HS256" });
  return { Authorization: `Bearer ${await token.sign(new TextEncoder().encode(secret))}` };
};

type Headers = Record<string, string>;
const at = (address: string): Headers => from(address).headers;

/** The results of successive requests with these headers: the RateLimit field's remaining and limit, or the status. */
async function quotaOrStatus(fields: object, requests: readonly Headers[]): Promise<string[]> {
  const { send } = headgate({ POLICIES: [{ ...strict, ...fields }], JWT_KEY: secret });
  const results = [];
  for (const headers of requests) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await send("/", { headers });
    // oxlint-disable-next-line no-await-in-loop
    await response.body?.cancel();
    const [, q] = /q=(\d+)/.exec(response.headers.get("RateLimit-Policy") ?? "") ?? [];
    const [, r] = /r=(\d+)/.exec(response.headers.get("RateLimit") ?? "") ?? [];
    const hasQuota = response.status === 200 && q !== undefined;
    results.push(hasQuota ? `${r} of ${q}` : String(response.status));
  }
  return results;
}

describe("an override", () => {
  it("an override for a key replaces the limits of that key only", async () => {
    const overrides = [{ key: "partner-42", limits: "5/hour" }];
    const keys = ["partner-42", "partner-42", "partner-4", "partner-4", "PARTNER-42"];
    expect(
      await quotaOrStatus(
        { key: "header:x-partner", overrides },
        keys.map((key) => ({ "X-Partner": key })),
      ),
    ).toEqual(["4 of 5", "3 of 5", "0 of 1", "429", "0 of 1"]);
  });

  it("an override with a claim applies to a verified token, and the first matching override wins", async () => {
    const overrides = [
      { when: "jwt:plan=pro", limits: "10/hour" },
      { when: "jwt:plan=pro*", limits: "8/hour" },
      { when: "jwt:roles=staff", limits: "6/hour" },
      { when: "jwt:seats=3", limits: "3/hour" },
    ];
    const forged = await bearer({ plan: "pro" });
    const requests = [
      await bearer({ plan: "pro" }),
      await bearer({ sub: "u2", plan: "pro-annual" }),
      await bearer({ sub: "u3", roles: ["dev", "staff"] }),
      await bearer({ sub: "u4", seats: 3 }),
      await bearer({ sub: "u5", plan: "free" }),
      { Authorization: `${forged["Authorization"] ?? ""}x` },
      {},
    ];
    expect(await quotaOrStatus({ key: "jwt:sub", overrides }, requests)).toEqual([
      "9 of 10",
      "7 of 8",
      "5 of 6",
      "2 of 3",
      "0 of 1",
      "0 of 1",
      "429",
    ]);
  });

  it("overrides apply under /check, with conditions on the parts of the key", async () => {
    const { send, check } = headgate({
      POLICIES: [
        { ...strict, overrides: [{ key: "203.0.113.0/24", limits: "5/hour" }] },
        {
          ...strict,
          name: "plans",
          match: { path: "/none" },
          key: ["jwt:plan", "jwt:sub"],
          overrides: [{ when: "jwt:plan=pro", limits: "7/hour" }],
        },
      ],
      JWT_KEY: secret,
    });
    await statusOf(send("/", from("203.0.113.7")));
    const limitsOf = async (query: string): Promise<unknown> =>
      (await (await check("GET", `/check?${query}`)).json<{ limits: unknown }>()).limits;
    expect(await limitsOf("policy=p&key=203.0.113.7")).toMatchObject([{ limit: 5, remaining: 4 }]);
    expect(await limitsOf("policy=p&key=198.51.100.1")).toMatchObject([{ limit: 1 }]);
    expect(await limitsOf("policy=plans&key=pro&key=u1")).toMatchObject([{ limit: 7 }]);
    expect(await limitsOf("policy=plans&key=free&key=u1")).toMatchObject([{ limit: 1 }]);
  });
});

describe("an allowlist and a blocklist", () => {
  const lists = {
    allow: ["203.0.113.0/24", "10.0.0.1"],
    deny: ["203.0.113.66", "2001:db8:6::/48"],
  };

  it("an allowlisted request is not charged and has no RateLimit fields, and a blocklisted request is denied", async () => {
    const requests = ["203.0.113.7", "203.0.113.7", "203.0.113.66", "2001:db8:6:1::1", "9.9.9.9"];
    expect(await quotaOrStatus(lists, requests.map(at))).toEqual(["200", "200", "403", "403", "0 of 1"]);
  });

  it("the problem details of a blocklist denial do not name the matching entry", async () => {
    const { send } = headgate({ POLICIES: [{ ...strict, ...lists }] });
    const response = await send("/", from("203.0.113.66"));
    expect([response.status, response.headers.get("RateLimit")]).toEqual([403, null]);
    expect(await response.json()).toEqual({
      type: "about:blank",
      title: "Forbidden",
      status: 403,
      detail: "Access denied by policy.",
      reason: "deny",
    });
  });

  it("an allowlist exempts only from its own policy, and a denial by a blocklist charges no policy", async () => {
    const { send, check } = headgate({
      POLICIES: [
        { ...strict, ...lists },
        { ...strict, name: "other", limits: "2/hour" },
      ],
    });
    const allowed = await send("/", from("203.0.113.7"));
    expect(allowed.headers.get("RateLimit-Policy")).toBe('"other";q=2;w=3600');
    expect(await statusOf(send("/", from("203.0.113.66")))).toBe(403);
    const other = await check("GET", "/check?policy=other&key=203.0.113.66");
    expect(await other.json()).toMatchObject({ limits: [{ remaining: 2 }] });
  });

  it("/check applies lists even when the object is unavailable", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const reject = (): Promise<never> => Promise.reject(new Error("gone"));
    const { check } = headgate({
      POLICIES: [{ ...strict, ...lists, onError: "closed" }],
      RATE_LIMITER: { getByName: () => ({ look: reject, decide: reject }) },
    });
    const allowed = await check("POST", "/check", { key: "203.0.113.7" });
    expect(await allowed.json()).toMatchObject({ allowed: true, limits: [{ remaining: 1 }] });
    const denied = await check("GET", "/check?key=203.0.113.66");
    expect(await denied.json()).toMatchObject({ allowed: false, retryAfterMs: null });
    expect(await statusOf(check("GET", "/check?key=9.9.9.9"))).toBe(503);
    vi.restoreAllMocks();
  });

  it("/check applies lists and charges nothing for their keys", async () => {
    const { check } = headgate({ POLICIES: [{ ...strict, ...lists }] });
    const checkKey = async (key: string, method = "POST", path = "/check"): Promise<unknown> =>
      (await check(method, path, { key, ...(path !== "/check" && { ttlMs: 1_000 }) })).json();
    const unlimited = { cost: 1, bannedForMs: 0, violated: [], headers: {} };
    for (let time = 0; time < 2; time++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await checkKey("203.0.113.7")).toMatchObject({
        ...unlimited,
        allowed: true,
        retryAfterMs: 0,
        limits: [{ remaining: 1 }],
      });
    }
    const refused = { ...unlimited, allowed: false, retryAfterMs: null };
    expect(await checkKey("203.0.113.66")).toMatchObject(refused);
    expect(await checkKey("203.0.113.66", "POST", "/check/reserve")).toMatchObject({
      ...refused,
      id: null,
    });
    expect(await statusOf(check("POST", "/check?deny=403", { key: "203.0.113.66" }))).toBe(403);
  });
});
