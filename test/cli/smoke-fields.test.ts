/** The fields that the smoke test reads from responses. */
import { describe, expect, it } from "vitest";
import { sentLimits, sentWaitSeconds, shownLimits } from "../../src/cli/smoke-answer.ts";

const fields = (policy: string, limit?: string): Headers =>
  new Headers({ "RateLimit-Policy": policy, ...(limit !== undefined && { RateLimit: limit }) });

describe("the RateLimit fields of a response", () => {
  it("each limit has its quota, window and remaining units", () => {
    const headers = fields('"a";q=5;w=10, "slots";q=2;qu="concurrent-requests"', '"a";r=4;t=10');
    const limits = sentLimits(headers);
    expect(limits).toEqual([
      { name: "a", quota: 5, windowSeconds: 10, remaining: 4 },
      { name: "slots", quota: 2, windowSeconds: null, remaining: null },
    ]);
    expect(shownLimits(limits)).toBe('"a" 4 of 5 per 10 s, "slots" 2');
  });

  it("a response without fields has no limits", () => {
    expect(sentLimits(new Headers())).toEqual([]);
  });

  it.each([
    ["RateLimit-Policy is not a structured field: ", '"a";q=', undefined],
    ["RateLimit-Policy has an item that is not a string", "5;w=1", undefined],
    ['"a" has no whole number q', '"a";w=10', undefined],
    ['"a" has no whole number q', '"a";q=-1', undefined],
    ['"a" has no whole number w', '"a";q=5;w=1.5', undefined],
    ['"a" has no whole number r', '"a";q=5', '"a";t=1'],
    ['"a" has r=6, which exceeds q=5', '"a";q=5', '"a";r=6'],
    ['"a" has t=11, which exceeds w=10', '"a";q=5;w=10', '"a";r=1;t=11'],
    ['RateLimit lists "b", which RateLimit-Policy does not', '"a";q=5', '"b";r=1'],
  ])("fields are rejected because %s", (message, policy, limit) => {
    expect(() => sentLimits(fields(policy, limit))).toThrow(message);
  });
});

describe("Retry-After of a denial", () => {
  it("seconds are read as a number", () => {
    expect(sentWaitSeconds(new Headers({ "Retry-After": "12" }))).toBe(12);
  });

  it.each(["0", "-1", "1.5", "Wed, 21 Oct 2026 07:28:00 GMT", ""])('the value "%s" is rejected', (value) => {
    expect(() => sentWaitSeconds(new Headers({ "Retry-After": value }))).toThrow(
      `expected Retry-After with seconds, got "${value}"`,
    );
  });

  it("a missing field is rejected", () => {
    expect(() => sentWaitSeconds(new Headers())).toThrow("got none");
  });
});
