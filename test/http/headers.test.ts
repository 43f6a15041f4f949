import { parseList, serializeList } from "structured-headers";
import { describe, expect, it } from "vitest";
import {
  addRateLimitFields,
  type RateLimitFields,
  rateLimitFields,
} from "../../src/http/headers.ts";
import { retryAfterSeconds } from "../../src/http/problems.ts";
import { createMeter, parseLimits } from "../../src/strategies/index.ts";

const fieldsOf = (notation: string, cost: number, strategy = "fixed-window"): RateLimitFields => {
  const limits = parseLimits(notation, { strategy });
  return rateLimitFields(limits, [createMeter(limits).consume(cost, 1_000_000)]);
};

describe("the RateLimit fields", () => {
  it("are canonical structured fields", () => {
    const fields = fieldsOf("10/minute; 1000/day; 5/90s", 3);
    for (const value of [fields.RateLimit ?? "", fields["RateLimit-Policy"] ?? ""]) {
      expect(serializeList(parseList(value))).toBe(value);
    }
    expect(fields.RateLimit).toBe(
      '"default.10-per-1m";r=7;t=60, "default.1000-per-1d";r=997;t=86400, "default.5-per-90s";r=2;t=90',
    );
  });

  it("leave out `w` for a window of less than a second, and round others up", () => {
    const { "RateLimit-Policy": policy } = fieldsOf("5/500ms; 5/1500ms", 1);
    expect(policy).toBe('"default.5-per-500ms";q=5, "default.5-per-1500ms";q=5;w=2');
  });

  it("say the whole window while nothing has been used, and never more", () => {
    expect(fieldsOf("5/minute", 0).RateLimit).toBe('"default";r=5;t=60');
    const full = fieldsOf("5/minute", 5, "sliding-window-counter");
    // The next unit comes a millisecond after the window's end.
    expect(full.RateLimit).toBe('"default";r=0;t=60');
  });

  it("promise no wait when none would do", () => {
    expect(fieldsOf("5/minute", 6)).not.toHaveProperty("Retry-After");
  });
});

describe("the fields of an origin", () => {
  it("are kept, and ours appended, when they are lists of names", () => {
    const headers = new Headers({ RateLimit: '"edge";r=1;t=1' });
    addRateLimitFields(headers, { RateLimit: '"ours";r=2;t=2', "RateLimit-Policy": '"ours";q=2' });
    expect(headers.get("RateLimit")).toBe('"edge";r=1;t=1, "ours";r=2;t=2');
    expect(headers.get("RateLimit-Policy")).toBe('"ours";q=2');
  });

  it.for(["limit=100, remaining=5", "5", "100;w=60", '"broken'])("are left alone: %j", (value) => {
    const headers = new Headers({ RateLimit: value });
    addRateLimitFields(headers, { RateLimit: '"ours";r=2;t=2', "RateLimit-Policy": '"ours";q=2' });
    // Neither of ours: a name in RateLimit is one that RateLimit-Policy explains.
    expect(Object.fromEntries(headers)).toEqual({ ratelimit: value });
  });
});

describe("Retry-After", () => {
  it("is in whole seconds, rounded up, from 1 to 31 bits", () => {
    expect([0, 1, 1000, 1001, 1e15].map(retryAfterSeconds)).toEqual([1, 1, 1, 2, 2_147_483_647]);
  });
});
