/** Trees of keys: what is charged, forgotten, stored and evicted at each level, and what is refused. */
import { expect, test } from "vitest";
import {
  ConfigProblems,
  createMeter,
  createTree,
  parseLimits,
  type Tree,
  type TreeDecision,
  type TreeLevel,
} from "../../src/strategies/index.ts";
import { isFull } from "../mode.ts";
import { randomFrom } from "../random.ts";
import { expectSame, hourMs, minuteMs, startMs } from "./meters.ts";

const log = (limits: string) => parseLimits(limits, { strategy: "sliding-log" });

const company: TreeLevel[] = [
  { name: "org", limits: log("10/minute; 100/hour") },
  { name: "team", limits: log("8/minute") },
  { name: "user", limits: log("5/minute"), classes: [{ name: "batch", upTo: 50 }] },
];

const alice = ["acme", "core", "alice"];
const bob = ["acme", "core", "bob"];
const carol = ["acme", "web", "carol"];

const remainders = (tree: Tree, path: readonly string[], nowMs: number): number[][] =>
  tree.look({ path }, nowMs).levels.map(({ limits }) => limits.map(({ remaining }) => remaining));

const summary = ({ allowed, denied, retryAfterMs }: TreeDecision) => ({ allowed, denied, retryAfterMs });

test("a request charges every level of its path, and a denial at one level charges none", () => {
  const tree = createTree(company);
  expect(tree.consume({ path: alice, cost: 5 }, startMs).allowed).toBe(true);
  expect(remainders(tree, alice, startMs)).toStrictEqual([[5, 95], [3], [0]]);
  const denied = tree.consume({ path: alice }, startMs);
  expect(summary(denied)).toStrictEqual({ allowed: false, denied: ["user"], retryAfterMs: minuteMs });
  expect(remainders(tree, bob, startMs)).toStrictEqual([[5, 95], [3], [5]]);
  expect(remainders(tree, carol, startMs)).toStrictEqual([[5, 95], [8], [5]]);
});

test("a denial names every level that denies, and waits until all of them fit", () => {
  const tree = createTree(company);
  tree.consume({ path: alice, cost: 5 }, startMs);
  tree.consume({ path: bob, cost: 3 }, startMs + 10);
  tree.consume({ path: carol, cost: 1 }, startMs + 20);
  const request = { path: bob, cost: 3 };
  expect(summary(tree.consume(request, startMs + 30))).toStrictEqual({
    allowed: false,
    denied: ["org", "team", "user"],
    retryAfterMs: minuteMs - 20,
  });
  expect(tree.look(request, startMs + minuteMs + 9).allowed).toBe(false);
  expect(tree.consume(request, startMs + minuteMs + 10).allowed).toBe(true);
});

test("costs differ by level, and a path may end at any level", () => {
  const tree = createTree(company);
  tree.consume({ path: alice, cost: [4, 2, 0] }, startMs);
  tree.consume({ path: ["acme", "core"], cost: [1, 1] }, startMs);
  tree.consume({ path: ["acme"] }, startMs);
  expect(remainders(tree, alice, startMs)).toStrictEqual([[4, 94], [5], [5]]);
});

test("equal names of keys below different parents are different keys", () => {
  const tree = createTree(company);
  tree.consume({ path: ["acme", "core", "x"], cost: 5 }, startMs);
  expect(remainders(tree, ["acme", "web", "x"], startMs)).toStrictEqual([[5, 95], [8], [5]]);
  tree.consume({ path: ["a", 'b","c'] }, startMs);
  expect(remainders(tree, ["a", "b", "c"], startMs)).toStrictEqual([[9, 99], [8], [5]]);
});

test("a reservation covers all levels and is settled once with a cost for each", () => {
  const tree = createTree(company);
  const { spend } = tree.reserve({ path: alice, cost: 4 }, hourMs, startMs);
  if (spend === null) throw new Error("expected a reservation");
  expect(remainders(tree, alice, startMs)).toStrictEqual([[6, 96], [4], [1]]);
  const renewed = tree.renew(spend, startMs + 5);
  tree.settle(renewed, [1, 2, 5], startMs + 10);
  expect(remainders(tree, alice, startMs + 10)).toStrictEqual([[9, 99], [6], [0]]);
});

test("slots of a shared limit are free for other keys at settlement, and after the ttl", () => {
  const limits = parseLimits("4/minute", { strategy: "concurrency" });
  const tree = createTree([
    { name: "origin", limits },
    { name: "client", limits, guaranteed: "fair" },
  ]);
  const request = { path: ["o", "a"], cost: 4 };
  const { spend } = tree.reserve(request, 30_000, startMs);
  if (spend === null) throw new Error("expected a reservation");
  const renewed = tree.renew(spend, startMs + 20_000);
  expect(tree.look({ path: ["o", "b"] }, startMs + 49_999).allowed).toBe(false);
  expect(tree.look({ path: ["o", "b"] }, startMs + 50_000).allowed).toBe(true);
  tree.settle(renewed, 1, startMs + 30_000);
  expect(tree.look({ path: ["o", "b"], cost: 4 }, startMs + 30_000).allowed).toBe(true);
  expect(tree.consume(request, startMs + 30_000).allowed).toBe(true);
});

test("a refund gives a spend back at every level, and units that are booked may leave a debt", () => {
  const tree = createTree(company);
  const { spend } = tree.consume({ path: alice, cost: 3 }, startMs);
  if (spend === null) throw new Error("expected a spend");
  tree.refund(spend, startMs + 10);
  expect(remainders(tree, alice, startMs + 10)).toStrictEqual([[10, 100], [8], [5]]);
  tree.book({ path: alice, cost: 9 }, startMs, startMs + 10);
  expect(remainders(tree, alice, startMs + 10)).toStrictEqual([[1, 91], [0], [0]]);
  expect(tree.look({ path: alice }, startMs + 10).retryAfterMs).toBe(minuteMs - 10);
});

test("a class may use each limit of its level up to its part, rounded down, and its wait is exact", () => {
  const tree = createTree(company);
  const batch = { path: alice, classes: [undefined, undefined, "batch"] };
  expect(tree.consume({ ...batch, cost: 2 }, startMs).allowed).toBe(true);
  const denied = tree.consume(batch, startMs + 10);
  expect(summary(denied)).toStrictEqual({ allowed: false, denied: ["user"], retryAfterMs: minuteMs - 10 });
  expect(denied.levels[2]?.limits[0]).toMatchObject({ remaining: 0, replenishAfterMs: minuteMs - 10 });
  expect(tree.consume({ path: alice, cost: 3 }, startMs + 10).allowed).toBe(true);
  expect(tree.look(batch, startMs + minuteMs).allowed).toBe(false);
  expect(tree.look(batch, startMs + minuteMs + 9).allowed).toBe(false);
  expect(tree.look(batch, startMs + minuteMs + 10).allowed).toBe(true);
  expect(tree.look({ ...batch, cost: 3 }, startMs).retryAfterMs).toBe(null);
});

test("a denial names the class only where the limits alone would allow the request, or earlier", () => {
  const tree = createTree(company);
  const ask = (cost: number, name?: string) =>
    tree.look({ path: alice, cost, classes: [undefined, undefined, name] }, startMs).levels[2]?.reason;
  tree.consume({ path: alice, cost: 2 }, startMs);
  expect([ask(1, "batch"), ask(1), ask(4, "batch"), ask(4), ask(6, "batch")]).toStrictEqual([
    "class",
    null,
    "class",
    "limits",
    "limits",
  ]);
});

test("the wait of a class under a sliding window counter is exact, although units above its part never drain", () => {
  const limits = parseLimits("100/minute");
  const tree = createTree([{ name: "all", limits, classes: [{ name: "batch", upTo: 50 }] }]);
  const batch = { path: ["k"], cost: 20, classes: ["batch"] };
  tree.consume({ path: ["k"], cost: 90 }, startMs);
  const { retryAfterMs } = tree.look(batch, startMs + 10);
  const waitMs = retryAfterMs ?? 0;
  expect(waitMs).toBeGreaterThan(minuteMs);
  expect(tree.look(batch, startMs + 10 + waitMs - 1).allowed).toBe(false);
  expect(tree.look(batch, startMs + 10 + waitMs).allowed).toBe(true);
  // Units that are lent drain like spent ones, so that a meter's own wait with held units would be too short here.
  const meter = createMeter(limits);
  meter.consume(90, startMs);
  expect(meter.look(20, startMs + 10, 50).retryAfterMs).toBeLessThan(waitMs);
});

test("forgetting one level of a key leaves the levels above and below it", () => {
  const tree = createTree(company);
  tree.consume({ path: alice, cost: 5 }, startMs);
  tree.forget(["acme", "core"]);
  expect(remainders(tree, alice, startMs)).toStrictEqual([[5, 95], [8], [0]]);
  tree.forget(["nobody"]);
});

test("a tree that is stored and restored decides as before, whatever the order of its rows", () => {
  const tree = createTree(company);
  tree.consume({ path: alice, cost: 4 }, startMs);
  tree.consume({ path: carol, cost: 2 }, startMs + 5);
  const rows = structuredClone(tree.snapshot());
  expect(rows.map(({ level, path }) => [level, path.length])).toStrictEqual([
    ["org", 1],
    ["team", 2],
    ["user", 3],
    ["team", 2],
    ["user", 3],
  ]);
  for (const restored of [createTree(company, rows), createTree(company, rows.toReversed())]) {
    for (const path of [alice, bob, carol]) {
      expect(remainders(restored, path, startMs)).toStrictEqual(remainders(tree, path, startMs));
    }
  }
  // A level that has another name now starts anew, and broken state is refused like that of a meter.
  const renamed = company.map((level) => ({ ...level, name: `new-${level.name}` }));
  expect(remainders(createTree(renamed, rows), alice, startMs)).toStrictEqual([[10, 100], [8], [5]]);
  const broken = rows.map((row) => ({ ...row, state: "broken", share: 7 }));
  expect(remainders(createTree(company, broken), alice, startMs)).toStrictEqual([[10, 100], [8], [5]]);
});

test("a snapshot of touched keys has the rows that changed since the last one", () => {
  const tree = createTree(company);
  tree.consume({ path: alice }, startMs);
  expect(tree.snapshot("touched")).toHaveLength(3);
  expect(tree.snapshot("touched")).toHaveLength(0);
  tree.look({ path: bob }, startMs);
  expect(tree.snapshot("touched")).toHaveLength(0);
  tree.consume({ path: ["acme"] }, startMs);
  expect(tree.snapshot("touched").map(({ level }) => level)).toStrictEqual(["org"]);
});

test("idle keys are evicted with their idle parents, and without changing a decision", () => {
  const tree = createTree(company);
  tree.consume({ path: alice }, startMs);
  tree.consume({ path: carol }, startMs + 10);
  expect(tree.evict(startMs + minuteMs)).toStrictEqual([alice, alice.slice(0, 2)]);
  expect(tree.keyCount).toBe(3);
  expect(tree.idleAtMs()).toBe(startMs + 10 + hourMs);
  expect(tree.evict(startMs + 10 + hourMs)).toHaveLength(3);
  expect(tree.keyCount).toBe(0);
  expect(tree.snapshot()).toStrictEqual([]);
});

test("a root has room for a number of live keys, and denies new ones with the reason keys until one is idle", () => {
  const levels: TreeLevel[] = [
    { name: "root", limits: parseLimits("1000000/hour", { strategy: "fixed-window" }) },
    { name: "key", limits: log("1/minute") },
  ];
  const mostKeys = 50;
  const tree = createTree(levels, [], mostKeys);
  for (let key = 1; key < mostKeys; key++) tree.consume({ path: ["r", `${key}`] }, startMs + (key === 1 ? 0 : 500));
  expect(tree.keyCount).toBe(mostKeys);
  const newest = { path: ["r", "newest"] };
  const before = remainders(tree, ["r"], startMs + 600);
  const denied = tree.consume(newest, startMs + 600);
  expect(denied.levels.map(({ level, reason }) => [level, reason])).toStrictEqual([
    ["root", null],
    ["key", "keys"],
  ]);
  expect([denied.allowed, denied.retryAfterMs]).toStrictEqual([false, minuteMs - 600]);
  expect(remainders(tree, ["r"], startMs + 600)).toStrictEqual(before);
  expect(tree.consume({ path: ["r"] }, startMs + 600).allowed).toBe(true);
  expect(tree.consume({ path: ["r", "1"] }, startMs + 600).denied).toStrictEqual(["key"]);
  expect(tree.look(newest, startMs + minuteMs - 1).allowed).toBe(false);
  expect(tree.consume(newest, startMs + minuteMs).allowed).toBe(true);
  expect(tree.keyCount).toBe(mostKeys);
});

test("a clock that steps back adds no quota at any level, and waits count from the caller's clock", () => {
  const tree = createTree(company);
  tree.consume({ path: alice, cost: 5 }, startMs + 1_000);
  const denied = tree.consume({ path: alice }, startMs);
  expect(summary(denied)).toStrictEqual({ allowed: false, denied: ["user"], retryAfterMs: minuteMs + 1_000 });
  // Another key is charged at the same instant as the levels above it.
  tree.consume({ path: bob, cost: 1 }, startMs);
  expect(remainders(tree, bob, startMs + minuteMs + 999)).toStrictEqual([[4, 94], [2], [4]]);
  expect(remainders(tree, bob, startMs + minuteMs + 1_000)).toStrictEqual([[10, 94], [8], [5]]);
});

test("a parent's usage is the sum of its children's at every instant, when all its requests have a child", () => {
  const strategies = ["sliding-log", "sliding-buckets"];
  let checked = 0;
  for (let seed = 1; seed <= (isFull ? 400 : 20); seed++) {
    const random = randomFrom(seed);
    const below = (end: number): number => Math.floor(random() * end);
    const strategy = strategies[seed % 2] ?? "sliding-log";
    const limits = parseLimits("40/minute", { strategy });
    const tree = createTree(["a", "b", "c"].map((name) => ({ name, limits })));
    const usedBy = (path: readonly string[], nowMs: number): number =>
      40 - (tree.look({ path }, nowMs).levels.at(-1)?.limits[0]?.remaining ?? Number.NaN);
    let nowMs = startMs;
    let direct = 0;
    for (let step = 0; step < 40; step++) {
      nowMs += below(6) === 0 ? -below(9_000) : below(9_000);
      const path = ["r", `${below(2)}`, `${below(2)}`];
      const isDirect = seed % 4 === 0 && below(5) === 0;
      const { spend } = tree.consume({ path: isDirect ? ["r"] : path, cost: 1 + below(5) }, nowMs);
      if (isDirect && spend !== null) direct++;
      if (spend !== null && below(4) === 0) tree.refund(spend, nowMs + below(3_000));
      const atMs = nowMs + below(minuteMs);
      const sum = (paths: string[][]): number => paths.reduce((total, each) => total + usedBy(each, atMs), 0);
      const [root, teams] = [
        usedBy(["r"], atMs),
        sum([
          ["r", "0"],
          ["r", "1"],
        ]),
      ];
      const users = sum([
        ["r", "0", "0"],
        ["r", "0", "1"],
        ["r", "1", "0"],
        ["r", "1", "1"],
      ]);
      expectSame([seed, step, users], [seed, step, teams]);
      expect(root).toBeGreaterThanOrEqual(teams);
      if (direct === 0) expectSame([seed, step, root], [seed, step, teams]);
      if (root > 0) checked++;
    }
  }
  expect(checked).toBeGreaterThan(isFull ? 8_000 : 400);
});

test("problems of levels name the field, the value and what is accepted", () => {
  const problemsOf = (levels: TreeLevel[]): string[] => {
    try {
      createTree(levels);
    } catch (error) {
      if (error instanceof ConfigProblems) return error.problems.map(({ field, accepted }) => `${field}: ${accepted}`);
      throw error;
    }
    return [];
  };
  const limits = log("10/minute");
  expect(problemsOf([])).toStrictEqual([": from 1 to 8 levels"]);
  expect(
    problemsOf([
      { name: "a", limits, guaranteed: "fair", weight: 0, classes: [{ name: "low", upTo: 101 }] },
      { name: "a", limits: [], guaranteed: "5/hour" },
      { name: "b", limits, guaranteed: "a lot" },
    ]),
  ).toStrictEqual([
    "[0].weight: an integer from 1 to 1000000",
    "[0].classes[0].upTo: an integer from 0 to 100, in percent",
    "[0].guaranteed: a share of a limit of the level above over the same window",
    "[1].name: a name that no other level has",
    "[1].limits: at least one limit",
    "[1].guaranteed: a share of a limit of the level above over the same window",
    '[2].guaranteed: "fair", or units per window such as "50000/minute"',
  ]);
  const shared = (guaranteed: string): string[] =>
    problemsOf([
      { name: "a", limits },
      { name: "b", limits, guaranteed },
    ]);
  expect(shared("11/minute")).toStrictEqual([
    '[1].guaranteed: under the limit default: an integer from 1 to 10, or "fair"',
  ]);
  expect(shared("10/minute")).toStrictEqual([]);
});

test("invalid requests are errors that name the field and what it must be", () => {
  const tree = createTree(company);
  expect(() => tree.consume({ path: [] }, startMs)).toThrow("path must have from 1 to 3 keys, not 0");
  expect(() => tree.consume({ path: [...alice, "x"] }, startMs)).toThrow("path must have from 1 to 3 keys, not 4");
  expect(() => tree.consume({ path: alice, cost: [1, 2] }, startMs)).toThrow(
    "cost must have 3 items, one a level, not 2",
  );
  expect(() => tree.look({ path: alice, cost: 1.5 }, startMs)).toThrow("cost must be integers of at least 0, not 1.5");
  expect(() => tree.look({ path: alice, weights: [0] }, startMs)).toThrow(
    "weight must be an integer from 1 to 1000000, not 0",
  );
  expect(() => tree.look({ path: alice, classes: ["x"] }, startMs)).toThrow(
    'class of level "org" must be one of none, not "x"',
  );
  expect(() => tree.consume({ path: alice }, 1.5)).toThrow("nowMs must be integer milliseconds since 1970, not 1.5");
  expect(tree.keyCount).toBe(0);
});
