/** Trees of policies through the operations of `/check` and the proxy, with their statistics, in one process. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  type CallerContext,
  decideBatch,
  decideCheck,
  look,
  openReservation,
  settleReservation,
} from "../../src/http/check/operations.ts";
import { explainedKey } from "../../src/admin/explain/explanation.ts";
import { isFailure } from "../../src/http/wire/problems.ts";
import type { CheckAnswer } from "../../src/http/check/answer.ts";
import type { Failure } from "../../src/http/wire/problems.ts";
import { keyPseudonym } from "../../src/observability/events.ts";
import { settled } from "../fakes/isolate.ts";
import { CountedSite } from "./counted-site.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

const log = { strategy: "sliding-log" };
const org = { name: "org", key: "header:x-org", limits: "5/hour", ...log };
const user = { name: "user", within: "org", key: "header:x-user", limits: "2/hour", denyCache: undefined, ...log };

const treeOf = (root: object = {}, child: object = {}, ...others: readonly object[]): CountedSite =>
  new CountedSite([{ ...org, ...root }, { ...user, ...child }, ...others]);

const callOf = ({ runtime, waitUntil }: CountedSite): CallerContext => ({ runtime, tenant: null, waitUntil });

const ann = { policy: "user", key: ["acme", "ann"] };
const bob = { policy: "user", key: ["acme", "bob"] };

const remainingIn = (answer: CheckAnswer | Failure): number[] | string =>
  isFailure(answer) ? answer.kind : answer.limits.map(({ remaining }) => remaining);

const remaining = async (site: CountedSite, check = ann): Promise<number[] | string> =>
  remainingIn(await look(callOf(site), { ...check, cost: 0 }));

const by = (organisation: string, person: string): Record<string, string> => ({
  "X-Org": organisation,
  "X-User": person,
});

const explain = async (site: CountedSite, key: (string | null)[]) => {
  const { runtime, waitUntil, isolate } = site;
  const context = { runtime: { ...runtime, control: null }, nowMs: isolate.clock.now(), waitUntil };
  const attributes = new Map([["ip", ["192.0.2.1"]]]);
  const explained = await explainedKey(
    { ...context, knownRules: () => Promise.resolve(null) },
    { policy: "user", key, attributes },
  );
  if (isFailure(explained)) throw new Error(`refused: ${JSON.stringify(explained)}`);
  return explained;
};

const keyIn = (headers: Readonly<Record<string, string | undefined>>, name: string): string | null =>
  headers[name] ?? null;

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

describe("the explanation of a level", () => {
  it("says that the levels above it must allow a request too", async () => {
    const { text } = await explain(treeOf(), ["acme", "ann"]);
    expect(text.join("\n")).toContain("This explains user alone. It is within org, which must allow a request too.");
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

  it("of the root denies all keys within it, and charges none of them", async () => {
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
  ])("of %j and %j are never the same, whatever is missing", async (one, other) => {
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
