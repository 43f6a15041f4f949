/**
 * Guaranteed shares of one limit of a parent among its children.
 *
 * Let `free` be the units that the limit has left, g the guarantee of a child, and u the child's part of the used units. A
 * cost k of child c fits if `k <= free − Σ max(0, g_j − u_j)` over the other active children j, or if `k <= g_c − u_c` and
 * `k <= free`. The second condition lets a child use its guarantee even while others hold the rest.
 *
 * - A child is active for 10 s after its last request, allowed or denied, or for the limit's window if that is shorter.
 * - u is counted by a meter for each child under the limit itself. In a window that a request opened, the child's units are
 *   booked to the opening of the parent's window, so that both end together. Under a continuous bucket, u drains at the
 *   guaranteed rate, not at the rate of the whole bucket.
 * - Spent units stay spent: a new child has its guarantee one window after it became active, at the latest.
 * - If all state is lost, u is 0. More is then withheld from the other children, and the limit's own bound still holds.
 */
import type { CompiledLimit } from "./compiled-limit.ts";
import { compiledLimit } from "./compiled-limit.ts";
import { DueTimes } from "./due-times.ts";
import { isCount, isInstant, multiplyDivideFloor } from "./integers.ts";
import { LimitsMeter } from "./meter.ts";
import { greatestWeight, type Guarantee, shareProblem, usageLimitOf } from "./shared-limit.ts";
import type { Limit } from "./strategy.ts";

/** How long a child stays active after a request, unless the limit's window is shorter. */
const longestActiveMs = 10_000;
export const mostActive = 10_000;
/** How much of a limit one child may use at an instant. */
export interface Room {
  /** The units that fit. */
  readonly units: number;
  /** The child's guarantee; 0 for a child that is not counted as active. */
  readonly guaranteed: number;
  /** The child's part of the used units. */
  readonly used: number;
  /** Whether other children are active. */
  readonly hasOthers: boolean;
}

interface Child {
  readonly key: string;
  readonly usage: LimitsMeter;
  weight: number;
  /** The last request. */
  lastMs: number;
  isActive: boolean;
  /** Whether the child is forgotten once it is inactive. */
  isReleased: boolean;
  /** u, until `dueMs`. */
  used: number;
  dueMs: number;
  /** The child's part of the sum of withheld units. */
  withheld: number;
}

/** Decides how much of a limit each child may use. It never changes the limit's own meter. */
export class Shares {
  readonly #guarantee: Guarantee;
  readonly #parent: CompiledLimit;
  readonly #usageLimits: readonly Limit[];
  /** How long a child stays active. */
  readonly activeMs: number;
  readonly #children = new Map<string, Child>();
  /** In the order of `lastMs`. */
  readonly #active = new Set<Child>();
  readonly #due = new DueTimes<Child>();
  #totalWeight = 0;
  #withheld = 0;
  /** Whether the guarantees have changed since the sum was computed. */
  #isStale = false;
  #isFullReported = false;
  /** Whether children were restored, which storage returns in any order. */
  #isUnordered = false;
  /** The latest time of a change. */
  seenMs = 0;

  /**
   * @param mostActiveMs how long a child stays active, unless the window is shorter; simulations chose the default
   * @throws RangeError if the limit cannot be shared: see `shareProblem`
   */
  constructor(limit: Limit, guarantee: Guarantee, mostActiveMs: number = longestActiveMs) {
    const problem = shareProblem(limit, guarantee);
    if (problem !== null) throw new RangeError(`guaranteed: expected ${problem}`);
    this.#guarantee = guarantee;
    this.#parent = compiledLimit(limit);
    this.#usageLimits = [usageLimitOf(limit, guarantee)];
    this.activeMs = Math.min(mostActiveMs, limit.windowMs);
  }

  /** Whether units are slots, which are given back when the work ends. */
  get holdsSlots(): boolean {
    return this.#parent.strategy.holdsSlots;
  }

  /** The instant to which a reservation is booked. Slots are held for their ttl, not for the whole window. */
  slotAtMs(ttlMs: number, atMs: number): number {
    return this.holdsSlots ? Math.max(0, atMs - Math.max(0, this.#parent.windowMs - ttlMs)) : atMs;
  }

  get activeCount(): number {
    return this.#active.size;
  }

  isActive(key: string, nowMs: number): boolean {
    this.#advance(nowMs);
    return this.#children.get(key)?.isActive === true;
  }

  /** The children that are active or not forgotten. */
  get childCount(): number {
    return this.#children.size;
  }

  /** Forgets released children that are inactive by now. */
  forgetInactive(nowMs: number): void {
    this.#advance(nowMs);
  }

  /** The units that are withheld from a request of no child. */
  withheldAt(nowMs: number): number {
    this.#advance(nowMs);
    this.#resum();
    return this.#withheld;
  }

  /**
   * Notes a request of a child, allowed or denied. Call it before the decision.
   * @returns whether this is the first request that finds too many active children, since there were fewer
   */
  touch(key: string, weight: number, nowMs: number): boolean {
    const atMs = this.#advance(nowMs);
    const child = this.#childOf(key, atMs);
    if (!child.isActive && this.#active.size >= mostActive) {
      const isFirst = !this.#isFullReported;
      this.#isFullReported = true;
      return isFirst;
    }
    const before = child.isActive ? child.weight : 0;
    this.#active.delete(child);
    this.#active.add(child);
    child.lastMs = atMs;
    child.weight = weight;
    this.#addWeight(weight - before);
    if (!child.isActive) {
      child.isActive = true;
      child.withheld = 0;
      this.#refresh(child, atMs);
    }
    return false;
  }

  /**
   * How much of the limit a child may use. Call `touch` before, with the same time.
   * @param key null for a request of the parent that belongs to no child
   * @param free the units that the limit has left
   */
  roomOf(key: string | null, free: number, nowMs: number): Room {
    const atMs = this.#advance(nowMs);
    this.#resum();
    const child = key === null ? undefined : this.#children.get(key);
    const active = this.#active.size;
    if (child?.isActive !== true) return roomFrom(free, this.#withheld, active > 0, 0, this.#usedAt(child, atMs));
    const guaranteed = this.#guaranteeOf(child.weight, this.#totalWeight);
    return roomFrom(free, this.#withheld - child.withheld, active > 1, guaranteed, child.used);
  }

  /** Returns what `roomOf` would return after `touch`. Changes nothing, and visits every active child. */
  look(key: string | null, weight: number, free: number, nowMs: number): Room {
    const atMs = this.#correctedMs(nowMs);
    const isMisset = atMs < this.seenMs;
    const own = key === null ? undefined : this.#children.get(key);
    const isActiveAt = ({ lastMs }: Child): boolean => isMisset || atMs - lastMs < this.activeMs;
    const active = [...this.#active].filter(isActiveAt);
    const others = active.filter((child) => child !== own);
    const isCounted = key !== null && (active.length > others.length || active.length < mostActive);
    const totalWeight = others.reduce((sum, child) => sum + child.weight, isCounted ? weight : 0);
    let withheld = 0;
    for (const child of others) {
      const used = !isMisset && child.dueMs > atMs ? child.used : this.#usedAt(child, atMs);
      withheld += Math.max(0, this.#guaranteeOf(child.weight, totalWeight) - used);
    }
    const guaranteed = isCounted ? this.#guaranteeOf(weight, totalWeight) : 0;
    return roomFrom(free, withheld, others.length > 0, guaranteed, this.#usedAt(own, atMs));
  }

  /**
   * The wait after which a denied cost fits if no other request is decided meanwhile. It suffices, but may be longer than
   * necessary if other children are active: the own guarantee has room for the cost, or all of them are inactive.
   * @param freeAfterMs the wait after which the limit alone has room for the cost; null if it never has
   */
  waitMs(
    key: string | null,
    cost: number,
    { guaranteed, hasOthers }: Room,
    freeAfterMs: number | null,
    nowMs: number,
  ): number | null {
    if (freeAfterMs === null || !hasOthers) return freeAfterMs;
    const atMs = this.#correctedMs(nowMs);
    const inactiveAfterMs = this.activeMs + atMs - nowMs;
    const usage = key === null ? undefined : this.#children.get(key)?.usage;
    const capacity = this.#usageCapacity;
    const ownAfterMs =
      cost > guaranteed ? null : usage === undefined ? 0 : usage.look(cost + capacity - guaranteed, nowMs).retryAfterMs;
    return Math.max(freeAfterMs, Math.min(inactiveAfterMs, ownAfterMs ?? inactiveAfterMs));
  }

  /** Adds spent units to a child's part. @param atMs the instant to which they are booked: see `openedAtMs` */
  spend(key: string, units: number, atMs: number, nowMs: number): void {
    this.#change(key, nowMs, (usage, seenMs) => usage.book(units, atMs, seenMs));
  }

  /** Removes units from a child's part that were booked to `atMs`. */
  refund(key: string, units: number, atMs: number, nowMs: number): void {
    this.#change(key, nowMs, (usage, seenMs) => usage.refund(units, atMs, seenMs));
  }

  #change(key: string, nowMs: number, change: (usage: LimitsMeter, seenMs: number) => void): void {
    const seenMs = this.#advance(nowMs);
    const child = this.#childOf(key, seenMs);
    change(child.usage, seenMs);
    if (child.isActive) this.#refresh(child, seenMs);
  }

  /** The child's part of the used units. Changes nothing. */
  usedBy(key: string, nowMs: number): number {
    return this.#usedAt(this.#children.get(key), this.#correctedMs(nowMs));
  }

  forget(key: string): void {
    const child = this.#children.get(key);
    if (child === undefined) return;
    this.#deactivate(child);
    this.#children.delete(key);
  }

  /** Forgets a child once it is inactive: its `snapshot` is stored. */
  release(key: string): void {
    const child = this.#children.get(key);
    if (child === undefined) return;
    if (child.isActive) child.isReleased = true;
    else this.#children.delete(key);
  }

  /** Keeps a child that was released. @returns false if it was forgotten meanwhile, so that the caller restores it */
  retain(key: string): boolean {
    const child = this.#children.get(key);
    if (child !== undefined) child.isReleased = false;
    return child !== undefined;
  }

  /** From this instant on, forgetting the child changes no decision. */
  idleAtMs(key: string): number {
    const child = this.#children.get(key);
    if (child === undefined) return 0;
    return Math.max(child.usage.idleAtMs(), child.isActive ? child.lastMs + this.activeMs : 0);
  }

  /** The state of a child, for storage; null without one. */
  snapshot(key: string): unknown {
    const child = this.#children.get(key);
    return child === undefined ? null : [child.lastMs, child.isActive ? child.weight : 0, child.usage.snapshot()];
  }

  /** Takes over the state of a child. An invalid state is one without spends and requests. Returns whether it was valid. */
  restore(key: string, stored: unknown): boolean {
    if (!Array.isArray(stored)) return stored === null;
    const [lastMs, weight, state]: unknown[] = stored;
    if (!isInstant(lastMs) || !isCount(weight) || weight > greatestWeight) return false;
    const usage = LimitsMeter.from(this.#usageLimits, state);
    const isActive = weight > 0;
    const child: Child = { key, usage, weight, lastMs, isActive, isReleased: false, used: 0, dueMs: 0, withheld: 0 };
    this.forget(key);
    this.#children.set(key, child);
    this.seenMs = Math.max(this.seenMs, lastMs, usage.seenMs);
    if (isActive) {
      this.#active.add(child);
      this.#isUnordered = true;
      this.#addWeight(weight);
      this.#refresh(child, this.seenMs);
    }
    return usage.refused === null;
  }

  get #usageCapacity(): number {
    const [limit] = this.#usageLimits;
    return limit === undefined ? 0 : compiledLimit(limit).capacity;
  }

  #childOf(key: string, atMs: number): Child {
    const known = this.#children.get(key);
    if (known !== undefined) return known;
    const usage = LimitsMeter.from(this.#usageLimits);
    const unused = { isActive: false, isReleased: false, used: 0, dueMs: 0, withheld: 0 };
    const child = { key, usage, weight: 0, lastMs: atMs, ...unused };
    this.#children.set(key, child);
    return child;
  }

  #guaranteeOf(weight: number, totalWeight: number): number {
    if (this.#guarantee !== "fair") return this.#guarantee;
    return totalWeight === 0 ? 0 : multiplyDivideFloor(this.#parent.capacity, weight, totalWeight);
  }

  #usedAt(child: Child | undefined, atMs: number): number {
    const limit = child?.usage.look(0, atMs).limits[0];
    return limit === undefined ? 0 : limit.capacity - limit.remaining;
  }

  /** Counts a child's part again, and when it next falls. */
  #refresh(child: Child, atMs: number): void {
    const limit = child.usage.look(0, atMs).limits[0];
    if (limit === undefined) return;
    child.used = limit.capacity - limit.remaining;
    child.dueMs = limit.replenishAfterMs === 0 ? Number.POSITIVE_INFINITY : atMs + limit.replenishAfterMs;
    if (child.dueMs !== Number.POSITIVE_INFINITY) this.#due.add(child.dueMs, child);
    if (!this.#isStale) this.#sum(child, this.#guaranteeOf(child.weight, this.#totalWeight));
  }

  #sum(child: Child, guarantee: number): void {
    const withheld = Math.max(0, guarantee - child.used);
    this.#withheld += withheld - child.withheld;
    child.withheld = withheld;
  }

  #addWeight(weight: number): void {
    this.#totalWeight += weight;
    if (weight !== 0 && this.#guarantee === "fair") this.#isStale = true;
  }

  /** With "fair", every guarantee depends on the weights of all active children. */
  #resum(): void {
    if (!this.#isStale) return;
    this.#isStale = false;
    let [weight, guarantee] = [0, 0];
    for (const child of this.#active) {
      if (child.weight !== weight) {
        weight = child.weight;
        guarantee = this.#guaranteeOf(weight, this.#totalWeight);
      }
      this.#sum(child, guarantee);
    }
  }

  #deactivate(child: Child): void {
    if (!this.#active.delete(child)) return;
    child.isActive = false;
    this.#withheld -= child.withheld;
    child.withheld = 0;
    this.#due.delete(child);
    this.#addWeight(-child.weight);
    this.#isFullReported = false;
    if (child.isReleased) this.#children.delete(child.key);
  }

  /** `nowMs`, or the latest time seen if the clock stepped back by at most a window. */
  #correctedMs(nowMs: number): number {
    return this.seenMs - nowMs > this.#parent.windowMs ? nowMs : Math.max(nowMs, this.seenMs);
  }

  #orderActive(): void {
    this.#isUnordered = false;
    const inOrder = [...this.#active].toSorted((a, b) => a.lastMs - b.lastMs);
    this.#active.clear();
    for (const child of inOrder) this.#active.add(child);
  }

  /** Brings active children and their parts up to date. A part is counted again only when it has changed. */
  #advance(nowMs: number): number {
    const atMs = this.#correctedMs(nowMs);
    if (atMs < this.seenMs) {
      // The clock was ahead and has been corrected. Children stay active, and their meters book their units again.
      for (const child of this.#active) {
        child.lastMs = atMs;
        this.#refresh(child, atMs);
      }
    }
    this.seenMs = atMs;
    if (this.#isUnordered) this.#orderActive();
    for (const child of this.#active) {
      if (atMs - child.lastMs < this.activeMs) break;
      this.#deactivate(child);
    }
    for (let child = this.#due.take(atMs); child !== null; child = this.#due.take(atMs)) {
      if (child.dueMs <= atMs) this.#refresh(child, atMs);
      else if (child.dueMs !== Number.POSITIVE_INFINITY) this.#due.add(child.dueMs, child);
    }
    return atMs;
  }
}

function roomFrom(free: number, withheld: number, hasOthers: boolean, guaranteed: number, used: number): Room {
  const units = Math.max(0, free - withheld, Math.min(guaranteed - used, free));
  return { units, guaranteed, used, hasOthers };
}
