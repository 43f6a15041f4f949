/** Outcomes of requests and checks in the statistics: each decision counts once, under the right name. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { KeySealer } from "../../src/control/isolate/key-sealer.ts";
import { decideBatch, decideCheck, look, openReservation } from "../../src/http/check/operations.ts";
import { objectLocation } from "../../src/limiter/protocol.ts";
import { CountedSite, secret } from "./counted-site.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

describe("requests through the proxy", () => {
  it("an allowed request counts its key and cost, and a denied request counts its key", async () => {
    const site = new CountedSite([{ limits: "10/minute", cost: 5 }]);
    for (let times = 0; times < 3; times++) await site.request();
    const counts = await site.counts();
    expect(counts).toMatchObject({ outcomes: { allowed: 2, denied: 1 }, nearLimit: 2 });
    expect(counts?.topSpenders).toMatchObject([{ count: 10 }]);
    expect(counts?.topDenied).toMatchObject([{ count: 1 }]);
    expect(counts?.topDenied[0]?.key).toBe(counts?.topSpenders[0]?.key);
  });

  it("a request counts the latency of its call of an object", async () => {
    const site = new CountedSite([{ limits: "10/minute" }]);
    await site.request();
    const latency = (await site.counts())?.latency ?? [];
    expect(latency.reduce((sum, [, decisions]) => sum + decisions, 0)).toBe(1);
  });

  it("a denied request counts for the policies that deny it, and not for other policies", async () => {
    const site = new CountedSite([
      { limits: "10/minute" },
      { limits: "1/minute", key: "global" },
      { limits: "10/minute", key: "host" },
    ]);
    await site.request();
    await site.request();
    expect(await site.allOutcomes()).toEqual({
      p0: { allowed: 1 },
      p1: { allowed: 1, denied: 1 },
      p2: { allowed: 1 },
    });
  });

  it("banned keys count as banned", async () => {
    const ban = { after: 1, within: "1m", for: "1h" };
    const site = new CountedSite([{ limits: "1/minute", ban }]);
    for (let times = 0; times < 4; times++) await site.request();
    expect(await site.outcomes()).toMatchObject({ allowed: 1, banned: expect.any(Number) });
  });

  it("keys on an allow or deny list count as exempt or blocked, and a blocked key is among the top denied keys", async () => {
    const site = new CountedSite([{ limits: "1/minute", allow: ["192.0.2.1"], deny: ["192.0.2.2"] }]);
    await site.request();
    expect(await site.outcomes()).toEqual({ exempt: 1 });
    expect(await site.request({ "CF-Connecting-IP": "192.0.2.2" })).toBe(403);
    const counts = await site.counts();
    expect(counts).toMatchObject({ outcomes: { blocked: 1 }, topDenied: [{ count: 1 }] });
  });

  it("a request without a required key part counts as blocked, without a key", async () => {
    const site = new CountedSite([{ limits: "1/minute", key: "header:x-user", onMissingKey: "deny" }]);
    expect(await site.request()).toBe(403);
    expect(await site.counts()).toMatchObject({ outcomes: { blocked: 1 }, topDenied: [] });
  });

  it("key rules count as exempt or blocked, and an exempt key spends nothing", async () => {
    const site = new CountedSite([{ limits: "1/minute" }]);
    await site.setKeyRule({ id: "r1", kind: "allow" });
    await site.request();
    expect(await site.counts()).toMatchObject({ outcomes: { exempt: 1 }, topSpenders: [] });
    await site.setKeyRule({ id: "r2", kind: "block" }, "192.0.2.2");
    expect(await site.request({ "CF-Connecting-IP": "192.0.2.2" })).toBe(403);
    expect(await site.counts()).toMatchObject({ outcomes: { blocked: 1 }, nearLimit: 0 });
  });

  it("dry runs count what they would have denied, with or without an enforced policy on the same key", async () => {
    const dryRun = { limits: "1/minute", dryRun: true };
    const site = new CountedSite([
      { limits: "10/minute" },
      dryRun,
      { ...dryRun, key: "host" },
      { ...dryRun, deny: ["192.0.2.1"] },
      { ...dryRun, key: "header:x-user", onMissingKey: "deny" },
    ]);
    for (let times = 0; times < 3; times++) expect(await site.request()).toBe(200);
    const outcomes = await site.allOutcomes();
    expect(outcomes).toEqual({
      p0: { allowed: 3 },
      p1: { allowed: 1, "dry-run-denied": 2 },
      p2: { allowed: 1, "dry-run-denied": 2 },
      p3: { "dry-run-denied": 3 },
      p4: { "dry-run-denied": 3 },
    });
  });

  it.each([
    ["local", 200, "fallback-local"],
    ["open", 200, "fallback-open"],
    ["closed", 503, "fallback-closed"],
  ])("without an answer of the object, onError = %j counts %d as %s", async (onError, status, name) => {
    const site = new CountedSite([{ limits: "10/minute", onError }]);
    site.isolate.before = () => Promise.reject(new Error("unreachable"));
    expect(await site.request()).toBe(status);
    expect(await site.outcomes()).toEqual({ [name]: 1 });
  });

  it("a decision of the isolate under eventual consistency does not count as a fallback", async () => {
    const site = new CountedSite([{ limits: "1/minute", consistency: "eventual" }]);
    await site.request();
    await site.request();
    expect(await site.outcomes()).toEqual({ allowed: 1, denied: 1 });
  });

  it("a policy that does not apply to a request counts nothing", async () => {
    const site = new CountedSite([{ limits: "1/minute", match: { path: "/elsewhere" } }]);
    await site.request();
    expect(await site.counts()).toBeUndefined();
  });

  it("a preflight counts for the limits on preflights, or for the policy that blocks it", async () => {
    const site = new CountedSite([{ limits: "1/minute", deny: ["192.0.2.2"] }], {
      PREFLIGHTS: "10/minute",
    });
    const headers = { Origin: "https://other.example", "Access-Control-Request-Method": "POST" };
    await site.request(headers, { method: "OPTIONS" });
    expect(await site.outcomes("headgate.preflights")).toEqual({ allowed: 1 });
    await site.request({ ...headers, "CF-Connecting-IP": "192.0.2.2" }, { method: "OPTIONS" });
    expect(await site.outcomes()).toEqual({ blocked: 1 });
  });

  it("a request that is decided again under newer rules counts once", async () => {
    const site = new CountedSite([{ limits: "10/minute" }]);
    const [policy] = site.runtime.policies;
    if (policy === undefined) throw new Error("a policy was configured");
    const key = await site.runtime.partitions.partitionKey(policy.key, ["192.0.2.1"]);
    const object = site.isolate.object(objectLocation(policy.objects, key).name);
    const text = JSON.stringify([{ id: "r", kind: "limits", limits: "20/minute" }]);
    const rules = { epoch: 5, version: 7, text };
    object.check({ key, charges: [{ policy: "p0", limits: policy.limits, cost: 1, rules }] });
    await site.request();
    expect(site.isolate.callNames()).toEqual(["check", "check"]);
    expect(await site.outcomes()).toEqual({ allowed: 1 });
  });

  it("requests that the origin does not answer count as origin failures, and its error responses do not", async () => {
    const site = new CountedSite([{ limits: "1/minute" }]);
    const fetched = vi.spyOn(globalThis, "fetch");
    fetched.mockRejectedValueOnce(new TypeError("refused"));
    expect(await site.forward()).toBe(502);
    fetched.mockResolvedValueOnce(new Response(null, { status: 500 }));
    expect(await site.forward()).toBe(500);
    expect((await site.runtime.statistics?.batches())?.[0]?.originFailures).toBe(1);
  });
});

describe("checks", () => {
  const check = { policy: "p0", key: ["192.0.2.1"], cost: 1 };

  it("a check and each check of a batch count once, and looks do not count", async () => {
    const site = new CountedSite([{ limits: "2/minute" }]);
    const { runtime, waitUntil } = site;
    await decideCheck({ runtime, tenant: null, waitUntil }, check);
    await look({ runtime, tenant: null, waitUntil }, { ...check, cost: 0 });
    await decideCheck({ runtime, tenant: null, waitUntil }, { ...check, cost: 0 });
    await decideBatch({ runtime, tenant: null, waitUntil }, [check, check, { ...check, cost: 0 }]);
    const counts = await site.counts();
    expect(counts).toMatchObject({ outcomes: { allowed: 2, denied: 1 } });
    expect(counts?.topSpenders).toMatchObject([{ count: 2 }]);
  });

  it("in checks, listed keys, key rules, dry runs and failures count under the same outcomes as in the proxy", async () => {
    const lists = { limits: "1/minute", allow: ["192.0.2.1"], deny: ["192.0.2.2"] };
    const site = new CountedSite([lists, { limits: "1/minute", dryRun: true }, { limits: "1/minute" }]);
    const { runtime, waitUntil } = site;
    const decide = (policy: string, address: string) =>
      decideCheck({ runtime, tenant: null, waitUntil }, { policy, key: [address], cost: 1 });
    await decide("p0", "192.0.2.1");
    await decide("p0", "192.0.2.2");
    await decide("p0", "192.0.2.3");
    await site.setKeyRule({ id: "r", kind: "block" }, "192.0.2.4");
    await decide("p0", "192.0.2.4");
    expect(await site.outcomes("p0")).toEqual({ exempt: 1, blocked: 2, allowed: 1 });
    for (let times = 0; times < 3; times++) await decide("p1", "192.0.2.1");
    expect(await site.outcomes("p1")).toEqual({ allowed: 1, "dry-run-denied": 2 });
    site.isolate.before = () => Promise.reject(new Error("unreachable"));
    await decide("p2", "192.0.2.9");
    expect(await site.outcomes("p2")).toEqual({ "fallback-local": 1 });
  });

  it("every check of a key that a rule blocks counts as blocked, even while its denial is cached", async () => {
    const site = new CountedSite([{ limits: "9/minute", denyCache: true }]);
    await site.setKeyRule({ id: "r", kind: "block" });
    for (let times = 0; times < 3; times++) {
      await decideCheck({ runtime: site.runtime, tenant: null, waitUntil: site.waitUntil }, check);
    }
    expect(site.isolate.callNames()).toHaveLength(1);
    expect(await site.outcomes()).toEqual({ blocked: 3 });
  });

  it("a reservation counts once, also when the key has the maximum of open reservations", async () => {
    const site = new CountedSite([{ limits: "1000000/minute" }]);
    const { runtime, waitUntil } = site;
    let denied = 0;
    let opened = 0;
    while (denied === 0 && opened < 20_000) {
      const answer = await openReservation({ runtime, tenant: null, waitUntil }, { ...check, ttlMs: 60_000 });
      if ("kind" in answer) denied++;
      else opened++;
    }
    expect(await site.outcomes()).toEqual({ allowed: opened, denied: 1 });
  });

  it("checks with ad hoc limits count under the name adhoc", async () => {
    const site = new CountedSite([{ limits: "1/minute" }]);
    const { runtime, waitUntil } = site;
    const [adhoc] = runtime.policies;
    if (adhoc === undefined) throw new Error("a policy was configured");
    const own = { adhoc: { ...adhoc, name: "adhoc" }, key: ["anything"], cost: 1 };
    await decideCheck({ runtime, tenant: null, waitUntil }, own);
    expect(await site.outcomes("adhoc")).toEqual({ allowed: 1 });
  });
});

describe("requests", () => {
  const decided = async (site: CountedSite) => {
    const { requests, policies = {} } = (await site.batch()) ?? {};
    const denied = Object.entries(policies).flatMap(([name, { deniedRequests }]) =>
      deniedRequests === undefined ? [] : [[name, deniedRequests]],
    );
    return { requests, denied: Object.fromEntries(denied) };
  };

  it("a request counts once, however many policies decide it", async () => {
    const site = new CountedSite([{ limits: "10/minute" }, { limits: "1/minute", key: "host" }]);
    await site.request();
    await site.request();
    expect(await decided(site)).toEqual({ requests: 2, denied: { p1: 1 } });
  });

  it("a request that several policies deny counts for the first of them", async () => {
    const blocked = { limits: "9/minute", deny: ["192.0.2.1"] };
    const site = new CountedSite([blocked, blocked]);
    await site.request();
    expect(await decided(site)).toEqual({ requests: 1, denied: { p0: 1 } });
  });

  it("a request that only dry runs decide does not count, and their denials deny no request", async () => {
    const dryRun = { limits: "1/minute", dryRun: true };
    const site = new CountedSite([dryRun, { ...dryRun, deny: ["192.0.2.1"] }]);
    await site.request();
    await site.request();
    expect(await decided(site)).toEqual({ requests: 0, denied: {} });
  });

  it("a request of a key on an allow list counts as allowed, and one without a required key part as denied", async () => {
    const site = new CountedSite([{ limits: "1/minute", allow: ["192.0.2.1"] }]);
    await site.request();
    expect(await decided(site)).toEqual({ requests: 1, denied: {} });
    const keyed = new CountedSite([{ limits: "1/minute", key: "header:x-user", onMissingKey: "deny" }]);
    await keyed.request();
    expect(await decided(keyed)).toEqual({ requests: 1, denied: { p0: 1 } });
  });

  it("each check counts as a request, and looks and checks of dry runs do not", async () => {
    const site = new CountedSite([{ limits: "1/minute" }, { limits: "1/minute", dryRun: true }]);
    const { runtime, waitUntil } = site;
    const call = { runtime, tenant: null, waitUntil };
    const check = { policy: "p0", key: ["192.0.2.1"], cost: 1 };
    await decideCheck(call, check);
    await look(call, { ...check, cost: 0 });
    await decideCheck(call, { ...check, policy: "p1" });
    await decideBatch(call, [check, check, { ...check, cost: 0 }]);
    expect(await decided(site)).toEqual({ requests: 3, denied: { p0: 2 } });
  });

  it("the next batch counts requests from 0 again", async () => {
    const site = new CountedSite([{ limits: "1/minute" }]);
    await site.request();
    await decided(site);
    await site.request();
    expect(await decided(site)).toEqual({ requests: 1, denied: { p0: 1 } });
  });
});

describe("plain keys", () => {
  const policies = [{ limits: "1/minute", key: "ip, header:x-user" }];

  it("without REVEAL, the statistics contain no plain key", async () => {
    const site = new CountedSite(policies);
    const admit = vi.spyOn(site.runtime.limiter, "admit");
    await site.request({ "X-User": "a" });
    expect(JSON.stringify(await site.counts())).not.toContain("sealed");
    expect(JSON.stringify(admit.mock.calls)).not.toContain("192.0.2.1");
  });

  it("with REVEAL, the keys of requests and checks are sealed with their tenant", async () => {
    const site = new CountedSite(policies, { REVEAL: "admins" });
    const { runtime, waitUntil } = site;
    const sealer = new KeySealer(secret);
    const labels = async (): Promise<(string | null)[]> =>
      Promise.all(
        ((await site.counts())?.topSpenders ?? []).map(({ key, sealed = "" }) => sealer.open("p0", key, sealed)),
      );
    await site.request({ "X-User": "a" });
    expect(await labels()).toEqual(["ip=192.0.2.1, header:x-user=a"]);
    await site.request({ "X-User": "a" }, {}, "acme");
    expect(await labels()).toEqual(["tenant=acme, ip=192.0.2.1, header:x-user=a"]);
    const check = { policy: "p0", key: ["192.0.2.7", "b"], cost: 1 };
    await decideCheck({ runtime, tenant: null, waitUntil }, check);
    expect(await labels()).toEqual(["ip=192.0.2.7, header:x-user=b"]);
  });
});
