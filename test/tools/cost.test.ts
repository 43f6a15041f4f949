/** The page about costs shows the computed table, and the counts in this table stay within the budgets. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  hourDollars,
  leastRate,
  measureBeats,
  mostSampleShare,
  mostShare,
  denialShareOf,
  sampleShareOf,
  shareOf,
} from "./control-plane/beats-cost.ts";
import { CostedObject } from "./cost-object.ts";
import { type Bill, billOfObject, measureCosts, objectDollars, workerDollars } from "./cost-replay.ts";
import { type Arrival, type CostShape, costShapes } from "./cost-shapes.ts";
import { busyKeyDollars, costDocs, costPage } from "./cost-page.ts";
import { centsText, totalDollars } from "./cost-table.ts";
import { outdated } from "./generated.ts";
import { measurePeerCosts } from "./peers/costs.ts";

const costs = await measureCosts();
const beats = await measureBeats();
const peers = await measurePeerCosts();

const shapeOf = (name: string): CostShape => {
  const found = costShapes.find((shape) => shape.name === name);
  if (found === undefined) throw new Error(`${name} is no shape`);
  return found;
};

const billOf = (name: string): Bill => {
  const found = costs.find(({ shape }) => shape.name === name);
  if (found === undefined) throw new Error(`${name} is not measured`);
  return found.bill;
};

/** The arrivals of a shape that has one object. */
const arrivalsOf = (shape: CostShape): readonly Arrival[] => shape.objects(1)[0] ?? [];

const allowed = ({ decisions, denied }: Bill): number => decisions - denied;

/** Each alarm that is set runs once, so all other written rows are keys that were put or deleted. */
const keyRows = ({ rowsWritten, alarms }: Bill): number => rowsWritten - alarms;

describe("the cost table", () => {
  it("the pages about costs and other limiters have the computed tables and plot", () => {
    expect(outdated(costDocs(costs, beats, peers))).toEqual([]);
  });

  it("the first sentence of the page about costs states the lowest and the highest price", () => {
    const dollars = costs.map(totalDollars);
    const [, first = ""] = /^# [^\n]*\n+(.*?)\.\s/s.exec(readFileSync(costPage, "utf8")) ?? [];
    expect(first).toContain(centsText(Math.min(...dollars)));
    expect(first).toContain(centsText(Math.max(...dollars)));
  });

  it("the prices in the README equal those in the cost table", () => {
    const [, section = ""] = /^## Cost and speed\n([^]*?)^## /m.exec(readFileSync("README.md", "utf8")) ?? [];
    const stated = section.match(/\$\d+\.\d\d/g) ?? [];
    const ofWorker = costs.map(({ bill }) => (1e6 * workerDollars(bill)) / bill.decisions);
    const prices = [...costs.map(totalDollars), ...ofWorker].map(centsText);
    expect(stated.length).toBeGreaterThan(3);
    expect(prices).toEqual(expect.arrayContaining(stated));
  });

  it("the cost table is the same in every run", async () => {
    expect(await measureCosts(0.02)).toEqual(await measureCosts(0.02));
  });

  it("only floods are denied, and only the deny cache saves calls of objects", () => {
    const floods = ["a flood", "the flood, no deny cache"];
    const isDenied = costs.filter(({ bill }) => bill.denied > 0).map(({ shape }) => shape.name);
    expect(isDenied).toEqual(floods);
    const isCached = costs.filter(({ bill }) => bill.calls < bill.decisions);
    expect(isCached.map(({ shape }) => shape.name)).toEqual(["a flood"]);
    expect(billOf("a flood").calls).toBeLessThan(billOf("a flood").decisions / 5);
    for (const name of floods) {
      expect(billOf(name).denied / billOf(name).decisions).toBeCloseTo(0.99, 2);
    }
  });

  it("the price of a decision is the sum of the counted operations at Cloudflare's prices", () => {
    const million = 1_000_000;
    const bill = {
      decisions: million,
      denied: 0,
      rowsWritten: 2 * million,
      rowsRead: 3 * million,
      calls: million,
      alarms: million,
      activeSeconds: million,
      objects: 1,
    };
    expect(objectDollars(bill)).toBeCloseTo(2 * 1 + 3 * 0.001 + 2 * 0.15 + 12.5 * 0.128, 9);
    expect(workerDollars(bill)).toBeCloseTo(0.3 + 0.02, 9);
  });
});

describe("the control plane", () => {
  it("at ten or more decisions a second and isolate, the control plane adds less than 2 % to the bill", () => {
    const busy = beats.costs.filter(({ rate }) => rate >= leastRate);
    expect(busy).toHaveLength(6);
    for (const cost of busy) {
      const dollars = busyKeyDollars(costs);
      expect(shareOf(cost, "with rules", dollars)).toBeLessThan(mostShare);
      expect(shareOf(cost, "no rule was ever made", dollars)).toBeLessThan(mostShare);
    }
  });

  it("at ten decisions a second and isolate, sampling one key in 64 adds less than 1 % to the bill", () => {
    expect(beats.samples.map(({ isolates }) => isolates)).toEqual([1, 10, 100]);
    for (const cost of beats.samples) {
      const share = sampleShareOf(cost, busyKeyDollars(costs));
      expect(share).toBeGreaterThan(0);
      expect(share).toBeLessThan(mostSampleShare);
    }
  });

  it("at ten decisions a second and isolate, of which a tenth are denied, the log of denials adds less than 1 %", () => {
    for (const cost of beats.samples) {
      const share = denialShareOf(cost, busyKeyDollars(costs));
      expect(share).toBeGreaterThan(0);
      expect(share).toBeLessThan(mostSampleShare);
    }
  });

  it("the control plane adds less than 30 cents a month to the bill of one isolate with few decisions", () => {
    const quiet = beats.costs.filter(({ isolates, rate }) => isolates === 1 && rate < leastRate);
    const dollars = quiet.map(({ bills }) => 730 * hourDollars(bills["with rules"]));
    expect(dollars).toHaveLength(2);
    expect(Math.max(...dollars)).toBeLessThan(0.3);
  });

  it("without samples, the control plane writes no more rows for a hundred isolates than for ten", () => {
    const rowsOf = (isolates: number): number =>
      beats.samples.find((cost) => cost.isolates === isolates)?.unsampled.rowsWritten ?? Number.NaN;
    expect(rowsOf(100)).toBeLessThan(1.15 * rowsOf(10));
  });
});

describe("the row budget", () => {
  it("a busy key writes at most 4 rows in its first second, including the alarm", async () => {
    const busy = shapeOf("a busy key");
    const arrivals = arrivalsOf(busy).slice(0, 1_000);
    const bill = await billOfObject(busy, arrivals);
    expect(bill.decisions).toBe(1_000);
    expect(bill.rowsWritten).toBeLessThanOrEqual(4);
  });

  it("a busy key writes two rows a second after its first second", () => {
    const bill = billOf("a busy key");
    expect(keyRows(bill)).toBeLessThanOrEqual((2 * bill.decisions) / 1_000 + 2);
  });

  it("a cold key writes one row for each decision and sets one alarm in its lifetime", async () => {
    const cold = shapeOf("a cold key");
    const life = await billOfObject(cold, arrivalsOf(cold).slice(0, 30));
    expect([keyRows(life), life.alarms]).toEqual([30, 1]);
    expect(keyRows(billOf("a cold key"))).toBeLessThanOrEqual(billOf("a cold key").decisions);
  });

  it("a flood writes rows for allowed requests and none for denied requests", () => {
    const bill = billOf("a flood");
    expect(keyRows(bill)).toBeLessThanOrEqual(allowed(bill));
  });

  it("confirmed writes write one row for each allowed request", () => {
    const bill = billOf("the busy key, confirmed");
    expect(keyRows(bill)).toBe(allowed(bill));
  });

  it("limits whose state is kept for ten seconds or less write no rows", () => {
    expect(billOf("the busy key, limit per 5 s")).toMatchObject({
      rowsWritten: 0,
      rowsRead: 1,
      alarms: 0,
    });
  });

  it("clients in shards need fewer rows, alarms and seconds than clients with an object each", () => {
    const own = billOf("clients, an object each");
    const sharded = billOf("clients in 32 shards");
    expect(sharded.decisions).toBe(own.decisions);
    expect(sharded.rowsWritten).toBeLessThan(own.rowsWritten);
    expect(sharded.alarms).toBeLessThan(own.alarms);
    expect(sharded.activeSeconds).toBeLessThan(own.activeSeconds);
  });
});

describe("an object in virtual time", () => {
  const [limits] = costShapes.map((shape) => shape.limits);
  const check = (object: CostedObject, atMs: number): Promise<unknown> =>
    object.check(atMs, { key: "k", charges: [{ policy: "p", limits: limits ?? [], cost: 1 }] });

  it("an object in virtual time counts concurrent events once, and counts every second with a pending timer", async () => {
    const object = new CostedObject();
    for (const atMs of [1_000_000, 1_000_000, 1_000_005]) await check(object, atMs);
    // Two spends are written immediately and take 1 ms together. The third is written one second later.
    await check(object, 1_005_000);
    expect(object.activeMs).toBe(1 + 1_000 + 1);
    expect(object.storage.written.puts).toEqual([1, 1, 1, 1]);
  });

  it("an object in virtual time loses its memory ten seconds after its last event or timer", async () => {
    const object = new CostedObject();
    const read: number[] = [];
    // The third spend is written one second later.
    for (const atMs of [0, 0, 0, 10_999, 20_998, 30_998]) {
      await check(object, 1_000_000 + atMs);
      read.push(object.storage.rowsRead);
    }
    // The first decision after each loss of memory reads the key. The last of these decisions also reads whether there
    // is a row and an alarm.
    expect(read).toEqual([1, 1, 1, 1, 1, 3]);
  });

  it("an object in virtual time runs its alarm and ends with empty storage", async () => {
    const object = new CostedObject();
    await check(object, 1_000_000);
    expect(object.storage.rows.size).toBe(1);
    await object.finish();
    expect(object.storage).toMatchObject({ rows: new Map(), alarmAtMs: null });
    expect([object.alarms, object.storage.written.deletedAll]).toEqual([1, 1]);
  });
});
