/** Replays a shape of traffic through the limiter, and adds up what Cloudflare bills for its objects. */
import { parseConfig } from "../../src/policy/vars/config.ts";
import type { Policy } from "../../src/policy/policy.ts";
import { DenyCache } from "../../src/limiter/isolate/deny-cache.ts";
import { randomFrom } from "../random.ts";
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

/** The limits of each shape replace those of this policy. */
const policy = firstPolicy();

function firstPolicy(): Policy {
  const [first] = parseConfig({ KEY_SECRET: "s", LIMITS: "1/second" }).policies;
  if (first === undefined) throw new Error("a policy was configured");
  return first;
}

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
  const sum = (count: (bill: Bill) => number): number => bills.reduce((total, bill) => total + count(bill), 0);
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
  const charges = [{ policy: policy.name, limits, cost: 1 }];
  const random = randomFrom(6);
  const denyCaches = Array.from({ length: shape.isolates }, () => new DenyCache());
  let denied = 0;
  for (const { atMs, key } of arrivals) {
    const denyCache = denyCaches[Math.floor(random() * denyCaches.length)];
    const group = [{ policy: { ...policy, limits }, partitionKey: key, cost: 1 }];
    if (denyCache !== undefined && denyCache.recall(group, atMs) !== null) {
      denied++;
      continue;
    }
    const reply = await object.check(atMs, { key, charges, durability });
    if (reply.decisions[0]?.allowed !== true) denied++;
    denyCache?.remember(group, reply, { calledAtMs: atMs, answeredAtMs: atMs });
  }
  // A shard in use is never empty, so it deletes its rows one by one. The replay omits the final deleteAll, which would
  // hide these deletions.
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

/** The prices of the items of an object's bill, in dollars. */
export const partDollars = (bill: Bill): Record<"rows" | "calls" | "seconds", number> => ({
  rows: dollarsFor(bill.rowsWritten, prices.rowsWritten) + dollarsFor(bill.rowsRead, prices.rowsRead),
  calls: dollarsFor(bill.calls + bill.alarms, prices.objectRequests),
  seconds: dollarsFor(bill.activeSeconds, prices.objectSeconds),
});

/** The price of the objects, in dollars. */
export function objectDollars(bill: Bill): number {
  const { rows, calls, seconds } = partDollars(bill);
  return rows + calls + seconds;
}

/** The price of the Worker, in dollars, with one request for each decision. */
export const workerDollars = ({ decisions }: Bill): number =>
  dollarsFor(decisions, prices.workerRequests) + dollarsFor(decisions * workerMs, prices.workerCpuMs);

/** The count per million decisions. */
export const perMillion = (count: number, { decisions }: Bill): number => (count * 1_000_000) / decisions;
