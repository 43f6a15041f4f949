/** Replays the traffic of a shape through the limiter and adds up what its objects are billed for. */
import { CostedObject } from "./cost-object.ts";
import { type Arrival, type CostShape, costShapes } from "./cost-shapes.ts";
import { dollarsFor, prices } from "./prices.ts";

export interface Bill {
  readonly decisions: number;
  readonly denied: number;
  /** Keys put and deleted, and alarms set. */
  readonly rowsWritten: number;
  readonly rowsRead: number;
  readonly calls: number;
  /** Alarms that ran. */
  readonly alarms: number;
  readonly activeSeconds: number;
  readonly objects: number;
}

/** The assumed CPU time of the Worker for each decision. */
const workerMs = 1;

export interface ShapeCost {
  readonly shape: CostShape;
  readonly bill: Bill;
}

export async function measureCosts(scale = 1): Promise<ShapeCost[]> {
  const costs: ShapeCost[] = [];
  for (const shape of costShapes) costs.push({ shape, bill: await billOf(shape, scale) });
  return costs;
}

async function billOf(shape: CostShape, scale: number): Promise<Bill> {
  const bills: Bill[] = [];
  for (const arrivals of shape.objects(scale)) bills.push(await billOfObject(shape, arrivals));
  const sum = (count: (bill: Bill) => number): number =>
    bills.reduce((total, bill) => total + count(bill), 0);
  return {
    decisions: sum((bill) => bill.decisions),
    denied: sum((bill) => bill.denied),
    rowsWritten: sum((bill) => bill.rowsWritten),
    rowsRead: sum((bill) => bill.rowsRead),
    calls: sum((bill) => bill.calls),
    alarms: sum((bill) => bill.alarms),
    activeSeconds: sum((bill) => bill.activeSeconds),
    objects: bills.length,
  };
}

export async function billOfObject(shape: CostShape, arrivals: readonly Arrival[]): Promise<Bill> {
  const object = new CostedObject();
  const { limits, durability } = shape;
  const charges = [{ policy: "p", limits, cost: 1 }];
  let denied = 0;
  for (const { atMs, key } of arrivals) {
    const { decisions } = await object.check(atMs, { key, charges, durability });
    if (decisions[0]?.allowed !== true) denied++;
  }
  // A shard in use is never empty, so its rows are deleted one by one. The deleteAll at the end of this traffic would
  // hide these deletions, so it is left out.
  const remaining = shape.isSharded ? object.storage.rows.size : 0;
  if (!shape.isSharded) await object.finish();
  const { written, rowsRead } = object.storage;
  return {
    decisions: arrivals.length,
    denied,
    rowsWritten: written.rows + written.alarms + remaining,
    rowsRead,
    calls: object.calls,
    alarms: object.alarms,
    activeSeconds: object.activeMs / 1_000,
    objects: 1,
  };
}

/** The price of the objects, in dollars. */
export const objectDollars = (bill: Bill): number =>
  dollarsFor(bill.rowsWritten, prices.rowsWritten) +
  dollarsFor(bill.rowsRead, prices.rowsRead) +
  dollarsFor(bill.calls + bill.alarms, prices.objectRequests) +
  dollarsFor(bill.activeSeconds, prices.objectSeconds);

/** The price of the Worker, in dollars, with one request for each decision. */
export const workerDollars = ({ decisions }: Bill): number =>
  dollarsFor(decisions, prices.workerRequests) +
  dollarsFor(decisions * workerMs, prices.workerCpuMs);

/** The count per million decisions. */
export const perMillion = (count: number, { decisions }: Bill): number =>
  (count * 1_000_000) / decisions;
