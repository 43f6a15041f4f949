/** The keys of a tree with their meters, how they are stored, and which of them are removed when they are idle. */
import { LimitsMeter } from "./meter.ts";
import { Shares } from "./shares.ts";
import type { CheckedLevel } from "./tree-levels.ts";

/** The stored state of one key of a tree. */
export interface TreeRow {
  /** The name of the key's level. */
  readonly level: string;
  /** The keys from the root to this one. */
  readonly path: readonly string[];
  /** The snapshot of the key's meter. */
  readonly state: unknown;
  /** The key's share of its parent's limit; null without one. */
  readonly share: unknown;
}

export interface TreeNode {
  readonly path: readonly string[];
  meter: LimitsMeter;
  /** The shares of the keys of the next level; null without `guaranteed`. */
  shares: Shares | null;
  /** The live keys of the next level. */
  children: number;
  /** Whether the state may have changed since it was last stored. */
  isTouched: boolean;
}

/** Live keys of one root, by default. */
export const mostKeys = 100_000;
/** A full tree looks for idle keys at most this often, because it visits all of them. */
const evictionMs = 1_000;

/** A text that no other path has. */
const idOf = (path: readonly string[], index: number): string => JSON.stringify(path.slice(0, index + 1));

export class TreeNodes {
  readonly #levels: readonly CheckedLevel[];
  readonly #mostKeys: number;
  readonly #nodes = new Map<string, TreeNode>();
  /** A full tree looks for idle keys no earlier than this. */
  #evictsAtMs = 0;
  /** When a full tree last looked for idle keys. */
  #evictedAtMs = 0;

  constructor(levels: readonly CheckedLevel[], most: number) {
    this.#levels = levels;
    this.#mostKeys = most;
  }

  get size(): number {
    return this.#nodes.size;
  }

  get(path: readonly string[], index: number): TreeNode | null {
    return this.#nodes.get(idOf(path, index)) ?? null;
  }

  /** The key of a level, new if it is unknown. Null if there is no room for a new one. */
  open(path: readonly string[], index: number, nowMs: number): TreeNode | null {
    const known = this.get(path, index);
    if (known !== null) return known;
    const parent = index === 0 ? null : this.get(path, index - 1);
    // A key without its parent was refused together with it.
    if (index > 0 && parent === null) return null;
    if (!this.#hasRoom(nowMs)) return null;
    return this.#add(path.slice(0, index + 1), parent);
  }

  /** Like `open`, but changes nothing: an unknown key is not added. */
  peek(path: readonly string[], index: number, nowMs: number): TreeNode | null {
    const known = this.get(path, index);
    if (known !== null) return known;
    const missing = path.findIndex((_key, place) => this.get(path, place) === null);
    const free = this.#mostKeys - this.#nodes.size - (index - missing);
    return free > 0 || this.roomAfterMs(nowMs) === 0 ? this.#nodeOf(path.slice(0, index + 1)) : null;
  }

  #nodeOf(
    path: readonly string[],
    meter = LimitsMeter.from(this.#levels[path.length - 1]?.level.limits ?? []),
  ): TreeNode {
    const share = this.#levels[path.length]?.share ?? null;
    const shares = share === null ? null : new Shares(share.limit, share.guarantee);
    return { path, meter, shares, children: 0, isTouched: false };
  }

  #add(path: readonly string[], parent: TreeNode | null): TreeNode {
    const node = this.#nodeOf(path);
    this.#nodes.set(idOf(path, path.length - 1), node);
    if (parent !== null) parent.children++;
    return node;
  }

  #hasRoom(nowMs: number): boolean {
    if (this.#nodes.size < this.#mostKeys) return true;
    // After a clock that stepped back, the instants of the last eviction say nothing.
    if (nowMs < this.#evictsAtMs && nowMs >= this.#evictedAtMs) return false;
    this.evict(nowMs);
    return this.#nodes.size < this.#mostKeys;
  }

  /** The wait after which a full tree looks for idle keys again, and finds one; 0 if there is room. */
  roomAfterMs(nowMs: number): number {
    return this.#nodes.size < this.#mostKeys ? 0 : Math.max(0, this.#evictsAtMs - nowMs);
  }

  /** Removes idle keys without live keys of the next level. Returns their paths. */
  evict(nowMs: number): (readonly string[])[] {
    const evicted: (readonly string[])[] = [];
    let firstIdleMs = Number.POSITIVE_INFINITY;
    // A key stands after its parent, so that a parent is idle when its last key has been removed.
    for (const [id, node] of [...this.#nodes].toReversed()) {
      const idleAtMs = this.#idleAtMs(node);
      if (node.children > 0) continue;
      if (idleAtMs > nowMs) {
        firstIdleMs = Math.min(firstIdleMs, idleAtMs);
        continue;
      }
      this.#nodes.delete(id);
      evicted.push(node.path);
      const parent = this.#parentOf(node);
      if (parent === null) continue;
      parent.children--;
      parent.shares?.forget(node.path.at(-1) ?? "");
    }
    this.#evictedAtMs = nowMs;
    this.#evictsAtMs = Math.max(nowMs + evictionMs, firstIdleMs);
    return evicted;
  }

  #parentOf({ path }: TreeNode): TreeNode | null {
    return path.length === 1 ? null : this.get(path, path.length - 2);
  }

  #idleAtMs(node: TreeNode): number {
    const share = this.#parentOf(node)?.shares?.idleAtMs(node.path.at(-1) ?? "") ?? 0;
    return Math.max(node.meter.idleAtMs(), share);
  }

  idleAtMs(): number {
    let idleAtMs = 0;
    for (const node of this.#nodes.values()) idleAtMs = Math.max(idleAtMs, this.#idleAtMs(node));
    return idleAtMs;
  }

  /** Starts the meter of a key and the shares of its own keys anew, and forgets its part of its parent. */
  forget(path: readonly string[]): void {
    const node = this.get(path, path.length - 1);
    if (node === null) return;
    const { meter, shares } = this.#nodeOf(path);
    Object.assign(node, { meter, shares, isTouched: true });
  }

  /** @param seenMs states that are idle by then are left out, unless only touched keys are returned */
  rows(isTouchedOnly: boolean, seenMs: number): TreeRow[] {
    const rows: TreeRow[] = [];
    for (const node of this.#nodes.values()) {
      const isWanted = isTouchedOnly ? node.isTouched : node.children > 0 || this.#idleAtMs(node) > seenMs;
      if (isTouchedOnly) node.isTouched = false;
      if (!isWanted) continue;
      const { path, meter } = node;
      const share = this.#parentOf(node)?.shares?.snapshot(path.at(-1) ?? "") ?? null;
      rows.push({ level: this.#levels[path.length - 1]?.level.name ?? "", path, state: meter.snapshot(), share });
    }
    return rows;
  }

  /** Takes over a row; rows may be in any order. A row of another level is left out. @returns the latest time it has seen */
  restore({ level, path, state, share }: TreeRow): number {
    if (this.#levels[path.length - 1]?.level.name !== level) return 0;
    const node = this.#restored(path);
    node.meter = LimitsMeter.from(this.#levels[path.length - 1]?.level.limits ?? [], state);
    const shares = this.#parentOf(node)?.shares ?? null;
    if (shares === null || share === null) return node.meter.seenMs;
    shares.restore(path.at(-1) ?? "", share);
    return Math.max(node.meter.seenMs, shares.seenMs);
  }

  /** The key and all keys above it. */
  #restored(path: readonly string[]): TreeNode {
    const known = this.get(path, path.length - 1);
    if (known !== null) return known;
    const parent = path.length === 1 ? null : this.#restored(path.slice(0, -1));
    return this.#add(path, parent);
  }
}
