/** The prices of a million decisions by other rate limiters for Workers, for the traffic of the cost table. */
import type { Store } from "hono-rate-limiter";
import { type Arrival, type CostShape, costShapes } from "../cost-shapes.ts";
import { type Bill, objectDollars, perMillion, type ShapeCost, workerDollars } from "../cost-replay.ts";
import { centsText, totalDollars } from "../cost-table.ts";
import { randomFrom } from "../../random.ts";
import { dollarsFor } from "../prices.ts";
import { markdownTable, type Row } from "../table.ts";
import { durableStore } from "./durable-store.ts";
import type { DecideKey } from "./limiters.ts";
import { UpstashRedis } from "./upstash-redis.ts";
import { inVirtualTime } from "./virtual-time.ts";

/** Upstash's price without a monthly plan: https://upstash.com/pricing/redis, read in November 2026. */
const redisCommands = { dollars: 0.2, per: 100_000 };

export interface PeerCost {
  readonly shape: CostShape;
  /** In dollars per million decisions, including the Worker. */
  readonly durableStore: number;
  readonly upstash: number;
  /** Cloudflare states no price for the rate limiting binding. */
  readonly binding: number;
}

/** Shapes of traffic that need no setting that only Headgate has. */
const compared = ["a busy key", "a cold key", "clients, an object each", "new keys, an object each", "a flood"];

export async function measurePeerCosts(scale = 1): Promise<PeerCost[]> {
  const costs: PeerCost[] = [];
  for (const shape of costShapes.filter(({ name }) => compared.includes(name))) {
    const arrivals = shape.objects(scale).flat();
    const requests = arrivals.toSorted((a, b) => a.atMs - b.atMs);
    costs.push(await costOf(shape, requests));
  }
  return costs;
}

async function costOf(shape: CostShape, requests: readonly Arrival[]): Promise<PeerCost> {
  const bill = await billOfStore(shape, requests);
  const worker = perMillion(workerDollars(bill), bill);
  const commands = await commandsOf(shape, requests);
  return {
    shape,
    durableStore: worker + perMillion(objectDollars(bill), bill),
    upstash: worker + perMillion(dollarsFor(commands, redisCommands), bill),
    binding: worker,
  };
}

async function billOfStore(shape: CostShape, requests: readonly Arrival[]): Promise<Bill> {
  const { limit, windowMs } = limitOf(shape);
  const { store, counts, objects } = durableStore(windowMs);
  let denied = 0;
  await replay(requests, 1, () => async (key) => {
    const { totalHits } = await (store as Store).increment(key);
    if (totalHits > limit) denied++;
    return totalHits <= limit;
  });
  const { calls, alarms } = counts;
  // As for Headgate, each event is assumed to take 1 ms.
  const activeSeconds = (calls + alarms) / 1_000;
  const decisions = requests.length;
  return { ...counts, decisions, denied, activeSeconds, objects: objects.size };
}

/** The number of Redis commands. Each isolate has the cache of denied keys that the package has by default. */
async function commandsOf(shape: CostShape, requests: readonly Arrival[]): Promise<number> {
  const { limit, windowMs } = limitOf(shape);
  const redis = new UpstashRedis();
  await replay(requests, Math.max(1, shape.isolates), () => {
    const limiter = redis.limiter(limit, windowMs);
    return async (key) => (await limiter.limit(key)).success;
  });
  return redis.commands;
}

async function replay(requests: readonly Arrival[], isolates: number, start: () => DecideKey): Promise<void> {
  const random = randomFrom(6);
  const [first, last] = [requests[0]?.atMs ?? 0, requests.at(-1)?.atMs ?? 0];
  await inVirtualTime(first, async (reach) => {
    const deciders = Array.from({ length: isolates }, start);
    for (const { atMs, key } of requests) {
      reach(atMs);
      await deciders[Math.floor(random() * isolates)]?.(key);
    }
    // Runs the alarms that are still set.
    reach(last + 86_400_000);
    await Promise.resolve();
  });
}

function limitOf({ name, limits }: CostShape): { limit: number; windowMs: number } {
  const [limit] = limits;
  if (limit === undefined) throw new Error(`${name} has no limit`);
  return limit;
}

const costHeader: Row = [
  "dollars per million requests",
  "Headgate",
  "`hono-rate-limiter`, objects",
  "`@upstash/ratelimit`",
  "binding",
];

/** @param own the prices of Headgate */
export function peerCostTable(own: readonly ShapeCost[], peers: readonly PeerCost[]): string {
  const rows = peers.map(({ shape, durableStore: store, upstash, binding }) => {
    const found = own.find((cost) => cost.shape.name === shape.name);
    if (found === undefined) throw new Error(`${shape.name} is not measured`);
    const prices = [totalDollars(found), store, upstash, binding];
    return [shape.name.replace(", an object each", ""), ...prices.map(centsText)];
  });
  return markdownTable(costHeader, rows);
}
