/** Requests under a tree: reservations, failures, bans, waits and preflights, in one process. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { decideBatch, decideCheck, look, openReservation, settleReservation } from "../../src/http/check/operations.ts";
import { isFailure } from "../../src/http/wire/problems.ts";
import type { RefundCall } from "../../src/limiter/protocol.ts";
import { keyPseudonym } from "../../src/observability/events.ts";
import { settled } from "../fakes/isolate.ts";
import type { CountedSite } from "./counted-site.ts";
import { callOf, treeOf, ann, bob, remaining, by, log } from "./tree-site.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

describe("reservations of a tree", () => {
  it("settle each level to its own cost, once, whichever level counts the response", async () => {
    const site = treeOf(
      { limits: "100/hour", count: { status: ["401"] } },
      { limits: "1000/hour", cost: { from: "response-header:x-tokens", reserve: 100, max: 1000 } },
      { name: "all", key: "header:x-org", limits: "50/hour", cost: 7, ...log },
    );
    site.forwardTo = async () => new Response("answered", { headers: { "X-Tokens": "40" } });
    expect(await site.request(by("acme", "ann"))).toBe(200);
    await site.batch();
    expect(await remaining(site)).toEqual([100, 960]);
    expect(await remaining(site, { policy: "all", key: ["acme"] })).toEqual([43]);
    site.forwardTo = async () => new Response("answered", { status: 401, headers: { "X-Tokens": "300" } });
    expect(await site.request(by("acme", "ann"))).toBe(401);
    await site.batch();
    expect(await remaining(site)).toEqual([99, 660]);
    expect(await remaining(site, { policy: "all", key: ["acme"] })).toEqual([36]);
  });

  it("that another object denies are given back at every level", async () => {
    const site = treeOf({}, {}, { name: "other", key: "header:x-user", limits: "1/hour", ...log });
    expect(await site.request(by("acme", "ann"))).toBe(200);
    expect(await site.request(by("acme", "ann"))).toBe(429);
    await site.batch();
    expect(await remaining(site)).toEqual([4, 1]);
  });
});

describe("shares of a tree", () => {
  it("are given back for a child that is not charged itself, too, when another object denies", async () => {
    const child = { limits: "1/hour", guaranteed: "fair", dryRun: true };
    const site = treeOf({ limits: "9/hour" }, child, {
      name: "other",
      key: "header:x-other",
      limits: "2/hour",
      ...log,
    });
    const refunds: RefundCall[] = [];
    site.isolate.before = ({ name, argument }) => {
      if (name.startsWith("refund")) refunds.push(argument as RefundCall);
      return Promise.resolve();
    };
    const statuses: number[] = [];
    for (let request = 0; request < 3; request++) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await site.request({ ...by("acme", "ann"), "X-Other": "one" }));
    }
    await site.batch();
    expect(statuses).toEqual([200, 200, 429]);
    expect(refunds[0]?.charges.map(({ policy, spentAtMs }) => [policy, spentAtMs > 0])).toEqual([
      ["org", true],
      ["user", false],
    ]);
  });
});

describe("the deny cache", () => {
  it("denies neither another user nor a request after a refund", async () => {
    const site = treeOf({ denyCache: true });
    for (const status of [200, 200, 429, 429]) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await site.request(by("acme", "ann"))).toBe(status);
    }
    expect(await site.request(by("acme", "bob"))).toBe(200);
    const opened = await openReservation(callOf(site), { ...bob, cost: 1, ttlMs: 60_000 });
    const id = isFailure(opened) ? null : opened.id;
    await decideCheck(callOf(site), { policy: "org", key: ["acme"], cost: 1 });
    expect(await site.request(by("acme", "eve"))).toBe(429);
    expect(await settleReservation(callOf(site), { id: id ?? "", cost: 0 })).toEqual({ settled: true });
    expect(await site.request(by("acme", "eve"))).toBe(200);
  });
});

describe("a tree whose object gives no answer", () => {
  const failing = (site: CountedSite): void => {
    site.isolate.before = () => Promise.reject(new Error("the object is gone"));
  };

  it("is decided by the isolate's own meters, all levels or none", async () => {
    const site = treeOf();
    failing(site);
    const statuses: number[] = [];
    for (const person of ["ann", "ann", "ann", "bob", "bob", "eve", "eve"]) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await site.request(by("acme", person)));
    }
    expect(statuses).toEqual([200, 200, 429, 200, 200, 200, 429]);
    expect(await site.request(by("other", "ann"))).toBe(200);
  });

  it.each([
    ["open", 200],
    ["closed", 503],
  ])("with onError = %s of the root, every request gets %i", async (onError, status) => {
    const site = treeOf({ onError });
    failing(site);
    for (let count = 0; count < 3; count++) {
      // oxlint-disable-next-line no-await-in-loop
      expect(await site.request(by("acme", "ann"))).toBe(status);
    }
    expect(await decideCheck(callOf(site), { ...ann, cost: 1 })).toMatchObject({ kind: "undecided" });
  });
});

describe("a sharded root", () => {
  it("decides trees and other keys of a shard in one call, each with its own key", async () => {
    const shards = { objects: "sharded", shards: 1 };
    const site = treeOf(shards, {}, { ...shards, name: "plain", key: "header:x-user", limits: "2/hour", ...log });
    const plain = (person: string) => ({ policy: "plain", key: [person], cost: 1 });
    const checks = [ann, ann, bob, ann, { policy: "user", key: ["other", "ann"] }].map((each) => ({
      ...each,
      cost: 1,
    }));
    const results = await decideBatch(callOf(site), [plain("ann"), ...checks, plain("ann"), plain("ann")]);
    expect(results.map((each) => !isFailure(each) && each.allowed)).toEqual([
      true,
      true,
      true,
      true,
      false,
      true,
      true,
      false,
    ]);
    expect(site.isolate.callNames().length).toBe(1);
    expect(await remaining(site)).toEqual([2, 0]);
    expect(await remaining(site, { policy: "user", key: ["other", "ann"] })).toEqual([4, 1]);
    expect(await remaining(site, { policy: "plain", key: ["ann"] })).toEqual([0]);
  });
});

it("the event of a dry run that would have denied names the key of its level", async () => {
  const site = treeOf({}, { limits: "1/hour", dryRun: true });
  const events = vi.spyOn(console, "warn").mockReturnValue(undefined);
  await site.request(by("acme", "ann"));
  await site.request(by("acme", "ann"));
  const { partitions, policies } = site.runtime;
  const key = await partitions.partitionKey(policies[1]?.key ?? [], ["acme", "ann"]);
  const logged = events.mock.calls
    .flat()
    .map(String)
    .filter((event) => event.includes("dry-run-denied"));
  expect(logged.map((event): unknown => JSON.parse(event))).toMatchObject([{ policy: "user", key: keyPseudonym(key) }]);
});

describe("a ban of a level", () => {
  it("counts the denials by the level's own limits, and bans no other key", async () => {
    const site = treeOf({ limits: "3/hour" }, { ban: { after: 2, within: "10m", for: "1h" } });
    const statuses: number[] = [];
    for (const person of ["ann", "ann", "bob", "bob", "bob", "eve"]) {
      // oxlint-disable-next-line no-await-in-loop
      statuses.push(await site.request(by("acme", person)));
    }
    // The organisation denied bob and eve.
    expect(statuses).toEqual([200, 200, 200, 429, 429, 429]);
    expect(await look(callOf(site), { ...bob, cost: 0 })).toMatchObject({ bannedForMs: 0 });
    await site.request(by("acme", "ann"));
    await site.request(by("acme", "ann"));
    expect(await look(callOf(site), { ...ann, cost: 0 })).toMatchObject({ allowed: false, bannedForMs: 3_600_000 });
    expect(await look(callOf(site), { policy: "org", key: ["acme"], cost: 0 })).toMatchObject({ bannedForMs: 0 });
    await site.isolate.clock.pass(3_599_999);
    expect(await site.request(by("acme", "ann"))).toBe(429);
    await site.isolate.clock.pass(1);
    expect(await site.request(by("acme", "ann"))).toBe(200);
  });

  it("a ban of the root denies all keys within it, and charges none of them", async () => {
    const site = treeOf({ limits: "2/hour", ban: "10m" });
    for (const person of ["ann", "bob", "eve"]) {
      // oxlint-disable-next-line no-await-in-loop
      await site.request(by("acme", person));
    }
    expect(await look(callOf(site), { policy: "user", key: ["acme", "new"], cost: 0 })).toMatchObject({
      allowed: false,
      bannedForMs: 600_000,
      limits: [{ remaining: 0 }, { remaining: 2 }],
    });
    expect(await site.request(by("other", "ann"))).toBe(200);
  });
});

describe("the waits of a tree", () => {
  it("are the least after which all levels fit", async () => {
    const site = treeOf(
      { limits: [{ limit: 3, window: "10m", ...log }] },
      { limits: [{ limit: 2, window: "1h", ...log }] },
    );
    await site.request(by("acme", "ann"));
    await site.isolate.clock.pass(1_234);
    await site.request(by("acme", "ann"));
    await site.isolate.clock.pass(60_000);
    await site.request(by("acme", "bob"));
    const answer = await decideCheck(callOf(site), { ...ann, cost: 1 });
    expect(answer).toMatchObject({ allowed: false, retryAfterMs: 3_600_000 - 61_234, violated: ["org", "user"] });
    await site.isolate.clock.pass(3_600_000 - 61_234 - 1);
    expect(await site.request(by("acme", "ann"))).toBe(429);
    await site.isolate.clock.pass(1);
    expect(await site.request(by("acme", "ann"))).toBe(200);
  });
});

describe("preflights", () => {
  const preflight = {
    method: "OPTIONS",
    headers: {
      Origin: "https://app.example",
      "Access-Control-Request-Method": "GET",
      "X-Org": "acme",
      "X-User": "ann",
    },
  };

  it("are denied by the deny list and the ban of each level, and charge no level", async () => {
    const listed = treeOf({ deny: ["acme"] });
    expect(await listed.request(preflight.headers, preflight)).toBe(403);
    const site = treeOf({}, { limits: "1/hour", ban: "10m" });
    expect(await site.request(preflight.headers, preflight)).toBe(200);
    expect(await remaining(site)).toEqual([5, 1]);
    await site.request(by("acme", "ann"));
    await site.request(by("acme", "ann"));
    expect(await site.request(preflight.headers, preflight)).toBe(429);
    expect(await remaining(site)).toEqual([4, 0]);
  });
});

describe("slots of a level", () => {
  it("are held while the request is in flight, and denied requests hold none at any level", async () => {
    const slots = [{ limit: 1, window: "10s", strategy: "concurrency" }];
    const site = treeOf({ limits: [{ limit: 2, window: "10s", strategy: "concurrency" }] }, { limits: slots });
    const origin = Promise.withResolvers<null>();
    site.forwardTo = async () => new Response(await origin.promise);
    const first = site.request(by("acme", "ann"));
    await settled();
    // Renewals keep the slots beyond their lease.
    for (let seconds = 0; seconds < 30; seconds++) {
      // oxlint-disable-next-line no-await-in-loop
      await site.isolate.clock.pass(1_000);
    }
    expect(await site.request(by("acme", "ann"))).toBe(429);
    expect(await remaining(site, bob)).toEqual([1, 1]);
    const second = site.request(by("acme", "bob"));
    await settled();
    expect(await site.request(by("acme", "eve"))).toBe(429);
    expect(await remaining(site, { policy: "user", key: ["acme", "eve"] })).toEqual([0, 1]);
    origin.resolve(null);
    await Promise.all([first, second]);
    await site.batch();
    expect(await remaining(site)).toEqual([2, 1]);
  });
});
