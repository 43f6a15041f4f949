/**
 * The open slices of a key: units lent to isolates, which may spend them at any time until the slice ends. Until a slice is
 * settled, its units count as spent at the instant of every decision.
 */
import { isCount, type Limit } from "../../strategies/index.ts";
import { internedLimits } from "../interned.ts";
import type { OpenUnits } from "../protocol.ts";
import { OpenEntries, type OpenEntry, type OpenPart } from "./open-entries.ts";

export interface OpenSlice extends OpenEntry {
  /** Units lent by each of its policies; at least 1. */
  readonly units: number;
  readonly ttlMs: number;
  readonly parts: readonly SlicePart[];
}

/** Its `limits` are a list of `internedLimits`. */
interface SlicePart extends OpenPart {
  /** `ttlMs` after the instant of the policy's decision. */
  readonly endsAtMs: number;
}

export interface LentUnits {
  readonly byLimits: ReadonlyMap<readonly Limit[], number>;
  readonly endsAtMs: number;
}

/** All slices of a key are stored in its row. */
const mostOpen = 1_000;
const mostStoredBytes = 400_000;

/** Estimates: stored bytes of a slice and of a part, without names; memory used for each stored byte. */
const storedBytesEach = 30;
const storedBytesOfPart = 25;
const memoryPerStoredByte = 5;

const storedBytesOf = ({ id, parts }: OpenSlice): number =>
  parts.reduce((sum, { policy }) => sum + policy.length + storedBytesOfPart, id.length + storedBytesEach);

const longestWindowMs = (limits: readonly Limit[]): number =>
  limits.reduce((longestMs, { windowMs }) => Math.max(longestMs, windowMs), 0);

export class Slices extends OpenEntries<OpenSlice> {
  readonly #unitsOf = new Map<string, number>();
  /** Caches `lentBy` until a slice of the policy changes. */
  readonly #lentBy = new Map<string, LentUnits>();
  #storedBytes = 0;
  /** If the clock is now before the instant at which a slice was lent, it was ahead at that instant. */
  #trustedFromMs = 0;

  get isFull(): boolean {
    return this.entries.size >= mostOpen || this.#storedBytes >= mostStoredBytes;
  }

  get sizeBytes(): number {
    return this.#storedBytes * memoryPerStoredByte;
  }

  get policies(): Iterable<string> {
    return this.#unitsOf.keys();
  }

  unitsOf(policy: string): number {
    return this.#unitsOf.get(policy) ?? 0;
  }

  openOf(policy: string): OpenUnits {
    const parts = [...this.entries.values()].flatMap((slice) => slice.parts).filter((part) => part.policy === policy);
    const firstEndMs = Math.min(...parts.map(({ endsAtMs }) => endsAtMs));
    const nextEndAtMs = parts.length === 0 ? null : firstEndMs;
    return { count: parts.length, units: this.unitsOf(policy), nextEndAtMs };
  }

  lentBy(policy: string): LentUnits {
    const known = this.#lentBy.get(policy);
    if (known !== undefined) return known;
    const byLimits = new Map<readonly Limit[], number>();
    let endsAtMs = 0;
    for (const { parts, units } of this.entries.values()) {
      for (const part of parts) {
        if (part.policy !== policy) continue;
        byLimits.set(part.limits, (byLimits.get(part.limits) ?? 0) + units);
        endsAtMs = Math.max(endsAtMs, part.endsAtMs);
      }
    }
    const lent = { byLimits, endsAtMs };
    this.#lentBy.set(policy, lent);
    return lent;
  }

  /** Removes the parts whose time is up and returns them in the order of their ends. */
  takeEnded(nowMs: number): (SlicePart & Pick<OpenSlice, "units">)[] {
    if (nowMs >= this.#trustedFromMs && nowMs < this.earliestEndMs) return [];
    const ended: (SlicePart & Pick<OpenSlice, "units">)[] = [];
    this.#replaceParts((part, { units, ttlMs }) => {
      if (part.endsAtMs <= nowMs) {
        ended.push({ ...part, units });
        return null;
      }
      // After a mis-set clock, a slice lasts no longer than its ttl from now.
      const isMisset = part.endsAtMs - ttlMs - nowMs > longestWindowMs(part.limits);
      return isMisset ? { ...part, endsAtMs: nowMs + ttlMs } : part;
    });
    return ended.toSorted((a, b) => a.endsAtMs - b.endsAtMs);
  }

  /** Ends the slices of a policy no later than their ttl from `nowMs`, because the clock was ahead when they were lent. */
  rebook(policy: string, nowMs: number): void {
    this.#replaceParts((part, { ttlMs }) =>
      part.policy === policy ? { ...part, endsAtMs: Math.min(part.endsAtMs, nowMs + ttlMs) } : part,
    );
  }

  forget(policy: string): void {
    this.#replaceParts((part) => (part.policy === policy ? null : part));
  }

  /** Removes a part for which `change` returns null, and a slice with its last part. */
  #replaceParts(change: (part: SlicePart, slice: OpenSlice) => SlicePart | null): void {
    this.#trustedFromMs = 0;
    this.replace((slice) => {
      const parts = slice.parts.flatMap((part) => change(part, slice) ?? []);
      return parts.length > 0 ? { ...slice, parts } : null;
    });
  }

  protected override endOf({ parts }: OpenSlice): number {
    return Math.min(...parts.map(({ endsAtMs }) => endsAtMs));
  }

  protected override count(slice: OpenSlice, sign: 1 | -1): void {
    this.#storedBytes += sign * storedBytesOf(slice);
    for (const { policy, limits, endsAtMs } of slice.parts) {
      const units = this.unitsOf(policy) + sign * slice.units;
      if (units === 0) this.#unitsOf.delete(policy);
      else this.#unitsOf.set(policy, units);
      this.#lentBy.delete(policy);
      const trustedFromMs = endsAtMs - slice.ttlMs - longestWindowMs(limits);
      if (sign === 1) this.#trustedFromMs = Math.max(this.#trustedFromMs, trustedFromMs);
    }
  }

  protected override readonly fieldCount = 2;

  protected override fieldsOf({ units, ttlMs }: OpenSlice): unknown[] {
    return [units, ttlMs];
  }

  protected override partFieldsOf({ endsAtMs }: SlicePart): unknown[] {
    return [endsAtMs];
  }

  protected override entryFrom(
    id: string,
    [units, ttlMs]: readonly unknown[],
    parts: readonly SlicePart[],
  ): OpenSlice | null {
    if (!isCount(units) || units === 0 || !isCount(ttlMs) || parts.length === 0) return null;
    return { id, units, ttlMs, parts };
  }

  protected override partFrom({ policy, limits }: OpenPart, [endsAtMs]: readonly unknown[]): SlicePart | null {
    return isCount(endsAtMs) ? { policy, limits: internedLimits(limits), endsAtMs } : null;
  }
}
