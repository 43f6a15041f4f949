/** How the client reads `Retry-After` and `RateLimit`. */
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { replenishMsIn, retryAfterMsIn } from "../../../src/sdk/client/http.ts";
import { rateLimitFields } from "../../../src/http/wire/rate-limit-fields.ts";
import { createMeter, parseLimits } from "../../../src/strategies/index.ts";
import { forAll } from "../../for-all.ts";

const nowMs = Date.UTC(1994, 10, 6, 8, 49, 30);
const retryAfterMs = (value: string, others: Record<string, string> = {}): number | null =>
  retryAfterMsIn(new Headers({ "Retry-After": value, ...others }), nowMs);

describe("Retry-After", () => {
  it.each([
    ["0", 0],
    ["1", 1_000],
    [" 120 ", 120_000],
    ["2147483648", 2 ** 31 - 1],
    ["99999999999999999999", 2 ** 31 - 1],
    ["Sun, 06 Nov 1994 08:49:37 GMT", 7_000],
    ["Sunday, 06-Nov-94 08:49:37 GMT", 7_000],
    ["Sun Nov  6 08:49:37 1994", 7_000],
    ["Sun, 06 Nov 1994 08:49:29 GMT", 0],
    ["Fri, 31 Dec 9999 23:59:59 GMT", 2 ** 31 - 1],
  ])("Retry-After: %s is a wait of %i ms", (value, ms) => {
    expect(retryAfterMs(value)).toBe(ms);
  });

  it.each([
    "",
    "-1",
    "1.5",
    "1e3",
    "soon",
    "1, 2",
    "2026-11-08T08:00:00Z",
    "Sun, 06 Nov 1994",
    "Sun, 36 Nov 1994 08:49:37 GMT",
  ])("Retry-After: %j is ignored", (value) => {
    expect(retryAfterMs(value)).toBeNull();
  });

  it("a Retry-After with a date is compared with the Date of the response, because the server's clock may differ", () => {
    const Date = "Sun, 06 Nov 1994 08:49:35 GMT";
    expect(retryAfterMs("Sun, 06 Nov 1994 08:49:37 GMT", { Date })).toBe(2_000);
    expect(retryAfterMs("Sun, 06 Nov 1994 08:49:37 GMT", { Date: "now" })).toBe(7_000);
  });

  it(
    "any date is a wait until that date, to the second",
    forAll([fc.integer({ min: 0, max: 2_000_000 })], (seconds) => {
      const date = new Date(nowMs + seconds * 1_000).toUTCString();
      expect(retryAfterMs(date)).toBe(seconds * 1_000);
    }),
  );
});

describe("RateLimit", () => {
  it.each([
    ['"a";r=0;t=3', 3_000],
    ["a;r=0;t=3", 3_000],
    ['"a" ; r=0; t=3', 0],
    ['"a";r=0;t=3;pk=:YQ==:', 3_000],
    ['"a";r=0;t=3, "b";r=0;t=5, "c";r=1;t=9', 5_000],
    ['"a";r=0;t="3"', 0],
    ['"a";r=0.0;t=3', 3_000],
    ['"a";t=3', 0],
    ['"a";r=0', 0],
    ['"a";r=1;t=3', 0],
    ["limit=5, remaining=0, reset=3", 0],
    ['"a";r=0;t=-3', 0],
    ['"a";r=0;t=3,', 0],
    ["", 0],
    ['("a" "b");r=0;t=3', 3_000],
  ])("RateLimit: %s is a wait of %i ms", (value, ms) => {
    expect(replenishMsIn(new Headers({ RateLimit: value }))).toBe(ms);
  });

  it(
    "the fields of a fixed window that leaves nothing are a wait that suffices",
    forAll([fc.integer({ min: 1, max: 50 }), fc.integer({ min: 1, max: 50 }), fc.nat(200_000)], (most, spent, atMs) => {
      const limits = parseLimits([`${most}/minute`, `${most}/second`], {
        policy: "p",
        strategy: "fixed-window",
      });
      const meter = createMeter(limits);
      meter.consume(Math.min(spent, most), atMs);
      const decision = meter.look(1, atMs);
      const headers = new Headers(Object.entries(rateLimitFields(limits, [decision])));
      const waitMs = replenishMsIn(headers);
      expect(waitMs > 0).toBe(spent >= most);
      expect(meter.look(1, atMs + waitMs).allowed || waitMs === 0).toBe(true);
    }),
  );
});
