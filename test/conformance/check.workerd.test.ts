/** S: the security of `/check`, and what holds when an object gives no answer. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { headgate, statusOf } from "../http/harness.ts";
import { visitor } from "./responses.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

const key = "203.0.113.7";
const one = { LIMITS: "3/minute", STRATEGY: "fixed-window" };
const json = { "Content-Type": "application/json" };

/** Counts how often an object is asked for. */
function counted(): { asked: () => number; RATE_LIMITER: object } {
  let times = 0;
  const getByName = (): never => {
    times += 1;
    throw new Error("no object is to be touched");
  };
  return { asked: () => times, RATE_LIMITER: { getByName } };
}

const calls = [
  ["POST", "/check"],
  ["GET", `/check?key=${key}`],
  ["DELETE", `/check?key=${key}`],
  ["POST", "/check/batch"],
  ["POST", "/check/reserve"],
  ["POST", "/check/settle"],
  ["GET", "/check/forward"],
] as const;

describe.for(calls)("S01: %s %s", ([method, path]) => {
  it.for([
    ["no token", {}],
    ["an empty one", { Authorization: "Bearer " }],
    ["a wrong one", { Authorization: "Bearer wrong" }],
    ["another scheme", { Authorization: "Basic the-tests-token" }],
  ] as const)("S01: with %s is a 401 that touches neither body nor object", async ([, sent]) => {
    const { asked, RATE_LIMITER } = counted();
    const { send } = headgate({ ...one, RATE_LIMITER });
    let pulls = 0;
    const body = new ReadableStream({ pull: () => void (pulls += 1) }, { highWaterMark: 0 });
    const init = { method, headers: { ...json, ...sent } };
    const response = await send(path, method === "POST" ? { ...init, body } : init);
    expect(response.status).toBe(401);
    expect(response.headers.get("WWW-Authenticate")).toMatch(/^Bearer\b/);
    expect([pulls, asked()]).toEqual([0, 0]);
  });
});

it("S02: wrong tokens of any length are answered alike", async () => {
  const { send } = headgate({ ...one, CHECK_TOKENS: ["a-token", "another-of-more-letters"] });
  const wrong = ["b-token", "a-toke", "a-tokens", "", "a", "A-TOKEN", "x".repeat(5_000)];
  const answers = await Promise.all(
    wrong.map(async (token) => {
      const response = await send(`/check?key=${key}`, {
        headers: { Authorization: `Bearer ${token}` },
      });
      return [response.status, Object.fromEntries(response.headers), await response.text()];
    }),
  );
  for (const answer of answers) expect(answer).toEqual(answers[0]);
  expect(answers[0]?.[0]).toBe(401);
  for (const token of ["a-token", "another-of-more-letters"]) {
    const headers = { Authorization: `Bearer ${token}` };
    // oxlint-disable-next-line no-await-in-loop
    expect(await statusOf(send(`/check?key=${key}`, { headers }))).toBe(200);
  }
});

describe("S03: a body", () => {
  const post = async (body: string | ReadableStream, sent: Record<string, string> = json) => {
    const { send } = headgate(one);
    const headers = { Authorization: "Bearer the-tests-token", ...sent };
    return statusOf(send("/check", { method: "POST", headers, body }));
  };
  const text = (sizeBytes: number): string => `{"key":"${key}"}`.padEnd(sizeBytes, " ");
  const chunked = (whole: string): ReadableStream =>
    new Blob([whole]).stream().pipeThrough(new TransformStream());

  it("S03: that is too large is a 413, whether its length is told or not", async () => {
    expect(await post(text(16_384))).toBe(200);
    expect(await post(text(16_385))).toBe(413);
    expect(await post(chunked(text(16_384)))).toBe(200);
    expect(await post(chunked(text(16_385)))).toBe(413);
  });

  it("S03: is counted as it comes, whatever its length is said to be", async () => {
    expect(await post(chunked(text(16_385)), { ...json, "Content-Length": "20" })).toBe(413);
  });

  it("S03: that breaks off is a 400", async () => {
    const broken = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"key":'));
        controller.error(new Error("gone"));
      },
    });
    expect(await post(broken)).toBe(400);
  });

  it("is told of no more than 500 fields that are wrong, and how many more there are", async () => {
    const limits = Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`f${index}`, 1]));
    const { check } = headgate(one);
    const response = await check("POST", "/check", { key, limits });
    const { errors, detail } = await response.json<{ errors: unknown[]; detail: string }>();
    expect([response.status, errors.length]).toEqual([422, 500]);
    expect(detail).toMatch(/; and \d+ more invalid fields$/);
  });

  it.for(["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""])(
    "S03: of another type is a 415: %s",
    async (type) => {
      expect(await post(text(20), { "Content-Type": type })).toBe(415);
    },
  );

  it.for(["", "{", '{"key": 1e}', "{'key': 'k'}", '{"key":"k"} {}', "NaN"])(
    "S03: that is no JSON is a 400: %s",
    async (body) => {
      expect(await post(body)).toBe(400);
    },
  );

  it("S03: that is JSON of another shape is a 422", async () => {
    for (const body of ["null", "[]", "5", '"k"', '{"key":5}', '{"more":1}']) {
      // oxlint-disable-next-line no-await-in-loop
      expect([body, await post(body)]).toEqual([body, 422]);
    }
  });
});

it("S05: a batch has at most 100 checks, each is charged, and each is answered in its place", async () => {
  const { check } = headgate(one);
  const checks = Array.from({ length: 101 }, () => ({ key }));
  expect(await statusOf(check("POST", "/check/batch", { checks }))).toBe(422);
  const response = await check("POST", "/check/batch", {
    checks: [{ key, cost: 2 }, { policy: "none", key }, { key, cost: 2 }, { key }, { key }],
  });
  const { results } = await response.json<{
    results: { allowed?: boolean; problem?: { status: number } }[];
  }>();
  expect([response.status, ...results.map((each) => each.problem?.status ?? each.allowed)]).toEqual(
    [200, true, 404, false, true, false],
  );
});

it("S06: a denial is a 200 that says so, unless another status is asked for", async () => {
  const { check } = headgate(one);
  await check("POST", "/check", { key, cost: 3 });
  const told = [];
  for (const path of ["/check", "/check?deny=429", "/check?deny=403"]) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await check("POST", path, { key });
    // oxlint-disable-next-line no-await-in-loop
    const { allowed } = await response.json<{ allowed: boolean }>();
    told.push([response.status, allowed, response.headers.has("Retry-After")]);
  }
  expect(told).toEqual([
    [200, false, false],
    [429, false, true],
    [403, false, true],
  ]);
});

describe("S10: an object that gives no answer in time", () => {
  const token = { headers: { Authorization: "Bearer the-tests-token" } };

  /** What is answered while objects are silent, to requests one after the other; they fail once all are answered. */
  async function whileSilent(
    onError: string,
    asked: readonly (readonly [path: string, init: RequestInit<IncomingRequestCfProperties>])[],
  ): Promise<number[]> {
    const { promise, reject } = Promise.withResolvers<never>();
    const call = (): Promise<never> => promise;
    const stub = { check: call, look: call, batch: call, forget: call, reserve: call };
    const { begin } = headgate({
      POLICIES: [{ name: "p", limits: "1/minute", timeout: "10ms", onError }],
      RATE_LIMITER: { getByName: () => stub },
    });
    const begun = [];
    const statuses = [];
    for (const [path, init] of asked) {
      const each = begin(path, init);
      begun.push(each);
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await statusOf(each.response));
    }
    reject(new Error("too late"));
    await Promise.all(begun.map(({ finished }) => finished()));
    return statuses;
  }

  it.for([
    ["closed", [503, 503]],
    ["open", [200, 200]],
    ["local", [200, 429]],
  ] as const)("S10: is not waited for, and the policy holds: %s", async ([onError, statuses]) => {
    expect(
      await whileSilent(onError, [
        ["/", visitor],
        ["/", visitor],
      ]),
    ).toEqual(statuses);
  });

  it("S10: leaves /check without a decision, which it says", async () => {
    const look = await whileSilent("closed", [[`/check?key=${key}`, token]]);
    const forget = await whileSilent("closed", [
      [`/check?key=${key}`, { ...token, method: "DELETE" }],
    ]);
    expect([look, forget]).toEqual([[503], [503]]);
  });
});
