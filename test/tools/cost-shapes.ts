/** The shapes of traffic for which the cost is computed. They are the same in every run. */
import { type Limit, parseLimits } from "../../src/strategies/index.ts";
import { type Random, randomFrom } from "../random.ts";

export interface Arrival {
  readonly atMs: number;
  readonly key: string;
}

export interface CostShape {
  readonly name: string;
  /** A description of the traffic. */
  readonly traffic: string;
  readonly limits: readonly Limit[];
  readonly durability: "relaxed" | "confirmed";
  /** Whether the shape's objects are shards, which stay in use after this traffic. */
  readonly isSharded: boolean;
  /** The number of isolates that cache denials; 0 when every decision calls the object. */
  readonly isolates: number;
  /**
   * The arrivals at each object, in order.
   * @param scale the share of the traffic to generate; 1 for all
   */
  readonly objects: (scale: number) => readonly (readonly Arrival[])[];
}

const startMs = 1_800_000_000_000;
const shards = 32;

/** Limits with the default strategy. */
const limits = (text: string): readonly Limit[] =>
  parseLimits(text, { policy: "p", strategy: "sliding-window-counter" });

const between = (random: Random, least: number, most: number): number =>
  least + Math.floor(random() * (most - least + 1));

/** One key with a request every `everyMs` milliseconds. */
const steady =
  (seed: number, decisions: number, everyMs: number): CostShape["objects"] =>
  (scale) => {
    const random = randomFrom(seed);
    let atMs = startMs;
    const arrivals = Array.from({ length: decisions * scale }, () => {
      atMs += between(random, 0, 2 * everyMs);
      return { atMs, key: "k" };
    });
    return [arrivals];
  };

/** Ten new clients per second. Each loads five pages of four requests, about half a minute apart. */
function clients(scale: number): Arrival[][] {
  const random = randomFrom(3);
  let comesAtMs = startMs;
  return Array.from({ length: 5_000 * scale }, (_, client) => {
    comesAtMs += between(random, 0, 200);
    let atMs = comesAtMs;
    return Array.from({ length: 20 }, (__, request) => {
      if (request > 0) {
        atMs += request % 4 === 0 ? between(random, 5_000, 55_000) : between(random, 0, 300);
      }
      return { atMs, key: `client-${client}` };
    });
  });
}

/** Ten new keys a second, with one request each. */
function newKeys(scale: number): Arrival[][] {
  const random = randomFrom(8);
  let atMs = startMs;
  return Array.from({ length: 20_000 * scale }, (_, number) => {
    atMs += between(random, 0, 200);
    return [{ atMs, key: `key-${number}` }];
  });
}

function sharded(arrivals: ReturnType<CostShape["objects"]>): Arrival[][] {
  const random = randomFrom(4);
  const objects: Arrival[][] = Array.from({ length: shards }, () => []);
  for (const each of arrivals) objects[between(random, 0, shards - 1)]?.push(...each);
  return objects.map((object) => object.toSorted((a, b) => a.atMs - b.atMs));
}

const relaxed = { durability: "relaxed", isSharded: false, isolates: 0 } as const;

const busy = {
  ...relaxed,
  name: "a busy key",
  traffic: "1,000 decisions per second on one key; the limit is 100,000 per minute",
  limits: limits("100000/minute"),
  objects: steady(1, 100_000, 1),
};

const visits = {
  ...relaxed,
  name: "clients, an object each",
  traffic: "10 new keys per second, 20 decisions each in two minutes; the limit is 100 per minute",
  limits: limits("100/minute"),
  objects: clients,
} satisfies CostShape;

const once = {
  ...relaxed,
  name: "new keys, an object each",
  traffic: "10 new keys per second with one decision each; the limit is 100 per minute",
  limits: limits("100/minute"),
  objects: newKeys,
};

const inShards = (shape: typeof visits): CostShape => ({
  ...shape,
  name: shape.name.replace(", an object each", ` in ${shards} shards`),
  traffic: `the same, with all keys in ${shards} objects`,
  isSharded: true,
  objects: (scale) => sharded(shape.objects(scale)),
});

const flood = {
  ...relaxed,
  name: "a flood",
  traffic: "10,000 decisions per minute on one key in 10 isolates; the limit is 100 per minute",
  limits: limits("100/minute"),
  objects: steady(5, 100_000, 6),
  isolates: 10,
};

/** Common shapes first, then settings that change the cost of the first shape. */
export const costShapes: readonly CostShape[] = [
  busy,
  {
    ...relaxed,
    name: "a cold key",
    traffic: "a decision per minute on one key; the limit is 100 per hour",
    limits: limits("100/hour"),
    objects: steady(2, 10_000, 60_000),
  },
  visits,
  inShards(visits),
  once,
  inShards(once),
  flood,
  {
    ...flood,
    name: "the flood, no deny cache",
    traffic: "the same flood with `denyCache = false`",
    isolates: 0,
  },
  {
    ...busy,
    name: "the busy key, confirmed",
    traffic: 'the same busy key with `durability = "confirmed"`',
    durability: "confirmed",
  },
  {
    ...busy,
    name: "the busy key, limit per 5 s",
    traffic: "the same busy key; the limit is 10,000 per 5 s",
    limits: limits("10000/5s"),
  },
];
