/** The `reason` of every decision of `/check`, and of every denial of the proxy. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fillReservations, from, type Headgate, headgate, statusOf } from "../harness.ts";

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

interface Answer {
  readonly allowed: boolean;
  readonly reason: string;
  readonly violated: string[];
  readonly retryAfterMs: number | null;
  readonly bannedForMs: number;
}

async function answerTo({ check }: Headgate, fields: object = {}): Promise<Answer> {
  const response = await check("POST", "/check", { key, ...fields });
  expect(response.status).toBe(200);
  return response.json();
}

/** Describes the decision on a check, such as `denied: cost`. */
const reasonOf = async (own: Headgate, fields: object = {}): Promise<string> => {
  const { allowed, reason } = await answerTo(own, fields);
  return `${allowed ? "allowed" : "denied"}: ${reason}`;
};

/** The problem details in an answer of the proxy. */
const problemOf = async (answer: Promise<Response>): Promise<{ type: string; reason: string }> => (await answer).json();

describe("the reason of a check", () => {
  it("the reason of an allowed or denied check is limit when its limits decide", async () => {
    const own = headgate({ POLICIES: [policy] });
    expect(await reasonOf(own, { cost: 0 })).toBe("allowed: limit");
    expect(await reasonOf(own)).toBe("allowed: limit");
    expect(await reasonOf(own)).toBe("denied: limit");
    expect(await reasonOf(own, { cost: 0 })).toBe("allowed: limit");
  });

  it("the reason of a denial is cost when the cost can never fit", async () => {
    const own = headgate({ POLICIES: [policy] });
    expect(await answerTo(own, { cost: 2 })).toMatchObject({
      allowed: false,
      reason: "cost",
      retryAfterMs: null,
    });
  });

  it("the reason of a denial is cost when two limits are violated and the cost exceeds the capacity of one", async () => {
    const limits = ["1/minute", "5/hour"];
    const own = headgate({ POLICIES: [{ ...policy, limits }] });
    await answerTo(own);
    const denied = await answerTo(own, { cost: 2 });
    expect([denied.reason, denied.violated, denied.retryAfterMs]).toEqual(["cost", ["p.1-per-1m"], null]);
    const both = await answerTo(own, { cost: 5 });
    expect([both.reason, both.violated]).toEqual(["cost", ["p.1-per-1m", "p.5-per-1h"]]);
  });

  it("the reason is ban from the denial that begins a ban until the ban ends, even after the window has ended", async () => {
    const own = headgate({ POLICIES: [{ ...policy, ban: "1h" }] });
    await answerTo(own);
    expect(await answerTo(own)).toMatchObject({
      reason: "ban",
      bannedForMs: 3_600_000,
      violated: ["p"],
    });
    vi.setSystemTime(startMs + 1_800_000);
    const refilled = { allowed: false, reason: "ban", bannedForMs: 1_800_000, violated: [] };
    expect(await answerTo(own)).toMatchObject({ ...refilled, retryAfterMs: 1_800_000 });
    expect(await answerTo(own, { cost: 0 })).toMatchObject(refilled);
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

  it("the reason is the list, allow or deny, that the key is on, and deny takes precedence", async () => {
    const lists = { allow: ["203.0.113.0/24"], deny: ["203.0.113.66"] };
    const own = headgate({ POLICIES: [{ ...policy, ...lists }] });
    expect(await reasonOf(own)).toBe("allowed: allow");
    expect(await reasonOf(own, { cost: 2 })).toBe("allowed: allow");
    expect(await reasonOf(own, { key: "203.0.113.66" })).toBe("denied: deny");
    expect(await reasonOf(own, { key: "203.0.113.66", cost: 0 })).toBe("denied: deny");
    expect(await reasonOf(own, { key: "9.9.9.9", cost: 2 })).toBe("denied: cost");
  });

  it("the reason is dry-run when a dry run would have denied", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const lists = { allow: ["198.51.100.1"], deny: ["203.0.113.66"] };
    const own = headgate({ POLICIES: [{ ...policy, ...lists, ban: "1h", dryRun: true }] });
    expect(await reasonOf(own)).toBe("allowed: limit");
    expect(await reasonOf(own)).toBe("allowed: dry-run");
    expect(await reasonOf(own, { cost: 2 })).toBe("allowed: dry-run");
    expect(await reasonOf(own, { key: "203.0.113.66" })).toBe("allowed: dry-run");
    expect(await reasonOf(own, { key: "198.51.100.1" })).toBe("allowed: allow");
  });

  it("the reason of a denial is delay when a queue would delay the request longer than maxDelay", async () => {
    const own = headgate({ POLICIES: [{ name: "p", limits: queue, maxDelay: "500ms" }] });
    expect(await reasonOf(own, { cost: 6 })).toBe("allowed: limit");
    expect(await reasonOf(own)).toBe("denied: delay");
    expect(await reasonOf(own, { cost: 7 })).toBe("denied: cost");
  });

  it("the reason of a denial is limit when a queue denies because of its burst and not because of maxDelay", async () => {
    for (const maxDelay of [undefined, "2s", "1h"]) {
      const own = headgate({ POLICIES: [{ name: "p", limits: queue, maxDelay }] });
      // oxlint-disable-next-line no-await-in-loop
      expect(await reasonOf(own, { cost: 21 })).toBe("allowed: limit");
      // oxlint-disable-next-line no-await-in-loop
      expect(await reasonOf(own)).toBe("denied: limit");
    }
  });

  it("the answers to looks, batches, reservations and ad hoc checks have a reason", async () => {
    const { check } = headgate({ POLICIES: [{ ...policy, deny: ["203.0.113.66"] }] });
    const looked = await check("GET", `/check?key=${key}&cost=2`);
    expect(await looked.json()).toMatchObject({ reason: "cost" });
    const adhoc = { key: "k", limits: "1/minute" };
    const checks = [{ key }, { key }, { key: "203.0.113.66" }, adhoc, adhoc];
    const batch = await check("POST", "/check/batch", { checks });
    const { results } = await batch.json<{ results: Answer[] }>();
    expect(results.map(({ reason }) => reason)).toEqual(["limit", "limit", "deny", "limit", "limit"]);
    const reserved = await check("POST", "/check/reserve", { key, cost: 2, ttlMs: 1_000 });
    expect(await reserved.json()).toMatchObject({ reason: "cost", id: null });
    const denied = await check("POST", "/check?deny=429", { key: "203.0.113.66" });
    expect([denied.status, await denied.json()]).toMatchObject([429, { reason: "deny" }]);
  });
});

it("a reservation beyond 1,000 on a key is denied with the reason reservations, unless a limit denies it too", async () => {
  const opener = { name: "o", match: { path: "/none" }, limits: "9/minute" };
  const own = headgate({ POLICIES: [policy, { ...policy, name: "b", ban: "1h" }, opener] });
  const opening = { policy: "o", key, ttlMs: 60_000 };
  await fillReservations(await own.check("POST", "/check/reserve", opening));
  const request = { policy: "b", key, ttlMs: 1_000 };
  const response = await own.check("POST", "/check/reserve", request);
  expect([response.status, await response.json()]).toMatchObject([
    429,
    { type: "about:blank", reason: "reservations" },
  ]);
  const costly = await own.check("POST", "/check/reserve", { ...request, cost: 2 });
  expect([costly.status, await costly.json()]).toMatchObject([200, { reason: "cost", id: null }]);
  await answerTo(own, { policy: "b" });
  await answerTo(own, { policy: "b" });
  const banned = await own.check("POST", "/check/reserve", request);
  expect([banned.status, await banned.json()]).toMatchObject([200, { reason: "ban", id: null }]);
});

it("a denial by a dry run begins no ban, so the key is not banned when the policy is enforced afterwards", async () => {
  vi.spyOn(console, "warn").mockReturnValue(undefined);
  const banning = { name: "p", limits: "1/hour", strategy: "sliding-log", ban: "1h" };
  const KEY_SECRET = crypto.randomUUID();
  const dryRun = headgate({ KEY_SECRET, POLICIES: [{ ...banning, dryRun: true }] });
  const enforced = headgate({ KEY_SECRET, POLICIES: [banning] });
  await answerTo(dryRun);
  const denied = { allowed: true, violated: ["p"], bannedForMs: 0 };
  expect(await answerTo(dryRun)).toMatchObject(denied);
  const look = await enforced.check("GET", `/check?key=${key}&cost=0`);
  expect(await look.json()).toMatchObject({ bannedForMs: 0, limits: [{ remaining: 0 }] });
  // The first denial of the enforced policy begins its ban.
  expect(await answerTo(enforced)).toMatchObject({ allowed: false, bannedForMs: 3_600_000 });
});

describe("the reason in the problem details of the proxy and of /check/forward", () => {
  const reasonIn = async (answer: Promise<Response>): Promise<string> => (await problemOf(answer)).reason;

  it("when policies deny for different reasons, the problem has the reason ban before cost, and cost before limit", async () => {
    const limited = { ...policy, name: "limited", key: "global" };
    const banned = { ...policy, name: "banned", ban: "1h" };
    const costly = { ...policy, name: "costly", cost: 2, key: "global" };
    const both = headgate({ POLICIES: [{ ...policy, name: "a" }, banned] });
    await statusOf(both.send("/", visitor));
    expect(await reasonIn(both.send("/", visitor))).toBe("ban");
    const never = headgate({ POLICIES: [limited, costly] });
    expect(await reasonIn(never.send("/", visitor))).toBe("cost");
  });

  it("the reason of a problem is delay when a queue would delay the request longer than maxDelay, and deny for a blocked key and a missing key part", async () => {
    const delaying = headgate({ POLICIES: [{ name: "p", limits: queue, maxDelay: "50ms" }] });
    await statusOf(delaying.send("/", visitor));
    expect(await reasonIn(delaying.send("/", visitor))).toBe("delay");
    const blocking = headgate({ POLICIES: [{ ...policy, deny: [key] }] });
    expect(await reasonIn(blocking.send("/", visitor))).toBe("deny");
    const missing = { ...policy, key: "cookie:sid", onMissingKey: "deny" };
    expect(await reasonIn(headgate({ POLICIES: [missing] }).send("/", visitor))).toBe("deny");
  });

  it.for([
    [{}, "limit"],
    [{ ban: "1h" }, "ban"],
    [{ cost: 2 }, "cost"],
    [{ deny: [key] }, "deny"],
  ] as const)("the problem of /check/forward for a policy with %j has the reason %s", async ([fields, reason]) => {
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
