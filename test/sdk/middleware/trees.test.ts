/** Policies within policies in the middleware and in a limiter without Hono. */
import { Hono } from "hono";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { noteUse } from "../../../src/sdk/middleware/environment.ts";
import { type RateLimitOptions, rateLimit } from "../../../src/sdk/package/hono.ts";
import { createLimiter } from "../../../src/sdk/package/limiter.ts";
import { createTestLimiter } from "../../../src/sdk/package/test.ts";

// Names of limiters that were not used, in this file or in others of the thread, would stay taken.
beforeEach(noteUse);
afterEach(noteUse);

const log = { strategy: "sliding-log" } as const;
const key = (header: string) => (c: { req: { header: (name: string) => string | undefined } }) => c.req.header(header);
const org = { name: "org", limits: "5/hour", key: key("X-Org"), ...log };
const user = { name: "user", within: "org", limits: "2/hour", key: key("X-User"), ...log };

function appOf(...options: readonly RateLimitOptions[]) {
  const { env } = createTestLimiter();
  const app = new Hono().use(rateLimit(...options)).get("*", (c) => c.text("ok"));
  return async (headers: Record<string, string>) => app.request("/", { headers }, env);
}

const statuses = async (answers: readonly Promise<Response>[]): Promise<number[]> =>
  (await Promise.all(answers)).map(({ status }) => status);

describe("key functions of a tree", () => {
  it("give the key of each level, and never pair a user with another organisation", async () => {
    const send = appOf(org, user);
    const headers = { "X-Org": "acme", "X-User": "ann" };
    expect(await statuses([send(headers), send(headers)])).toEqual([200, 200]);
    expect(await statuses([send(headers), send({ ...headers, "X-Org": "other" })])).toEqual([429, 200]);
  });

  it("that return no key deny the request, and the response names the level", async () => {
    const send = appOf(org, user);
    expect(await (await send({ "X-Org": "acme" })).json()).toMatchObject({ missing_parts: ["key:user"] });
    expect(await (await send({ "X-User": "ann" })).json()).toMatchObject({ missing_parts: ["key:org"] });
  });

  it("a request that skips a level skips the levels within it", async () => {
    const send = appOf({ ...org, skip: (c) => c.req.header("X-Plan") === "free-for-all" }, user);
    const headers = { "X-Plan": "free-for-all", "X-User": "ann" };
    const [first] = await Promise.all([send({ ...headers, "X-Org": "acme" }), send({ ...headers, "X-Org": "acme" })]);
    expect(first.headers.get("RateLimit")).toBeNull();
    expect((await send({ ...headers, "X-Org": "other" })).status).toBe(200);
  });
});

describe("a limiter without Hono", () => {
  it("takes the whole key of a level as a list", async () => {
    const { env } = createTestLimiter();
    const limiter = createLimiter(
      { name: "org", limits: "5/hour", ...log },
      { name: "user", within: "org", limits: "2/hour", ...log },
    );
    const ann = { policy: "user", key: ["acme", "ann"] };
    expect((await limiter.check(env, ann)).limits.map(({ remaining }) => remaining)).toEqual([4, 1]);
    expect((await limiter.check(env, { policy: "org", key: "acme" })).limits).toMatchObject([{ remaining: 3 }]);
    await limiter.forget(env, ann);
    expect((await limiter.look(env, ann)).limits.map(({ remaining }) => remaining)).toEqual([3, 2]);
    await expect(limiter.check(env, { policy: "user", key: ["ann"] })).rejects.toThrow(
      'check({ key }): expected a list of 2 texts for key:org, key:user, got "(a list of 1)"',
    );
  });

  it("refuses a level within a policy whose limits are a function, because a call states the limits of one policy", async () => {
    const { env } = createTestLimiter();
    const limiter = createLimiter({ ...org, limits: () => "5/hour" }, user);
    await expect(limiter.check(env, { policy: "user", key: ["acme", "ann"] })).rejects.toThrow(
      'a policy that is not within "org", because limits of "org" is a function of a request, got "user"',
    );
  });

  it("is denied while the object is unavailable if a level above a dry run fails closed", async () => {
    const { env, fail } = createTestLimiter();
    const limiter = createLimiter({ ...org, onError: "closed" }, { ...user, dryRun: true });
    fail();
    const answer = await limiter.check(env, { policy: "user", key: ["acme", "ann"] });
    expect(answer).toMatchObject({ allowed: false, reason: "unavailable" });
  });

  it("compares the conditions of weights and classes with the attributes of a call", async () => {
    const { env } = createTestLimiter();
    const classes = [{ when: "header:X-Batch=1", upTo: "50%" }];
    const weight = [{ when: "country=DE", weight: 4 }];
    const limiter = createLimiter(
      { name: "quota", limits: "10/hour", classes, ...log },
      { name: "tenant", within: "quota", limits: "10/hour", guaranteed: "fair", weight, ...log },
    );
    const ask = async (tenant: string, cost: number, attributes: Record<string, string> = {}) =>
      limiter.check(env, { policy: "tenant", key: ["all", tenant], cost, attributes });
    expect(await ask("acme", 1, { country: "DE" })).toMatchObject({ allowed: true });
    expect(await ask("bolt", 1)).toMatchObject({ allowed: true });
    expect(await ask("acme", 4, { "header:X-Batch": "1" })).toMatchObject({ allowed: false, reason: "class" });
    expect(await ask("bolt", 2)).toMatchObject({ allowed: true });
    expect(await ask("acme", 1, { country: "DE" })).toMatchObject({ allowed: true });
    expect(await ask("bolt", 1)).toMatchObject({ allowed: false, reason: "share", violated: ["quota"] });
  });
});
