/** S: the security of `/check`, and its answers when an object does not answer. */
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

/** A namespace that counts how often it is used, and fails. */
function countingNamespace(): { uses: () => number; RATE_LIMITER: object } {
  let uses = 0;
  const getByName = (): never => {
    uses += 1;
    throw new Error("no object may be called");
  };
  return { uses: () => uses, RATE_LIMITER: { getByName } };
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

describe.for(calls)("calls without a valid token: %s %s", ([method, path]) => {
  it.for([
    ["no token", {}],
    ["an empty token", { Authorization: "Bearer " }],
    ["an unknown token", { Authorization: "Bearer wrong" }],
    ["another scheme than Bearer", { Authorization: "Basic the-tests-token" }],
  ] as const)(
    `S01: ${method} ${path} with %s is answered with 401: the body is not read, and no object is called`,
    async ([, fields]) => {
      const { uses, RATE_LIMITER } = countingNamespace();
      const { send } = headgate({ ...one, RATE_LIMITER });
      let pulls = 0;
      const body = new ReadableStream({ pull: () => void (pulls += 1) }, { highWaterMark: 0 });
      const init = { method, headers: { ...json, ...fields } };
      const response = await send(path, method === "POST" ? { ...init, body } : init);
      expect(response.status).toBe(401);
      expect(response.headers.get("WWW-Authenticate")).toMatch(/^Bearer\b/);
      expect([pulls, uses()]).toEqual([0, 0]);
    },
  );
});

it("S02: unknown tokens of any length get the same answer", async () => {
  const { send } = headgate({ ...one, CHECK_TOKENS: ["a-token", "another-of-more-letters"] });
  const unknown = ["b-token", "a-toke", "a-tokens", "", "a", "A-TOKEN", "x".repeat(5_000)];
  const answers = await Promise.all(
    unknown.map(async (token) => {
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
  const chunked = (whole: string): ReadableStream => new Blob([whole]).stream().pipeThrough(new TransformStream());

  it("S03: a body that is too large is answered with 413, with and without Content-Length", async () => {
    expect(await post(text(16_384))).toBe(200);
    expect(await post(text(16_385))).toBe(413);
    expect(await post(chunked(text(16_384)))).toBe(200);
    expect(await post(chunked(text(16_385)))).toBe(413);
  });

  it("S03: a body that is longer than its Content-Length is measured as it arrives", async () => {
    expect(await post(chunked(text(16_385)), { ...json, "Content-Length": "20" })).toBe(413);
  });

  it("S03: a body that is cut off is answered with 400", async () => {
    const broken = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"key":'));
        controller.error(new Error("gone"));
      },
    });
    expect(await post(broken)).toBe(400);
  });

  it("S03: a problem lists at most 500 invalid fields, and states how many more there are", async () => {
    const limits = Object.fromEntries(Array.from({ length: 900 }, (_, index) => [`f${index}`, 1]));
    const { check } = headgate(one);
    const response = await check("POST", "/check", { key, limits });
    const { errors, detail } = await response.json<{ errors: unknown[]; detail: string }>();
    expect([response.status, errors.length]).toEqual([422, 500]);
    expect(detail).toMatch(/; and \d+ more invalid fields$/);
  });

  it.for(["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""])(
    "S03: a body whose Content-Type is not JSON is answered with 415: %s",
    async (type) => {
      expect(await post(text(20), { "Content-Type": type })).toBe(415);
    },
  );

  it.for(["", "{", '{"key": 1e}', "{'key': 'k'}", '{"key":"k"} {}', "NaN"])(
    "S03: a body that is not JSON is answered with 400: %s",
    async (body) => {
      expect(await post(body)).toBe(400);
    },
  );

  it("S03: JSON with invalid values is answered with 422", async () => {
    for (const body of ["null", "[]", "5", '"k"', '{"key":5}', '{"more":1}']) {
      // oxlint-disable-next-line no-await-in-loop
      expect([body, await post(body)]).toEqual([body, 422]);
    }
  });
});

it("S05: a batch has at most 100 checks, charges each, and answers them in order", async () => {
  const { check } = headgate(one);
  const checks = Array.from({ length: 101 }, () => ({ key }));
  expect(await statusOf(check("POST", "/check/batch", { checks }))).toBe(422);
  const response = await check("POST", "/check/batch", {
    checks: [{ key, cost: 2 }, { policy: "none", key }, { key, cost: 2 }, { key }, { key }],
  });
  const { results } = await response.json<{
    results: { allowed?: boolean; problem?: { status: number } }[];
  }>();
  expect([response.status, ...results.map((each) => each.problem?.status ?? each.allowed)]).toEqual([
    200,
    true,
    404,
    false,
    true,
    false,
  ]);
});

it("S06: a denial is answered with 200 and allowed: false, unless deny requests another status", async () => {
  const { check } = headgate(one);
  await check("POST", "/check", { key, cost: 3 });
  const answers = [];
  for (const path of ["/check", "/check?deny=429", "/check?deny=403"]) {
    // oxlint-disable-next-line no-await-in-loop
    const response = await check("POST", path, { key });
    // oxlint-disable-next-line no-await-in-loop
    const { allowed } = await response.json<{ allowed: boolean }>();
    answers.push([response.status, allowed, response.headers.has("Retry-After")]);
  }
  expect(answers).toEqual([
    [200, false, false],
    [429, false, true],
    [403, false, true],
  ]);
});

describe("S10: an object that does not answer in time", () => {
  const token = { headers: { Authorization: "Bearer the-tests-token" } };

  /** The statuses of sequential requests while no object answers. Afterwards, all pending calls fail. */
  async function whileSilent(
    onError: string,
    requests: readonly (readonly [path: string, init: RequestInit<IncomingRequestCfProperties>])[],
  ): Promise<number[]> {
    const { promise, reject } = Promise.withResolvers<never>();
    const call = (): Promise<never> => promise;
    const stub = { decide: call, look: call, forget: call, reserve: call };
    const { begin } = headgate({
      POLICIES: [{ name: "p", limits: "1/minute", timeout: "10ms", onError }],
      RATE_LIMITER: { getByName: () => stub },
    });
    const begun = [];
    const statuses = [];
    for (const [path, init] of requests) {
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
  ] as const)("S10: onError decides when an object does not answer in time: %s", async ([onError, statuses]) => {
    expect(
      await whileSilent(onError, [
        ["/", visitor],
        ["/", visitor],
      ]),
    ).toEqual(statuses);
  });

  it("S10: /check answers 503 when an object does not answer in time", async () => {
    const look = await whileSilent("closed", [[`/check?key=${key}`, token]]);
    const forget = await whileSilent("closed", [[`/check?key=${key}`, { ...token, method: "DELETE" }]]);
    expect([look, forget]).toEqual([[503], [503]]);
  });
});
