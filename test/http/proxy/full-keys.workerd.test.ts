import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { parseLimits } from "../../../src/strategies/index.ts";
import { from, headgate, statusOf } from "../harness.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: Date.UTC(2100, 0, 1) }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

const key = "203.0.113.7";
const filler = { policy: "filler", limits: parseLimits("1000000/hour"), cost: 1 };

/** A Headgate of which a key has as many reservations open as it may. */
async function full(policies: readonly object[], more: object = {}) {
  const own = headgate({
    ...more,
    POLICIES: [...policies, { name: "opener", match: { path: "/none" }, limits: "9/hour" }],
  });
  const reserving = { policy: "opener", key, cost: 1, ttlMs: 86_400_000 };
  const response = await own.check("POST", "/check/reserve", reserving);
  const { id } = await response.json<{ id: string }>();
  const [, partition = ""] = id.split(".");
  const object = env.RATE_LIMITER.getByName(partition);
  const ids = Array.from({ length: 999 }, (_, index) => String(index));
  await Promise.all(
    ids.map((each) =>
      object.reserve({ key: partition, charges: [filler], id: each, ttlMs: 86_400_000 }),
    ),
  );
  return own;
}

const slots = { limit: 5_000, window: "1m", strategy: "concurrency" };
const quota = { name: "quota", limits: "9/hour", strategy: "fixed-window" };

describe("a key with 1,000 requests in flight", () => {
  it("is refused another, and told to come back soon: one may be over at any time", async () => {
    const { send } = await full([{ name: "slots", limits: slots }]);
    const response = await send("/", from(key));
    expect([response.status, response.headers.get("Retry-After")]).toEqual([429, "1"]);
    expect(await response.json()).toEqual({
      type: "about:blank",
      title: "Too Many Requests",
      status: 429,
      detail: "Too many requests for this key are in flight. Retry in 1 second.",
      reason: "reservations",
    });
  });

  it("is charged for nothing that is refused so", async () => {
    const { send, check } = await full([{ name: "slots", limits: slots }, quota]);
    expect(await statusOf(send("/", from(key)))).toBe(429);
    const response = await check("GET", `/check?policy=quota&key=${key}`);
    expect(await response.json()).toMatchObject({ limits: [{ remaining: 9 }] });
  });

  it("is logged as refused by a policy that is enforced, also behind a dry run with slots", async () => {
    const lines: string[] = [];
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    vi.spyOn(console, "log").mockImplementation((line: string) => void lines.push(line));
    const shadow = { name: "shadow", limits: slots, dryRun: true };
    const more = { ...quota, name: "more", limits: slots };
    const policies = [shadow, { name: "slots", limits: slots }, more];
    const { send } = await full(policies, { LOG_DENIALS: true });
    expect(await statusOf(send("/", from(key)))).toBe(429);
    expect(lines.map((line) => JSON.parse(line) as unknown)).toEqual([
      {
        event: "request-denied",
        policy: "slots",
        reason: "reservations",
        violated: [],
        key: expect.stringMatching(/^[\w-]{16}$/) as string,
        retryAfterMs: 1_000,
      },
    ]);
  });

  it("is let in where only a dry run would hold a place", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const shadow = { name: "slots", limits: slots, dryRun: true };
    const { send } = await full([shadow, quota]);
    const response = await send("/", from(key));
    await response.body?.cancel();
    expect([response.status, response.headers.get("RateLimit")]).toEqual([
      200,
      '"quota";r=8;t=3600',
    ]);
    const alone = await full([shadow]);
    expect(await statusOf(alone.send("/", from(key)))).toBe(200);
  });
});

describe("what dry runs have reserved", () => {
  it("makes room for what is enforced, and stands as spent", async () => {
    vi.spyOn(console, "warn").mockReturnValue(undefined);
    const own = headgate({
      POLICIES: [
        { ...quota, name: "watch", limits: "5000/hour", count: { status: ["401"] }, dryRun: true },
        { ...quota, name: "slots", match: { path: "/held" }, limits: slots },
      ],
    });
    const reserving = { policy: "watch", key, cost: 1, ttlMs: 86_400_000 };
    const response = await own.check("POST", "/check/reserve", reserving);
    const { id } = await response.json<{ id: string }>();
    const [, partition = ""] = id.split(".");
    const object = env.RATE_LIMITER.getByName(partition);
    const shadow = { ...filler, policy: "watch", isDryRun: true };
    const ids = Array.from({ length: 999 }, (_, index) => String(index));
    await Promise.all(
      ids.map((each) =>
        object.reserve({
          key: partition,
          charges: [shadow],
          id: each,
          ttlMs: 9_000,
          isDryRun: true,
        }),
      ),
    );
    expect(await statusOf(own.send("/held", from(key)))).toBe(200);
    expect(await object.settle({ key: partition, id: "0", cost: 0 })).toEqual({ settled: false });
    expect(await object.settle({ key: partition, id: "998", cost: 0 })).toEqual({ settled: true });
  });
});
