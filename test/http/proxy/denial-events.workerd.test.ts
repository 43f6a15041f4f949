/** What `LOG_DENIALS` logs of denials, and what every dry run does. */
import { env } from "cloudflare:workers";
import { SignJWT } from "jose";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parseLimits } from "../../../src/strategies/index.ts";
import { from, type Headgate, headgate, statusOf, token } from "../harness.ts";

const lines: string[] = [];
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) });
  lines.length = 0;
  // Each Headgate warns of the tests' short token.
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

const twice = async (
  own: Headgate,
  path = "/",
  init: { headers: Record<string, string> } = visitor,
): Promise<void> => {
  await statusOf(own.send(path, init));
  await statusOf(own.send(path, init));
};

describe("LOG_DENIALS", () => {
  it("logs nothing when it is off", async () => {
    const own = headgate({ POLICIES: [{ ...policy, ban: "1h", deny: ["9.9.9.9"] }] });
    await twice(own);
    await statusOf(own.send("/", from("9.9.9.9")));
    await statusOf(own.check("POST", "/check", { key: address }));
    expect(lines).toEqual([]);
  });

  it("logs the policy, the reason, the limits, a pseudonym and the wait; not what is allowed", async () => {
    const own = logging([policy, { ...policy, name: "other", limits: "9/minute" }]);
    await twice(own, "/path?secret=canary");
    expect(events()).toEqual([{ ...denied, key: pseudonym, retryAfterMs: 60_000 }]);
    expect(lines.join()).not.toMatch(/203\.0\.113|canary|path/);
  });

  it("logs each policy that denies", async () => {
    const own = logging([policy, { ...policy, name: "q", ban: "1h" }]);
    await twice(own);
    const both = events();
    expect(both).toEqual([
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
    expect(both[0]?.["key"]).toBe(both[1]?.["key"]);
  });

  it.for<[string, object, Line]>([
    ["a ban", { ban: "1h" }, { reason: "ban", retryAfterMs: 3_600_000 }],
    ["a cost that never fits", { cost: 2 }, { reason: "cost", retryAfterMs: null }],
    ["a list", { deny: [address] }, { reason: "deny", violated: [], retryAfterMs: null }],
    [
      "a queue",
      { limits: { limit: 1, window: "1s", strategy: "leaky-bucket", burst: 9 }, maxDelay: "1ms" },
      { reason: "delay", retryAfterMs: 999 },
    ],
  ])("logs a denial by %s", async ([, fields, expected]) => {
    await twice(logging([{ ...policy, ...fields }]));
    expect(events().at(-1)).toEqual({ ...denied, key: pseudonym, ...expected });
  });

  it("logs the missing parts of a key, by their names", async () => {
    const own = logging([{ ...policy, key: ["ip", "cookie:sid"], onMissingKey: "deny" }]);
    await statusOf(own.send("/", visitor));
    expect(events()).toEqual([
      { ...denied, reason: "deny", violated: [], missing: ["cookie:sid"], retryAfterMs: null },
    ]);
  });

  it("logs preflights that a deny list, a ban or their own limits refuse", async () => {
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
    await twice(own);
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

  it("logs who is listed by one policy, and nothing of others that would let the request in", async () => {
    const own = logging([
      { ...policy, name: "other" },
      { ...policy, deny: [address] },
    ]);
    await statusOf(own.send("/", visitor));
    expect(events().map((line) => [line["policy"], line["reason"]])).toEqual([["p", "deny"]]);
  });

  it("logs a key with too many requests in flight once, by the first policy that holds slots", async () => {
    const slots = { limit: 5_000, window: "1m", strategy: "concurrency" };
    const own = logging([
      { ...policy, name: "quota", limits: "9/minute" },
      { name: "dry", limits: slots, dryRun: true },
      { name: "slots", limits: slots },
      { name: "more", limits: { ...slots, limit: 4_000 } },
      { name: "opener", match: { path: "/none" }, limits: "9/hour" },
    ]);
    const reserving = { policy: "opener", key: address, ttlMs: 60_000 };
    const opened = await own.check("POST", "/check/reserve", reserving);
    const { id } = await opened.json<{ id: string }>();
    const [, partition = ""] = id.split(".");
    const object = env.RATE_LIMITER.getByName(partition);
    const charges = [{ policy: "filler", limits: parseLimits("1000000/hour"), cost: 1 }];
    await Promise.all(
      Array.from({ length: 999 }, (_, index) =>
        object.reserve({ key: partition, charges, id: String(index), ttlMs: 60_000 }),
      ),
    );
    expect(await statusOf(own.send("/", visitor))).toBe(429);
    const full = { ...denied, reason: "reservations", violated: [], key: pseudonym };
    expect(events()).toEqual([{ ...full, policy: "slots", retryAfterMs: 1_000 }]);
    lines.length = 0;
    await own.check("POST", "/check/reserve", { ...reserving, ttlMs: 1_000 });
    expect(events()).toEqual([{ ...full, policy: "opener", retryAfterMs: 60_000 }]);
  });

  it("logs no denial where there is no decision, which is an event of its own", async () => {
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const RATE_LIMITER = { getByName: () => ({ check: call, look: call }) };
    const own = logging([{ ...policy, onError: "closed" }], { RATE_LIMITER });
    expect(await statusOf(own.send("/", visitor))).toBe(503);
    expect(await statusOf(own.check("POST", "/check", { key: address }))).toBe(503);
    expect(new Set(events().map(({ event }) => event))).toEqual(new Set(["object-silent"]));
  });

  it("has one pseudonym for a key, and another for every other", async () => {
    const own = logging([{ ...policy, deny: ["203.0.113.66"] }]);
    await twice(own);
    await twice(own, "/", from("203.0.113.8"));
    await twice(own, "/", from("203.0.113.66"));
    await statusOf(own.send("/", visitor));
    await statusOf(own.check("POST", "/check", { key: address }));
    await statusOf(own.check("POST", "/check", { key: "203.0.113.66" }));
    const keys = events().map(({ key }) => key);
    expect(keys).toHaveLength(7);
    const [first, second, listed] = keys;
    expect(new Set([first, second, listed]).size).toBe(3);
    expect(keys).toEqual([first, second, listed, listed, first, first, listed]);
  });

  it("logs what the deny cache denies, without asking the object", async () => {
    const own = logging([
      { ...policy, limits: { limit: 1, window: "1m", strategy: "sliding-log" } },
    ]);
    await twice(own);
    const asked = vi.spyOn(env.RATE_LIMITER, "getByName");
    await statusOf(own.send("/", visitor));
    expect(asked).not.toHaveBeenCalled();
    const line = { ...denied, key: pseudonym, retryAfterMs: 60_000 };
    expect(events()).toEqual([line, line]);
    await statusOf(own.send("/", from("203.0.113.8")));
    expect(asked).toHaveBeenCalledOnce();
  });

  it("logs denials of /check, of batches and of reservations; and no looks", async () => {
    const { check } = logging([{ ...policy, deny: ["9.9.9.9"] }]);
    await check("POST", "/check", { key: address });
    await check("GET", `/check?key=${address}`);
    await check("GET", "/check?key=9.9.9.9");
    await check("POST", "/check", { key: address, cost: 0 });
    await check("POST", "/check", { key: "9.9.9.9", cost: 0 });
    expect(lines).toEqual([]);
    await check("POST", "/check", { key: address });
    const checks = [
      { key: address },
      { key: "9.9.9.9" },
      { key: address, cost: 0 },
      { key: "9.9.9.9", cost: 0 },
    ];
    await check("POST", "/check/batch", { checks });
    await check("POST", "/check/reserve", { key: address, cost: 2, ttlMs: 1_000 });
    await check("POST", "/check/reserve", { key: "9.9.9.9", ttlMs: 1_000 });
    expect(events().map(({ reason }) => reason)).toEqual([
      "limit",
      "limit",
      "deny",
      "cost",
      "deny",
    ]);
  });

  it("logs denials for a gateway, and of the calls below /check themselves", async () => {
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
    await twice(own, "/check/forward", { headers });
    await statusOf(own.send("/check/forward", { headers }));
    expect(events().map((line) => [line["policy"], line["reason"]])).toEqual([
      ["p", "limit"],
      ["calls", "limit"],
    ]);
  });

  it("logs ten denials at once, and the number of the others within a second", async () => {
    vi.useRealTimers();
    const own = logging([policy]);
    await Promise.all(Array.from({ length: 31 }, () => statusOf(own.send("/", visitor))));
    const logged = events();
    expect(logged.slice(0, 10).every(({ event }) => event === "request-denied")).toBe(true);
    // What is not a line is in a count, wherever a slow machine has put it.
    const omitted = logged.reduce((sum, line) => sum + Number(line["omitted"] ?? 0), 0);
    const written = logged.filter(({ event }) => event === "request-denied").length;
    expect(written + omitted).toBe(30);
    expect(omitted).toBeGreaterThan(0);
  });
});

describe("the event of a denied dry run", () => {
  const dry = { ...policy, dryRun: true };

  it("has the pseudonym that denials of the same key have", async () => {
    const KEY_SECRET = crypto.randomUUID();
    await twice(headgate({ POLICIES: [dry], KEY_SECRET }));
    await twice(
      headgate({ POLICIES: [policy], LOG_DENIALS: true, KEY_SECRET }),
      "/",
      from("9.9.9.9"),
    );
    await statusOf(
      headgate({
        POLICIES: [{ ...policy, deny: [address] }],
        LOG_DENIALS: "true",
        KEY_SECRET,
      }).send("/", visitor),
    );
    const [run, other, listed] = events();
    expect(run).toEqual({ event: "dry-run-denied", policy: "p", violated: ["p"], key: pseudonym });
    expect(listed).toMatchObject({ event: "request-denied", key: run?.["key"] });
    expect(other?.["key"]).not.toBe(run?.["key"]);
  });

  it("has it for every kind of decision: by the object, the isolate, a list, a batch", async () => {
    const onlyDry = { ...dry, deny: ["9.9.9.9"] };
    const own = headgate({ POLICIES: [onlyDry] });
    await twice(own);
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

  it("has none where a part of the key is missing", async () => {
    const own = headgate({
      POLICIES: [{ ...dry, key: "jwt:sub", onMissingKey: "deny" }],
      JWT_KEY: "s".repeat(32),
    });
    await statusOf(own.send("/", visitor));
    const jwt = await new SignJWT({ sub: "canary" })
      .setProtectedHeader({ alg: "HS256" })
      .sign(new TextEncoder().encode("s".repeat(32)));
    await twice(own, "/", { headers: { Authorization: `Bearer ${jwt}` } });
    expect(events()).toEqual([
      { event: "dry-run-denied", policy: "p", violated: [], reason: "key-missing" },
      { event: "dry-run-denied", policy: "p", violated: ["p"], key: pseudonym },
    ]);
    expect(lines.join()).not.toContain("canary");
  });
});
