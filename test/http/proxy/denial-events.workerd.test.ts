/** The events `request-denied`, which needs `LOG_DENIALS`, and `dry-run-denied`. */
import { env } from "cloudflare:workers";
import { SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fillReservations, from, type Headgate, headgate, statusOf, token } from "../harness.ts";

const lines: string[] = [];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) });
  lines.length = 0;
  // Leaves out the warning about the tests' check token, which is short.
  const write = (line: string): void => {
    if (!line.includes("configuration-warning")) lines.push(line);
  };
  for (const level of ["log", "warn", "error"] as const) {
    vi.spyOn(console, level).mockImplementation(write);
  }
});
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

type Line = Readonly<Record<string, unknown>>;
const events = (): Line[] => lines.map((line) => JSON.parse(line) as Line);

const address = "203.0.113.7";
const visitor = from(address);
const policy = { name: "p", limits: "1/minute", strategy: "fixed-window" };
const logging = (policies: readonly object[], more: object = {}): Headgate =>
  headgate({ LOG_DENIALS: true, POLICIES: policies, ...more });

const pseudonym = expect.stringMatching(/^[\w-]{16}$/) as string;
const denied = { event: "request-denied", policy: "p", reason: "limit", violated: ["p"] };

const sendTwice = async (
  own: Headgate,
  path = "/",
  init: { headers: Record<string, string> } = visitor,
): Promise<void> => {
  await statusOf(own.send(path, init));
  await statusOf(own.send(path, init));
};

describe("LOG_DENIALS", () => {
  it("without LOG_DENIALS no denial is logged", async () => {
    const own = headgate({ POLICIES: [{ ...policy, ban: "1h", deny: ["9.9.9.9"] }] });
    await sendTwice(own);
    await statusOf(own.send("/", from("9.9.9.9")));
    await statusOf(own.check("POST", "/check", { key: address }));
    expect(lines).toEqual([]);
  });

  it("a denial is logged with policy, reason, limits, key pseudonym and wait, and an allowed request is not logged", async () => {
    const own = logging([policy, { ...policy, name: "other", limits: "9/minute" }]);
    await sendTwice(own, "/path?secret=canary");
    expect(events()).toEqual([{ ...denied, key: pseudonym, retryAfterMs: 60_000 }]);
    expect(lines.join()).not.toMatch(/203\.0\.113|canary|path/);
  });

  it("each policy that denies is logged", async () => {
    const own = logging([policy, { ...policy, name: "q", ban: "1h" }]);
    await sendTwice(own);
    const logged = events();
    expect(logged).toEqual([
      { ...denied, key: pseudonym, retryAfterMs: 60_000 },
      {
        ...denied,
        policy: "q",
        reason: "ban",
        violated: ["q"],
        key: pseudonym,
        retryAfterMs: 3_600_000,
      },
    ]);
    expect(logged[0]?.["key"]).toBe(logged[1]?.["key"]);
  });

  it.for<[string, object, Line]>([
    ["a ban", { ban: "1h" }, { reason: "ban", retryAfterMs: 3_600_000 }],
    ["a cost above capacity", { cost: 2 }, { reason: "cost", retryAfterMs: null }],
    ["a blocklist", { deny: [address] }, { reason: "deny", violated: [], retryAfterMs: null }],
    [
      "a queue",
      { limits: { limit: 1, window: "1s", strategy: "leaky-bucket", burst: 9 }, maxDelay: "1ms" },
      { reason: "delay", retryAfterMs: 999 },
    ],
  ])("a denial by %s is logged with its reason and wait", async ([, fields, expected]) => {
    await sendTwice(logging([{ ...policy, ...fields }]));
    expect(events().at(-1)).toEqual({ ...denied, key: pseudonym, ...expected });
  });

  it("a denial for missing key parts is logged with their names", async () => {
    const own = logging([{ ...policy, key: ["ip", "cookie:sid"], onMissingKey: "deny" }]);
    await statusOf(own.send("/", visitor));
    expect(events()).toEqual([
      { ...denied, reason: "deny", violated: [], missing: ["cookie:sid"], retryAfterMs: null },
    ]);
  });

  it("preflights denied by a blocklist, a ban or PREFLIGHT_LIMITS are logged", async () => {
    const own = logging([{ ...policy, ban: "1h", deny: ["9.9.9.9"] }], {
      PREFLIGHT_LIMITS: { limit: 2, window: "1m", strategy: "fixed-window" },
    });
    const preflight = (visitorAddress: string): Promise<number> =>
      statusOf(
        own.send("/", {
          method: "OPTIONS",
          headers: {
            ...from(visitorAddress).headers,
            Origin: "https://app.example",
            "Access-Control-Request-Method": "GET",
          },
        }),
      );
    await preflight("9.9.9.9");
    await sendTwice(own);
    lines.splice(1);
    const statuses = [];
    for (let request = 0; request < 3; request++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await preflight(address), await preflight("203.0.113.8"));
    }
    expect(statuses).toEqual([429, 200, 429, 200, 429, 429]);
    expect(events().map((line) => [line["policy"], line["reason"]])).toEqual([
      ["p", "deny"],
      ["p", "ban"],
      ["p", "ban"],
      ["p", "ban"],
      ["headgate.preflights", "limit"],
    ]);
  });

  it("a denial by a blocklist is logged only for the policy of the blocklist", async () => {
    const own = logging([
      { ...policy, name: "other" },
      { ...policy, deny: [address] },
    ]);
    await statusOf(own.send("/", visitor));
    expect(events().map((line) => [line["policy"], line["reason"]])).toEqual([["p", "deny"]]);
  });

  it("a denial for too many reservations is logged once, under the first enforced policy that reserves", async () => {
    const slots = { limit: 5_000, window: "1m", strategy: "concurrency" };
    const own = logging([
      { ...policy, name: "quota", limits: "9/minute" },
      { name: "dry", limits: slots, dryRun: true },
      { name: "slots", limits: slots },
      { name: "more", limits: { ...slots, limit: 4_000 } },
      { name: "opener", match: { path: "/none" }, limits: "9/hour" },
    ]);
    const reserving = { policy: "opener", key: address, ttlMs: 60_000 };
    await fillReservations(await own.check("POST", "/check/reserve", reserving), { ttlMs: 60_000 });
    expect(await statusOf(own.send("/", visitor))).toBe(429);
    const full = { ...denied, reason: "reservations", violated: [], key: pseudonym };
    expect(events()).toEqual([{ ...full, policy: "slots", retryAfterMs: 1_000 }]);
    lines.length = 0;
    await own.check("POST", "/check/reserve", { ...reserving, ttlMs: 1_000 });
    expect(events()).toEqual([{ ...full, policy: "opener", retryAfterMs: 60_000 }]);
  });

  it("without a decision, the Worker logs object-silent and not request-denied", async () => {
    const reject = (): Promise<never> => Promise.reject(new Error("gone"));
    const RATE_LIMITER = { getByName: () => ({ decide: reject, look: reject }) };
    const own = logging([{ ...policy, onError: "closed" }], { RATE_LIMITER });
    expect(await statusOf(own.send("/", visitor))).toBe(503);
    expect(await statusOf(own.check("POST", "/check", { key: address }))).toBe(503);
    expect(new Set(events().map(({ event }) => event))).toEqual(new Set(["object-silent"]));
  });

  it("all denials of one key are logged with the same pseudonym, and denials of different keys with different ones", async () => {
    const own = logging([{ ...policy, deny: ["203.0.113.66"] }]);
    await sendTwice(own);
    await sendTwice(own, "/", from("203.0.113.8"));
    await sendTwice(own, "/", from("203.0.113.66"));
    await statusOf(own.send("/", visitor));
    await statusOf(own.check("POST", "/check", { key: address }));
    await statusOf(own.check("POST", "/check", { key: "203.0.113.66" }));
    const keys = events().map(({ key }) => key);
    expect(keys).toHaveLength(7);
    const [first, second, blocked] = keys;
    expect(new Set([first, second, blocked]).size).toBe(3);
    expect(keys).toEqual([first, second, blocked, blocked, first, first, blocked]);
  });

  it("a denial from the deny cache is logged without a call to the object", async () => {
    const own = logging([{ ...policy, limits: { limit: 1, window: "1m", strategy: "sliding-log" } }]);
    await sendTwice(own);
    const calls = vi.spyOn(env.RATE_LIMITER, "getByName");
    await statusOf(own.send("/", visitor));
    expect(calls).not.toHaveBeenCalled();
    const line = { ...denied, key: pseudonym, retryAfterMs: 60_000 };
    expect(events()).toEqual([line, line]);
    await statusOf(own.send("/", from("203.0.113.8")));
    expect(calls).toHaveBeenCalledOnce();
  });

  it("denials of checks, batches and reservations are logged; looks are not", async () => {
    const { check } = logging([{ ...policy, deny: ["9.9.9.9"] }]);
    await check("POST", "/check", { key: address });
    await check("GET", `/check?key=${address}`);
    await check("GET", "/check?key=9.9.9.9");
    await check("POST", "/check", { key: address, cost: 0 });
    await check("POST", "/check", { key: "9.9.9.9", cost: 0 });
    expect(lines).toEqual([]);
    await check("POST", "/check", { key: address });
    const checks = [{ key: address }, { key: "9.9.9.9" }, { key: address, cost: 0 }, { key: "9.9.9.9", cost: 0 }];
    await check("POST", "/check/batch", { checks });
    await check("POST", "/check/reserve", { key: address, cost: 2, ttlMs: 1_000 });
    await check("POST", "/check/reserve", { key: "9.9.9.9", ttlMs: 1_000 });
    expect(events().map(({ reason }) => reason)).toEqual(["limit", "limit", "deny", "cost", "deny"]);
  });

  it("denials of /check/forward and of limits on /check itself are logged", async () => {
    const calls = {
      ...policy,
      name: "calls",
      match: { path: "/check/*" },
      key: "global",
      limits: "2/minute",
    };
    const own = logging([{ ...policy, match: { path: "/app" } }, calls]);
    const headers = {
      Authorization: `Bearer ${token}`,
      "X-Original-Method": "GET",
      "X-Original-URI": "/app",
      "X-Forwarded-For": address,
    };
    await sendTwice(own, "/check/forward", { headers });
    await statusOf(own.send("/check/forward", { headers }));
    expect(events().map((line) => [line["policy"], line["reason"]])).toEqual([
      ["p", "limit"],
      ["calls", "limit"],
    ]);
  });

  it("10 of 30 concurrent denials are logged, and the number of the others is logged within a second", async () => {
    const toFake = ["Date", "setTimeout", "clearTimeout"] as const;
    vi.useFakeTimers({ toFake: [...toFake], now: Date.UTC(2100, 0, 1) });
    const own = logging([policy]);
    const requests = Array.from({ length: 31 }, () => own.begin("/", visitor));
    await Promise.all(requests.map(({ response }) => statusOf(response)));
    expect(events()).toHaveLength(10);
    await vi.advanceTimersByTimeAsync(1_000);
    await Promise.all(requests.map(({ finished }) => finished()));
    const logged = events();
    expect(logged.slice(0, 10).every(({ event }) => event === "request-denied")).toBe(true);
    expect(logged.slice(10)).toEqual([{ event: "denials-omitted", omitted: 20 }]);
  });
});

describe("dry-run-denied", () => {
  const dry = { ...policy, dryRun: true };

  it("dry-run-denied has the same key pseudonym as request-denied", async () => {
    const KEY_SECRET = crypto.randomUUID();
    await sendTwice(headgate({ POLICIES: [dry], KEY_SECRET }));
    await sendTwice(headgate({ POLICIES: [policy], LOG_DENIALS: true, KEY_SECRET }), "/", from("9.9.9.9"));
    await statusOf(
      headgate({
        POLICIES: [{ ...policy, deny: [address] }],
        LOG_DENIALS: "true",
        KEY_SECRET,
      }).send("/", visitor),
    );
    const [run, other, blocked] = events();
    expect(run).toEqual({ event: "dry-run-denied", policy: "p", violated: ["p"], key: pseudonym });
    expect(blocked).toMatchObject({ event: "request-denied", key: run?.["key"] });
    expect(other?.["key"]).not.toBe(run?.["key"]);
  });

  it("dry-run-denied has a key pseudonym whether the object, the isolate or a blocklist decides, and also in a batch", async () => {
    const blocking = { ...dry, deny: ["9.9.9.9"] };
    const own = headgate({ POLICIES: [blocking] });
    await sendTwice(own);
    await statusOf(own.send("/", from("9.9.9.9")));
    await own.check("POST", "/check", { key: address });
    await own.check("POST", "/check", { key: "9.9.9.9" });
    await own.check("POST", "/check/batch", { checks: [{ key: address }] });
    await own.check("GET", `/check?key=${address}`);
    const eventual = headgate({ POLICIES: [{ ...dry, consistency: "eventual" }] });
    for (let request = 0; request < 2; request++) {
      // oxlint-disable-next-line no-await-in-loop
      await statusOf(eventual.begin("/", visitor).response);
    }
    const runs = events().filter(({ event }) => event === "dry-run-denied");
    expect(runs.map(({ key }) => key)).toEqual(Array(6).fill(pseudonym));
    expect(runs.map(({ reason }) => reason ?? "limit")).toEqual([
      "limit",
      "listed",
      "limit",
      "listed",
      "limit",
      "limit",
    ]);
  });

  it("dry-run-denied has no key pseudonym when a key part is missing", async () => {
    const own = headgate({
      POLICIES: [{ ...dry, key: "jwt:sub", onMissingKey: "deny" }],
      JWT_KEY: "s".repeat(32),
    });
    await statusOf(own.send("/", visitor));
    const jwt = await new SignJWT({ sub: "canary" })
      .setProtectedHeader({ alg: "HS256" })
      .sign(new TextEncoder().encode("s".repeat(32)));
    await sendTwice(own, "/", { headers: { Authorization: `Bearer ${jwt}` } });
    expect(events()).toEqual([
      { event: "dry-run-denied", policy: "p", violated: [], reason: "key-missing" },
      { event: "dry-run-denied", policy: "p", violated: ["p"], key: pseudonym },
    ]);
    expect(lines.join()).not.toContain("canary");
  });
});
