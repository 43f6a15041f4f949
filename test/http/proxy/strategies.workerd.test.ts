import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { isFull } from "../../mode.ts";
import { from, headgate, impatientObjects, statusOf } from "../harness.ts";

const visitor = from("203.0.113.7");
const second = 1_000;
const hour = 3_600_000;

/** A Monday that is the first of a month. It is ahead of the real clock, which alarms follow. */
const startMs = Date.UTC(2100, 1, 1);

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

type Limit = Record<string, unknown>;

/** A limit, its capacity, and the wait for a cost of 2 after three simultaneous requests. */
const forms: readonly [Limit, capacity: number, retryAfterMs: number][] = [
  [{ strategy: "fixed-window" }, 3, 60 * second],
  [{ strategy: "fixed-window", elastic: true }, 3, 60 * second],
  [{ strategy: "fixed-window", align: "clock", window: "7s" }, 3, 7 * second - (startMs % 7_000)],
  [{ strategy: "fixed-window", align: "calendar", window: "1d" }, 3, 24 * hour],
  [{ strategy: "fixed-window", align: "calendar", window: "1d", timezone: "Asia/Tokyo" }, 3, 15 * hour],
  [{ window: "1w", align: "calendar", strategy: "fixed-window" }, 3, 7 * 24 * hour],
  [{ window: "1mo" }, 3, 28 * 24 * hour],
  [{ strategy: "sliding-log" }, 3, 60 * second],
  // The whole window, then the time e until the weight of the three requests is below 2: 3 × (60 − e) / 60 < 2.
  [{ strategy: "sliding-window-counter" }, 3, 80 * second + 1],
  [{ strategy: "sliding-buckets" }, 3, 61 * second],
  [{ strategy: "sliding-buckets", edge: "drop" }, 3, 60 * second],
  [{ strategy: "sliding-buckets", buckets: 6 }, 3, 70 * second],
  [{ strategy: "sliding-buckets", precision: "20s" }, 3, 80 * second],
  [{ strategy: "token-bucket" }, 3, 40 * second],
  [{ strategy: "token-bucket", refill: "interval" }, 3, 60 * second],
  [{ strategy: "token-bucket", burst: 4 }, 4, 20 * second],
  [{ strategy: "leaky-bucket", mode: "police" }, 3, 40 * second],
  [{ strategy: "leaky-bucket", mode: "queue", burst: 2 }, 3, 40 * second],
  [{ strategy: "concurrency" }, 3, 60 * second],
];

it.for(forms)(
  "the proxy and /check decide from one state, and send RateLimit fields: 3 per minute with %j",
  async ([options, capacity, retryAfterMs]) => {
    const limit = { limit: 3, window: "1m", name: "three", ...options };
    const { send, check } = headgate({
      RATE_LIMITER: impatientObjects((waitMs) => waitMs % (20 * second) === 0).RATE_LIMITER,
      POLICIES: [{ name: "p", limits: [limit], timeout: "30s" }],
    });
    const key = "203.0.113.7";
    // A request through the proxy releases its slot at its end, and a check keeps its slot.
    const isConcurrency = options["strategy"] === "concurrency";
    const { status, headers } = await send("/", visitor);
    expect(status).toBe(200);
    expect(headers.get("RateLimit-Policy")).toMatch(/^"three";q=3(?:;qu="concurrent-requests")?;w=[1-9]\d*$/);
    expect(headers.get("RateLimit")).toMatch(isConcurrency ? /^"three";r=2$/ : /^"three";r=[23];t=[1-9]\d*$/);
    const spendOne = (): Promise<number> =>
      statusOf(isConcurrency ? check("POST", "/check", { key }) : send("/", visitor));
    const statuses = [await spendOne(), await spendOne()];
    if (isConcurrency) statuses.push(await spendOne());
    expect(new Set(statuses)).toEqual(new Set([200]));
    const spend = { key, cost: 2 };
    const denied = await check("POST", "/check", spend);
    expect(await denied.json()).toMatchObject({
      allowed: false,
      retryAfterMs,
      violated: ["three"],
      limits: [{ capacity, remaining: capacity - 3, retryAfterMs }],
    });
    const look = await check("POST", "/check", { ...spend, cost: 0 });
    expect(await look.json()).toMatchObject({ allowed: true });

    vi.setSystemTime(startMs + retryAfterMs - 1);
    // Uses a look, since a denied check would restart an elastic window.
    const early = await check("GET", "/check?key=203.0.113.7&cost=2");
    expect(await early.json()).toMatchObject({ allowed: false });
    if (options["elastic"] === true) return;
    vi.setSystemTime(startMs + retryAfterMs);
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(200);
  },
);

it("without a free slot, Retry-After is 1 second, or longer if another limit has a longer wait", async () => {
  const strategy = "fixed-window";
  const slots = { limit: 1, window: "1h", strategy: "concurrency", name: "slots" };
  const { send, check } = headgate({ POLICIES: [{ name: "p", limits: slots }] });
  expect(await statusOf(check("POST", "/check", { key: "203.0.113.7" }))).toBe(200);
  const full = await send("/", visitor);
  expect([full.status, full.headers.get("Retry-After")]).toEqual([429, "1"]);
  expect(await full.json()).toMatchObject({
    detail: 'The request exceeds the quota of "slots". Retry in 1 second.',
  });
  const both = headgate({ POLICIES: [{ name: "p", limits: [slots, "1/30s"], strategy }] });
  expect(await statusOf(both.check("POST", "/check", { key: "203.0.113.7" }))).toBe(200);
  const denied = await both.send("/", visitor);
  expect(denied.headers.get("Retry-After")).toBe("30");
  expect(denied.headers.get("RateLimit")).toBe('"slots";r=0, "p.1-per-30s";r=0;t=30');
});

it.for(["fixed-window", "sliding-log", "sliding-window-counter"])(
  "exactly 37 of the requests sent at once are allowed with 37/minute; 200/hour: %s",
  async (strategy) => {
    const requests = isFull ? 500 : 100;
    const limits = "37/minute; 200/hour";
    // A long timeout, because a slow machine would otherwise decide locally.
    const policy = { name: "p", limits, strategy, timeout: "30s" };
    const { send } = headgate({ POLICIES: [policy] });
    const statuses = await Promise.all(
      Array.from({ length: requests }, () => statusOf(send("/", from("203.0.113.7")))),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(37);
    expect(statuses.filter((status) => status === 429)).toHaveLength(requests - 37);
  },
);
