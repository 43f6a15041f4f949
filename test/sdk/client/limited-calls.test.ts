/** The client obeys the RateLimit fields of limits on the calls of `/check` themselves. */
import { expect, it } from "vitest";
import { createClientAt } from "../../../src/sdk/client/client.ts";
import { TestApp } from "../../http/app.ts";
import { allow, allowed, problem } from "./faulty-server.ts";
import { setUp, thrownBy } from "./setup.ts";
import { SkippingClock, timeoutMs } from "./skipping-clock.ts";

const key = { policy: "api", key: "k" };

it("after an answer without remaining units, the next call waits until units are available", async () => {
  const { limiter, clock, requests } = await setUp([allow({ RateLimit: '"a";r=0;t=3' }), allow()]);
  await limiter.check(key);
  expect(clock.waits).toEqual([]);
  await limiter.check(key);
  await limiter.check(key);
  expect([clock.waits, requests.length]).toEqual([[3_000], 3]);
});

it("the time since the answer shortens the wait of the next call", async () => {
  const { limiter, clock } = await setUp([allow({ RateLimit: '"a";r=0;t=3' }), allow()]);
  await limiter.check(key);
  clock.advance(2_000);
  await limiter.check(key);
  clock.advance(10_000);
  await limiter.check(key);
  expect(clock.waits).toEqual([1_000]);
});

it("an answer to one operation does not hold back other operations, which may have no limit", async () => {
  const { limiter, clock } = await setUp([allow({ RateLimit: '"a";r=0;t=3' }), allow()]);
  await limiter.check(key);
  await limiter.look(key);
  expect(clock.waits).toEqual([]);
});

it("a call that would wait longer than maxWaitMs is not sent, and its error states the wait", async () => {
  const { limiter, requests, url } = await setUp([allow({ RateLimit: '"a";r=0;t=6' })]);
  await limiter.check(key);
  expect(await thrownBy(limiter.check(key))).toMatchObject({
    message: `POST ${url}/check: not sent, because the limits on calls leave none for 6000 ms, which exceeds maxWaitMs (5000 ms)`,
    status: null,
    retryAfterMs: 6_000,
    isSafeToRepeat: true,
  });
  expect(requests).toHaveLength(1);
});

it("an answer holds back calls for at most a minute, because the limits may be raised in the meantime", async () => {
  const { limiter, clock, requests } = await setUp([allow({ RateLimit: '"a";r=0;t=3600' }), allow()]);
  await limiter.check(key);
  clock.advance(59_999);
  expect(await thrownBy(limiter.check(key))).toBeNull();
  expect(clock.waits).toEqual([1]);
  expect(requests).toHaveLength(2);
});

it("a clock that steps back does not prolong the wait of the next call", async () => {
  const { limiter, clock } = await setUp([allow({ RateLimit: '"a";r=0;t=3' }), allow()]);
  await limiter.check(key);
  clock.advance(-3_600_000);
  await limiter.check(key);
  expect(clock.waits).toEqual([]);
});

it("a 429 that comes from limits on calls also holds back the next call", async () => {
  const { limiter, clock } = await setUp([problem(429, { "Retry-After": "3" }), allow()], {
    retries: 0,
  });
  expect(await thrownBy(limiter.check(key))).toMatchObject({ status: 429 });
  await limiter.check(key);
  expect(clock.waits).toEqual([3_000]);
});

it("a 429 for too many open reservations concerns one key, so it holds back no calls", async () => {
  const full = problem(429, { "Retry-After": "3" }, { reason: "reservations" });
  const { limiter, clock } = await setUp([full, allow()], { retries: 0 });
  const reserving = thrownBy(limiter.reserve({ ...key, ttlMs: 1_000 }));
  expect(await reserving).toMatchObject({ status: 429, problem: { reason: "reservations" } });
  await thrownBy(limiter.reserve({ ...key, ttlMs: 1_000 }));
  expect(clock.waits).toEqual([]);
});

it("waiting calls are sent one by one if each answer leaves no units for the next", async () => {
  const clock = new SkippingClock();
  const sentAtMs: number[] = [];
  const limiter = createClientAt(clock, Math.random, {
    url: "https://limits.example.com",
    token: "t",
    timeoutMs,
    maxWaitMs: 60_000,
    fetch: async () => {
      sentAtMs.push(clock.now());
      return new Response(allowed, { headers: { RateLimit: '"a";r=0;t=2' } });
    },
  });
  await limiter.check(key);
  await Promise.all([limiter.check(key), limiter.check(key), limiter.check(key)]);
  const gapsMs = sentAtMs.slice(1).map((atMs, index) => atMs - (sentAtMs[index] ?? 0));
  expect(gapsMs).toHaveLength(3);
  expect(Math.min(...gapsMs)).toBeGreaterThanOrEqual(2_000);
});

it("a client of a real app waits as long as a policy on calls of /check demands", async () => {
  const clock = new SkippingClock();
  const app = new TestApp(
    [
      { name: "api", limits: "100/minute", match: { path: "/api/*" } },
      { name: "callers", limits: "2/second", match: { path: "/check/*" } },
    ],
    {},
  );
  const statuses: number[] = [];
  const limiter = createClientAt(clock, () => 0, {
    url: "https://headgate.example",
    token: "the-tests-token",
    timeoutMs,
    fetch: async (url, init) => {
      app.isolate.clock.nowMs = clock.now();
      const response = await app.send(url, init);
      statuses.push(response.status);
      return response;
    },
  });
  for (let count = 0; count < 5; count += 1) await limiter.check({ policy: "api", key: "192.0.2.1" });
  expect(statuses).toEqual([200, 200, 200, 200, 200]);
  expect(clock.waits).toEqual([1_000, 1_000]);
});
