import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

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

/** A limit, how long after three requests at once another of cost 2 fits, and how many units it holds. */
const forms: readonly [Limit, capacity: number, retryAfterMs: number][] = [
  [{ strategy: "fixed-window" }, 3, 60 * second],
  [{ strategy: "fixed-window", elastic: true }, 3, 60 * second],
  [{ strategy: "fixed-window", align: "clock", window: "7s" }, 3, 7 * second - (startMs % 7_000)],
  [{ strategy: "fixed-window", align: "calendar", window: "1d" }, 3, 24 * hour],
  [
    { strategy: "fixed-window", align: "calendar", window: "1d", timezone: "Asia/Tokyo" },
    3,
    15 * hour,
  ],
  [{ window: "1w", align: "calendar", strategy: "fixed-window" }, 3, 7 * 24 * hour],
  [{ window: "1mo" }, 3, 28 * 24 * hour],
  [{ strategy: "sliding-log" }, 3, 60 * second],
  // A minute, and until no more than one of the three counts: 3 × (60 − e) / 60 < 2.
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

describe.each(forms)("a limit of 3 that is configured as %j", (options, capacity, retryAfterMs) => {
  const limit = { limit: 3, window: "1m", name: "three", ...options };

  it("decides for the proxy and for /check, from one state", async () => {
    vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    const { send, check } = headgate({
      POLICIES: [{ name: "p", limits: [limit], timeout: "30s" }],
    });
    const key = "203.0.113.7";
    // A slot that a request of the proxy has taken is free again after it.
    const isHeld = options["strategy"] !== "concurrency";
    const one = (): Promise<number> =>
      statusOf(isHeld ? send("/", visitor) : check("POST", "/check", { key }));
    expect([await one(), await one(), await one()]).toEqual([200, 200, 200]);
    const spend = { key, cost: 2 };
    const denied = await check("POST", "/check", spend);
    expect(await denied.json()).toMatchObject({
      allowed: false,
      retryAfterMs,
      violated: ["three"],
      limits: [{ capacity, remaining: capacity - 3, retryAfterMs }],
    });
    const asked = await check("POST", "/check", { ...spend, cost: 0 });
    expect(await asked.json()).toMatchObject({ allowed: true });

    vi.setSystemTime(startMs + retryAfterMs - 1);
    // A look: to be asked restarts an elastic window.
    const early = await check("GET", "/check?key=203.0.113.7&cost=2");
    expect(await early.json()).toMatchObject({ allowed: false });
    if (options["elastic"] === true) return;
    vi.setSystemTime(startMs + retryAfterMs);
    expect(await statusOf(send("/", visitor))).toBe(200);
    expect(await statusOf(send("/", visitor))).toBe(200);
  });

  it("is named and measured in the RateLimit fields", async () => {
    vi.spyOn(scheduler, "wait").mockResolvedValue(undefined);
    const { send } = headgate({ POLICIES: [{ name: "p", limits: [limit], timeout: "30s" }] });
    const { headers } = await send("/", visitor);
    expect(headers.get("RateLimit-Policy")).toMatch(
      /^"three";q=3(?:;qu="concurrent-requests")?;w=[1-9]\d*$/,
    );
    expect(headers.get("RateLimit")).toMatch(
      options["strategy"] === "concurrency" ? /^"three";r=2$/ : /^"three";r=[23];t=[1-9]\d*$/,
    );
  });
});

describe("a request that finds no slot", () => {
  it("is told to wait a second, or as long as another limit asks for", async () => {
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
});
