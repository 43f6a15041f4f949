/**
 * A tree of keys, such as organisation, team and user: one decision for all levels of a path, at one instant, all or
 * nothing. Each level counts with a meter of its own. A level may also guarantee its keys a share of a limit of the level
 * above (`shares.ts`), and hold classes of requests below a part of its limits.
 */
import { boundedDecision } from "./bounded-decision.ts";
import { requireCount, requireInstant, requireTtl } from "./integers.ts";
import { LimitsMeter } from "./meter.ts";
import { longestWaitMs } from "./metered-limit.ts";
import { openedAtMs } from "./shared-limit.ts";
import type { Shares } from "./shares.ts";
import { type CheckedLevel, checkedLevels, type ParentShare, type TreeLevel } from "./tree-levels.ts";
import {
  costsOf,
  type LevelDecision,
  percentOf,
  requireWeight,
  type TreeDecision,
  type TreeRequest,
  type TreeSpend,
} from "./tree-request.ts";
import { mostKeys, TreeNodes, type TreeNode, type TreeRow } from "./tree-nodes.ts";

/** A request with its defaults, at the instant of the decision. */
interface Turn {
  readonly path: readonly string[];
  readonly costs: readonly number[];
  readonly weights: readonly number[];
  /** In percent by level. */
  readonly upTo: readonly number[];
  readonly atMs: number;
  /** How far `atMs` is ahead of the caller's clock. */
  readonly lagMs: number;
  /** Null at levels for whose keys there is no room. */
  readonly nodes: readonly (TreeNode | null)[];
  /** Whether nothing may change. */
  readonly isLook: boolean;
}

/** Decides requests of one root. Times are integer milliseconds since the Unix epoch. */
export class Tree {
  readonly #levels: readonly CheckedLevel[];
  readonly #nodes: TreeNodes;
  readonly #longestWindowMs: number;
  /** The latest time of a change. */
  seenMs = 0;

  constructor(levels: readonly TreeLevel[], stored: Iterable<TreeRow> = [], most: number = mostKeys) {
    this.#levels = checkedLevels(levels);
    this.#nodes = new TreeNodes(this.#levels, most);
    this.#longestWindowMs = Math.max(...levels.flatMap(({ limits }) => limits.map(({ windowMs }) => windowMs)));
    for (const row of stored) this.seenMs = Math.max(this.seenMs, this.#nodes.restore(row));
  }

  /** Spends the costs if every level allows its own; otherwise spends nothing. Costs of 0 at all levels only look. */
  consume(request: TreeRequest, nowMs: number): TreeDecision {
    return this.#decide(request, 0, nowMs);
  }

  /** Like `consume`, but the caller settles the actual costs within `ttlMs`: see `Meter.reserve`. */
  reserve(request: TreeRequest, ttlMs: number, nowMs: number): TreeDecision {
    requireTtl(ttlMs);
    return this.#decide(request, ttlMs, nowMs);
  }

  /** Returns the decision that `consume` would return, and changes nothing. */
  look(request: TreeRequest, nowMs: number): TreeDecision {
    return this.#decisionOf(this.#turnOf(request, nowMs, true), []);
  }

  /** Adds units that were spent elsewhere at `atMs`. Never denies, and may leave a debt. */
  book(request: TreeRequest, atMs: number, nowMs: number): void {
    requireCount("atMs", atMs);
    const turn = this.#turnOf(request, nowMs, false);
    this.seenMs = turn.atMs;
    const bookedAtMs = Math.max(0, turn.atMs - Math.max(0, nowMs - atMs));
    turn.nodes.forEach((node, index) => {
      const cost = turn.costs[index] ?? 0;
      if (node === null || cost === 0) return;
      node.meter.book(cost, bookedAtMs, turn.atMs);
      this.#spendPart(turn, index, bookedAtMs);
    });
  }

  /** Corrects a reservation to its actual costs, once and before its ttl ends: see `Meter.settle`. */
  settle(spend: TreeSpend, actualCost: number | readonly number[], nowMs: number): void {
    const { path, costs, ttlMs } = spend;
    requireTtl(ttlMs);
    const actualCosts = costsOf(actualCost, path.length);
    const atMs = this.#seeAt(nowMs);
    path.forEach((_key, index) => {
      const [cost = 0, actual = 0] = [costs[index], actualCosts[index]];
      const node = actual > cost ? this.#nodes.open(path, index, atMs) : this.#nodes.get(path, index);
      if (node === null) return;
      const [spentAtMs = 0, heldAtMs = 0] = [spend.spentAtMs[index], spend.heldAtMs[index]];
      node.meter.settle({ cost, actualCost: actual, spentAtMs, ttlMs, heldAtMs }, atMs);
      node.isTouched = true;
      const part = this.#partOf(path, index);
      if (part === null) return;
      const refunded = part.shares.holdsSlots ? cost : Math.max(0, cost - actual);
      if (refunded > 0) part.shares.refund(part.key, refunded, spend.partAtMs[index] ?? atMs, atMs);
      if (actual > cost && !part.shares.holdsSlots) {
        part.shares.spend(part.key, actual - cost, openedAtMs(node.meter, part, atMs) ?? atMs, atMs);
      }
    });
  }

  /** Keeps a reservation open until its ttl from now. Returns it as the next `settle` or `renew` needs it. */
  renew(spend: TreeSpend, nowMs: number): TreeSpend {
    const { path, costs, ttlMs } = spend;
    requireTtl(ttlMs);
    const atMs = this.#seeAt(nowMs);
    const heldAtMs = [...spend.heldAtMs];
    const partAtMs = [...spend.partAtMs];
    path.forEach((_key, index) => {
      const node = this.#nodes.get(path, index);
      const cost = costs[index] ?? 0;
      if (node === null) return;
      node.meter.renew({ cost, heldAtMs: heldAtMs[index] ?? atMs, ttlMs }, atMs);
      heldAtMs[index] = Math.max(atMs, node.meter.seenMs);
      node.isTouched = true;
      const part = this.#partOf(path, index);
      if (part === null || !part.shares.holdsSlots || cost === 0) return;
      part.shares.refund(part.key, cost, partAtMs[index] ?? atMs, atMs);
      partAtMs[index] = part.shares.slotAtMs(ttlMs, atMs);
      part.shares.spend(part.key, cost, partAtMs[index], atMs);
    });
    return { ...spend, heldAtMs, partAtMs };
  }

  /** Gives back a final spend, as far as it still counts: see `Meter.refund`. */
  refund(spend: TreeSpend, nowMs: number): void {
    const { path, costs, spentAtMs } = spend;
    const atMs = this.#seeAt(nowMs);
    path.forEach((_key, index) => {
      const node = this.#nodes.get(path, index);
      const cost = costs[index] ?? 0;
      if (node === null || cost === 0) return;
      node.meter.refund(cost, spentAtMs[index] ?? atMs, atMs);
      node.isTouched = true;
      const part = this.#partOf(path, index);
      part?.shares.refund(part.key, cost, spend.partAtMs[index] ?? atMs, atMs);
    });
  }

  /** Forgets what the last key of the path has spent, and the parts of its own keys. Other levels do not change. */
  forget(path: readonly string[]): void {
    this.#nodes.forget(path);
  }

  /** The rows of all keys whose state affects decisions, or only of those that were touched since the last call. */
  snapshot(which: "all" | "touched" = "all"): TreeRow[] {
    return this.#nodes.rows(which === "touched", this.seenMs);
  }

  /** Removes keys whose state affects no decision any more. Returns their paths. */
  evict(nowMs: number): (readonly string[])[] {
    requireInstant(nowMs);
    return this.#nodes.evict(this.#correctedMs(nowMs));
  }

  /** From this instant on, discarding the tree changes no decision. */
  idleAtMs(): number {
    return this.#nodes.idleAtMs();
  }

  /** The live keys of all levels. */
  get keyCount(): number {
    return this.#nodes.size;
  }

  #correctedMs(nowMs: number): number {
    return this.seenMs - nowMs > this.#longestWindowMs ? nowMs : Math.max(nowMs, this.seenMs);
  }

  /** The one instant at which all levels decide: the clock never steps back, unless it was mis-set by a whole window. */
  #seeAt(nowMs: number): number {
    requireInstant(nowMs);
    this.seenMs = this.#correctedMs(nowMs);
    return this.seenMs;
  }

  #turnOf(request: TreeRequest, nowMs: number, isLook: boolean): Turn {
    const { path, cost = 1, weights = [], classes = [] } = request;
    requireInstant(nowMs);
    if (path.length === 0 || path.length > this.#levels.length) {
      throw new RangeError(`path must have from 1 to ${this.#levels.length} keys, not ${path.length}`);
    }
    const costs = costsOf(cost, path.length);
    const levels = this.#levels.slice(0, path.length);
    // Only a change advances the tree's clock, so that a denial changes no later decision.
    const atMs = this.#correctedMs(nowMs);
    return {
      path,
      costs,
      weights: levels.map(({ weight }, index) => requireWeight(weights[index] ?? weight)),
      upTo: levels.map((level, index) => percentOf(level, classes[index])),
      atMs,
      lagMs: atMs - nowMs,
      nodes: path.map((_key, index) =>
        isLook ? this.#nodes.peek(path, index, atMs) : this.#nodes.open(path, index, atMs),
      ),
      isLook,
    };
  }

  #decide(request: TreeRequest, ttlMs: number, nowMs: number): TreeDecision {
    const costs = costsOf(request.cost ?? 1, request.path.length);
    if (costs.every((cost) => cost === 0)) return this.look(request, nowMs);
    const turn = this.#turnOf(request, nowMs, false);
    const crowded = this.#touch(turn);
    const decision = this.#decisionOf(turn, crowded);
    if (!decision.allowed) {
      // The request counts as denied at all levels, and a denial restarts elastic windows.
      for (const node of turn.nodes) node?.meter.deny(turn.atMs);
      return decision;
    }
    this.seenMs = turn.atMs;
    const spend = this.#spend(turn, ttlMs);
    const after = this.#decisionOf({ ...turn, costs: costs.map(() => 0) }, crowded);
    const levels = after.levels.map((level, index) => ({ ...level, cost: costs[index] ?? 0 }));
    return { ...after, levels, delayMs: decision.delayMs, spend };
  }

  #touch({ path, weights, nodes, atMs }: Turn): string[] {
    const crowded: string[] = [];
    nodes.forEach((node, index) => {
      if (node === null) return;
      node.isTouched = true;
      const shares = nodes[index - 1]?.shares;
      const isFull = shares?.touch(path[index] ?? "", weights[index] ?? 1, atMs) === true;
      if (isFull) crowded.push(this.#levels[index]?.level.name ?? "");
    });
    return crowded;
  }

  #spend(turn: Turn, ttlMs: number): TreeSpend {
    const { path, costs, nodes, atMs } = turn;
    const partAtMs: number[] = [];
    nodes.forEach((node, index) => {
      const cost = costs[index] ?? 0;
      partAtMs.push(atMs);
      if (node === null || cost === 0) return;
      if (ttlMs === 0) node.meter.consume(cost, atMs);
      else node.meter.reserve({ cost, ttlMs }, atMs);
      const slotAtMs = ttlMs === 0 ? atMs : (node.shares?.slotAtMs(ttlMs, atMs) ?? atMs);
      partAtMs[index] = this.#spendPart(turn, index, slotAtMs);
    });
    const spentAtMs = nodes.map((node) => Math.max(atMs, node?.meter.seenMs ?? 0));
    return { path, costs, spentAtMs, heldAtMs: spentAtMs, partAtMs, ttlMs };
  }

  /** Adds the cost of a level to the part of the next level's key. Returns the instant to which it is booked. */
  #spendPart({ path, costs, nodes, atMs }: Turn, index: number, spentAtMs: number): number {
    const part = this.#partOf(path, index);
    const node = nodes[index] ?? null;
    if (part === null || node === null) return spentAtMs;
    const partAtMs = openedAtMs(node.meter, part, atMs) ?? spentAtMs;
    part.shares.spend(part.key, costs[index] ?? 0, partAtMs, atMs);
    return partAtMs;
  }

  /** The shares of a level's key, if the path has a key of the next level. */
  #partOf(
    path: readonly string[],
    index: number,
  ): (Pick<ParentShare, "index" | "limit"> & { shares: Shares; key: string }) | null {
    const shares = this.#nodes.get(path, index)?.shares ?? null;
    const key = path[index + 1];
    const share = this.#levels[index + 1]?.share ?? null;
    return shares === null || key === undefined || share === null ? null : { ...share, shares, key };
  }

  #decisionOf(turn: Turn, crowded: readonly string[]): TreeDecision {
    const levels = turn.nodes.map((node, index) => {
      const decision = node === null ? this.#refusal(turn, index) : this.#bounded(turn, index, node);
      return turn.lagMs === 0 ? decision : delayed(decision, turn.lagMs);
    });
    const denied = levels.filter(({ allowed }) => !allowed);
    return {
      allowed: denied.length === 0,
      delayMs: denied.length === 0 ? Math.max(...levels.map(({ delayMs }) => delayMs)) : 0,
      retryAfterMs: longestWaitMs(levels),
      levels,
      denied: denied.map(({ level }) => level),
      spend: null,
      crowded,
    };
  }

  /** The decision of a level for whose key there is no room. */
  #refusal({ costs, atMs }: Turn, index: number): LevelDecision {
    const level = this.#levels[index]?.level;
    const decision = new LimitsMeter(level?.limits ?? [], { seenMs: 0, states: [] }, null).look(
      costs[index] ?? 0,
      atMs,
    );
    const retryAfterMs = longestWaitMs([decision, { retryAfterMs: this.#nodes.roomAfterMs(atMs) }]);
    return { ...decision, allowed: false, delayMs: 0, retryAfterMs, level: level?.name ?? "", reason: "keys" };
  }

  /** The decision of a level within the bounds of the request's class and of the shares of other keys. */
  #bounded(
    { path, costs, weights, upTo, atMs, isLook }: Turn,
    index: number,
    { meter, shares }: TreeNode,
  ): LevelDecision {
    const share = this.#levels[index + 1]?.share ?? null;
    const child = path[index + 1] ?? null;
    const parts =
      shares === null || share === null
        ? []
        : [{ index: share.index, shares, child, weight: weights[index + 1] ?? 1, isLook }];
    const bounds = { upTo: upTo[index] ?? 100, parts };
    const { decision, bound } = boundedDecision(meter, costs[index] ?? 0, atMs, bounds);
    const reason = decision.allowed ? null : (bound ?? "limits");
    return { ...decision, level: this.#levels[index]?.level.name ?? "", reason };
  }
}

/**
 * Returns a tree of keys.
 * @param levels from the root down
 * @param stored the rows of `snapshot` of an earlier tree
 * @param most the most live keys of the root, 100,000 by default
 * @throws ConfigProblems with every problem of the levels
 */
export function createTree(levels: readonly TreeLevel[], stored?: Iterable<TreeRow>, most?: number): Tree {
  return new Tree(levels, stored, most);
}

/** The decision with the time that the decision's instant is ahead of the caller's clock. */
function delayed(decision: LevelDecision, lagMs: number): LevelDecision {
  const later = (waitMs: number): number => (waitMs === 0 ? 0 : waitMs + lagMs);
  const laterOrNever = (waitMs: number | null): number | null => (waitMs === null ? null : later(waitMs));
  const limits = decision.limits.map((limit) => ({
    ...limit,
    retryAfterMs: laterOrNever(limit.retryAfterMs),
    replenishAfterMs: later(limit.replenishAfterMs),
    resetAfterMs: later(limit.resetAfterMs),
  }));
  const { delayMs, retryAfterMs } = decision;
  return { ...decision, delayMs: later(delayMs), retryAfterMs: laterOrNever(retryAfterMs), limits };
}
