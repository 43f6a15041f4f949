/**
 * The limits of parents that children share (strategies/shares.ts), and what a child's state stores of its parts in them.
 *
 * The shares are in memory beside the states of keys. If they were evicted together with the parent's state, no guarantee would
 * be withheld under memory pressure. After a restart a child's part is restored when the child's state is read.
 */
import {
  attachSegments,
  compiledLimit,
  detachSegments,
  type Guarantee,
  isCount,
  type Limit,
  shareProblem,
  Shares,
} from "../../strategies/index.ts";

/** A limit of a parent's key, with the shares of its children. */
export interface SharedLimit {
  readonly index: number;
  readonly limit: Limit;
  readonly guaranteed: Guarantee;
  /** See `SharedParts.generationOf`. */
  readonly generation: number;
  /** A stored part that was counted under another limit, guarantee or generation has another text, and is not restored. */
  readonly stamp: string;
  readonly shares: Shares;
}

/** A limit that a call names as a shared one. */
interface NamedLimit {
  /** The parent's key and policy. */
  readonly key: string;
  readonly policy: string;
  /** See `SharedParts.generationOf`. */
  readonly generation: number;
  readonly index: number;
  /** The limit in effect. Undefined if the parent has no such limit. */
  readonly limit: Limit | undefined;
  readonly guaranteed: Guarantee;
}

const noLimits: readonly SharedLimit[] = [];
const sweepMs = 10_000;

function stampOf(limit: Limit, guaranteed: Guarantee, generation: number): string {
  const { identity, units, capacity } = compiledLimit(limit);
  return `${identity} ${units} ${capacity} ${guaranteed} ${generation}`;
}

/** Whether the shares are those of a limit. */
export const areOf = (shared: SharedLimit, limit: Limit | undefined): boolean =>
  limit !== undefined &&
  (shared.limit === limit || shared.stamp === stampOf(limit, shared.guaranteed, shared.generation));

/** The shared limits of all parents of an object. */
export class SharedLimits {
  readonly #byKey = new Map<string, Map<string, SharedLimit[]>>();
  #sweptAtMs = 0;

  /** A field, so that calls without shares run no code of this file. */
  isEmpty = true;

  of(key: string, policy: string): readonly SharedLimit[] {
    return this.#byKey.get(key)?.get(policy) ?? noLimits;
  }

  /**
   * The shares of a limit. They start anew when the guarantee has changed. Those of another limit are kept, since overrides by
   * condition may give the requests of one key different limits. Null if the limit cannot be shared.
   */
  open(named: NamedLimit): SharedLimit | null {
    const { key, policy, generation, index, limit, guaranteed } = named;
    const all = this.of(key, policy).filter((each) => each.index === index);
    const known = all.find((each) => each.guaranteed === guaranteed && areOf(each, limit));
    if (known !== undefined) return known;
    if (limit === undefined || shareProblem(limit, guaranteed) !== null) return null;
    const limits = this.#limitsOf(key, policy);
    for (const each of all) if (each.guaranteed !== guaranteed) limits.splice(limits.indexOf(each), 1);
    const shares = new Shares(limit, guaranteed);
    // The state of an idle parent forgets its generation earlier than shares in memory.
    const latest = Math.max(generation, ...limits.map((each) => each.generation));
    const stamp = stampOf(limit, guaranteed, latest);
    const shared = { index, limit, guaranteed, generation: latest, stamp, shares };
    limits.push(shared);
    return shared;
  }

  /** The shares by which an earlier spend was decided. Null if they have started anew since. */
  find(named: NamedLimit): SharedLimit | null {
    const all = this.of(named.key, named.policy).filter(({ index }) => index === named.index);
    if (all.length === 0) return this.open(named);
    return all.find((each) => each.guaranteed === named.guaranteed && areOf(each, named.limit)) ?? null;
  }

  #limitsOf(key: string, policy: string): SharedLimit[] {
    const policies = this.#byKey.get(key) ?? new Map<string, SharedLimit[]>();
    const limits = policies.get(policy) ?? [];
    policies.set(policy, limits);
    this.#byKey.set(key, policies);
    this.isEmpty = false;
    return limits;
  }

  /** Starts the shares of a parent anew, because its spends were forgotten. */
  forget(key: string, policy: string): void {
    this.#byKey.get(key)?.delete(policy);
  }

  /** Removes shares without children, every few seconds. */
  sweep(nowMs: number): void {
    if (Math.abs(nowMs - this.#sweptAtMs) < sweepMs) return;
    this.#sweptAtMs = nowMs;
    for (const [key, policies] of this.#byKey) {
      for (const [policy, limits] of policies) {
        for (const { shares } of limits) shares.forgetInactive(nowMs);
        for (let index = limits.length - 1; index >= 0; index--) {
          if (limits[index]?.shares.childCount === 0) limits.splice(index, 1);
        }
        if (limits.length === 0) policies.delete(policy);
      }
      if (policies.size === 0) this.#byKey.delete(key);
    }
    this.isEmpty = this.#byKey.size === 0;
  }
}

/** A child's part as its row stores it. Activity is not stored: a restart ends it. */
interface StoredPart {
  readonly stamp: string;
  readonly idleAtMs: number;
  /** The last request. */
  readonly lastMs: number;
  /** The snapshot of the meter that counts the part. */
  readonly usage: unknown;
}

interface CountedPart {
  /** Null until a call names the parent. */
  shared: SharedLimit | null;
  /** The state while `shared` is null. */
  stored: StoredPart | null;
  changes: number;
  writtenChanges: number;
}

/** An estimate of the memory of a part, in bytes. */
const bytesOfPart = 900;

/** How often the spends of a parent's policy were forgotten. */
interface Generation {
  readonly number: number;
  /** Until then, stored parts of children of earlier generations may still count. */
  readonly untilMs: number;
}

/** The shares that a key's state stores: its parts in limits of its parents, and the generations of its own shared limits. */
export class SharedParts {
  readonly #key: string;
  /** By the key's own policy. */
  readonly #byPolicy = new Map<string, CountedPart>();
  /** By policy with shared limits. */
  readonly #generations = new Map<string, Generation>();

  constructor(key: string) {
    this.#key = key;
  }

  get sizeBytes(): number {
    return this.#byPolicy.size * bytesOfPart;
  }

  /** Counts the part of a policy under this limit from now on. */
  bind(policy: string, shared: SharedLimit): void {
    const part = this.#byPolicy.get(policy) ?? { shared: null, stored: null, changes: 0, writtenChanges: 0 };
    this.#byPolicy.set(policy, part);
    if (part.shared === shared) return;
    const { stored } = part;
    part.shared?.shares.release(this.#key);
    part.shared = shared;
    part.stored = null;
    const isKnown = shared.shares.retain(this.#key);
    if (isKnown || stored === null || stored.stamp !== shared.stamp) return;
    shared.shares.restore(this.#key, [stored.lastMs, 0, stored.usage]);
  }

  /** Whether `bind` would keep what the part of a policy has counted. */
  isOf(policy: string, shared: SharedLimit): boolean {
    const part = this.#byPolicy.get(policy);
    // Equal shares were removed meanwhile, because they counted nothing.
    const stamp = (part?.shared ?? part?.stored)?.stamp;
    return stamp === undefined || stamp === shared.stamp;
  }

  /** Parts of children are not restored if they are of another generation: the policy was forgotten since. */
  generationOf(policy: string): number {
    return this.#generations.get(policy)?.number ?? 0;
  }

  /** Notes the generation of shares in memory, which outlast the state of an idle parent. */
  keepGeneration(policy: string, { generation }: SharedLimit): void {
    const known = this.#generations.get(policy);
    if (known?.number !== generation) this.#generations.set(policy, { untilMs: 0, ...known, number: generation });
  }

  /** Notes that the spends of a policy were forgotten. No-op for a policy without shared limits. */
  forgetShares(policy: string, untilMs: number): void {
    const before = this.#generations.get(policy);
    if (before === undefined) return;
    this.#generations.set(policy, { number: before.number + 1, untilMs: Math.max(before.untilMs, untilMs) });
  }

  /** Notes that the part of a policy has changed. */
  change(policy: string): void {
    const part = this.#byPolicy.get(policy);
    if (part !== undefined) part.changes++;
  }

  has(policy: string): boolean {
    return this.#idleAtMsOf(this.#byPolicy.get(policy)) > 0;
  }

  /** Grows with every change that must be written. */
  get changes(): number {
    let changes = 0;
    for (const part of this.#byPolicy.values()) changes += part.changes;
    return changes;
  }

  get isUnwritten(): boolean {
    return [...this.#byPolicy.values()].some(({ changes, writtenChanges }) => changes !== writtenChanges);
  }

  /** Whether unwritten changes affect decisions for longer than `idleMs`. */
  outlasts(idleMs: number, nowMs: number): boolean {
    return [...this.#byPolicy.values()].some((part) => {
      if (part.changes === part.writtenChanges) return false;
      const retentionMs = part.shared === null ? 0 : compiledLimit(part.shared.limit).retentionMs;
      return retentionMs > idleMs || this.#idleAtMsOf(part) - nowMs > idleMs;
    });
  }

  markWritten(): void {
    for (const part of this.#byPolicy.values()) part.writtenChanges = part.changes;
  }

  /** From this instant on, forgetting the parts changes no decision. */
  idleAtMs(): number {
    let idleAtMs = 0;
    for (const part of this.#byPolicy.values()) idleAtMs = Math.max(idleAtMs, this.#idleAtMsOf(part));
    for (const { untilMs } of this.#generations.values()) idleAtMs = Math.max(idleAtMs, untilMs);
    return idleAtMs;
  }

  #idleAtMsOf(part: CountedPart | undefined): number {
    return part?.shared?.shares.idleAtMs(this.#key) ?? part?.stored?.idleAtMs ?? 0;
  }

  /** The key's state leaves the memory. The shares keep an active child until it is inactive. */
  release(): void {
    for (const part of this.#byPolicy.values()) {
      const { shared } = part;
      if (shared === null) continue;
      part.stored = this.#storedOf(part);
      part.shared = null;
      shared.shares.release(this.#key);
    }
  }

  #storedOf({ shared, stored }: CountedPart): StoredPart | null {
    if (shared === null) return stored;
    const { stamp, shares } = shared;
    const snapshot = shares.snapshot(this.#key);
    if (!Array.isArray(snapshot)) return null;
    const [lastMs, , usage]: unknown[] = snapshot;
    return isCount(lastMs) ? { stamp, idleAtMs: shares.idleAtMs(this.#key), lastMs, usage } : null;
  }

  /**
   * A list of `[policy, stamp, idle at, last request, snapshot of the meter]`, and of `[policy, generation, until]` for
   * policies with shared limits.
   * @param numberOf the number of a text that is stored apart
   */
  snapshot(nowMs: number, numberOf: (text: string) => number): unknown[] {
    const generations = [...this.#generations].map(([policy, { number, untilMs }]) => [policy, number, untilMs]);
    const parts = [...this.#byPolicy].flatMap(([policy, part]) => {
      const stored = this.#storedOf(part);
      if (stored === null || stored.idleAtMs <= nowMs) return [];
      const { stamp, idleAtMs, lastMs, usage } = stored;
      return [[policy, stamp, idleAtMs, lastMs, detachSegments(usage, numberOf)]];
    });
    return [...generations, ...parts];
  }

  /** Reads a `snapshot`; null if it has no part. Leaves out parts that this version did not write. */
  static revived(
    key: string,
    rows: readonly (readonly unknown[])[],
    textOf: (number: number) => string | undefined,
  ): SharedParts | null {
    const parts = new SharedParts(key);
    for (const [policy, stamp, idleAtMs, lastMs, written] of rows) {
      if (typeof policy !== "string" || !isCount(idleAtMs)) continue;
      if (isCount(stamp)) parts.#generations.set(policy, { number: stamp, untilMs: idleAtMs });
      if (typeof stamp !== "string" || !isCount(lastMs)) continue;
      const stored = { stamp, idleAtMs, lastMs, usage: attachSegments(written, textOf) };
      parts.#byPolicy.set(policy, { shared: null, stored, changes: 0, writtenChanges: 0 });
    }
    return parts.#byPolicy.size + parts.#generations.size === 0 ? null : parts;
  }
}
