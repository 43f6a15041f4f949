/** The laws of guaranteed shares, on drawn traffic of children that send more than their share. */
import { expect, test } from "vitest";
import {
  createTree,
  parseLimits,
  shareProblem,
  Shares,
  type Tree,
  type TreeDecision,
  type TreeLevel,
} from "../../src/strategies/index.ts";
import { hasTime, isFull } from "../mode.ts";
import { randomFrom } from "../random.ts";
import { expectSame, limitFrom, startMs } from "./meters.ts";

const runs = hasTime ? 500 : isFull ? 150 : 3;
const windowMs = 1_000;
const capacity = 60;

/** Strategies of the parent under which `guaranteed` is exact to the unit. */
const exact = [
  { strategy: "sliding-log" },
  { strategy: "sliding-buckets", buckets: 10 },
  { strategy: "fixed-window" },
  { strategy: "fixed-window", align: "clock" },
] as const;
const buckets = [{ strategy: "token-bucket" }, { strategy: "leaky-bucket", mode: "police" }] as const;
const counter = { strategy: "sliding-window-counter", align: "clock" } as const;

type Written = (typeof exact)[number] | (typeof buckets)[number] | typeof counter;

const parentOf = (written: Written) =>
  limitFrom({ limit: capacity, window: `${windowMs}ms`, name: "parent", ...written });

/** The child's own limit is never reached. */
const levelsOf = (written: Written, guaranteed: string | null): TreeLevel[] => [
  { name: "parent", limits: [parentOf(written)] },
  {
    name: "child",
    limits: parseLimits({ limit: 100_000, window: `${windowMs}ms`, strategy: "sliding-log", name: "child" }),
    ...(guaranteed !== null && { guaranteed }),
  },
];

class Traffic {
  readonly #random: () => number;
  nowMs: number;

  constructor(seed: number) {
    this.#random = randomFrom(seed);
    this.nowMs = startMs + this.below(windowMs);
  }

  below(end: number): number {
    return Math.floor(this.#random() * end);
  }

  step(): void {
    this.nowMs += this.below(4) === 0 ? this.below(60) : this.below(3);
  }
}

const send = (tree: Tree, child: string, cost: number, nowMs: number): TreeDecision =>
  tree.consume({ path: ["p", child], cost }, nowMs);

/** How long spent units count: the counter weights the window before, and buckets end later than their units. */
const countsForMs = (written: Written): number =>
  written === counter ? 2 * windowMs : written.strategy === "sliding-buckets" ? 1.1 * windowMs : windowMs;

/** A greedy rival sends requests of every cost, denied or not. */
const rivals = ["a", "b", "c"];
const floods = (tree: Tree, traffic: Traffic): void => {
  const rival = rivals[traffic.below(rivals.length)] ?? "a";
  send(tree, rival, 1 + traffic.below(12), traffic.nowMs);
};

/** Whether a cost keeps a child's demand within a quantity per window; under a bucket, within its rate. */
class Demand {
  readonly #meter: Tree;

  constructor(written: Written, units: number) {
    const limit = { limit: units, window: `${windowMs}ms`, name: "demand", ...written };
    this.#meter = createTree([{ name: "demand", limits: parseLimits(limit) }]);
  }

  allows = (cost: number, nowMs: number): boolean => this.#meter.consume({ path: ["d"], cost }, nowMs).allowed;
}

for (const [written, guaranteed, units] of [
  ...exact.map((each) => [each, "15/second", 15] as const),
  ...exact.map((each) => [each, "fair", 15] as const),
  // These count fractions of units. Each of the four children rounds its part by less than a unit.
  ...buckets.map((each) => [each, "15/second", 11] as const),
  [counter, "15/second", 11] as const,
  [counter, "fair", 11] as const,
]) {
  const title = Object.values(written).join(" ");
  test(`a child that stays below its guarantee (${guaranteed}, ${title}) is never denied after one window`, () => {
    let [allowed, rivalsDenied] = [0, 0];
    for (let seed = 1; seed <= runs; seed++) {
      const traffic = new Traffic(seed);
      const tree = createTree(levelsOf(written, guaranteed));
      // A window that a request opened is the parent's, so that the child's demand is counted in any span of a window.
      const strict = written.strategy === "fixed-window" ? exact[0] : written;
      const demand = new Demand(strict, units);
      for (const rival of rivals) send(tree, rival, 1, traffic.nowMs);
      let [activeFromMs, sentAtMs] = [traffic.nowMs, traffic.nowMs];
      const endMs = traffic.nowMs + 4 * windowMs;
      send(tree, "own", 1, traffic.nowMs);
      demand.allows(1, traffic.nowMs);
      while (traffic.nowMs < endMs) {
        traffic.step();
        floods(tree, traffic);
        const cost = 1 + traffic.below(3);
        if (traffic.below(4) > 0 || !demand.allows(cost, traffic.nowMs)) continue;
        // A child that was inactive has its share one window later again.
        if (traffic.nowMs - sentAtMs >= windowMs) activeFromMs = traffic.nowMs;
        sentAtMs = traffic.nowMs;
        const decision = send(tree, "own", cost, traffic.nowMs);
        if (traffic.nowMs < activeFromMs + countsForMs(written)) continue;
        expectSame([seed, traffic.nowMs - activeFromMs, decision.denied], [seed, traffic.nowMs - activeFromMs, []]);
        allowed++;
      }
      if (!send(tree, "a", 12, traffic.nowMs).allowed) rivalsDenied++;
    }
    expect(allowed).toBeGreaterThan(5 * runs);
    expect(rivalsDenied).toBeGreaterThan(runs / 2);
  });
}

test("shares never change the bound of the parent's limit: a sliding log spends at most its limit in any window", () => {
  let checked = 0;
  for (let seed = 1; seed <= runs; seed++) {
    const traffic = new Traffic(seed);
    const tree = createTree(levelsOf(exact[0], "fair"));
    const spends: { atMs: number; cost: number }[] = [];
    for (let step = 0; step < 150; step++) {
      traffic.step();
      const cost = 1 + traffic.below(12);
      const child = rivals[traffic.below(3)] ?? "a";
      if (send(tree, child, cost, traffic.nowMs).allowed) spends.push({ atMs: traffic.nowMs, cost });
    }
    for (const { atMs } of spends) {
      const inWindow = spends.filter((spend) => spend.atMs >= atMs && spend.atMs < atMs + windowMs);
      expect(inWindow.reduce((sum, { cost }) => sum + cost, 0)).toBeLessThanOrEqual(capacity);
      checked++;
    }
  }
  expect(checked).toBeGreaterThan(10 * runs);
});

test("with one active child, decisions are those of the parent without shares", () => {
  let denials = 0;
  for (const written of [...exact, counter]) {
    for (let seed = 1; seed <= Math.max(1, runs / 4); seed++) {
      const traffic = new Traffic(seed);
      const shared = createTree(levelsOf(written, "fair"));
      const plain = createTree(levelsOf(written, null));
      for (let step = 0; step < 60; step++) {
        traffic.step();
        const cost = 1 + traffic.below(20);
        const decision = send(shared, "only", cost, traffic.nowMs);
        const { spend } = decision;
        expectSame({ ...decision, spend: null }, { ...send(plain, "only", cost, traffic.nowMs), spend: null });
        expectSame(spend === null, !decision.allowed);
        if (!decision.allowed) denials++;
      }
    }
  }
  expect(denials).toBeGreaterThan(runs);
});

test("a child without a request for the parent's window, or 10 s, withholds no units", () => {
  for (const [window, activeMs] of [
    ["1s", 1_000],
    ["1m", 10_000],
  ] as const) {
    const limits = parseLimits({ limit: 60, window, strategy: "sliding-log" });
    const tree = createTree([
      { name: "parent", limits },
      { name: "child", limits, guaranteed: "fair" },
    ]);
    const remainingOfA = (nowMs: number) => tree.look({ path: ["p", "a"] }, nowMs).levels[0]?.limits[0]?.remaining;
    send(tree, "a", 1, startMs);
    send(tree, "b", 1, startMs);
    const free = window === "1s" ? 60 : 58;
    expect([remainingOfA(startMs), remainingOfA(startMs + activeMs - 1)]).toStrictEqual([29, 29]);
    expect(remainingOfA(startMs + activeMs)).toBe(free);
  }
});

test("waiting retryAfterMs suffices after a denial by a share, and is exact after one by a limit", () => {
  let [byShare, byLimit] = [0, 0];
  for (const written of [...exact, ...buckets, counter]) {
    const isBucket = buckets.some((each) => each === written);
    for (let seed = 1; seed <= runs; seed++) {
      const traffic = new Traffic(seed);
      const tree = createTree(levelsOf(written, isBucket ? "15/second" : "fair"));
      for (let step = 0; step < 40; step++) {
        traffic.step();
        floods(tree, traffic);
      }
      const request = { path: ["p", "a"], cost: 1 + traffic.below(capacity) };
      const { allowed, retryAfterMs, levels } = tree.consume(request, traffic.nowMs);
      if (allowed || retryAfterMs === null) continue;
      expect(tree.look(request, traffic.nowMs + retryAfterMs).allowed).toBe(true);
      expect(tree.look(request, traffic.nowMs + retryAfterMs + traffic.below(3 * windowMs)).allowed).toBe(true);
      const isShare = levels[0]?.reason === "share";
      const isSooner = tree.look(request, traffic.nowMs + retryAfterMs - 1).allowed;
      expect(!isShare && isSooner).toBe(false);
      if (isShare) byShare++;
      else byLimit++;
    }
  }
  expect(byShare).toBeGreaterThan(runs);
  expect(byLimit).toBeGreaterThan(runs / 10);
});

test("a share that is stored and restored at every step decides as if it had never been stored", () => {
  let denials = 0;
  for (const written of [...exact, ...buckets, counter]) {
    const isBucket = buckets.some((each) => each === written);
    const levels = levelsOf(written, isBucket ? "15/second" : "fair");
    for (let seed = 1; seed <= Math.max(2, runs / 6); seed++) {
      const traffic = new Traffic(seed);
      let restored = createTree(levels);
      const live = createTree(levels);
      for (let step = 0; step < 40; step++) {
        traffic.step();
        const rows = structuredClone(restored.snapshot());
        restored = createTree(levels, traffic.below(2) === 0 ? rows : rows.toReversed());
        const request = { path: ["p", rivals[traffic.below(3)] ?? "a"], cost: 1 + traffic.below(12) };
        const decision = live.consume(request, traffic.nowMs);
        expectSame(restored.consume(request, traffic.nowMs), decision);
        if (!decision.allowed) denials++;
      }
    }
  }
  expect(denials).toBeGreaterThan(runs);
});

test("a new child gets its share when units of others leave the window, because spent units stay spent", () => {
  const tree = createTree(levelsOf({ strategy: "sliding-log" }, "fair"));
  expect(send(tree, "old", capacity, startMs).allowed).toBe(true);
  const [denied] = send(tree, "new", 1, startMs + 10).levels;
  expect([denied?.allowed, denied?.reason, denied?.retryAfterMs]).toStrictEqual([false, "limits", windowMs - 10]);
  send(tree, "old", 1, startMs + 900);
  send(tree, "new", 1, startMs + 950);
  expect(send(tree, "old", 31, startMs + windowMs).denied).toStrictEqual(["parent"]);
  expect(send(tree, "new", 30, startMs + windowMs).allowed).toBe(true);
});

test("weights divide a fair share, and a change of a weight counts from the next request", () => {
  const tree = createTree(levelsOf({ strategy: "sliding-log" }, "fair"));
  const remaining = (child: string, weight: number) =>
    tree.look({ path: ["p", child], weights: [1, weight] }, startMs).levels[0]?.limits[0]?.remaining;
  tree.consume({ path: ["p", "pro"], weights: [1, 3] }, startMs);
  tree.consume({ path: ["p", "free"] }, startMs);
  expect([remaining("pro", 3), remaining("free", 1)]).toStrictEqual([44, 14]);
  tree.consume({ path: ["p", "free"], weights: [1, 3] }, startMs);
  expect([remaining("pro", 3), remaining("free", 3)]).toStrictEqual([29, 28]);
});

test("more than 10,000 active children are first come, first served, and one request reports it", () => {
  const shares = new Shares(limitFrom({ limit: 20_000, window: "1m", strategy: "sliding-log" }), "fair");
  for (let child = 0; child < 10_000; child++) expect(shares.touch(`${child}`, 1, startMs)).toBe(false);
  expect(shares.touch("one more", 1, startMs)).toBe(true);
  expect(shares.touch("another", 1, startMs)).toBe(false);
  expect(shares.activeCount).toBe(10_000);
  // Each active child is guaranteed 2 units, and all 20,000 are free.
  expect(shares.roomOf("7", 20_000, startMs).units).toBe(2);
  expect(shares.roomOf("another", 20_000, startMs)).toMatchObject({ units: 0, guaranteed: 0, used: 0 });
  expect(shares.look("another", 1, 20_000, startMs).units).toBe(0);
  expect(shares.touch("later", 1, startMs + 10_000)).toBe(false);
  expect(shares.roomOf("later", 20_000, startMs + 10_000).units).toBe(20_000);
});

test("a limit that cannot be shared says what is expected instead", () => {
  const problemOf = (input: object, guarantee: number | "fair") =>
    shareProblem(limitFrom({ limit: 10, window: "1m", ...input }), guarantee);
  expect([
    problemOf({ strategy: "fixed-window", elastic: true }, 5),
    problemOf({ strategy: "leaky-bucket" }, 5),
    problemOf({ strategy: "token-bucket", refill: "interval" }, 5),
    problemOf({ strategy: "token-bucket" }, "fair"),
    problemOf({ strategy: "sliding-log" }, 11),
    problemOf({ strategy: "concurrency" }, "fair"),
  ]).toStrictEqual([
    "a limit that is not elastic",
    'mode = "police"',
    'refill = "continuous"',
    'a number, because "fair" needs a window or a log',
    'an integer from 1 to 10, or "fair"',
    null,
  ]);
  expect(() => new Shares(limitFrom({ limit: 10, window: "1m", strategy: "token-bucket" }), "fair")).toThrow(
    'guaranteed: expected a number, because "fair" needs a window or a log',
  );
});

test("a child that is released is forgotten when it is inactive, unless it is retained before", () => {
  const shares = new Shares(parentOf({ strategy: "sliding-log" }), 20, windowMs);
  for (const key of ["a", "b"]) {
    shares.touch(key, 1, startMs);
    shares.spend(key, 5, startMs, startMs);
  }
  shares.release("a");
  shares.release("b");
  expect(shares.withheldAt(startMs + 10)).toBe(30);
  expect(shares.retain("a")).toBe(true);
  expect(shares.withheldAt(startMs + windowMs)).toBe(0);
  expect([shares.retain("a"), shares.retain("b"), shares.childCount]).toStrictEqual([true, false, 1]);
  shares.release("a");
  expect(shares.childCount).toBe(0);
});
