/** An abort signal ends a call at once, in every phase of the call. */
import { describe, expect, it } from "vitest";
import { createClientAt, type ServiceClient } from "../../../src/sdk/client/client.ts";
import { allow, problem, silence } from "./faulty-server.ts";
import { setUp, thrownBy } from "./setup.ts";
import { SkippingClock, timeoutMs } from "./skipping-clock.ts";

const key = { policy: "api", key: "k" };
const reason = new Error("the caller has gone");

const aborted = (): AbortSignal => AbortSignal.abort(reason);

describe("a call whose signal aborts", () => {
  it("a call whose signal is already aborted is not sent", async () => {
    const { limiter, clock, requests } = await setUp([allow()]);
    expect(await thrownBy(limiter.check(key, { signal: aborted() }))).toBe(reason);
    expect([requests.length, clock.pending]).toEqual([0, 0]);
  });

  it("a call in flight throws the reason of its signal at once, and is not sent again", async () => {
    const { limiter, clock, requests } = await setUp([silence]);
    const controller = new AbortController();
    const looking = thrownBy(limiter.look(key, { signal: controller.signal }));
    await expect.poll(() => requests.length).toBe(1);
    controller.abort(reason);
    expect(await looking).toBe(reason);
    expect([requests.length, clock.pending]).toEqual([1, 0]);
  });

  it("a call whose fetch itself aborts the signal throws the reason at once", async () => {
    const controller = new AbortController();
    const { limiter, clock } = await setUp([], {
      fetch: () => {
        controller.abort(reason);
        return new Promise(() => undefined);
      },
    });
    expect(await thrownBy(limiter.look(key, { signal: controller.signal }))).toBe(reason);
    expect(clock.pending).toBe(0);
  });

  it("a call that waits before its next attempt throws the reason of its signal at once", async () => {
    const { limiter, clock, requests } = await setUp([problem(429, { "Retry-After": "3" })]);
    clock.stop();
    const controller = new AbortController();
    const checking = thrownBy(limiter.check(key, { signal: controller.signal }));
    await expect.poll(() => clock.waits).toEqual([3_000]);
    controller.abort(reason);
    expect(await checking).toBe(reason);
    expect([requests.length, clock.pending]).toEqual([1, 0]);
  });

  it("a call that the limits on calls hold back throws the reason of its signal at once", async () => {
    const { limiter, clock, requests } = await setUp([allow({ RateLimit: '"a";r=0;t=3' })]);
    await limiter.check(key);
    clock.stop();
    const controller = new AbortController();
    const checking = thrownBy(limiter.check(key, { signal: controller.signal }));
    await expect.poll(() => clock.waits).toEqual([3_000]);
    controller.abort(reason);
    expect(await checking).toBe(reason);
    expect([requests.length, clock.pending]).toEqual([1, 0]);
  });

  it("a call whose signal aborts without a reason throws an AbortError", async () => {
    const { limiter } = await setUp([silence]);
    const controller = new AbortController();
    const checking = thrownBy(limiter.check(key, { signal: controller.signal }));
    controller.abort();
    expect(await checking).toMatchObject({ name: "AbortError" });
  });

  it("a call that has ended leaves no listener on its signal", async () => {
    const { limiter } = await setUp([problem(429, { "Retry-After": "1" }), allow()]);
    const { signal } = new AbortController();
    let listeners = 0;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...parameters: Parameters<typeof add>) => {
      listeners += 1;
      add(...parameters);
    };
    signal.removeEventListener = (...parameters: Parameters<typeof remove>) => {
      listeners -= 1;
      remove(...parameters);
    };
    await limiter.check(key, { signal });
    expect(listeners).toBe(0);
  });
});

describe("a call over a service binding", () => {
  const clock = new SkippingClock();
  const never = (): Promise<never> => new Promise(() => undefined);
  const service = { check: never, look: never, forget: never, reserve: never, settle: never };
  const limiter: ServiceClient = createClientAt(clock, () => 0, {
    service,
    timeoutMs,
    retries: 0,
  });

  it("a call over a service binding throws the reason of its signal at once", async () => {
    const controller = new AbortController();
    const checking = thrownBy(limiter.check(key, { signal: controller.signal }));
    controller.abort(reason);
    expect(await checking).toBe(reason);
    expect(clock.pending).toBe(0);
  });

  it("a call over a service binding ends after timeoutMs", async () => {
    const checking = thrownBy(limiter.check(key));
    await Promise.resolve();
    clock.expire();
    expect(await checking).toMatchObject({
      message: `service.check(): no answer within ${timeoutMs} ms (timeoutMs)`,
      isSafeToRepeat: false,
    });
  });
});
