import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { headgate, token } from "../harness.ts";

beforeEach(() => void vi.spyOn(console, "error").mockReturnValue(undefined));
afterEach(() => void vi.restoreAllMocks());

const policy = {
  name: "p",
  key: "header:x-user",
  limits: "3/hour",
  strategy: "fixed-window",
  consistency: "eventual",
  syncEvery: "100ms",
};
const user = { headers: { "X-User": "u1" } };

describe("a policy that is eventual", () => {
  it("has no fields until the object has told how things stand, and enforces all the same", async () => {
    const { begin } = headgate({ POLICIES: [policy] });
    const first = begin("/", user);
    const response = await first.response;
    expect([response.status, response.headers.get("RateLimit")]).toEqual([200, null]);
    // Which it has when the work is done that goes on after the answer.
    await first.over();
    const second = begin("/", user);
    expect((await second.response).headers.get("RateLimit")).toMatch(/^"p";r=1;t=\d+$/);
    await second.over();
    expect((await begin("/", user).response).status).toBe(200);
    const denied = await begin("/", user).response;
    expect([denied.status, denied.headers.get("Retry-After")]).toEqual([
      429,
      expect.stringMatching(/^3[56]\d\d$/),
    ]);
  });

  it("is told to the object, which others ask, and is decided by it where it may be settled", async () => {
    const { begin, check } = headgate({ POLICIES: [policy] });
    const asked = begin("/", user);
    await asked.response;
    await asked.over();
    const look = await check("GET", "/check?key=u1");
    expect(await look.json()).toMatchObject({ limits: [{ remaining: 2 }] });
    const reserved = await check("POST", "/check/reserve", { key: "u1", cost: 2, ttlMs: 60_000 });
    expect(await reserved.json()).toMatchObject({ allowed: true, limits: [{ remaining: 0 }] });
  });

  it("goes on without its object, and never waits for it", async () => {
    const hung = { sync: () => new Promise(() => undefined) };
    const objects = { getByName: () => hung };
    const { begin } = headgate({
      POLICIES: [{ ...policy, timeout: "30s", onError: "closed" }],
      RATE_LIMITER: objects,
    });
    const statuses = [];
    for (let request = 0; request < 4; request++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push((await begin("/", user).response).status);
    }
    expect(statuses).toEqual([200, 200, 200, 429]);
  });

  it("is decided with others of its key, as surely as the surest of them", async () => {
    const strict = { ...policy, name: "q", limits: "9/hour", consistency: "strict" };
    delete (strict as Partial<typeof strict>).syncEvery;
    const { send } = headgate({ POLICIES: [policy, strict] });
    const response = await send("/", user);
    expect(response.headers.get("RateLimit")).toMatch(/^"p";r=2;t=\d+, "q";r=8;t=\d+$/);
  });

  it("has each check of a batch decided by the isolate", async () => {
    const { begin } = headgate({ POLICIES: [policy], RATE_LIMITER: { getByName: () => ({}) } });
    const body = JSON.stringify({ checks: Array.from({ length: 4 }, () => ({ key: "u1" })) });
    const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
    // An object that is silent is tried for long after the answer.
    const { response } = begin("/check/batch", { method: "POST", headers, body });
    const answer = await (await response).json();
    const allowed = [true, true, true, false].map((each) => ({ allowed: each, headers: {} }));
    allowed[3] = { allowed: false, headers: { "Retry-After": "3600" } };
    expect(answer).toMatchObject({ results: allowed });
  });
});
