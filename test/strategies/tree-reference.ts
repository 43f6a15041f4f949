/**
 * The rules of a tree, applied literally: each key has an array of what it has spent, and every decision counts all of it
 * again by the rules in `references.ts`. It keeps no sums, no queues and no state of strategies.
 */
import type { Limit, TreeDecision, TreeLevel } from "../../src/strategies/index.ts";
import { capacityOf, longestWaitMs, type Request, rules } from "./references.ts";

/** Units that one request spent at one key. */
export interface Entry {
  atMs: number;
  units: number;
  /** The key of the next level. */
  readonly child: string | null;
}

export interface LevelOutcome {
  readonly allowed: boolean;
  readonly remaining: readonly number[];
  /** Null where the wait is not exact, because a share denies. */
  readonly retryAfterMs: readonly (number | null)[];
  readonly isShare: boolean;
}

/** The requests of the keys of one parent. */
interface Activity {
  readonly child: string;
  readonly atMs: number;
  readonly weight: number;
}

/** One key. */
class Node {
  entries: Entry[] = [];
  activity: Activity[] = [];
  /** The latest request, allowed or denied. Shares are counted no earlier, also after the clock stepped back. */
  seenMs = 0;

  /** The units that count at an instant; with a child, only its own. */
  used(limit: Limit, nowMs: number, child?: string): number {
    const requests: Request[] = this.entries.map((entry) => ({
      atMs: entry.atMs,
      units: child === undefined || entry.child === child ? entry.units : 0,
    }));
    const rule = rules[limit.strategy];
    if (rule === undefined) throw new Error(`no rule for ${limit.strategy}`);
    return rule(limit, requests, nowMs);
  }
}

export interface ReferenceRequest {
  readonly path: readonly string[];
  readonly costs: readonly number[];
  readonly weights: readonly number[];
  /** In percent by level. */
  readonly upTo: readonly number[];
}

export interface SharedLimit {
  /** The index of the parent's limit. */
  readonly index: number;
  readonly guaranteed: number | "fair";
}

export class TreeReference {
  readonly #levels: readonly TreeLevel[];
  readonly #shares: readonly (SharedLimit | null)[];
  readonly #nodes = new Map<string, Node>();
  readonly #longestWindowMs: number;
  seenMs = 0;
  /** How often another key's guarantee denied a request. */
  shareDenials = 0;

  constructor(levels: readonly TreeLevel[], shares: readonly (SharedLimit | null)[]) {
    this.#levels = levels;
    this.#shares = shares;
    this.#longestWindowMs = Math.max(...levels.flatMap(({ limits }) => limits.map(({ windowMs }) => windowMs)));
  }

  nodeOf(path: readonly string[], index: number): Node {
    const id = path.slice(0, index + 1).join("/");
    const node = this.#nodes.get(id) ?? new Node();
    this.#nodes.set(id, node);
    return node;
  }

  /**
   * The outcome at each level, and the entries that were added.
   * @param expected its waits are tried before the slow search
   */
  consume(
    request: ReferenceRequest,
    nowMs: number,
    expected: TreeDecision,
  ): { levels: LevelOutcome[]; entries: Entry[] | null } {
    const { path, costs, weights } = request;
    const atMs = this.seenMs - nowMs > this.#longestWindowMs ? nowMs : Math.max(nowMs, this.seenMs);
    path.forEach((child, index) => {
      const node = this.nodeOf(path, index);
      node.seenMs = Math.max(node.seenMs, atMs);
      if (index === 0) return;
      const parent = this.nodeOf(path, index - 1);
      parent.activity.push({ child, atMs: parent.seenMs, weight: weights[index] ?? 1 });
    });
    const before = path.map((_key, index) => this.#outcome(request, index, costs[index] ?? 0, atMs, nowMs, expected));
    if (!before.every(({ allowed }) => allowed)) return { levels: before, entries: null };
    this.seenMs = atMs;
    const entries = path.map((_key, index) => {
      const entry = { atMs, units: costs[index] ?? 0, child: path[index + 1] ?? null };
      if (entry.units > 0) this.nodeOf(path, index).entries.push(entry);
      return entry;
    });
    return { levels: path.map((_key, index) => this.#outcome(request, index, 0, atMs, nowMs, expected)), entries };
  }

  /** Changes what an entry has spent, as if it had spent this from the start. */
  correct(path: readonly string[], entries: readonly Entry[], costs: readonly number[]): void {
    entries.forEach((entry, index) => {
      entry.units = costs[index] ?? 0;
      const node = this.nodeOf(path, index);
      node.entries = node.entries.filter(({ units }) => units > 0);
    });
  }

  #outcome(
    request: ReferenceRequest,
    index: number,
    cost: number,
    atMs: number,
    nowMs: number,
    expected: TreeDecision,
  ): LevelOutcome {
    const node = this.nodeOf(request.path, index);
    const share = this.#shares[index + 1] ?? null;
    const limits = this.#levels[index]?.limits ?? [];
    let isShare = false;
    const decided = limits.map((limit, place) => {
      const most = Math.floor((capacityOf(limit) * (request.upTo[index] ?? 100)) / 100);
      const fitsAt = (waitMs: number): boolean => cost === 0 || node.used(limit, atMs + waitMs) + cost <= most;
      const free = Math.max(0, most - node.used(limit, atMs));
      const room = share?.index === place ? this.#room(request, index, limit, share.guaranteed, atMs) : free;
      const isDeniedByShare = cost > room && cost <= free;
      if (isDeniedByShare) this.shareDenials++;
      isShare ||= cost > room && share?.index === place;
      const triedMs = (expected.levels[index]?.limits[place]?.retryAfterMs ?? 0) - (atMs - nowMs);
      const wait = cost > most ? null : leastWait(fitsAt, longestWaitMs(limit), triedMs);
      return {
        allowed: fitsAt(0) && cost <= Math.max(room, 0),
        remaining: Math.min(free, room),
        retryAfterMs: wait === null || wait === 0 ? wait : wait + atMs - nowMs,
      };
    });
    return {
      allowed: decided.every(({ allowed }) => allowed),
      remaining: decided.map(({ remaining }) => remaining),
      retryAfterMs: decided.map(({ retryAfterMs }) => retryAfterMs),
      isShare,
    };
  }

  /** How much of a limit the next level's key may use, by the formula of shares. */
  #room(request: ReferenceRequest, index: number, limit: Limit, stated: number | "fair", atMs: number): number {
    const { path } = request;
    const node = this.nodeOf(path, index);
    const nowMs = Math.max(atMs, node.seenMs);
    const own = path[index + 1] ?? null;
    const activeMs = Math.min(10_000, limit.windowMs);
    const active = new Map(
      node.activity.filter((each) => nowMs - each.atMs < activeMs).map(({ child, weight }) => [child, weight]),
    );
    const totalWeight = [...active.values()].reduce((sum, weight) => sum + weight, 0);
    const guaranteeOf = (child: string): number =>
      stated === "fair" ? Math.floor((capacityOf(limit) * (active.get(child) ?? 0)) / totalWeight) : stated;
    const free = Math.max(0, capacityOf(limit) - node.used(limit, atMs));
    const unusedOf = (child: string): number => guaranteeOf(child) - node.used(partLimit(limit, stated), nowMs, child);
    const withheld = [...active.keys()]
      .filter((child) => child !== own)
      .reduce((sum, child) => sum + Math.max(0, unusedOf(child)), 0);
    const ownUnused = own === null || !active.has(own) ? 0 : unusedOf(own);
    return Math.max(0, free - withheld, Math.min(ownUnused, free));
  }
}

/** A bucket drains a child's part at the guaranteed rate. */
function partLimit(limit: Limit, stated: number | "fair"): Limit {
  if (stated === "fair" || !limit.strategy.endsWith("-bucket")) return limit;
  const withBurst = { ...limit, limit: stated, burst: stated };
  return withBurst;
}

function leastWait(fitsAt: (waitMs: number) => boolean, longestMs: number, triedMs: number): number {
  if (fitsAt(0)) return 0;
  if (triedMs > 0 && fitsAt(triedMs) && !fitsAt(triedMs - 1)) return triedMs;
  let [tooShortMs, enoughMs] = [0, longestMs];
  while (enoughMs - tooShortMs > 1) {
    const middleMs = Math.floor((tooShortMs + enoughMs) / 2);
    if (fitsAt(middleMs)) enoughMs = middleMs;
    else tooShortMs = middleMs;
  }
  return enoughMs;
}
