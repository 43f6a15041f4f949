/**
 * The open slices of a key: units lent to isolates, who may spend them at any time until a slice's end. Until it is
 * settled they are held: at every instant that is decided they count as spent.
 */
import { isCount, type Limit } from "../../strategies/index.ts";
import { internedLimits } from "../interned-limits.ts";
import { limitsAt, LimitTable } from "./limit-table.ts";

export interface Slice {
  readonly id: string;
  /** Lent of each of its policies; at least 1. */
  readonly units: number;
  readonly ttlMs: number;
  readonly parts: readonly SlicePart[];
}

/** What a policy has lent, by the limits it had then. */
export interface SlicePart {
  readonly policy: string;
  /** A list of `sharedLimits`. */
  readonly limits: readonly Limit[];
  /** `ttlMs` after the instant of the policy's decision. */
  readonly endsAtMs: number;
}

/** All that a policy has lent. */
export interface Lent {
  /** By the limits it was lent by. */
  readonly units: ReadonlyMap<readonly Limit[], number>;
  /** When the last of its slices ends. */
  readonly endsAtMs: number;
}

type LentUnits = SlicePart & Pick<Slice, "units">;

/** They are in one row with all else of the key. */
const mostOpen = 1_000;
const mostStoredBytes = 400_000;

/** About what takes how much in storage, beside names, and how much more it takes in memory. */
const storedBytesEach = 30;
const storedBytesOfPart = 25;
const heldBytesPerStored = 5;

const storedBytesOf = ({ id, parts }: Slice): number =>
  parts.reduce(
    (sum, { policy }) => sum + policy.length + storedBytesOfPart,
    id.length + storedBytesEach,
  );

const longestWindowMs = (limits: readonly Limit[]): number =>
  limits.reduce((longestMs, { windowMs }) => Math.max(longestMs, windowMs), 0);

export class Slices {
  readonly #open = new Map<string, Slice>();
  readonly #unitsOf = new Map<string, number>();
  /** What has been asked for since it changed. */
  readonly #lentBy = new Map<string, Lent>();
  #storedBytes = 0;
  /** From the one to the other nothing ends, and no clock is further behind than a meter takes for the truth. */
  #calmFromMs = 0;
  #calmUntilMs = Number.POSITIVE_INFINITY;
  /** How many of those stored were not such as this version writes. */
  refused = 0;

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  get isFull(): boolean {
    return this.#open.size >= mostOpen || this.#storedBytes >= mostStoredBytes;
  }

  get sizeBytes(): number {
    return this.#storedBytes * heldBytesPerStored;
  }

  get policies(): Iterable<string> {
    return this.#unitsOf.keys();
  }

  /** Of all slices together. */
  unitsOf(policy: string): number {
    return this.#unitsOf.get(policy) ?? 0;
  }

  get(id: string): Slice | null {
    return this.#open.get(id) ?? null;
  }

  lentBy(policy: string): Lent {
    const known = this.#lentBy.get(policy);
    if (known !== undefined) return known;
    const units = new Map<readonly Limit[], number>();
    let endsAtMs = 0;
    for (const slice of this.#open.values()) {
      for (const part of slice.parts) {
        if (part.policy !== policy) continue;
        units.set(part.limits, (units.get(part.limits) ?? 0) + slice.units);
        endsAtMs = Math.max(endsAtMs, part.endsAtMs);
      }
    }
    const lent = { units, endsAtMs };
    this.#lentBy.set(policy, lent);
    return lent;
  }

  open(slice: Slice): void {
    this.#open.set(slice.id, slice);
    this.#storedBytes += storedBytesOf(slice);
    for (const { policy, limits, endsAtMs } of slice.parts) {
      this.#unitsOf.set(policy, this.unitsOf(policy) + slice.units);
      this.#lentBy.delete(policy);
      const lentAtMs = endsAtMs - slice.ttlMs;
      this.#calmFromMs = Math.max(this.#calmFromMs, lentAtMs - longestWindowMs(limits));
      this.#calmUntilMs = Math.min(this.#calmUntilMs, endsAtMs);
    }
  }

  /** The slice, which is open no longer; null if there is none. */
  take(id: string): Slice | null {
    const taken = this.#open.get(id);
    if (taken === undefined) return null;
    this.#open.delete(id);
    this.#storedBytes -= storedBytesOf(taken);
    for (const { policy } of taken.parts) {
      const units = this.unitsOf(policy) - taken.units;
      this.#lentBy.delete(policy);
      if (units === 0) this.#unitsOf.delete(policy);
      else this.#unitsOf.set(policy, units);
    }
    return taken;
  }

  /** Takes out what has ended, and answers it, the first first. */
  takeEnded(nowMs: number): LentUnits[] {
    if (nowMs >= this.#calmFromMs && nowMs < this.#calmUntilMs) return [];
    const ended: LentUnits[] = [];
    this.#replace((part, { units, ttlMs }) => {
      if (part.endsAtMs <= nowMs) {
        ended.push({ ...part, units });
        return null;
      }
      // The clock was ahead, as it is for a meter: no more than its ttl is left of any.
      const isAhead = part.endsAtMs - ttlMs - nowMs > longestWindowMs(part.limits);
      return isAhead ? { ...part, endsAtMs: nowMs + ttlMs } : part;
    });
    return ended.toSorted((a, b) => a.endsAtMs - b.endsAtMs);
  }

  /** What a policy's meter has booked again at an instant, for the clock was ahead, is lent at it at the latest. */
  rebook(policy: string, nowMs: number): void {
    this.#replace((part, { ttlMs }) =>
      part.policy === policy ? { ...part, endsAtMs: Math.min(part.endsAtMs, nowMs + ttlMs) } : part,
    );
  }

  forget(policy: string): void {
    this.#replace((part) => (part.policy === policy ? null : part));
  }

  /** @param change of a part, which is open no longer where it is null */
  #replace(change: (part: SlicePart, slice: Slice) => SlicePart | null): void {
    const before = [...this.#open.values()];
    for (const { id } of before) this.take(id);
    this.#calmFromMs = 0;
    this.#calmUntilMs = Number.POSITIVE_INFINITY;
    for (const slice of before) {
      const parts = slice.parts.flatMap((part) => change(part, slice) ?? []);
      if (parts.length > 0) this.open({ ...slice, parts });
    }
  }

  /** `[lists of limits, …slices]` */
  snapshot(): unknown[] {
    const lists = new LimitTable();
    const written = [...this.#open.values()].map(({ id, units, ttlMs, parts }) => [
      id,
      units,
      ttlMs,
      ...parts.map(({ policy, limits, endsAtMs }) => [policy, lists.indexOf(limits), endsAtMs]),
    ]);
    return [lists.lists, ...written];
  }

  /** What `snapshot` wrote, but for what it cannot have written. */
  static revived(stored: unknown): Slices {
    const revived = new Slices();
    const [lists, ...written]: unknown[] = Array.isArray(stored) ? stored : [null, stored];
    for (const each of written) {
      const slice = readSlice(each, lists);
      if (slice === null) revived.refused++;
      else revived.open(slice);
    }
    return revived;
  }
}

function readSlice(stored: unknown, lists: unknown): Slice | null {
  if (!Array.isArray(stored)) return null;
  const [id, units, ttlMs, ...written]: unknown[] = stored;
  if (typeof id !== "string" || !isCount(units) || units === 0 || !isCount(ttlMs)) return null;
  const parts = written.map((part) => readPart(part, lists)).filter((each) => each !== null);
  return parts.length > 0 && parts.length === written.length ? { id, units, ttlMs, parts } : null;
}

function readPart(stored: unknown, lists: unknown): SlicePart | null {
  if (!Array.isArray(stored)) return null;
  const [policy, index, endsAtMs]: unknown[] = stored;
  const limits = limitsAt(lists, index);
  if (typeof policy !== "string" || limits === null || !isCount(endsAtMs)) return null;
  return { policy, limits: internedLimits(limits), endsAtMs };
}
