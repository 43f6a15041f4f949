import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, it } from "vitest";
import { headgate, statusOf } from "./harness.ts";

const org = { name: "org", key: "header:X-Org", limits: "5/hour", strategy: "sliding-log" };
const team = { name: "team", within: "org", key: "header:X-Team", limits: "4/hour", strategy: "sliding-log" };
const user = { name: "user", within: "team", key: "header:X-User", limits: "2/hour", strategy: "sliding-log" };
const tree = [org, team, user];

const by = (organisation?: string, teamName?: string, person?: string): { headers: Record<string, string> } => ({
  headers: {
    ...(organisation !== undefined && { "X-Org": organisation }),
    ...(teamName !== undefined && { "X-Team": teamName }),
    ...(person !== undefined && { "X-User": person }),
  },
});

/** The remaining units of each level, by `/check`. */
async function remaining(
  check: ReturnType<typeof headgate>["check"],
  key = ["acme", "core", "ann"],
): Promise<number[]> {
  const query = key.map((text) => `key=${text}`).join("&");
  const response = await check("GET", `/check?policy=user&${query}`);
  const { limits } = await response.json<{ limits: { remaining: number }[] }>();
  return limits.map((limit) => limit.remaining);
}

describe("a request under three levels", () => {
  it("is charged to every level, and its response lists the limits of all of them", async () => {
    const { send, check } = headgate({ POLICIES: tree });
    const response = await send("/", by("acme", "core", "ann"));
    expect(response.status).toBe(200);
    expect(response.headers.get("RateLimit")).toMatch(/^"org";r=4;t=\d+, "team";r=3;t=\d+, "user";r=1;t=\d+$/);
    expect(await remaining(check)).toEqual([4, 3, 1]);
  });

  it("that one level denies is charged to none, and the answer names the limits that deny", async () => {
    const { send, check } = headgate({ POLICIES: tree });
    const statuses: number[] = [];
    for (const person of ["ann", "ann", "ann", "bob", "bob", "eve"]) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await statusOf(send("/", by("acme", "core", person))));
    }
    expect(statuses).toEqual([200, 200, 429, 200, 200, 429]);
    expect(await remaining(check)).toEqual([1, 0, 0]);
    const denied = await send("/", by("acme", "core", "ann"));
    expect(await denied.json()).toMatchObject({ "violated-policies": ["team", "user"] });
    expect(await statusOf(send("/", by("acme", "ops", "eve")))).toBe(200);
    expect(await statusOf(send("/", by("acme", "ops", "eve")))).toBe(429);
    expect(await statusOf(send("/", by("other", "core", "ann")))).toBe(200);
  });

  it("calls one object, once", async () => {
    const calls: string[] = [];
    const getByName: typeof env.RATE_LIMITER.getByName = (...of) => {
      const stub = env.RATE_LIMITER.getByName(...of);
      return new Proxy(stub, {
        get: (target, name: keyof typeof stub) => {
          const method = target[name];
          if (name !== "decideTree" && name !== "decide") return method;
          return (...parameters: unknown[]) => {
            calls.push(name);
            return Reflect.apply(target[name], target, parameters);
          };
        },
      });
    };
    const { send } = headgate({ POLICIES: tree, RATE_LIMITER: { getByName } });
    expect(await statusOf(send("/", by("acme", "core", "ann")))).toBe(200);
    expect(calls).toEqual(["decideTree"]);
  });

  it("without a part that a level skips, charges the levels above", async () => {
    const { send, check } = headgate({ POLICIES: [org, team, { ...user, onMissingKey: "skip" }] });
    expect(await statusOf(send("/", by("acme", "core")))).toBe(200);
    expect(await remaining(check)).toEqual([4, 3, 2]);
  });

  it("without a part of an ancestor that skips, is not charged at all", async () => {
    const { send } = headgate({ POLICIES: [{ ...org, onMissingKey: "skip" }, team, user] });
    const response = await send("/", by());
    expect([response.status, response.headers.get("RateLimit")]).toEqual([200, null]);
  });
});

describe("a level", () => {
  it("exempts the keys on its own allowlist, and no other level does", async () => {
    const { send, check } = headgate({ POLICIES: [org, team, { ...user, allow: [["acme", "core", "ann"]] }] });
    for (let count = 0; count < 3; count++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await statusOf(send("/", by("acme", "core", "ann")))).toBe(200);
    }
    const answer = await check("POST", "/check", { policy: "user", key: ["acme", "core", "ann"] });
    expect(await answer.json()).toMatchObject({
      allowed: true,
      reason: "allow",
      limits: [{ remaining: 1 }, { remaining: 0 }],
    });
  });

  it("denies the keys on its blocklist, and then no level is charged", async () => {
    const { check } = headgate({ POLICIES: [{ ...org, deny: ["acme"] }, team, user] });
    const denied = await check("POST", "/check", { policy: "user", key: ["acme", "core", "ann"] });
    expect(await denied.json()).toMatchObject({ allowed: false, reason: "deny", retryAfterMs: null, violated: [] });
    const other = await check("GET", "/check?policy=team&key=acme&key=core");
    expect(await other.json()).toMatchObject({ limits: [{ remaining: 4 }] });
  });

  it("that is a dry run only reports", async () => {
    const { send, check } = headgate({ POLICIES: [org, { ...team, limits: "1/hour", dryRun: true }, user] });
    expect(await statusOf(send("/", by("acme", "core", "ann")))).toBe(200);
    expect(await statusOf(send("/", by("acme", "core", "ann")))).toBe(200);
    const answer = await check("POST", "/check", { policy: "user", key: ["acme", "core", "bob"] });
    expect(await answer.json()).toMatchObject({ allowed: true, violated: ["team"] });
  });
});

describe("/check of a level", () => {
  it("charges the levels above it too, and a key of the root charges the root alone", async () => {
    const { check } = headgate({ POLICIES: tree });
    const all = await check("POST", "/check", { policy: "user", key: ["acme", "core", "ann"], cost: 2 });
    expect(await all.json()).toMatchObject({
      allowed: true,
      policy: "user",
      limits: [
        { name: "org", remaining: 3 },
        { name: "team", remaining: 2 },
        { name: "user", remaining: 0 },
      ],
    });
    const root = await check("POST", "/check", { policy: "org", key: "acme" });
    expect(await root.json()).toMatchObject({ policy: "org", limits: [{ name: "org", remaining: 2 }] });
    const denied = await check("POST", "/check", { policy: "team", key: ["acme", "core"], cost: 3 });
    expect(await denied.json()).toMatchObject({ allowed: false, policy: "team", violated: ["org", "team"] });
    expect(await remaining(check)).toEqual([2, 2, 0]);
  });

  it.each([
    [["acme"], "; header:x-team and header:x-user are missing"],
    [["acme", "core"], "; header:x-user is missing"],
    [["acme", "core", "ann", "more"], ""],
  ])("refuses the key %j, which has too few or too many parts, and says which it needs", async (key, missing) => {
    const { check } = headgate({ POLICIES: tree });
    const response = await check("POST", "/check", { policy: "user", key });
    expect(response.status).toBe(422);
    const accepted = `a list of 3 texts for header:x-org, header:x-team, header:x-user${missing}`;
    expect(await response.json()).toMatchObject({ errors: [{ field: "key", accepted }] });
  });

  it("forgets the named level of the named key only", async () => {
    const { check } = headgate({ POLICIES: tree });
    await check("POST", "/check", { policy: "user", key: ["acme", "core", "ann"], cost: 2 });
    expect(await statusOf(check("DELETE", "/check?policy=team&key=acme&key=core"))).toBe(204);
    expect(await remaining(check)).toEqual([3, 4, 0]);
  });

  it("in a batch decides each check alone, and all its levels together", async () => {
    const { check } = headgate({ POLICIES: tree });
    const named = (person: string) => ({ policy: "user", key: ["acme", "core", person], cost: 2 });
    const response = await check("POST", "/check/batch", {
      checks: [named("ann"), named("ann"), named("bob"), named("eve")],
    });
    expect(await response.json()).toMatchObject({
      results: [{ allowed: true }, { allowed: false }, { allowed: true }, { allowed: false }],
    });
    expect(await remaining(check)).toEqual([1, 0, 0]);
  });

  it("reserves units of every level, and settling gives all of them back", async () => {
    const { check } = headgate({ POLICIES: tree });
    const reservation = { policy: "user", key: ["acme", "core", "ann"], cost: 2, ttlMs: 60_000 };
    const opened = await check("POST", "/check/reserve", reservation);
    const { id, allowed } = await opened.json<{ id: string; allowed: boolean }>();
    expect([allowed, await remaining(check)]).toEqual([true, [3, 2, 0]]);
    const settled = await check("POST", "/check/settle", { id, cost: 1 });
    expect([await settled.json(), await remaining(check)]).toEqual([{ settled: true }, [4, 3, 1]]);
    const again = await check("POST", "/check/settle", { id, cost: 0 });
    expect([await again.json(), await remaining(check)]).toEqual([{ settled: false }, [4, 3, 1]]);
  });
});

it("all levels of a tree outlive a restart of their object", async () => {
  const { check } = headgate({ POLICIES: tree });
  const reserving = { policy: "user", key: ["acme", "core", "ann"], cost: 2, ttlMs: 60_000 };
  const opened = await check("POST", "/check/reserve", reserving);
  const { id } = await opened.json<{ id: string }>();
  const [, partitionKey = ""] = id.split(".");
  await evictDurableObject(env.RATE_LIMITER.getByName(partitionKey));
  expect(await remaining(check)).toEqual([3, 2, 0]);
  const settled = await check("POST", "/check/settle", { id, cost: 0 });
  expect([await settled.json(), await remaining(check)]).toEqual([{ settled: true }, [5, 4, 2]]);
});

it("policies with ten tokens of a user count each level in its own unit", async () => {
  const policies = [org, { ...user, within: "org", limits: "100/hour", cost: 10 }];
  const { send, check } = headgate({ POLICIES: policies });
  expect(await statusOf(send("/", by("acme", undefined, "ann")))).toBe(200);
  expect(await remaining(check, ["acme", "ann"])).toEqual([4, 90]);
});
