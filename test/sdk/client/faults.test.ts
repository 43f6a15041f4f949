/** The client with a server that fails: errors, safe repeats, waits and aborts. */
import { describe, expect, it } from "vitest";
import { type Client, createClientAt } from "../../../src/sdk/client/client.ts";
import { allow, type Answer, closedUrl, drop, dropInBody, problem, silence, text } from "./faulty-server.ts";
import { setUp, thrownBy } from "./setup.ts";
import { SkippingClock, timeoutMs } from "./skipping-clock.ts";

const key = { policy: "api", key: "k" };
const date = (seconds: number): string => new Date(Date.UTC(2026, 10, 8, 8, 0, seconds)).toUTCString();

/** Calls that charge, and calls that are safe to repeat. */
const charging = {
  check: (limiter: Client) => limiter.check(key),
  reserve: (limiter: Client) => limiter.reserve({ ...key, ttlMs: 1_000 }),
  batch: (limiter: Client) => limiter.batch({ checks: [{ ...key, cost: 0 }, key] }),
};
const repeatable = {
  look: (limiter: Client) => limiter.look(key),
  "check of cost 0": (limiter: Client) => limiter.check({ ...key, cost: 0 }),
  settle: (limiter: Client) => limiter.settle({ id: "id", cost: 1 }),
  forget: (limiter: Client) => limiter.forget(key),
};

describe("a rejected call", () => {
  it.each<[string, Record<string, string>, number]>([
    ["seconds", { "Retry-After": "3" }, 3_000],
    ["an HTTP date", { "Retry-After": date(7), Date: date(5) }, 2_000],
    ["a date in the past", { "Retry-After": date(5), Date: date(7) }, 100],
    ["seconds beside RateLimit", { "Retry-After": "3", RateLimit: '"a";r=0;t=9' }, 3_000],
  ])("a 429 with Retry-After in %s is repeated after that time", async (_, fields, waitMs) => {
    const { limiter, clock, requests } = await setUp([problem(429, fields), allow()]);
    expect(await limiter.check(key)).toMatchObject({ allowed: true });
    expect(requests).toEqual(["POST /check", "POST /check"]);
    expect(clock.waits).toEqual([waitMs]);
  });

  it.each(Object.entries(charging))("a %s with 429 is repeated at most as often as retries says", async (_, call) => {
    const answers = [problem(429, { "Retry-After": "1" })];
    const { limiter, clock, requests } = await setUp(answers, { retries: 3 });
    expect(await thrownBy(call(limiter))).toMatchObject({
      name: "HeadgateError",
      status: 429,
      problem: { title: "Title", detail: "Detail." },
      retryAfterMs: 1_000,
      isSafeToRepeat: true,
    });
    expect(requests).toHaveLength(4);
    expect(clock.waits).toEqual([1_000, 1_000, 1_000]);
  });

  it("a client with 0 retries never repeats a call", async () => {
    const answers = [problem(429, { "Retry-After": "1" })];
    const { limiter, requests } = await setUp(answers, { retries: 0 });
    expect(await thrownBy(limiter.look(key))).toMatchObject({ status: 429 });
    expect(requests).toHaveLength(1);
  });

  it("a 429 without Retry-After is not repeated, because no wait would be long enough", async () => {
    const { limiter, requests } = await setUp([problem(429)]);
    expect(await thrownBy(limiter.look(key))).toMatchObject({ status: 429, retryAfterMs: null });
    expect(requests).toHaveLength(1);
  });

  it("the client does not begin a wait that is longer than maxWaitMs", async () => {
    const answers = [problem(429, { "Retry-After": "6" })];
    const { limiter, clock, requests } = await setUp(answers, { maxWaitMs: 5_999 });
    expect(await thrownBy(limiter.check(key))).toMatchObject({ status: 429, retryAfterMs: 6_000 });
    expect([requests.length, clock.waits]).toEqual([1, []]);
  });

  it("all waits of one call together take at most maxWaitMs", async () => {
    const answers = [problem(429, { "Retry-After": "2" })];
    const { limiter, clock } = await setUp(answers, { maxWaitMs: 5_000, retries: 10 }, 0.25);
    expect(await thrownBy(limiter.check(key))).toMatchObject({ status: 429 });
    expect(clock.waits).toEqual([2_250, 2_250]);
  });

  it("a wait takes up to one second longer than the server demands, but all waits together stay within maxWaitMs", async () => {
    const answers = [problem(429, { "Retry-After": "4" }), allow()];
    const setups = [
      await setUp(answers, {}, 0.5),
      await setUp(answers, { maxWaitMs: 4_100 }, 0.5),
      await setUp([problem(503, {}), allow()], {}, 0.5),
    ];
    for (const { limiter } of setups) await limiter.look(key);
    expect(setups.map(({ clock }) => clock.waits)).toEqual([[4_500], [4_100], [150]]);
  });

  it.each([400, 401, 403, 404, 405, 413, 415, 422, 500])("a call with status %i is not repeated", async (status) => {
    const { limiter, requests } = await setUp([problem(status, { "Retry-After": "1" })]);
    expect(await thrownBy(limiter.look(key))).toMatchObject({ status });
    expect(requests).toHaveLength(1);
  });
});

const lost: readonly (readonly [string, Answer])[] = [
  ["a 503", problem(503, { "Retry-After": "1" })],
  ["a 502 of a gateway", text(502, { "Content-Type": "text/html" }, "<html>Bad gateway</html>")],
  ["a dropped connection", drop],
  ["a connection that is dropped in the body", dropInBody],
];

describe.each(lost)("after %s", (name, answer) => {
  it.each(Object.entries(charging))(
    `a %s is not repeated after ${name}, because it may have been charged`,
    async (_, call) => {
      const { limiter, requests } = await setUp([answer]);
      expect(await thrownBy(call(limiter))).toMatchObject({ isSafeToRepeat: false });
      expect(requests).toHaveLength(1);
    },
  );

  it.each(Object.entries(repeatable))(
    `a %s is repeated after ${name}, because that charges nothing`,
    async (_, call) => {
      const { limiter, requests } = await setUp([answer]);
      expect(await thrownBy(call(limiter))).toMatchObject({ isSafeToRepeat: true });
      expect(requests).toHaveLength(3);
    },
  );
});

describe("a lost answer", () => {
  it("a call whose answers are lost is repeated with growing waits", async () => {
    const { limiter, clock } = await setUp([drop, drop, drop, allow()], { retries: 3 });
    expect(await limiter.look(key)).toMatchObject({ allowed: true });
    expect(clock.waits).toEqual([100, 200, 400]);
  });

  it("a check is repeated when no connection could be made, because nothing was charged", async () => {
    const url = await closedUrl();
    const clock = new SkippingClock();
    const limiter = createClientAt(clock, () => 0, { url, token: "t", timeoutMs });
    const error = await thrownBy(limiter.check(key));
    expect(error).toMatchObject({ status: null, problem: null, isSafeToRepeat: true });
    expect(String(error)).toBe(
      `HeadgateError: POST ${url}/check: no answer: fetch failed (connect ECONNREFUSED ${new URL(url).host})`,
    );
    expect(clock.waits).toEqual([100, 200]);
  });

  it("a check without an answer ends after timeoutMs and is not repeated", async () => {
    const { limiter, clock, requests, url } = await setUp([silence]);
    const checking = thrownBy(limiter.check(key));
    await expect.poll(() => requests.length).toBe(1);
    clock.expire();
    expect(await checking).toMatchObject({
      message: `POST ${url}/check: no answer within ${timeoutMs} ms (timeoutMs)`,
      status: null,
      isSafeToRepeat: false,
    });
    expect(clock.pending).toBe(0);
  });

  it("a look without an answer is repeated after timeoutMs", async () => {
    const { limiter, clock, requests } = await setUp([silence, allow()]);
    const looking = limiter.look(key);
    await expect.poll(() => requests.length).toBe(1);
    clock.expire();
    expect(await looking).toMatchObject({ allowed: true });
  });
});
