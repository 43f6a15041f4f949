/** The `X-RateLimit-*` fields, and the number of RateLimit fields in responses. */
import { parseList } from "structured-headers";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { legacyFields } from "../../../src/http/wire/rate-limit-fields.ts";
import { createMeter, type LimitInput, parseLimits } from "../../../src/strategies/index.ts";
import { from, headgate, statusOf } from "../harness.ts";

// A time between two full seconds, so that rounding has an effect.
const startMs = Date.UTC(2100, 0, 1) + 1;
beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const visitor = from("203.0.113.7");
const on = { LEGACY_HEADERS: true, STRATEGY: "fixed-window" };
const startSeconds = Math.floor(startMs / 1000);

const legacyOf = ({ headers }: Response): (string | null)[] =>
  ["Limit", "Remaining", "Reset"].map((name) => headers.get(`X-RateLimit-${name}`));

describe("X-RateLimit fields", () => {
  it("X-RateLimit fields are sent only with LEGACY_HEADERS", async () => {
    const { send } = headgate({ LIMITS: "1/minute" });
    expect(legacyOf(await send("/", visitor))).toEqual([null, null, null]);
    expect(legacyOf(await send("/", visitor))).toEqual([null, null, null]);
  });

  it("allowed and denied responses have X-RateLimit fields, and Reset is in whole seconds, rounded up", async () => {
    const { send } = headgate({ ...on, LIMITS: "1/minute" });
    const reset = String(startSeconds + 61);
    expect(legacyOf(await send("/", visitor))).toEqual(["1", "0", reset]);
    vi.setSystemTime(startMs + 30_000);
    const denied = await send("/", visitor);
    expect([denied.status, ...legacyOf(denied)]).toEqual([429, "1", "0", reset]);
    expect(denied.headers.get("Retry-After")).toBe("30");
  });

  it("X-RateLimit fields describe the limit with the fewest remaining units, and on a denial a violated limit", async () => {
    const { send } = headgate({ ...on, LIMITS: "2/minute; 100/hour" });
    expect(legacyOf(await send("/", visitor)).slice(0, 2)).toEqual(["2", "1"]);
    await statusOf(send("/", visitor));
    const denied = await send("/", visitor);
    expect(legacyOf(denied)).toEqual(["2", "0", String(startSeconds + 61)]);
  });

  it("X-RateLimit fields describe the limit with the fewest remaining units, at any position in the configuration", async () => {
    const { send } = headgate({ ...on, LIMITS: "100/hour; 2/minute; 50/day" });
    expect(legacyOf(await send("/", visitor)).slice(0, 2)).toEqual(["2", "1"]);
  });

  it("among limits with equal remaining units, X-RateLimit fields describe the one that resets last", async () => {
    const { send } = headgate({ ...on, LIMITS: "5/minute; 5/day; 5/hour" });
    const aDayLater = String(startSeconds + 86_401);
    expect(legacyOf(await send("/", visitor))).toEqual(["5", "4", aDayLater]);
  });

  it.for([
    ["/answer?X-RateLimit-Limit=9&X-RateLimit-Remaining=8&X-RateLimit-Reset=7", ["9", "8", "7"]],
    ["/answer?X-RateLimit-Remaining=8", [null, "8", null]],
  ] as const)("X-RateLimit fields of the origin are not changed: %s", async ([path, expected]) => {
    const { send } = headgate({ ...on, LIMITS: "5/minute" });
    expect(legacyOf(await send(path, visitor))).toEqual(expected);
  });

  it("X-RateLimit fields are absent on a redirect, and when no object has decided", async () => {
    const { send } = headgate({ ...on, LIMITS: "5/minute" });
    expect(legacyOf(await send("/redirect", visitor))).toEqual([null, null, null]);
    const closed = { name: "p", limits: "5/minute", onError: "closed" };
    const gone = headgate({ LEGACY_HEADERS: "true", POLICIES: [closed], RATE_LIMITER: {} });
    const response = await gone.send("/", visitor);
    expect([response.status, ...legacyOf(response)]).toEqual([503, null, null, null]);
  });

  it("X-RateLimit fields are exposed to scripts of the origins in CORS_ORIGINS", async () => {
    const { send } = headgate({ ...on, LIMITS: "1/minute", CORS_ORIGINS: "*" });
    const names = ["Limit", "Remaining", "Reset"].map((name) => `X-RateLimit-${name}`).join(", ");
    const allowed = await send("/answer?Access-Control-Allow-Origin=*", visitor);
    expect(allowed.headers.get("Access-Control-Expose-Headers")).toBe(`RateLimit, RateLimit-Policy, ${names}`);
    const denied = await send("/", {
      headers: { ...visitor.headers, Origin: "https://a.example" },
    });
    expect(denied.headers.get("Access-Control-Expose-Headers")).toBe(
      `RateLimit, RateLimit-Policy, Retry-After, ${names}`,
    );
  });
});

describe("X-RateLimit-Reset", () => {
  const resetOf = (limit: string | LimitInput, before: number, cost: number): unknown => {
    const meter = createMeter(parseLimits(limit, { strategy: "sliding-log" }));
    meter.consume(before, startMs);
    const fields = legacyFields([meter.consume(cost, startMs + 10_000)], startMs + 10_000);
    return [fields["X-RateLimit-Remaining"], Number(fields["X-RateLimit-Reset"]) - startSeconds - 10];
  };
  const slots = { limit: 2, window: "10m", strategy: "concurrency" };

  it.for<[string, string | LimitInput, number, number, [string, number]]>([
    ["the time when units become available", "5/minute", 2, 1, ["2", 51]],
    ["the time when a denied cost is allowed", "5/minute", 4, 3, ["1", 51]],
    ["one second later for slots, like Retry-After", slots, 2, 1, ["0", 2]],
    ["the time of the full reset for a cost above the capacity", "5/minute", 2, 6, ["3", 51]],
  ])("X-RateLimit-Reset is %s", ([, limit, before, cost, expected]) => {
    expect(resetOf(limit, before, cost)).toEqual(expected);
  });

  it("during a ban, X-RateLimit-Reset is the end of the ban, and Remaining is 0", async () => {
    const policy = { name: "p", limits: "1/minute", strategy: "fixed-window", ban: "1h" };
    const { send } = headgate({ LEGACY_HEADERS: true, POLICIES: [policy] });
    await statusOf(send("/", visitor));
    await statusOf(send("/", visitor));
    vi.setSystemTime(startMs + 600_000);
    const banned = await send("/", visitor);
    expect(legacyOf(banned)).toEqual(["1", "0", String(startSeconds + 3_601)]);
  });
});

it("a response under 64 policies of 4 limits has at most 16 items and 2 KB of RateLimit fields", async () => {
  const POLICIES = Array.from({ length: 64 }, (_, index) => ({
    name: `policy-with-a-long-name-${index}`,
    limits: `${1_000 - index}/minute; ${2_000 - index}/hour; ${3_000 - index}/day; 4000/week`,
  }));
  const legacy = { LEGACY_HEADERS: "true" };
  const { send } = headgate({ POLICIES, ...legacy });
  const response = await send("/", visitor);
  await response.body?.cancel();
  expect(response.status).toBe(200);
  const fields = ["RateLimit", "RateLimit-Policy"].map((name) => response.headers.get(name) ?? "");
  const expected = Array.from({ length: 16 }, (_, index) => `policy-with-a-long-name-${63 - index}`);
  for (const field of fields) {
    const items = parseList(field);
    expect(items.map(([name]) => (typeof name === "string" ? name : "").replace(/\..*$/, ""))).toEqual(expected);
  }
  expect(fields.join("").length).toBeLessThan(2_048);
  expect(response.headers.get("X-RateLimit-Remaining")).toBe("936");
});
