import { describe, expect, it, vi } from "vitest";
import { from, headgate, statusOf } from "../harness.ts";

const visitor = from("203.0.113.7");

const call = (): Promise<never> => Promise.reject(new Error("the object is gone"));

/** A Headgate whose objects give no answer. */
const without = (onError: string): ReturnType<typeof headgate> => {
  return headgate({
    POLICIES: [{ name: "p", limits: "2/minute", strategy: "fixed-window", onError }],
    RATE_LIMITER: { getByName: () => ({ check: call, look: call, refund: call, forget: call }) },
  });
};

describe("while there is no decision", () => {
  it("a closed policy answers 503 with a wait, and no RateLimit fields", async () => {
    const response = await without("closed").send("/", visitor);
    expect([response.status, response.headers.get("Retry-After")]).toEqual([503, "1"]);
    expect(response.headers.has("RateLimit")).toBe(false);
    expect(await response.json()).toMatchObject({ type: "about:blank", status: 503 });
  });

  it("a closed policy beside one that denies by the isolate's own count answers 503", async () => {
    const limits = { limits: "1/minute", strategy: "fixed-window" };
    const { send } = headgate({
      POLICIES: [
        { name: "denying", ...limits, cost: 2, onError: "local" },
        { name: "closed", ...limits, onError: "closed" },
      ],
      RATE_LIMITER: { getByName: () => ({ check: call, look: call, refund: call, forget: call }) },
    });
    const response = await send("/", visitor);
    expect([response.status, response.headers.get("Retry-After")]).toEqual([503, "1"]);
    expect(await response.json()).toMatchObject({ status: 503, title: "Service Unavailable" });
  });

  it("an open policy forwards, without RateLimit fields", async () => {
    const response = await without("open").send("/", visitor);
    expect([response.status, response.headers.has("RateLimit-Policy")]).toEqual([200, false]);
  });

  it("a local policy refuses by the isolate's own count, which is not told in RateLimit fields", async () => {
    const { send } = without("local");
    expect([await statusOf(send("/", visitor)), await statusOf(send("/", visitor))]).toEqual([
      200, 200,
    ]);
    const response = await send("/", visitor);
    expect([response.status, response.headers.get("Retry-After")]).toEqual([429, "60"]);
    expect(response.headers.has("RateLimit")).toBe(false);
  });

  it("/check answers 503, or by the isolate's own count where the policy is local", async () => {
    const undecided = without("open");
    expect(await statusOf(undecided.check("POST", "/check", { key: "203.0.113.7" }))).toBe(503);
    expect(await statusOf(undecided.check("DELETE", "/check?key=203.0.113.7"))).toBe(503);
    const response = await without("local").check("POST", "/check", {
      key: "203.0.113.7",
      cost: 2,
    });
    expect(await response.json()).toMatchObject({
      allowed: true,
      headers: {},
      limits: [{ remaining: 0 }],
    });
  });
});

describe("a fault of Headgate's own", () => {
  it("while it starts is a 500 for every request and call, and one line in the log", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const limits = Object.defineProperty({}, "limit", {
      enumerable: true,
      get: () => {
        throw new RangeError("no such thing");
      },
    });
    const { send } = headgate({ LIMITS: limits });
    for (const path of ["/", "/", "/check/health"]) {
      // oxlint-disable-next-line no-await-in-loop
      const response = await send(path, visitor);
      // oxlint-disable-next-line no-await-in-loop
      expect(await response.json()).toMatchObject({ status: 500, title: "Internal Server Error" });
    }
    expect(errors.mock.calls).toEqual([
      ['{"event":"internal-error","error":"RangeError: no such thing"}'],
    ]);
    errors.mockRestore();
  });

  it("is a 500 in problem details, and a line in the log", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const { send } = headgate({ LIMITS: "2/minute" });
    const digest = vi.spyOn(crypto.subtle, "sign").mockRejectedValue(new Error("no entropy"));
    const response = await send("/", visitor);
    expect(await response.json()).toMatchObject({ status: 500, title: "Internal Server Error" });
    expect(errors.mock.calls.join()).toContain(
      '{"event":"internal-error","error":"Error: no entropy"}',
    );
    digest.mockRestore();
    errors.mockRestore();
  });
});

describe("a client that goes away before its request is decided", () => {
  it("leaves the Worker running until the decision is known, so that nothing stays spent for it", async () => {
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<never>();
    const check = (): Promise<never> => {
      asked.resolve();
      return answer.promise;
    };
    const { begin } = headgate({
      POLICIES: [{ name: "p", limits: "5/minute", onError: "closed", timeout: "30s" }],
      RATE_LIMITER: { getByName: () => ({ check, batch: check, refund: call }) },
    });
    const { response, over } = begin("/", visitor);
    await asked.promise;
    let isOver = false;
    const ended = over().then(() => (isOver = true));
    await scheduler.wait(20);
    expect(isOver).toBe(false);
    answer.reject(new Error("the object is gone"));
    expect(await statusOf(response)).toBe(503);
    await ended;
    expect(isOver).toBe(true);
  });
});
