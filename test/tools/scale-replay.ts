/** Compares the model's write-behind with the object's own code, for keys that are requested at random. */
import { parseLimits } from "../../src/strategies/index.ts";
import { randomFrom } from "../random.ts";
import { type Bill, billOfObject } from "./cost-replay.ts";
import type { CostShape } from "./cost-shapes.ts";
import { loadOf } from "./scale-model.ts";
import { uniform } from "./scale-traffic.ts";

export interface Replay {
  readonly keys: number;
  /** The rate of all keys together. */
  readonly perSecond: number;
  readonly isSharded: boolean;
  readonly replayed: Bill;
  readonly modelled: Bill;
}

/** The keys and the requests per second of one object, and the number of requests to replay. */
const replayCases = [
  [1, 1 / 600, 2_000],
  [1, 1 / 60, 3_000],
  [1, 0.1, 5_000],
  [1, 1, 5_000],
  [1, 10, 10_000],
  [1, 1_000, 20_000],
  [10, 30, 10_000],
  [1_000, 100, 30_000],
  [100_000, 30, 30_000],
] as const;

/** @param count the number of cases to replay; the cheapest come first */
export async function replays(count: number = replayCases.length): Promise<Replay[]> {
  const all = replayCases.slice(0, count).map(async ([keys, perSecond, decisions]) => {
    const isSharded = keys > 1;
    const way = { consistency: "strict", shards: isSharded ? 1 : null, isolates: 1 } as const;
    return {
      keys,
      perSecond,
      isSharded,
      replayed: await replayed(keys, perSecond, decisions, isSharded),
      modelled: loadOf(uniform(perSecond, keys), way).bill,
    };
  });
  return Promise.all(all);
}

function replayed(keys: number, perSecond: number, decisions: number, isSharded: boolean): Promise<Bill> {
  const random = randomFrom(7);
  let atMs = 1_800_000_000_000;
  const arrivals = Array.from({ length: decisions }, () => {
    atMs += (-Math.log(1 - random()) * 1_000) / perSecond;
    return { atMs: Math.round(atMs), key: `key-${Math.floor(random() * keys)}` };
  });
  const shape: CostShape = {
    name: "random",
    traffic: "random",
    // High enough that no request is denied.
    limits: parseLimits("1000000/minute", { policy: "p", strategy: "sliding-window-counter" }),
    durability: "relaxed",
    isSharded,
    isolates: 0,
    objects: () => [arrivals],
  };
  return billOfObject(shape, arrivals);
}
