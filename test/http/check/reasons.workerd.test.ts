/** The reason that every decision of `/check`, and every denial of the proxy, names. */
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parseLimits } from "../../../src/strategies/index.ts";
import { from, type Headgate, headgate, statusOf } from "../harness.ts";

const startMs = Date.UTC(2100, 0, 1);
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const key = "203.0.113.7";
const visitor = from(key);
const policy = { name: "p", limits: "1/minute", strategy: "fixed-window" };
const queue = { limit: 10, window: "1s", strategy: "leaky-bucket", burst: 20 };

interface Named {
  readonly allowed: boolean;
  readonly reason: string;
  readonly violated: string[];
  readonly retryAfterMs: number | null;
  readonly bannedForMs: number;
}

async function checked({ check }: Headgate, fields: object = {}): Promise<Named> {
  const response = await check("POST", "/check", { key, ...fields });
  expect(response.status).toBe(200);
  return response.json();
}

/** The reason of an allowed or denied check, in short. */
const reasonOf = async (own: Headgate, fields: object = {}): Promise<string> => {
  const { allowed, reason } = await checked(own, fields);
  return `${allowed ? "allowed" : "denied"}: ${reason}`;
};

/** The members of the problem details that a request to the proxy is answered with. */
const problemOf = async (answer: Promise<Response>): Promise<{ type: string; reason: string }> =>
  (await answer).json();

describe("the reason of a check", () => {
  it("is limit while the limits decide, allowed or denied", async () => {
    const own = headgate({ POLICIES: [policy] });
    expect(await reasonOf(own, { cost: 0 })).toBe("allowed: limit");
    expect(await reasonOf(own)).toBe("allowed: limit");
    expect(await reasonOf(own)).toBe("denied: limit");
    expect(await reasonOf(own, { cost: 0 })).toBe("allowed: limit");
  });

  it("is cost when no wait makes the cost fit", async () => {
    const own = headgate({ POLICIES: [policy] });
    expect(await checked(own, { cost: 2 })).toMatchObject({
      allowed: false,
      reason: "cost",
      retryAfterMs: null,
    });
  });

  it("is cost when only one of two exceeded limits can never fit it", async () => {
    const limits = ["1/minute", "5/hour"];
    const own = headgate({ POLICIES: [{ ...policy, limits }] });
    await checked(own);
    const denied = await checked(own, { cost: 2 });
    expect([denied.reason, denied.violated, denied.retryAfterMs]).toEqual([
      "cost",
      ["p.1-per-1m"],
      null,
    ]);
    const both = await checked(own, { cost: 5 });
    expect([both.reason, both.violated]).toEqual(["cost", ["p.1-per-1m", "p.5-per-1h"]]);
  });

  it("is ban from the denial that begins the ban until its end, also once the window has refilled", async () => {
    const own = headgate({ POLICIES: [{ ...policy, ban: "1h" }] });
    await checked(own);
    expect(await checked(own)).toMatchObject({
      reason: "ban",
      bannedForMs: 3_600_000,
      violated: ["p"],
    });
    vi.setSystemTime(startMs + 1_800_000);
    const refilled = { allowed: false, reason: "ban", bannedForMs: 1_800_000, violated: [] };
    expect(await checked(own)).toMatchObject({ ...refilled, retryAfterMs: 1_800_000 });
    expect(await checked(own, { cost: 0 })).toMatchObject(refilled);
    expect(await problemOf(own.send("/", visitor))).toEqual({
      type: "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
      title: "Abnormal Usage Detected",
      status: 429,
      detail: "Temporarily blocked after repeated rate-limit violations. Retry in 1800 seconds.",
      reason: "ban",
      "violated-policies": [],
    });
    vi.setSystemTime(startMs + 3_600_000);
    expect(await reasonOf(own)).toBe("allowed: limit");
  });

  it("is ban rather than cost for a banned key, although the wait never helps", async () => {
    const own = headgate({ POLICIES: [{ ...policy, ban: "1h" }] });
    await checked(own);
    await checked(own);
    expect(await checked(own, { cost: 2 })).toMatchObject({ reason: "ban", retryAfterMs: null });
  });

  it("is the policy's list, whatever has been spent; deny comes before allow", async () => {
    const lists = { allow: ["203.0.113.0/24"], deny: ["203.0.113.66"] };
    const own = headgate({ POLICIES: [{ ...policy, ...lists }] });
    expect(await reasonOf(own)).toBe("allowed: allow");
    expect(await reasonOf(own, { cost: 2 })).toBe("allowed: allow");
    expect(await reasonOf(own, { key: "203.0.113.66" })).toBe("denied: deny");
    expect(await reasonOf(own, { key: "203.0.113.66", cost: 0 })).toBe("denied: deny");
    expect(await reasonOf(own, { key: "9.9.9.9", cost: 2 })).toBe("denied: cost");
  });

  it("is dry-run where a dry run would have denied, and what decided where it would not", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const lists = { allow: ["198.51.100.1"], deny: ["203.0.113.66"] };
    const own = headgate({ POLICIES: [{ ...policy, ...lists, ban: "1h", dryRun: true }] });
    expect(await reasonOf(own)).toBe("allowed: limit");
    expect(await reasonOf(own)).toBe("allowed: dry-run");
    expect(await reasonOf(own, { cost: 2 })).toBe("allowed: dry-run");
    expect(await reasonOf(own, { key: "203.0.113.66" })).toBe("allowed: dry-run");
    expect(await reasonOf(own, { key: "198.51.100.1" })).toBe("allowed: allow");
  });

  it("is delay where a queue would hold the request longer than maxDelay", async () => {
    const own = headgate({ POLICIES: [{ name: "p", limits: queue, maxDelay: "500ms" }] });
    expect(await reasonOf(own, { cost: 6 })).toBe("allowed: limit");
    expect(await reasonOf(own)).toBe("denied: delay");
    expect(await reasonOf(own, { cost: 7 })).toBe("denied: cost");
  });

  it("is limit where the queue's burst, and not maxDelay, is full", async () => {
    for (const maxDelay of [undefined, "2s", "1h"]) {
      const own = headgate({ POLICIES: [{ name: "p", limits: queue, maxDelay }] });
      // oxlint-disable-next-line no-await-in-loop
      expect(await reasonOf(own, { cost: 21 })).toBe("allowed: limit");
      // oxlint-disable-next-line no-await-in-loop
      expect(await reasonOf(own)).toBe("denied: limit");
    }
  });

  it("is limit rather than delay where another limit is exceeded too", async () => {
    const limits = [queue, { limit: 6, window: "1h", strategy: "fixed-window" }];
    const own = headgate({ POLICIES: [{ name: "p", limits, maxDelay: "500ms" }] });
    await checked(own, { cost: 6 });
    expect(await reasonOf(own)).toBe("denied: limit");
  });

  it("is named in a look, a batch, a reservation, and limits of the call's own", async () => {
    const { check } = headgate({ POLICIES: [{ ...policy, deny: ["203.0.113.66"] }] });
    const looked = await check("GET", `/check?key=${key}&cost=2`);
    expect(await looked.json()).toMatchObject({ reason: "cost" });
    const adhoc = { key: "k", limits: "1/minute" };
    const checks = [{ key }, { key }, { key: "203.0.113.66" }, adhoc, adhoc];
    const batch = await check("POST", "/check/batch", { checks });
    const { results } = await batch.json<{ results: Named[] }>();
    expect(results.map(({ reason }) => reason)).toEqual([
      "limit",
      "limit",
      "deny",
      "limit",
      "limit",
    ]);
    const reserved = await check("POST", "/check/reserve", { key, cost: 2, ttlMs: 1_000 });
    expect(await reserved.json()).toMatchObject({ reason: "cost", id: null });
    const refused = await check("POST", "/check?deny=429", { key: "203.0.113.66" });
    expect([refused.status, await refused.json()]).toMatchObject([429, { reason: "deny" }]);
  });
});

/** Opens reservations by another policy on the same key, until there is room for none. */
async function fill(own: Headgate): Promise<void> {
  const opened = await own.check("POST", "/check/reserve", { policy: "o", key, ttlMs: 60_000 });
  const { id } = await opened.json<{ id: string }>();
  const [, partition = ""] = id.split(".");
  const object = env.RATE_LIMITER.getByName(partition);
  const charges = [{ policy: "other", limits: parseLimits("1000000/hour"), cost: 1 }];
  const ids = Array.from({ length: 999 }, (_, index) => String(index));
  await Promise.all(
    ids.map((each) => object.reserve({ key: partition, charges, id: each, ttlMs: 60_000 })),
  );
}

describe("the reason of a reservation on a key with 1,000 open ones", () => {
  const opener = { name: "o", match: { path: "/none" }, limits: "9/minute" };

  it("is reservations, in the problem details", async () => {
    const own = headgate({ POLICIES: [policy, opener] });
    await fill(own);
    const asked = { policy: "p", key, ttlMs: 1_000 };
    const response = await own.check("POST", "/check/reserve", asked);
    expect([response.status, await response.json()]).toMatchObject([
      429,
      { type: "about:blank", reason: "reservations" },
    ]);
  });

  it("is the key's own where it is denied anyway: to settle reservations would not help", async () => {
    const own = headgate({ POLICIES: [{ ...policy, ban: "1h" }, opener] });
    await fill(own);
    const asked = { policy: "p", key, ttlMs: 1_000 };
    const costly = await own.check("POST", "/check/reserve", { ...asked, cost: 2 });
    expect([costly.status, await costly.json()]).toMatchObject([200, { reason: "cost", id: null }]);
    await checked(own, { policy: "p" });
    await checked(own, { policy: "p" });
    const banned = await own.check("POST", "/check/reserve", asked);
    expect([banned.status, await banned.json()]).toMatchObject([200, { reason: "ban", id: null }]);
  });
});

describe("the reason in the problem details of the proxy and of /check/forward", () => {
  const reasonIn = async (answer: Promise<Response>): Promise<string> =>
    (await problemOf(answer)).reason;

  it("is the one that no wait can change, where policies deny for different reasons", async () => {
    const limited = { ...policy, name: "limited", key: "global" };
    const banned = { ...policy, name: "banned", ban: "1h" };
    const costly = { ...policy, name: "costly", cost: 2, key: "global" };
    const both = headgate({ POLICIES: [{ ...policy, name: "a" }, banned] });
    await statusOf(both.send("/", visitor));
    expect(await reasonIn(both.send("/", visitor))).toBe("ban");
    const never = headgate({ POLICIES: [limited, costly] });
    expect(await reasonIn(never.send("/", visitor))).toBe("cost");
  });

  it("is delay of a full queue, and deny of who is listed or lacks a part of the key", async () => {
    const held = headgate({ POLICIES: [{ name: "p", limits: queue, maxDelay: "50ms" }] });
    await statusOf(held.send("/", visitor));
    expect(await reasonIn(held.send("/", visitor))).toBe("delay");
    const listed = headgate({ POLICIES: [{ ...policy, deny: [key] }] });
    expect(await reasonIn(listed.send("/", visitor))).toBe("deny");
    const lacking = { ...policy, key: "cookie:sid", onMissingKey: "deny" };
    expect(await reasonIn(headgate({ POLICIES: [lacking] }).send("/", visitor))).toBe("deny");
  });

  it.for([
    [{}, "limit"],
    [{ ban: "1h" }, "ban"],
    [{ cost: 2 }, "cost"],
    [{ deny: [key] }, "deny"],
  ] as const)("for a gateway, of a policy with %j: %s", async ([fields, reason]) => {
    const { send } = headgate({ POLICIES: [{ ...policy, ...fields }] });
    const headers = {
      Authorization: "Bearer the-tests-token",
      "X-Original-Method": "GET",
      "X-Original-URI": "/",
      "X-Forwarded-For": key,
    };
    const ask = (): Promise<Response> => send("/check/forward?deny=403", { headers });
    await statusOf(ask());
    const response = await ask();
    expect([response.status, await response.json()]).toMatchObject([403, { reason }]);
  });
});
