/** The tables on the page about capacity equal the computed tables, and support the page's conclusions. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { isFull } from "../mode.ts";
import { measure, shape as traffic } from "../simulation/admission.ts";
import { type Bill, objectDollars, perMillion, workerDollars } from "./cost-replay.ts";
import { type ModelledLoad, loadOf, type ServingMode, worthwhileUnits } from "./scale-model.ts";
import { scalePage, scaleTables, shardsNeeded } from "./scale-page.ts";
import { replays } from "./scale-replay.ts";
import { isolatesFor, keyCounts, rates, uniform, zipf } from "./scale-traffic.ts";
import { partsOf } from "./generated.ts";
import { cellsOf } from "./table.ts";

const replayed = await replays(isFull ? undefined : 5);
const page = readFileSync(scalePage, "utf8");
const distributions = { uniform, zipf };
const ways: readonly Omit<ServingMode, "isolates">[] = (["strict", "leased", "eventual"] as const).flatMap(
  (consistency) => [null, 32, 4096].map((shards) => ({ consistency, shards })),
);
/** Excludes leased policies, because their saving shrinks as fewer requests are allowed. */
const paid = ways.filter(({ consistency }) => consistency !== "leased");
const strict = { consistency: "strict", shards: null, isolates: 100 } as const;

const addedBy = ({ bill }: ModelledLoad): number => perMillion(objectDollars(bill), bill);
const oneKey = (perSecond: number, way: ServingMode): ModelledLoad => loadOf([{ keys: 1, perSecond }], way);

describe("the page about capacity", () => {
  it("the tables of the page about capacity equal the computed ones", () => {
    const computed = scaleTables(replayed).map(cellsOf);
    const shown = partsOf(page, "npm run bench -- scale").map(cellsOf);
    // A short run replays only the first rows of the last table.
    expect(shown.map((rows, table) => rows.slice(0, computed[table]?.length))).toEqual(computed);
    const rowsOf = (tables: readonly unknown[][]): number[] => tables.map(({ length }) => length);
    const compared = isFull ? shown.length : -1;
    expect(rowsOf(shown.slice(0, compared))).toEqual(rowsOf(computed.slice(0, compared)));
  });
});

describe("the price", () => {
  const million = 1_000_000;
  const nothing: Bill = {
    decisions: million,
    denied: 0,
    rowsWritten: 0,
    rowsRead: 0,
    calls: 0,
    alarms: 0,
    activeSeconds: 0,
    objects: 1,
  };
  const called = { ...nothing, calls: million, activeSeconds: 1_000 };

  // The costs of these designs are known from Cloudflare's prices.
  it.each([
    ["a denial from the isolate's memory", nothing, 0.32],
    ["an object's memory", called, 0.47],
    ["a row per ten decisions", { ...called, rowsWritten: million / 10 }, 0.57],
    ["a row per allowed decision, half denied", { ...called, rowsWritten: million / 2 }, 0.97],
    ["a row per decision that waits 10 ms for it", { ...called, rowsWritten: million, activeSeconds: 10_000 }, 1.49],
  ])("the model gives Cloudflare's price of a million decisions for %s", (_, bill, dollars) => {
    expect(objectDollars(bill) + workerDollars(bill)).toBeCloseTo(dollars, 2);
  });

  it("the deny cache makes a flood on one key almost free, but each allowed request on a hot key costs a call", () => {
    const flood = oneKey(100_000, { ...strict, deniedShare: 1 });
    const hot = oneKey(1_000, strict);
    expect(addedBy(flood) + 0.32).toBeCloseTo(0.32, 2);
    expect(addedBy(hot) + 0.32).toBeCloseTo(0.47, 2);
  });
});

describe.each(Object.entries(distributions))("a distribution of keys: %s", (_, distribution) => {
  it.each(keyCounts)("the groups of a distribution contain all keys and all requests: %d", (keys) => {
    const groups = distribution(1_000, keys);
    const requests = groups.reduce((sum, group) => sum + group.keys * group.perSecond, 0);
    expect(groups.reduce((sum, group) => sum + group.keys, 0)).toBe(keys);
    expect(requests).toBeCloseTo(1_000, 6);
  });

  it.each(ways)("a higher rate makes more calls in total and fewer calls per request: $consistency, $shards", (way) => {
    const loads = [1e2, 1e3, 1e4, 1e5, 1e6].map((rate) => loadOf(distribution(rate, 1e5), { ...way, isolates: 100 }));
    const calls = loads.map(({ bill }) => bill.calls);
    const hottest = loads.map((load) => load.hottest);
    const shares = loads.map(({ bill }) => Math.round(perMillion(bill.calls, bill)));
    const ascending = (a: number, b: number): number => a - b;
    expect(calls).toEqual(calls.toSorted(ascending));
    expect(hottest).toEqual(hottest.toSorted(ascending));
    expect(shares).toEqual(shares.toSorted(ascending).toReversed());
  });

  it.each(ways)(
    "shards never increase the calls, reduce them only with eventual consistency, and never need more calls than requests: $consistency, $shards",
    (way) => {
      for (const rate of rates) {
        const groups = distribution(rate, 1e6);
        const isolates = isolatesFor(rate);
        const { calls } = loadOf(groups, { ...way, isolates }).bill;
        const perKey = loadOf(groups, { ...way, shards: null, isolates }).bill.calls;
        // One call syncs all keys of a shard that are due.
        const least = way.consistency === "eventual" ? 0 : perKey;
        expect(calls).toBeGreaterThanOrEqual(least * (1 - 1e-9));
        expect(calls).toBeLessThanOrEqual(perKey * (1 + 1e-9));
        expect(calls).toBeLessThanOrEqual(rate * (1 + 1e-9));
      }
    },
  );

  it.each(paid)("the cost never grows with the share of denied requests: $consistency, $shards", (way) => {
    const groups = distribution(100_000, 1e5);
    const dollars = [0, 0.25, 0.5, 0.75, 1].map((deniedShare) =>
      objectDollars(loadOf(groups, { ...way, isolates: 100, deniedShare }).bill),
    );
    expect(dollars).toEqual(dollars.toSorted((a, b) => b - a));
  });

  it("the busiest shard receives at least the average number of calls, and at most all calls", () => {
    for (const shards of [32, 4096]) {
      const load = loadOf(distribution(100_000, 1e6), { ...strict, shards });
      expect(load.hottest).toBeGreaterThanOrEqual(load.bill.calls / shards);
      expect(load.hottest).toBeLessThanOrEqual(load.bill.calls);
    }
  });
});

describe("the calls of isolates", () => {
  it.each(["leased", "eventual"] as const)(
    "the calls of %s isolates in the model are within a fifth of those in a simulation",
    async (consistency) => {
      const isolates = 10;
      const setting = { consistency, limit: 100_000, windowMs: 10_000, windows: 3 };
      const { calls } = await measure({ ...setting, isolateCounts: [isolates] }, isolates);
      const { bill } = oneKey(traffic.requestsPerSecond, { ...strict, consistency, isolates });
      expect(Math.abs((1_000 * bill.calls) / bill.decisions / calls - 1)).toBeLessThan(0.2);
    },
  );
});

describe("the cost model", () => {
  it("the model is within a twentieth of the bill for the object's own code", () => {
    for (const { modelled, replayed: bill } of replayed) {
      const ratio = perMillion(objectDollars(modelled), modelled) / perMillion(objectDollars(bill), bill);
      expect(Math.abs(ratio - 1)).toBeLessThan(0.05);
    }
  });
});

describe("a conclusion of the page about capacity", () => {
  it("keys cost most when their rates are equal", () => {
    for (const rate of rates) {
      for (const keys of keyCounts) {
        const [even, hot] = [uniform, zipf].map((spread) => addedBy(loadOf(spread(rate, keys), strict)));
        expect(even).toBeGreaterThan(hot ?? 0);
      }
    }
  });

  it("cold keys cost one row each, and hot keys hardly any rows", () => {
    expect(perMillion(oneKey(0.1, strict).bill.rowsWritten, oneKey(0.1, strict).bill)).toBeGreaterThan(990_000);
    expect(perMillion(oneKey(10, strict).bill.rowsWritten, oneKey(10, strict).bill)).toBeLessThan(200_000);
  });

  it("strict consistency exceeds an object's 1,000 requests a second on one hot key in any layout", () => {
    for (const shards of [null, 32, 4096]) {
      expect(oneKey(1_001, { ...strict, shards }).hottest).toBeGreaterThan(1_000);
    }
    expect(shardsNeeded(zipf(15_000, 1e6))).toBeNull();
    expect(shardsNeeded(zipf(10_000, 1e6))).not.toBeNull();
  });

  it("leased consistency saves money from 11 requests per second and isolate on", () => {
    expect(Math.ceil(worthwhileUnits)).toBe(11);
    const ratioOf = (units: number): number => {
      const way = { ...strict, isolates: 100 };
      const leased = oneKey(units * way.isolates, { ...way, consistency: "leased" });
      return addedBy(leased) / addedBy(oneKey(units * way.isolates, way));
    };
    expect(ratioOf(10)).toBeGreaterThan(1);
    expect(ratioOf(11)).toBeLessThan(1);
  });

  it("leased consistency calls the object of a hot key 2.25 times a second per isolate, and eventual once per sync interval", () => {
    const way = { ...strict, isolates: 400 };
    const hot = 400_000;
    expect(oneKey(hot, { ...way, consistency: "leased" }).hottest).toBeCloseTo(900, 0);
    const eventual = { ...way, consistency: "eventual" } as const;
    expect(oneKey(hot, eventual).hottest).toBeCloseTo(400, -1);
    expect(oneKey(hot, { ...eventual, syncSeconds: 10 }).hottest).toBeCloseTo(40, -1);
  });

  it("for keys with equal rates, one shard per 1,000 requests a second plus a third more shards suffice", () => {
    for (const rate of rates) {
      for (const keys of [1e6, 1e8]) {
        const shards = Math.ceil(((rate / 1_000) * 4) / 3);
        expect(loadOf(uniform(rate, keys), { ...strict, shards }).hottest).toBeLessThan(1_000);
      }
    }
  });

  it("when each of 10^8 keys with equal rates has its own object, almost every request wakes an object", () => {
    const { woken, bill } = loadOf(uniform(1_000_000, 1e8), strict);
    expect(woken / bill.decisions).toBeGreaterThan(0.9);
    expect(loadOf(uniform(1_000_000, 1e8), { ...strict, shards: 1024 }).woken).toBeLessThan(1);
  });
});
