/** Reservations: `POST /check/reserve` and `POST /check/settle`. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { fillReservations, type Headgate, headgate, statusOf, token } from "../harness.ts";

const log = { LIMITS: "10/minute", STRATEGY: "sliding-log", KEY: "header:X-Api-Key" };

interface Answer {
  allowed: boolean;
  id: string | null;
  retryAfterMs: number | null;
  limits: { remaining: number }[];
}

/** A time ahead of the real clock: alarms of objects follow the real clock, so they do not fire. */
const startMs = Date.UTC(2100, 0, 1);
const at = (offsetMs: number): unknown => vi.setSystemTime(startMs + offsetMs);

beforeEach(() => void vi.useFakeTimers({ toFake: ["Date"], now: startMs }));
afterEach(() => void vi.useRealTimers());

const reserve = async (
  { check }: Headgate,
  cost: number,
  more: Record<string, unknown> = {},
): Promise<Answer & { id: string }> => {
  const body = { key: "k", cost, ttlMs: 50_000, ...more };
  const response = await check("POST", "/check/reserve", body);
  expect([response.status, response.headers.get("Cache-Control")]).toEqual([200, "no-store"]);
  return response.json();
};

const settle = async ({ check }: Headgate, id: unknown, cost: number): Promise<unknown> => {
  const response = await check("POST", "/check/settle", { id, cost });
  expect([response.status, response.headers.get("Cache-Control")]).toEqual([200, "no-store"]);
  return response.json();
};

/** The remaining units of each limit. */
const remaining = async ({ check }: Headgate, look: object = {}): Promise<number[]> => {
  const response = await check("POST", "/check", { key: "k", cost: 0, ...look });
  const { limits } = await response.json<Answer>();
  return limits.map((limit) => limit.remaining);
};

const settled = { settled: true };
const unsettled = { settled: false };

describe("POST /check/reserve", () => {
  it("a reservation spends like a check, and its answer also has an id", async () => {
    const own = headgate(log);
    expect(await reserve(own, 4)).toEqual({
      allowed: true,
      cost: 4,
      delayMs: 0,
      retryAfterMs: 0,
      bannedForMs: 0,
      limits: [expect.objectContaining({ name: "default", allowed: true, remaining: 6 })],
      policy: "default",
      reason: "limit",
      violated: [],
      headers: { "RateLimit-Policy": '"default";q=10;w=60', RateLimit: '"default";r=6;t=60' },
      id: expect.stringMatching(/^[0-9a-f]{32}\./),
    });
    expect(await remaining(own)).toEqual([6]);
  });

  it("a denied reservation has no id and spends nothing", async () => {
    const own = headgate(log);
    await reserve(own, 8);
    expect(await reserve(own, 3)).toMatchObject({
      allowed: false,
      id: null,
      violated: ["default"],
      retryAfterMs: 60_000,
      headers: { "Retry-After": "60" },
    });
    expect(await remaining(own)).toEqual([2]);
  });

  it("a denied reservation is answered with the status in the parameter deny", async () => {
    const { check } = headgate(log);
    const ask = (deny: number): Promise<Response> =>
      check("POST", `/check/reserve?deny=${deny}`, { key: "k", cost: 6, ttlMs: 1_000 });
    expect(await statusOf(ask(429))).toBe(200);
    const denied = await ask(429);
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([429, "60"]);
    expect(await denied.json()).toMatchObject({ allowed: false, id: null });
    expect(await statusOf(ask(403))).toBe(403);
  });

  it("a reservation under ad hoc limits is settled by its id", async () => {
    const own = headgate(log);
    const limits = ["9/minute", { limit: 20, window: "1h", strategy: "token-bucket" }];
    const adhoc = { key: ["k", "l"], limits, strategy: "sliding-log" };
    const { id, ...answer } = await reserve(own, 9, adhoc);
    expect(answer).toMatchObject({
      policy: "adhoc",
      limits: [{ remaining: 0 }, { remaining: 11 }],
    });
    expect((await reserve(own, 1, adhoc)).id).toBeNull();
    expect(await settle(own, id, 2)).toEqual(settled);
    expect(await remaining(own, adhoc)).toEqual([7, 18]);
    expect(await remaining(own)).toEqual([10]);
  });

  it("a reservation is settled in the object that has it, even after the policy uses other objects", async () => {
    const KEY_SECRET = crypto.randomUUID();
    const sharded = { POLICIES: [{ name: "p", limits: "9/hour", objects: "sharded" }] };
    const visitor = { key: "203.0.113.7" };
    const { id } = await reserve(headgate({ ...sharded, KEY_SECRET }), 5, visitor);
    expect(await settle(headgate({ ...log, KEY_SECRET }), id, 0)).toEqual(settled);
    expect(await remaining(headgate({ ...sharded, KEY_SECRET }), visitor)).toEqual([9]);
  });

  it("while the object does not answer, a reservation gets no id under onError = local, and otherwise 503", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const silent = (onError: string): Headgate =>
      headgate({
        POLICIES: [{ name: "p", limits: "2/minute", key: "global", onError }],
        RATE_LIMITER: { getByName: () => ({ reserve: call, settle: call }) },
      });
    const local = silent("local");
    const noKey = { key: undefined };
    expect(await reserve(local, 2, noKey)).toMatchObject({ allowed: true, id: null, headers: {} });
    expect(await reserve(local, 1, noKey)).toMatchObject({ allowed: false, id: null });
    for (const onError of ["open", "closed"]) {
      const { check } = silent(onError);
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(check("POST", "/check/reserve", { ttlMs: 1_000 }))).toBe(503);
    }
    errors.mockRestore();
  });
});

describe("POST /check/settle", () => {
  it("a reservation is settled once", async () => {
    const own = headgate(log);
    const { id } = await reserve(own, 8);
    expect(await settle(own, id, 6)).toEqual(settled);
    expect(await settle(own, id, 0)).toEqual(unsettled);
    expect(await settle(own, id, 9)).toEqual(unsettled);
    expect(await remaining(own)).toEqual([4]);
  });

  it("settling an unknown, forged or malformed id calls no object", async () => {
    const getByName = vi.fn<() => never>();
    const own = headgate(log);
    const other = headgate(log);
    const { id } = await reserve(own, 8);
    const parts = id.split(".");
    const elsewhere = parts.with(1, "somebody-elses-key").join(".");
    const [sharded, unsigned] = [parts.with(2, "32"), parts.with(5, "")];
    const ids = ["", ".....", "nothing", id.slice(0, -1), `${id}.`, ` ${id}`, "\ud800", elsewhere];
    const forged = headgate({ ...log, RATE_LIMITER: { getByName } });
    const invalid = [...ids, sharded.join("."), unsigned.join("."), "x.".repeat(7_000), id];
    const answers = await Promise.all(invalid.map((each) => settle(forged, each, 0)));
    expect(answers).toEqual(invalid.map(() => unsettled));
    expect(getByName).not.toHaveBeenCalled();
    expect(await settle(other, id, 0)).toEqual(unsettled);
    expect(await remaining(own)).toEqual([2]);
    expect(await settle(own, id, 0)).toEqual(settled);
  });

  it("POST /check/settle answers 503 while the object does not answer", async () => {
    const errors = vi.spyOn(console, "error").mockReturnValue(undefined);
    const KEY_SECRET = crypto.randomUUID();
    const { id } = await reserve(headgate({ ...log, KEY_SECRET }), 1);
    const call = (): Promise<never> => Promise.reject(new Error("gone"));
    const RATE_LIMITER = { getByName: () => ({ settle: call }) };
    const { check } = headgate({ ...log, KEY_SECRET, RATE_LIMITER });
    expect(await statusOf(check("POST", "/check/settle", { id, cost: 1 }))).toBe(503);
    errors.mockRestore();
  });
});

describe("a key with 1,000 open reservations", () => {
  it("R16: at 1,000 open reservations of a key, further ones get a problem with a wait until one is settled or expires", async () => {
    const own = headgate({ ...log, LIMITS: "1000000/hour", STRATEGY: "fixed-window" });
    const { id } = await reserve(own, 1);
    await fillReservations(Response.json({ id }), { ttlMs: 60_000 });
    at(19_999);
    const full = await own.check("POST", "/check/reserve?deny=403", {
      key: "k",
      cost: 7,
      ttlMs: 1_000,
    });
    expect([full.status, full.headers.get("Retry-After")]).toEqual([429, "31"]);
    expect(full.headers.get("Content-Type")).toBe("application/problem+json");
    expect(await full.json()).toEqual({
      type: "about:blank",
      title: "Too Many Requests",
      status: 429,
      detail: "The key has reached its maximum of open reservations. Settle some, or retry in 31 seconds.",
      reason: "reservations",
    });
    expect(await remaining(own)).toEqual([999_999]);
    expect(await settle(own, id, 1)).toEqual(settled);
    expect((await reserve(own, 1)).id).not.toBeNull();
  });
});

/** The status, and the name and the accepted values of each invalid field. */
const errorsOf = async (answer: Promise<Response>): Promise<unknown[]> => {
  const response = await answer;
  const { status, errors = [] } = await response.json<{
    status: number;
    errors?: { field: string; accepted: string }[];
  }>();
  expect(status).toBe(response.status);
  return [status, ...errors.map(({ field, accepted }) => [field, accepted])];
};

const ttl = "an integer from 1000 to 86400000";
const costs = "an integer from 0 to 1000000";

describe("an invalid reservation", () => {
  it.for([999, 86_400_001, 1.5, "1000", null, undefined, -1_000, 1e300])(
    "a reservation with a ttlMs of %j is answered with 422",
    async (ttlMs) => {
      const { check } = headgate(log);
      const own = check("POST", "/check/reserve", { key: "k", ttlMs });
      expect(await errorsOf(own)).toEqual([422, ["ttlMs", ttl]]);
      const adhoc = check("POST", "/check/reserve", { key: "k", limits: "5/minute", ttlMs });
      expect(await errorsOf(adhoc)).toEqual([422, ["ttlMs", ttl]]);
    },
  );

  it.for([1_000, 86_400_000])("a reservation with a ttlMs of %j is accepted", async (ttlMs) => {
    expect((await reserve(headgate(log), 1, { ttlMs })).id).not.toBeNull();
  });

  it.for([-1, 0.5, 1_000_001, 2 ** 53, "1", null])(
    "reserving and settling a cost of %j are answered with 422",
    async (cost) => {
      const { check } = headgate(log);
      const reserving = check("POST", "/check/reserve", { key: "k", cost, ttlMs: 1_000 });
      expect(await errorsOf(reserving)).toEqual([422, ["cost", costs]]);
      expect(await errorsOf(check("POST", "/check/settle", { id: "x", cost }))).toEqual([422, ["cost", costs]]);
    },
  );

  it("an invalid reservation or settlement is answered with all invalid fields of body and query", async () => {
    const { check } = headgate(log);
    const fieldsOf = async (path: string, body: unknown): Promise<string> => {
      const [status, ...errors] = await errorsOf(check("POST", path, body));
      expect(status).toBe(422);
      return errors.map((error) => (error as [string])[0]).join(" ");
    };
    const wrong = { policy: 1, key: "", cost: -1, ttlMs: 0, strategy: "x", ttl: 5 };
    expect(await fieldsOf("/check/reserve?deny=500&wait=1", wrong)).toBe(
      "policy key cost strategy ttlMs ttl deny wait",
    );
    const adhoc = { policy: "p", key: 5, limits: "0/minute", strategy: 1, ttlMs: 0, id: "x" };
    expect(await fieldsOf("/check/reserve", adhoc)).toBe("policy key ttlMs id strategy limits.limit");
    expect(await fieldsOf("/check/settle?deny=429", { id: 5, cost: -1, key: "k" })).toBe("id cost key deny");
    expect(await fieldsOf("/check/settle", {})).toBe("id cost");
    expect(await fieldsOf("/check/settle", { id: null, cost: 1 })).toBe("id");
    expect(await fieldsOf("/check/reserve", [])).toBe("body");
    expect(await fieldsOf("/check/settle", "x")).toBe("body");
    const unknown = { policy: "unknown", key: "k", ttlMs: 1_000 };
    expect(await statusOf(check("POST", "/check/reserve", unknown))).toBe(404);
  });

  it("an invalid reservation spends nothing", async () => {
    const own = headgate(log);
    const { check } = own;
    const changes = [{ ttlMs: 999 }, { ttlMs: 1_000, extra: 1 }, { ttlMs: 1_000, strategy: "x" }];
    const bodies = changes.map((each) => ({ key: "k", cost: 5, ...each }));
    await Promise.all(bodies.map((body) => statusOf(check("POST", "/check/reserve", body))));
    await statusOf(check("POST", "/check/reserve?x=1", { key: "k", cost: 5, ttlMs: 1_000 }));
    expect(await remaining(own)).toEqual([10]);
  });
});

describe.each(["/check/reserve", "/check/settle"])("%s", (path) => {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const post = (init: RequestInit<IncomingRequestCfProperties>): Promise<number> =>
    statusOf(headgate(log).send(path, { method: "POST", ...init }));

  it(`${path} requires a token, and JSON of at most 16 KiB`, async () => {
    const body = "{}";
    expect(await post({ body })).toBe(401);
    expect(await post({ body, headers: { ...headers, Authorization: "Bearer x" } })).toBe(401);
    expect(await post({ body: "{", headers })).toBe(400);
    expect(await post({ body, headers: { ...headers, "Content-Type": "text/plain" } })).toBe(415);
    expect(await post({ body: `"${"x".repeat(16_385)}"`, headers })).toBe(413);
    expect(await post({ body, headers })).toBe(422);
  });

  it.for(["GET", "HEAD", "PUT", "DELETE", "PATCH", "OPTIONS"])(`${path} answers %s with 405`, async (method) => {
    const response = await headgate(log).send(path, { method, headers });
    expect([response.status, response.headers.get("Allow")]).toEqual([405, "POST"]);
  });
});
