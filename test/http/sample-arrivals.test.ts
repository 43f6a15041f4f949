/** The traffic sample of an isolate: which decisions and settlements it records, and their times. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { SampledArrival, SampledEvent } from "../../src/control/sample-codec.ts";
import { decideBatch, decideCheck, look, openReservation, settleReservation } from "../../src/http/check/operations.ts";
import { startMs } from "../fakes/isolate.ts";
import { CountedSite } from "./counted-site.ts";

beforeEach(() => {
  vi.spyOn(console, "error").mockReturnValue(undefined);
  vi.spyOn(console, "warn").mockReturnValue(undefined);
});
afterEach(() => void vi.restoreAllMocks());

const siteWith = (...policies: object[]) => new CountedSite(policies, { SAMPLE: "1/1" });

const arrivalAt = (afterMs: number, changes: Partial<SampledArrival> = {}): SampledArrival => ({
  kind: "arrival",
  atMs: startMs + afterMs,
  cost: 1,
  outcome: "allowed",
  ttlMs: 0,
  hasOtherLimits: false,
  ...changes,
});

/** The events of the only sampled key. */
async function eventsIn(site: CountedSite, policy = "p0"): Promise<readonly SampledEvent[]> {
  const samples = [...(await site.samples(policy)).values()];
  expect(samples.length).toBeLessThanOrEqual(1);
  return samples[0] ?? [];
}

const outcomesIn = async (site: CountedSite, policy = "p0") =>
  (await eventsIn(site, policy)).map((event) => event.kind === "arrival" && event.outcome);

const check = { policy: "p0", key: ["192.0.2.1"], cost: 1 };

describe("arrivals", () => {
  it("each decision by limits is recorded with its time, cost and outcome", async () => {
    const site = siteWith({ limits: "10/minute", cost: 5 });
    await site.request();
    site.isolate.clock.nowMs += 7;
    await site.request();
    await site.request();
    const cost = 5;
    expect(await eventsIn(site)).toEqual([
      arrivalAt(0, { cost }),
      arrivalAt(7, { cost }),
      arrivalAt(7, { cost, outcome: "denied" }),
    ]);
  });

  it("a decision has the object's time if the object decided, and the isolate's time if the deny cache did", async () => {
    const site = siteWith({ limits: "1/minute", denyCache: true });
    site.isolate.before = async ({ name }) => {
      if (name === "check") site.isolate.clock.nowMs += 10;
    };
    const after = async (): Promise<void> => {
      await site.request();
      site.isolate.clock.nowMs += 100;
    };
    for (let times = 0; times < 3; times++) await after();
    expect(site.isolate.callNames()).toEqual(["check", "check"]);
    expect(await eventsIn(site)).toEqual([
      arrivalAt(10),
      arrivalAt(120, { outcome: "denied" }),
      arrivalAt(220, { outcome: "denied" }),
    ]);
  });

  it.for([
    ["leased", { consistency: "leased" }],
    ["eventual", { consistency: "eventual" }],
  ] as const)("decisions under %s consistency have the isolate's time", async ([, fields]) => {
    const site = siteWith({ limits: "1000/minute", ...fields });
    for (let times = 0; times < 20; times++) {
      await site.request();
      site.isolate.clock.nowMs += 1;
    }
    const decidedByObject = site.isolate.callNames().filter((name) => name === "lease").length;
    expect(decidedByObject).toBeLessThan(20);
    expect(await eventsIn(site)).toEqual(Array.from({ length: 20 }, (_, ms) => arrivalAt(ms)));
  });

  it("keys outside the sample are not recorded, and no key is when SAMPLE is off", async () => {
    const variables = [{ SAMPLE: "off" }, { SAMPLE: "1/4096" }, { SAMPLE: "1/1" }];
    const sampled = variables.map(async (each) => {
      const site = new CountedSite([{ limits: "1/minute" }], each);
      for (let client = 1; client <= 50; client++) {
        await site.request({ "CF-Connecting-IP": `192.0.2.${client}` });
      }
      return (await site.samples()).size;
    });
    expect(await Promise.all(sampled)).toEqual([0, 0, 50]);
  });

  it("a denied request is recorded only for the policies that deny it", async () => {
    const site = siteWith({ limits: "9/minute" }, { limits: "1/minute", key: "host" });
    await site.request();
    await site.request();
    const { samples = {} } = (await site.batch()) ?? {};
    expect(samples["p0"]).toMatchObject({ arrivals: 1 });
    expect(samples["p1"]).toMatchObject({ arrivals: 2 });
  });

  it("bans and dry runs are recorded with their own outcomes", async () => {
    const ban = { after: 1, within: "1m", for: "1h" };
    const site = siteWith({ limits: "1/minute", ban }, { limits: "1/minute", dryRun: true });
    await site.request();
    await site.request();
    await site.request();
    const { samples } = (await site.batch()) ?? {};
    expect(samples?.["p0"]?.arrivals).toBe(3);
    const banned = siteWith({ limits: "1/minute", ban });
    for (let times = 0; times < 3; times++) await banned.request();
    expect((await outcomesIn(banned)).slice(-1)).toEqual(["banned"]);
    const dry = siteWith({ limits: "1/minute", dryRun: true });
    for (let times = 0; times < 2; times++) await dry.request();
    expect(await outcomesIn(dry)).toEqual(["allowed", "dry-run-denied"]);
  });

  it.for(["local", "open", "closed"])(
    "without an answer of the object, onError = %j is recorded with the isolate's time",
    async (onError) => {
      const site = siteWith({ limits: "10/minute", onError });
      site.isolate.before = () => Promise.reject(new Error("unreachable"));
      site.isolate.clock.nowMs += 3;
      await site.request();
      expect(await eventsIn(site)).toEqual([{ ...arrivalAt(3), outcome: `fallback-${onError}` }]);
    },
  );

  it("keys that a list or a key rule allows or blocks, and missing keys, are not recorded", async () => {
    const lists = { allow: ["192.0.2.1"], deny: ["192.0.2.2"], dryRun: true };
    const site = siteWith({ limits: "1/minute", ...lists });
    await site.request();
    await site.request({ "CF-Connecting-IP": "192.0.2.2" });
    await site.setKeyRule({ id: "a", kind: "allow" }, "192.0.2.3");
    await site.request({ "CF-Connecting-IP": "192.0.2.3" });
    await site.setKeyRule({ id: "b", kind: "block" }, "192.0.2.4");
    await site.request({ "CF-Connecting-IP": "192.0.2.4" });
    expect(await site.samples()).toEqual(new Map());
    const missing = siteWith({ limits: "1/m", key: "header:x-user", onMissingKey: "deny" });
    await missing.request();
    expect(await missing.samples()).toEqual(new Map());
  });

  it("decisions by the limits of an override or of a key rule are marked", async () => {
    const overrides = [{ key: "192.0.2.1", limits: "2/minute" }];
    const site = siteWith({ limits: "1/minute", overrides });
    await site.request();
    expect(await eventsIn(site)).toEqual([arrivalAt(0, { hasOtherLimits: true })]);
    const ruled = siteWith({ limits: "1/minute" });
    const limits = [{ ...ruled.runtime.policies[0]?.limits[0] }] as never;
    await ruled.setKeyRule({ id: "r", kind: "limits", limits });
    await ruled.request();
    expect(await eventsIn(ruled)).toEqual([arrivalAt(0, { hasOtherLimits: true })]);
  });

  it("checks and batches are recorded like requests; looks and ad hoc limits are not", async () => {
    const site = siteWith({ limits: "2/minute" });
    const { runtime, waitUntil } = site;
    await decideCheck({ runtime, tenant: null, waitUntil }, check);
    await look({ runtime, tenant: null, waitUntil }, { ...check, cost: 0 });
    await decideCheck({ runtime, tenant: null, waitUntil }, { ...check, cost: 0 });
    await decideBatch({ runtime, tenant: null, waitUntil }, [check, check, { ...check, cost: 0 }]);
    const [policy] = runtime.policies;
    if (policy === undefined) throw new Error("a policy was configured");
    const adhoc = { ...policy, name: "adhoc" };
    await decideCheck({ runtime, tenant: null, waitUntil }, { adhoc, key: ["anything"], cost: 1 });
    const batch = await site.batch();
    expect(Object.keys(batch?.samples ?? {})).toEqual(["p0"]);
    expect(batch?.samples?.["p0"]?.arrivals).toBe(3);
  });
});

describe("reservations", () => {
  const ttlMs = 60_000;

  /** Makes a reservation and settles it after 400 ms, by another isolate if the test asks for one. */
  async function settledAt(cost: number): Promise<CountedSite> {
    const site = siteWith({ limits: "10/minute" });
    const { runtime, waitUntil } = site;
    const input = { ...check, cost: 4, ttlMs };
    const answer = await openReservation({ runtime, tenant: null, waitUntil }, input);
    const id = "id" in answer ? (answer.id ?? "") : "";
    site.isolate.clock.nowMs += 400;
    expect(await settleReservation({ runtime, tenant: null, waitUntil }, { id, cost })).toEqual({ settled: true });
    expect(await settleReservation({ runtime, tenant: null, waitUntil }, { id, cost })).toEqual({ settled: false });
    return site;
  }

  it.for([0, 1, 4, 9])("a reservation of 4 that is settled at %d has both events", async (cost) => {
    expect(await eventsIn(await settledAt(cost))).toEqual([
      arrivalAt(0, { cost: 4, ttlMs }),
      {
        kind: "settlement",
        atMs: startMs + 400,
        spentAtMs: startMs,
        cost: 4,
        actualCost: cost,
      },
    ]);
  });

  it("a reservation of cost 0 is recorded, because its actual cost may be higher", async () => {
    const site = siteWith({ limits: "10/minute" });
    const input = { ...check, cost: 0, ttlMs };
    await openReservation({ runtime: site.runtime, tenant: null, waitUntil: site.waitUntil }, input);
    expect(await eventsIn(site)).toEqual([arrivalAt(0, { cost: 0, ttlMs })]);
  });

  it("without a sample of the key, a settlement still takes what it gives back from the greatest spenders", async () => {
    const site = new CountedSite([{ limits: "10/minute" }], { SAMPLE: "off" });
    const { runtime, waitUntil } = site;
    const answer = await openReservation({ runtime, tenant: null, waitUntil }, { ...check, cost: 5, ttlMs });
    const id = "id" in answer ? (answer.id ?? "") : "";
    await settleReservation({ runtime, tenant: null, waitUntil }, { id, cost: 2 });
    expect(await site.counts()).toMatchObject({ topSpenders: [{ count: 5 }], topRefunded: [{ count: 3 }] });
  });

  it("concurrency slots of the proxy are recorded as reservations that end with the response", async () => {
    const site = siteWith({ limits: "1/minute", strategy: "concurrency" }, { limits: "9/minute" });
    site.forwardTo = async () => {
      site.isolate.clock.nowMs += 250;
      return new Response(null);
    };
    await site.request();
    await site.request();
    const events = await eventsIn(site);
    const settlement = { kind: "settlement", cost: 1, actualCost: 1 } as const;
    expect(events).toEqual([
      arrivalAt(0, { ttlMs: 60_000 }),
      { ...settlement, spentAtMs: startMs, atMs: startMs + 250 },
      arrivalAt(250, { ttlMs: 60_000 }),
      { ...settlement, spentAtMs: startMs + 250, atMs: startMs + 500 },
    ]);
  });

  it("a reservation is recorded for all policies of its key, because they are reserved together", async () => {
    const site = siteWith({ limits: "9/minute" }, { limits: "5/minute", strategy: "concurrency" });
    site.forwardTo = async () => new Response(null);
    await site.request();
    expect(await eventsIn(site)).toEqual([
      arrivalAt(0, { ttlMs: 60_000 }),
      { kind: "settlement", atMs: startMs, spentAtMs: startMs, cost: 1, actualCost: 1 },
    ]);
  });

  it("the reservation of a request that another policy denies is not recorded", async () => {
    const slots = { limits: "5/minute", strategy: "concurrency" };
    const site = siteWith(slots, { limits: "1/minute", key: "host" });
    site.forwardTo = async () => new Response(null);
    await site.request();
    expect(await eventsIn(site)).toHaveLength(2);
    expect(await site.request()).toBe(429);
    expect(site.isolate.callNames().filter((name) => name === "settle")).toHaveLength(2);
    expect(await site.samples()).toEqual(new Map());
  });

  it("the request of a client that leaves a queue before its turn is settled at cost 0", async () => {
    const queue = { limit: 1, window: "1s", strategy: "leaky-bucket", burst: 5 };
    const site = siteWith({ limits: queue, count: { status: ["2xx"] } });
    const leaving = new AbortController();
    await site.request();
    await site.batch();
    leaving.abort();
    expect(await site.request({}, { signal: leaving.signal })).toBe(499);
    const events = await eventsIn(site);
    expect(events.map(({ kind }) => kind)).toEqual(["arrival", "settlement"]);
    expect(events[1]).toMatchObject({ cost: 1, actualCost: 0 });
  });
});
