/** Checks and explanations of the levels of a tree, and their statistics, in one process. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { decideBatch, decideCheck, openReservation, settleReservation } from "../../src/http/check/operations.ts";
import { isFailure } from "../../src/http/wire/problems.ts";
import { callOf, treeOf, ann, bob, remainingIn, remaining, by, explain, keyIn, log } from "./tree-site.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

describe("/check of a level", () => {
  it.each(["alone", "in a batch"])("that is off charges the levels above it, %s", async (form) => {
    const site = treeOf();
    const policies = site.runtime.policies.map((each) => ({ ...each, isOff: each.name === "user" }));
    const call = { ...callOf(site), runtime: { ...site.runtime, policies } };
    const check = { ...ann, cost: 1 };
    const answer = form === "alone" ? await decideCheck(call, check) : (await decideBatch(call, [check]))[0];
    expect(answer).toMatchObject({ allowed: true, reason: "off" });
    expect(await remaining(site)).toEqual([4, 2]);
  });

  it("compares the attributes of the caller with the entries of every level", async () => {
    const pro = { when: "country=DE", limits: [{ limit: 50, window: "1h", ...log }] };
    const site = treeOf({ deny: ["192.0.2.0/24"], overrides: [pro] });
    const denied = await decideCheck(callOf(site), { ...ann, cost: 1, attributes: new Map([["ip", ["192.0.2.7"]]]) });
    expect(denied).toMatchObject({ allowed: false, reason: "deny" });
    const plan = new Map([["country", ["DE"]]]);
    expect(remainingIn(await decideCheck(callOf(site), { ...ann, cost: 1, attributes: plan }))).toEqual([49, 1]);
  });

  it("compares the parts of the whole key with the entries of every level, as for a request", async () => {
    const site = treeOf({ deny: ["192.0.2.1"] }, { key: "ip" });
    expect(await site.request(by("acme", "ann"))).toBe(403);
    const denied = await decideCheck(callOf(site), { policy: "user", key: ["acme", "192.0.2.1"], cost: 1 });
    expect(denied).toMatchObject({ allowed: false, reason: "deny" });
  });
});

describe("statistics of a tree", () => {
  it("a reservation for which a key has no room counts as denied", async () => {
    const site = treeOf({ limits: "100000/hour" }, { limits: "100000/hour" });
    for (let count = 0; count < 1_000; count++) {
      // oxlint-disable-next-line no-await-in-loop
      await openReservation(callOf(site), { ...ann, cost: 1, ttlMs: 60_000 });
    }
    await site.batch();
    expect(await openReservation(callOf(site), { ...ann, cost: 1, ttlMs: 60_000 })).toMatchObject({
      kind: "reservations-full",
    });
    expect(await site.counts("org")).toMatchObject({ outcomes: { denied: 1 }, deniedRequests: 1 });
  });

  it("a check that every level exempts counts as one request", async () => {
    const site = treeOf({ allow: ["acme"] }, { allow: [["acme", "ann"]] });
    expect(await decideCheck(callOf(site), { ...ann, cost: 1 })).toMatchObject({ allowed: true, reason: "allow" });
    const batch = await site.batch();
    expect(batch?.requests).toBe(1);
    expect(batch?.policies).toMatchObject({ org: { outcomes: { exempt: 1 } }, user: { outcomes: { exempt: 1 } } });
  });

  it("a dry run whose deny list has the key is counted, and denies nothing", async () => {
    const site = treeOf({ deny: ["acme"], dryRun: true });
    expect(await decideCheck(callOf(site), { ...ann, cost: 1 })).toMatchObject({ allowed: true });
    const batch = await site.batch();
    expect(batch?.requests).toBe(1);
    expect(batch?.policies).toMatchObject({
      org: { outcomes: { "dry-run-denied": 1 } },
      user: { outcomes: { allowed: 1 } },
    });
  });
});

describe("the explanation of a level", () => {
  it("has the usage of the levels above it, which must allow a request too", async () => {
    const site = treeOf();
    await decideCheck(callOf(site), { ...bob, cost: 2 });
    const { text, levels } = await explain(site, ["acme", "ann"]);
    expect(text).toContain("  org: org 2 of 5 used. Allowed: every limit has room.");
    expect(levels?.map(({ policy, limits }) => [policy, limits[0]?.used])).toEqual([
      ["org", 2],
      ["user", 0],
    ]);
  });

  it("states the wait and the usage of each level that denies", async () => {
    const site = treeOf();
    const all = { policy: "org", key: ["acme"] };
    await decideCheck(callOf(site), { ...ann, cost: 2 });
    await decideCheck(callOf(site), { ...all, cost: 3 });
    const explained = await explain(site, ["acme", "ann"]);
    expect([explained.allowed, explained.reason]).toEqual([false, "limit"]);
    expect(explained.lines.outcome).toMatch(
      /^Denied for another .* by org: the limit org is exceeded\. The policy user denies it, too: the limit user is exceeded\.$/,
    );
    const dryRun = await explain(treeOf({ deny: ["acme"], dryRun: true }), ["acme", "ann"]);
    expect(dryRun.allowed).toBe(true);
    const blocked = await explain(treeOf({ deny: ["acme"] }), ["acme", "ann"]);
    expect([blocked.allowed, blocked.reason, blocked.retryAfterMs]).toEqual([false, "deny", null]);
  });

  it("names the shares of other keys if they deny", async () => {
    const site = treeOf({}, { limits: "5/hour", guaranteed: "fair" });
    await decideCheck(callOf(site), { ...bob, cost: 1 });
    await decideCheck(callOf(site), { ...ann, cost: 3 });
    const explained = await explain(site, ["acme", "ann"]);
    expect([explained.allowed, explained.reason]).toEqual([false, "share"]);
    expect(explained.lines.outcome).toMatch(
      /^Denied for another .* by org: other keys are guaranteed the rest of the limit org\. The policy user alone allows it\.$/,
    );
  });

  it("is that of the isolate's own decision for each level while the object does not answer", async () => {
    const site = treeOf();
    site.isolate.before = () => Promise.reject(new Error("down"));
    const { levels, hasObjectAnswered } = await explain(site, ["acme", "ann"]);
    expect(hasObjectAnswered).toBe(false);
    expect(levels?.map(({ policy }) => policy)).toEqual(["org", "user"]);
  });

  it.each([
    ["skip", "deny", [null, "ann"], [true, "allow"]],
    ["deny", "skip", ["acme", null], [true, "allow"]],
    ["ip", "deny", ["acme", null], [false, "deny"]],
  ])(
    "with onMissingKey = %s and %s of the levels, %j is decided by its first missing part",
    async (root, child, key, is) => {
      const explained = await explain(treeOf({ onMissingKey: root }, { onMissingKey: child }), key);
      expect([explained.allowed, explained.reason]).toEqual(is);
      expect(explained.steps.find(({ decides }) => decides)?.step).toBe("missing-key");
    },
  );

  it.each([
    ["ip", "shared", [null, "ann"]],
    ["shared", "ip", ["acme", null]],
    ["ip", "ip", [null, null]],
    ["shared", "shared", [null, null]],
  ])("with onMissingKey = %s and %s of the levels, %j is the key that a request charges", async (root, child, key) => {
    const site = treeOf({ onMissingKey: root }, { onMissingKey: child });
    const [organisation = null, person = null] = key;
    const headers = {
      ...(organisation !== null && { "X-Org": organisation }),
      ...(person !== null && { "X-User": person }),
    };
    expect(await site.request(headers)).toBe(200);
    const { limits } = await explain(site, key);
    expect(limits.map((limit) => limit.remaining)).toEqual([1]);
  });
});

describe("the keys of a tree", () => {
  it("differ by tenant at every level", async () => {
    const site = treeOf({ limits: "1/hour" });
    const check = { ...ann, cost: 1 };
    const call = callOf(site);
    for (const tenant of [null, "one", "two"]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await decideCheck({ ...call, tenant }, check)).toMatchObject({ allowed: true });
    }
    expect(await decideCheck({ ...call, tenant: "one" }, check)).toMatchObject({ allowed: false });
    const opened = await openReservation({ ...call, tenant: "two" }, { ...bob, cost: 0, ttlMs: 60_000 });
    const id = isFailure(opened) ? "" : (opened.id ?? "");
    expect(await settleReservation({ ...call, tenant: "one" }, { id, cost: 0 })).toEqual({ settled: false });
    expect(await settleReservation({ ...call, tenant: "two" }, { id, cost: 0 })).toEqual({ settled: true });
  });

  it.each([
    [{ "X-User": "ann" }, { "X-User": "ann", "X-Org": "acme" }],
    [{ "X-Org": "acme" }, { "X-Org": "acme", "X-User": "192.0.2.1" }],
    [{ "X-Org": "acme" }, { "X-User": "acme" }],
    [
      { "X-Org": "a", "X-User": "b" },
      { "X-Org": "b", "X-User": "a" },
    ],
    [{ "X-Org": '["a","b"]' }, { "X-Org": "a", "X-User": "b" }],
  ])("requests with %j and with %j never have the same key, whatever is missing", async (one, other) => {
    for (const root of ["shared", "ip"]) {
      for (const child of ["shared", "ip"]) {
        const site = treeOf({ onMissingKey: root, limits: "1/hour" }, { onMissingKey: child, limits: "1/hour" });
        // oxlint-disable no-await-in-loop
        expect(await site.request({ ...one })).toBe(200);
        const { limits } = await explain(site, [keyIn(other, "X-Org"), keyIn(other, "X-User")]);
        expect(limits.map((limit) => limit.remaining)).toEqual([1]);
        // oxlint-enable no-await-in-loop
      }
    }
  });
});

it("checks of a batch that every level exempts are allowed", async () => {
  const site = treeOf({ allow: ["acme"] }, { allow: [["acme", "ann"]] });
  const results = await decideBatch(
    callOf(site),
    [ann, bob, ann].map((check) => ({ ...check, cost: 1 })),
  );
  expect(results).toMatchObject([{ reason: "allow" }, { reason: "limit" }, { reason: "allow" }]);
});
