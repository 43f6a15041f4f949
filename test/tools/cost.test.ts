/** What the README's table of costs says is what comes out, and the counts in it keep the budgets. */
import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { CostedObject } from "./cost-object.ts";
import {
  type Bill,
  billOfObject,
  measureCosts,
  objectDollars,
  workerDollars,
} from "./cost-replay.ts";
import { type Arrival, type CostShape, costShapes } from "./cost-shapes.ts";
import { costHeader, costRow } from "./cost-table.ts";
import { cellsOf } from "./table.ts";

const costs = await measureCosts();

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

/** Of the only object of a shape. */
const arrivalsOf = (shape: CostShape): readonly Arrival[] => shape.objects(1)[0] ?? [];

const allowed = ({ decisions, denied }: Bill): number => decisions - denied;

/** Every alarm that is set comes once: what is left are keys put and deleted. */
const keyRows = ({ rowsWritten, alarms }: Bill): number => rowsWritten - alarms;

describe("the table of costs", () => {
  it("is in the README as it is measured", () => {
    const [, section = ""] = readFileSync("README.md", "utf8").split(/^#+ What it costs$/m);
    expect(cellsOf(section)).toEqual([costHeader, ...costs.map(costRow)]);
  });

  it("comes out the same each time", async () => {
    expect(await measureCosts(0.02)).toEqual(await measureCosts(0.02));
  });

  it("is of calls for all decisions, allowed but in the flood", () => {
    for (const { bill } of costs) expect(bill.calls).toBe(bill.decisions);
    const denied = costs.filter(({ bill }) => bill.denied > 0);
    expect(denied.map(({ shape }) => shape.name)).toEqual(["a flood"]);
    expect(billOf("a flood").denied / billOf("a flood").decisions).toBeCloseTo(0.99, 2);
  });

  it("prices what is counted", () => {
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

describe("the budget", () => {
  it("of a hot key's first second: at most 4 rows, with the alarm", async () => {
    const hot = shapeOf("a hot key");
    const arrivals = arrivalsOf(hot).slice(0, 1_000);
    const bill = await billOfObject(hot, arrivals);
    expect(bill.decisions).toBe(1_000);
    expect(bill.rowsWritten).toBeLessThanOrEqual(4);
  });

  it("of a hot key later: two rows a second", () => {
    const bill = billOf("a hot key");
    expect(keyRows(bill)).toBeLessThanOrEqual((2 * bill.decisions) / 1_000 + 2);
  });

  it("of a cold key: a row for each decision, and one alarm for a life", async () => {
    const cold = shapeOf("a cold key");
    const life = await billOfObject(cold, arrivalsOf(cold).slice(0, 30));
    expect([keyRows(life), life.alarms]).toEqual([30, 1]);
    expect(keyRows(billOf("a cold key"))).toBeLessThanOrEqual(billOf("a cold key").decisions);
  });

  it("of a flood: rows for what is allowed, none for what is denied", () => {
    const bill = billOf("a flood");
    expect(keyRows(bill)).toBeLessThanOrEqual(allowed(bill));
  });

  it("of confirmed writes: a row for each that is allowed", () => {
    const bill = billOf("the hot key, confirmed");
    expect(keyRows(bill)).toBe(allowed(bill));
  });

  it("of limits that remember ten seconds or less: nothing", () => {
    expect(billOf("the hot key, 5 s")).toMatchObject({ rowsWritten: 0, rowsRead: 1, alarms: 0 });
  });

  it("of visitors: fewer rows, alarms and seconds in shards than with an object each", () => {
    const own = billOf("visitors, an object each");
    const sharded = billOf("visitors in 32 shards");
    expect(sharded.decisions).toBe(own.decisions);
    expect(sharded.rowsWritten).toBeLessThan(own.rowsWritten);
    expect(sharded.alarms).toBeLessThan(own.alarms);
    expect(sharded.activeSeconds).toBeLessThan(own.activeSeconds);
  });
});

describe("an object of virtual time", () => {
  const [limits] = costShapes.map((shape) => shape.limits);
  const check = (object: CostedObject, atMs: number): Promise<unknown> =>
    object.check(atMs, { key: "k", charges: [{ policy: "p", limits: limits ?? [], cost: 1 }] });

  it("counts what runs side by side once, and every second that a timer keeps it", async () => {
    const object = new CostedObject();
    for (const atMs of [1_000_000, 1_000_000, 1_000_005]) await check(object, atMs);
    // Two are written at once, 1 ms for both; the third waits for a second.
    await check(object, 1_005_000);
    expect(object.activeMs).toBe(1 + 1_000 + 1);
    expect(object.storage.written.puts).toEqual([1, 1, 1, 1]);
  });

  it("loses its memory ten seconds after its last event, which a timer is too", async () => {
    const object = new CostedObject();
    const read: number[] = [];
    // The third is written a second later.
    for (const atMs of [0, 0, 0, 10_999, 20_998, 30_998]) {
      await check(object, 1_000_000 + atMs);
      read.push(object.storage.rowsRead);
    }
    // It looks for the key, and the last time also whether there was a row, and so an alarm.
    expect(read).toEqual([1, 1, 1, 1, 1, 3]);
  });

  it("lets its alarm come, and ends with nothing stored", async () => {
    const object = new CostedObject();
    await check(object, 1_000_000);
    expect(object.storage.rows.size).toBe(1);
    await object.finish();
    expect(object.storage).toMatchObject({ rows: new Map(), alarmAtMs: null });
    expect([object.alarms, object.storage.written.deletedAll]).toEqual([1, 1]);
  });
});
