import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { isFull } from "../../mode.ts";
import { from, headgate, impatientObjects, statusOf } from "../harness.ts";

const visitor = from("203.0.113.7");
const second = 1_000;
const hour = 3_600_000;

/** A Monday and the first of a month, ahead of the real clock, which alarms follow. */
const startMs = Date.UTC(2100, 1, 1);

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

type Limit = Record<string, unknown>;

/** A limit, its capacity, and after how long a cost of 2 is allowed when three requests came at once. */
const forms: readonly [Limit, capacity: number, retryAfterMs: number][] = [
  [{ strategy: "fixed-window" }, 3, 60 * second],
  [{ strategy: "fixed-window", elastic: true }, 3, 60 * second],
  [{ strategy: "fixed-window", align: "clock", window: "7s" }, 3, 7 * second - (startMs % 7_000)],
  [{ strategy: "fixed-window", align: "calendar", window: "1d" }, 3, 24 * hour],
  [{ strategy: "fixed-window", align: "calendar", window: "1d", timezone: "Asia/Tokyo" }, 3, 15 * hour],
  [{ window: "1w", align: "calendar", strategy: "fixed-window" }, 3, 7 * 24 * hour],
  [{ window: "1mo" }, 3, 28 * 24 * hour],
  [{ strategy: "sliding-log" }, 3, 60 * second],
  // The window, and then the time until the weighted count of the three is below 2: 3 × (60 − e) / 60 < 2.
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
    // A request through the proxy releases its slot when it ends; a check keeps the slot.
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
    // A look, since a denied check restarts an elastic window.
    const early = await check("GET", "/check?key=203.0.113.7&cost=2");
    expect(await early.json()).toMatchObject({ allowed: false });
    if (options["elastic"] === true) return;
    vi.setSystemTime(startMs + retryAfterMs);
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(200);
  },
);

it("without a free slot, Retry-After is 1 second, or the longer wait of another limit", async () => {
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

/** Sends requests at each clock time (`m:ss`) and compares their statuses. */
async function expectStatuses(variables: Record<string, string>, lines: [string, number[]][]): Promise<void> {
  const { send } = headgate(variables);
  for (const [clock, expected] of lines) {
    const [minutes = 0, seconds = 0] = clock.split(":").map(Number);
    vi.setSystemTime(startMs + (minutes * 60 + seconds) * 1000);
    const statuses: number[] = [];
    while (statuses.length < expected.length) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await statusOf(send("/", from("203.0.113.7"))));
    }
    expect([clock, statuses]).toEqual([clock, expected]);
  }
}

const times = (count: number, status: number): number[] => Array<number>(count).fill(status);

describe("10 per minute over time", () => {
  it("a fixed window of 10 per minute begins with the first request at 0:45 and ends at 1:45", () =>
    expectStatuses({ LIMITS: "10/minute", STRATEGY: "fixed-window" }, [
      ["0:45", [200]],
      ["1:20", times(5, 200)],
      ["1:44", [...times(4, 200), 429, 429]],
      ["1:44.999", [429]],
      ["1:45", [...times(10, 200), 429]],
      ["2:44", [429]],
    ]));

  it("in a sliding log of 10 per minute, each request counts for one minute", () =>
    expectStatuses({ LIMITS: "10/minute", STRATEGY: "sliding-log" }, [
      ["0:10", [200]],
      ["0:20", times(2, 200)],
      ["0:30", times(4, 200)],
      ["0:50", [...times(3, 200), 429]],
      ["1:11", [200]],
      ["1:12", [429]],
      ["1:20", [200, 200, 429]],
    ]));
});

it("waiting retryAfterMs is enough through /check, and one millisecond less is not", async () => {
  for (const STRATEGY of ["fixed-window", "sliding-log", "sliding-window-counter"]) {
    const { check } = headgate({ LIMITS: "7/90s", STRATEGY, KEY: "global" });
    const spend = async (cost: number): Promise<{ allowed: boolean; retryAfterMs: number }> =>
      (await check("POST", "/check", { cost })).json();
    vi.setSystemTime(startMs);
    // oxlint-disable no-await-in-loop
    await spend(3);
    vi.setSystemTime(startMs + 31_007);
    await spend(4);
    const { allowed, retryAfterMs } = await spend(2);
    expect(allowed).toBe(false);
    vi.setSystemTime(startMs + 31_007 + retryAfterMs - 1);
    expect(await spend(2)).toMatchObject({ allowed: false, retryAfterMs: 1 });
    vi.setSystemTime(startMs + 31_007 + retryAfterMs);
    expect(await spend(2)).toMatchObject({ allowed: true });
    // oxlint-enable no-await-in-loop
  }
});

it.for(["fixed-window", "sliding-log", "sliding-window-counter"])(
  "exactly 37 of the requests sent at once are allowed with 37/minute; 200/hour: %s",
  async (strategy) => {
    const requests = isFull ? 500 : 100;
    const limits = "37/minute; 200/hour";
    // The long timeout keeps a slow machine from deciding locally.
    const policy = { name: "p", limits, strategy, timeout: "30s" };
    const { send } = headgate({ POLICIES: [policy] });
    const statuses = await Promise.all(
      Array.from({ length: requests }, () => statusOf(send("/", from("203.0.113.7")))),
    );
    expect(statuses.filter((status) => status === 200)).toHaveLength(37);
    expect(statuses.filter((status) => status === 429)).toHaveLength(requests - 37);
  },
);
