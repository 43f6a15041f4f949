import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { legacyFields } from "../../../src/http/wire/legacy-headers.ts";
import { createMeter, type LimitInput, parseLimits } from "../../../src/strategies/index.ts";
import { from, headgate, statusOf } from "../harness.ts";

// Not at the beginning of a second.
const startMs = Date.UTC(2100, 0, 1) + 1;
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const visitor = from("203.0.113.7");
const on = { LEGACY_HEADERS: true, STRATEGY: "fixed-window" };
const startSeconds = Math.floor(startMs / 1000);

const legacyOf = ({ headers }: Response): (string | null)[] =>
  ["Limit", "Remaining", "Reset"].map((name) => headers.get(`X-RateLimit-${name}`));

describe("X-RateLimit fields", () => {
  it("are sent only where LEGACY_HEADERS is on", async () => {
    const { send } = headgate({ LIMITS: "1/minute" });
    expect(legacyOf(await send("/", visitor))).toEqual([null, null, null]);
    expect(legacyOf(await send("/", visitor))).toEqual([null, null, null]);
  });

  it("tell of a response and of a denial, with an instant in whole seconds, rounded up", async () => {
    const { send } = headgate({ ...on, LIMITS: "1/minute" });
    const reset = String(startSeconds + 61);
    expect(legacyOf(await send("/", visitor))).toEqual(["1", "0", reset]);
    vi.setSystemTime(startMs + 30_000);
    const denied = await send("/", visitor);
    expect([denied.status, ...legacyOf(denied)]).toEqual([429, "1", "0", reset]);
    expect(denied.headers.get("Retry-After")).toBe("30");
  });

  it("tell of the limit of which least is left, and on a denial of one that is violated", async () => {
    const { send } = headgate({ ...on, LIMITS: "2/minute; 100/hour" });
    expect(legacyOf(await send("/", visitor)).slice(0, 2)).toEqual(["2", "1"]);
    await statusOf(send("/", visitor));
    const denied = await send("/", visitor);
    expect(legacyOf(denied)).toEqual(["2", "0", String(startSeconds + 61)]);
  });

  it("report the limit with the least remaining wherever it stands in the list of limits", async () => {
    const { send } = headgate({ ...on, LIMITS: "100/hour; 2/minute; 50/day" });
    expect(legacyOf(await send("/", visitor)).slice(0, 2)).toEqual(["2", "1"]);
  });

  it("report, of limits with equally little remaining, the one that is full again last", async () => {
    const { send } = headgate({ ...on, LIMITS: "5/minute; 5/day; 5/hour" });
    const aDayLater = String(startSeconds + 86_401);
    expect(legacyOf(await send("/", visitor))).toEqual(["5", "4", aDayLater]);
  });

  it.for([
    ["/answer?X-RateLimit-Limit=9&X-RateLimit-Remaining=8&X-RateLimit-Reset=7", ["9", "8", "7"]],
    ["/answer?X-RateLimit-Remaining=8", [null, "8", null]],
  ] as const)("leave those of the origin alone: %s", async ([path, expected]) => {
    const { send } = headgate({ ...on, LIMITS: "5/minute" });
    expect(legacyOf(await send(path, visitor))).toEqual(expected);
  });

  it("are not on a redirect, nor without a decision of the object", async () => {
    const { send } = headgate({ ...on, LIMITS: "5/minute" });
    expect(legacyOf(await send("/redirect", visitor))).toEqual([null, null, null]);
    const closed = { name: "p", limits: "5/minute", onError: "closed" };
    const gone = headgate({ LEGACY_HEADERS: "true", POLICIES: [closed], RATE_LIMITER: {} });
    const refused = await gone.send("/", visitor);
    expect([refused.status, ...legacyOf(refused)]).toEqual([503, null, null, null]);
  });

  it("can be read by the scripts that may read the others", async () => {
    const { send } = headgate({ ...on, LIMITS: "1/minute", CORS_ORIGINS: "*" });
    const names = ["Limit", "Remaining", "Reset"].map((name) => `X-RateLimit-${name}`).join(", ");
    const allowed = await send("/answer?Access-Control-Allow-Origin=*", visitor);
    expect(allowed.headers.get("Access-Control-Expose-Headers")).toBe(
      `RateLimit, RateLimit-Policy, ${names}`,
    );
    const denied = await send("/", {
      headers: { ...visitor.headers, Origin: "https://a.example" },
    });
    expect(denied.headers.get("Access-Control-Expose-Headers")).toBe(
      `RateLimit, RateLimit-Policy, Retry-After, ${names}`,
    );
  });
});

describe("the instant of a reset", () => {
  const resetOf = (written: string | LimitInput, before: number, cost: number): unknown => {
    const meter = createMeter(parseLimits(written, { strategy: "sliding-log" }));
    meter.consume(before, startMs);
    const fields = legacyFields([meter.consume(cost, startMs + 10_000)], startMs + 10_000);
    return [
      fields["X-RateLimit-Remaining"],
      Number(fields["X-RateLimit-Reset"]) - startSeconds - 10,
    ];
  };
  const slots = { limit: 2, window: "10m", strategy: "concurrency" };

  it.for<[string, string | LimitInput, number, number, [string, number]]>([
    ["when more is left again", "5/minute", 2, 1, ["2", 51]],
    ["when this cost fits", "5/minute", 4, 3, ["1", 51]],
    ["of slots a second later, as told", slots, 2, 1, ["0", 2]],
    ["of a cost that never fits, when all is left again", "5/minute", 2, 6, ["3", 51]],
  ])("is %s", ([, limit, before, cost, expected]) => {
    expect(resetOf(limit, before, cost)).toEqual(expected);
  });

  it("of a ban is its end, and nothing remains until then", async () => {
    const policy = { name: "p", limits: "1/minute", strategy: "fixed-window", ban: "1h" };
    const { send } = headgate({ LEGACY_HEADERS: true, POLICIES: [policy] });
    await statusOf(send("/", visitor));
    await statusOf(send("/", visitor));
    vi.setSystemTime(startMs + 600_000);
    const banned = await send("/", visitor);
    expect(legacyOf(banned)).toEqual(["1", "0", String(startSeconds + 3_601)]);
  });
});
