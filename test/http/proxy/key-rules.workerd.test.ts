import { SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => void vi.useRealTimers());

const strict = { name: "p", limits: "1/hour", strategy: "fixed-window" };
const secret = "a secret of at least thirty-two bytes";

const bearing = async (claims: Record<string, unknown>): Promise<Record<string, string>> => {
  const token = new SignJWT({ sub: "u1", ...claims }).setProtectedHeader({ alg: "HS256" });
  return { Authorization: `Bearer ${await token.sign(new TextEncoder().encode(secret))}` };
};

type Headers = Record<string, string>;
const at = (address: string): Headers => from(address).headers;

/** What requests with these headers are told of the quota, one after the other: `q` and `r`, or the status. */
async function toldTo(fields: object, requests: readonly Headers[]): Promise<string[]> {
  const { send } = headgate({ POLICIES: [{ ...strict, ...fields }], JWT_KEY: secret });
  const told = [];
  for (const headers of requests) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await send("/", { headers });
    // oxlint-disable-next-line no-await-in-loop
    await response.body?.cancel();
    const [, q] = /q=(\d+)/.exec(response.headers.get("RateLimit-Policy") ?? "") ?? [];
    const [, r] = /r=(\d+)/.exec(response.headers.get("RateLimit") ?? "") ?? [];
    const isTold = response.status === 200 && q !== undefined;
    told.push(isTold ? `${r} of ${q}` : String(response.status));
  }
  return told;
}

describe("an override", () => {
  it("by key has limits of its own; others have the policy's", async () => {
    const overrides = [{ key: "partner-42", limits: "5/hour" }];
    const keys = ["partner-42", "partner-42", "partner-4", "partner-4", "PARTNER-42"];
    expect(
      await toldTo(
        { key: "header:x-partner", overrides },
        keys.map((key) => ({ "X-Partner": key })),
      ),
    ).toEqual(["4 of 5", "3 of 5", "0 of 1", "429", "0 of 1"]);
  });

  it("by an address or a network holds for who comes from there, whatever is charged", async () => {
    const overrides = [
      { key: "203.0.113.7", limits: "9/hour" },
      { key: "203.0.113.0/24", limits: "5/hour" },
      { key: "2001:db8::/32", limits: "7/hour" },
    ];
    const requests = [
      "203.0.113.7",
      "203.0.113.8",
      "::ffff:203.0.113.9",
      "2001:db8:9::1",
      "9.9.9.9",
    ];
    expect(await toldTo({ overrides }, requests.map(at))).toEqual([
      "8 of 9",
      "4 of 5",
      "4 of 5",
      "6 of 7",
      "0 of 1",
    ]);
    const users = requests.map((address, index) => ({ ...at(address), "X-User": `u${index}` }));
    expect(await toldTo({ key: "header:x-user", overrides }, users)).toEqual([
      "8 of 9",
      "4 of 5",
      "4 of 5",
      "6 of 7",
      "0 of 1",
    ]);
  });

  it("by a claim holds for who brings it, signed; the first that holds is the one", async () => {
    const overrides = [
      { when: "jwt:plan=pro", limits: "10/hour" },
      { when: "jwt:plan=pro*", limits: "8/hour" },
      { when: "jwt:roles=staff", limits: "6/hour" },
      { when: "jwt:seats=3", limits: "3/hour" },
    ];
    const forged = await bearing({ plan: "pro" });
    const requests = [
      await bearing({ plan: "pro" }),
      await bearing({ sub: "u2", plan: "pro-annual" }),
      await bearing({ sub: "u3", roles: ["dev", "staff"] }),
      await bearing({ sub: "u4", seats: 3 }),
      await bearing({ sub: "u5", plan: "free" }),
      { Authorization: `${forged["Authorization"] ?? ""}x` },
      {},
    ];
    expect(await toldTo({ key: "jwt:sub", overrides }, requests)).toEqual([
      "9 of 10",
      "7 of 8",
      "5 of 6",
      "2 of 3",
      "0 of 1",
      "0 of 1",
      "429",
    ]);
  });

  it("keeps what a key has spent when its plan changes, as the window is the same", async () => {
    const overrides = [{ when: "jwt:plan=pro", limits: "10/hour" }];
    const requests = [
      await bearing({ plan: "pro" }),
      await bearing({ plan: "pro" }),
      await bearing({ plan: "free" }),
      await bearing({ plan: "pro" }),
    ];
    expect(await toldTo({ key: "jwt:sub", limits: "3/hour", overrides }, requests)).toEqual([
      "9 of 10",
      "8 of 10",
      "0 of 3",
      "6 of 10",
    ]);
  });

  it("of a key of several parts names all of them", async () => {
    const overrides = [{ key: ["acme-*", "203.0.113.0/24"], limits: "5/hour" }];
    const requests = [
      { ...(await bearing({ tenant: "acme-1" })), ...at("203.0.113.7") },
      { ...(await bearing({ tenant: "acme-1" })), ...at("203.0.114.7") },
      { ...(await bearing({ tenant: "other" })), ...at("203.0.113.7") },
    ];
    const key = ["jwt:tenant", "ip"];
    expect(await toldTo({ key, overrides }, requests)).toEqual(["4 of 5", "0 of 1", "0 of 1"]);
  });

  it("holds under /check for the same key, and a condition for what is in the key", async () => {
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

describe("the lists of a policy", () => {
  const lists = {
    allow: ["203.0.113.0/24", "10.0.0.1"],
    deny: ["203.0.113.66", "2001:db8:6::/48"],
  };

  it("let in uncharged, and without fields, or refuse before anything is charged", async () => {
    const requests = ["203.0.113.7", "203.0.113.7", "203.0.113.66", "2001:db8:6:1::1", "9.9.9.9"];
    expect(await toldTo(lists, requests.map(at))).toEqual(["200", "200", "403", "403", "0 of 1"]);
  });

  it("refuse with problem details that do not name the entry that matched", async () => {
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

  it("are of that policy alone: others charge who is allowed by it, and are not asked for who is refused", async () => {
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

  it("hold for keys as for addresses, and for requests that lack a part of the key", async () => {
    const fields = {
      key: "header:x-key",
      onMissingKey: "deny",
      allow: ["trusted", "10.0.0.0/8"],
      deny: ["stolen"],
    };
    const requests = [
      { "X-Key": "trusted" },
      { "X-Key": "stolen" },
      { "X-Key": "10.0.0.1" },
      { ...at("10.1.2.3") },
      { ...at("9.9.9.9") },
    ];
    expect(await toldTo(fields, requests)).toEqual(["200", "403", "0 of 1", "200", "403"]);
  });

  it("are told under /check while the object gives no answer, too", async () => {
    vi.spyOn(console, "error").mockReturnValue(undefined);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const { check } = headgate({
      POLICIES: [{ ...strict, ...lists, onError: "closed" }],
      RATE_LIMITER: { getByName: () => ({ look: call, check: call }) },
    });
    const allowed = await check("POST", "/check", { key: "203.0.113.7" });
    expect(await allowed.json()).toMatchObject({ allowed: true, limits: [{ remaining: 1 }] });
    const denied = await check("GET", "/check?key=203.0.113.66");
    expect(await denied.json()).toMatchObject({ allowed: false, retryAfterMs: null });
    expect(await statusOf(check("GET", "/check?key=9.9.9.9"))).toBe(503);
    vi.restoreAllMocks();
  });

  it("are told under /check, where nothing is spent", async () => {
    const { check } = headgate({ POLICIES: [{ ...strict, ...lists }] });
    const ask = async (key: string, method = "POST", path = "/check"): Promise<unknown> =>
      (await check(method, path, { key, ...(path !== "/check" && { ttlMs: 1_000 }) })).json();
    const listed = { cost: 1, bannedForMs: 0, violated: [], headers: {} };
    for (let time = 0; time < 2; time++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await ask("203.0.113.7")).toMatchObject({
        ...listed,
        allowed: true,
        retryAfterMs: 0,
        limits: [{ remaining: 1 }],
      });
    }
    const refused = { ...listed, allowed: false, retryAfterMs: null };
    expect(await ask("203.0.113.66")).toMatchObject(refused);
    expect(await ask("203.0.113.66", "POST", "/check/reserve")).toMatchObject({
      ...refused,
      id: null,
    });
    expect(await statusOf(check("POST", "/check?deny=403", { key: "203.0.113.66" }))).toBe(403);
  });
});
