/** Compares trees with a reference that counts arrays of spends again at every decision. */
import { expect, test } from "vitest";
import { createTree, type TreeDecision, type TreeLevel, type TreeSpend } from "../../src/strategies/index.ts";
import { hasTime, isFull } from "../mode.ts";
import { type Random, randomFrom } from "../random.ts";
import { expectSame, startMs } from "./meters.ts";
import { type Entry, type LevelOutcome, type SharedLimit, TreeReference } from "./tree-reference.ts";
import { limitOf, type Variant, variants } from "./variants.ts";

const traces = hasTime ? 20_000 : isFull ? 6_000 : 200;
const stepsPerTrace = 25;

type Below = (end: number) => number;

const belowOf =
  (random: Random): Below =>
  (end) =>
    Math.floor(random() * end);

const inelastic = variants.filter(({ isElastic, tickMs }) => !isElastic && tickMs === null);

const isIn = (names: readonly string[]) => {
  const known = new Set(names);
  return (variant: Variant): boolean => known.has(variant.title);
};

/** Strategies that can be shared equally, and at a stated rate only. */
const isFair = (variant: Variant): boolean =>
  !variant.strategy.endsWith("-bucket") && variant.strategy !== "sliding-buckets";
const isStated = isIn(["token-bucket refill continuous", "leaky-bucket mode police"]);

/** Strategies whose corrections are exact at any time, in any order. */
const isCorrectable = isIn([
  "sliding-log",
  "fixed-window align clock",
  "sliding-window-counter align clock",
  "sliding-buckets edge keep",
]);

interface Drawn {
  readonly levels: readonly TreeLevel[];
  readonly shares: readonly (SharedLimit | null)[];
  readonly windowMs: number;
  /** Whether reservations can be corrected exactly, later than at once. */
  readonly areCorrectable: boolean;
}

/** A tree of 1 to 4 levels with 1 or 2 limits each. */
function drawTree(below: Below): Drawn {
  const windowMs = [60, 600, 30_000][below(3)] ?? 60;
  const areCorrectable = below(3) === 0;
  const pool = areCorrectable ? inelastic.filter(isCorrectable) : inelastic;
  const shares: (SharedLimit | null)[] = [];
  const drawn = Array.from({ length: 1 + below(4) }, (_level, index) => {
    const own = Array.from({ length: 1 + below(2) }, () => pool[below(pool.length)] ?? pool[0]);
    const distinct = [...new Set(own)].filter((variant) => variant !== undefined);
    const limits = distinct.map((variant, place) =>
      limitOf(variant, 4 + below(20), windowMs, `limit-${index}-${place}`),
    );
    return { variants: distinct, limits };
  });
  const levels = drawn.map(({ limits }, index): TreeLevel => {
    const first = drawn[index - 1]?.variants[0];
    const parent = drawn[index - 1]?.limits[0];
    const isShared =
      first !== undefined && parent !== undefined && below(2) === 0 && (isFair(first) || isStated(first));
    const guaranteed = isShared && isFair(first) && below(2) === 0 ? "fair" : 1 + below(parent?.limit ?? 1);
    shares.push(isShared ? { index: 0, guaranteed } : null);
    const written = guaranteed === "fair" ? "fair" : `${guaranteed}/${windowMs}ms`;
    return {
      name: `level-${index}`,
      limits,
      ...(isShared && { guaranteed: written }),
      classes: [{ name: "low", upTo: 70 }],
    };
  });
  return { levels, shares, windowMs, areCorrectable };
}

interface Reserved {
  readonly spend: TreeSpend;
  readonly entries: readonly Entry[];
}

/** Compares what both decided. */
function compare(actual: TreeDecision, expected: readonly LevelOutcome[], at: string): void {
  actual.levels.forEach((level, index) => {
    const outcome = expected[index];
    const found = level.limits.map(({ remaining }) => remaining);
    expectSame([at, index, level.allowed, found], [at, index, outcome?.allowed, outcome?.remaining]);
    // A wait under a share suffices, but is not the least one: a test of its own checks it.
    if (outcome?.isShare === true) return;
    const waits = level.limits.map(({ retryAfterMs }) => retryAfterMs);
    expectSame([at, index, waits], [at, index, outcome?.retryAfterMs]);
  });
}

function runTrace(seed: number): { denials: number; shareDenials: number; corrections: number } {
  const below = belowOf(randomFrom(seed));
  const { levels, shares, windowMs, areCorrectable } = drawTree(below);
  const tree = createTree(levels);
  const reference = new TreeReference(levels, shares);
  let nowMs = startMs + below(windowMs);
  let open: Reserved[] = [];
  let [denials, corrections] = [0, 0];
  let latestMs = nowMs;
  const advance = (): void => {
    latestMs = Math.max(latestMs, nowMs);
    const kind = below(10);
    if (kind < 3) return;
    if (kind < 8) nowMs += below(Math.ceil(windowMs / 3));
    else if (kind < 9) nowMs += below(3 * windowMs);
    // A clock that steps back by more than a window was mis-set, which meters correct on their own.
    else nowMs = Math.max(latestMs - windowMs, nowMs - below(windowMs));
  };
  for (let step = 0; step < stepsPerTrace; step++) {
    advance();
    const path = levels.slice(0, 1 + below(levels.length)).map((_level, index) => (index === 0 ? "r" : `k${below(3)}`));
    const costs = path.map(() => below(6));
    if (costs.every((cost) => cost === 0)) continue;
    const low = path.map(() => below(5) === 0);
    const weights = path.map(() => 1 + below(3));
    const request = {
      path,
      cost: costs,
      weights,
      classes: low.map((isLow) => (isLow ? "low" : undefined)),
    };
    const upTo = low.map((isLow) => (isLow ? 70 : 100));
    const isReservation = areCorrectable && below(3) === 0;
    const at = `seed ${seed}, step ${step}`;
    const looked = tree.look(request, nowMs);
    const decided = isReservation ? tree.reserve(request, windowMs, nowMs) : tree.consume(request, nowMs);
    const expected = reference.consume({ path, costs, weights, upTo }, nowMs, decided);
    expectSame([at, looked.allowed, looked.retryAfterMs], [at, decided.allowed, decided.retryAfterMs]);
    compare(decided, expected.levels, at);
    const { spend } = decided;
    if (!decided.allowed) denials++;
    if (spend !== null && expected.entries !== null && isReservation) open.push({ spend, entries: expected.entries });
    const settled = areCorrectable && below(3) === 0 ? open[below(open.length)] : undefined;
    if (settled === undefined) continue;
    corrections++;
    open = open.filter((each) => each !== settled);
    const actual = settled.spend.costs.map((cost) => below(cost + 1));
    reference.correct(settled.spend.path, settled.entries, actual);
    tree.settle(settled.spend, actual, nowMs);
    reference.seenMs = Math.max(reference.seenMs, nowMs);
  }
  return { denials, shareDenials: reference.shareDenials, corrections };
}

test("trees of all strategies decide like arrays of spends that are counted again at every decision", () => {
  let [denials, shareDenials, corrections] = [0, 0, 0];
  for (let seed = 1; seed <= traces; seed++) {
    const run = runTrace(seed);
    denials += run.denials;
    shareDenials += run.shareDenials;
    corrections += run.corrections;
  }
  expect(denials).toBeGreaterThan(2 * traces);
  expect(shareDenials).toBeGreaterThan(traces / 4);
  expect(corrections).toBeGreaterThan(traces / 4);
}, 600_000);
