/**
 * Entries of one key that a later call ends: `settle` ends a reservation, a return ends a slice. An entry has one part for
 * each policy. A part names the limits by which its units were spent or lent.
 */
import { type Guarantee, type Limit, mostReserved } from "../../strategies/index.ts";
import type { OpenUnits } from "../explanation.ts";
import type { Charge } from "../protocol.ts";

export interface OpenPart {
  readonly policy: string;
  readonly limits: readonly Limit[];
}

export interface OpenEntry {
  readonly id: string;
  readonly parts: readonly OpenPart[];
}

/** The bookkeeping that reservations and slices share. */
abstract class OpenEntries<Entry extends OpenEntry> {
  readonly entries = new Map<string, Entry>();
  /** No entry ends before this instant. After an entry is taken or renewed, the first end may be later. */
  protected earliestEndMs = Number.POSITIVE_INFINITY;
  /** When the first part of an entry ends. */
  protected abstract endOf(entry: Entry): number;
  /** Keeps sums up to date: `sign` is 1 when an entry was opened, -1 when it was taken. */
  protected abstract count(entry: Entry, sign: 1 | -1): void;

  get isEmpty(): boolean {
    return this.entries.size === 0;
  }

  get(id: string): Entry | null {
    return this.entries.get(id) ?? null;
  }

  open(entry: Entry): void {
    this.entries.set(entry.id, entry);
    this.earliestEndMs = Math.min(this.earliestEndMs, this.endOf(entry));
    this.count(entry, 1);
  }

  /** Removes an entry and returns it, even when its time is up; null if it is not open. */
  take(id: string): Entry | null {
    const entry = this.get(id);
    if (entry === null) return null;
    this.entries.delete(id);
    this.count(entry, -1);
    return entry;
  }

  /** Changes all entries. Removes those for which `change` returns null. */
  protected replace(change: (entry: Entry) => Entry | null): void {
    const before = [...this.entries.values()];
    for (const { id } of before) this.take(id);
    this.earliestEndMs = Number.POSITIVE_INFINITY;
    for (const entry of before) {
      const changed = change(entry);
      if (changed !== null) this.open(changed);
    }
  }
}

export interface Reservation extends OpenEntry {
  readonly ttlMs: number;
  readonly expiresAtMs: number;
  readonly isConfirmed: boolean;
  /** Whether only dry-run policies have something to correct. Such a reservation ends early when others need room. */
  readonly isDryRun: boolean;
  readonly parts: readonly ReservedCharge[];
  /**
   * For the reservation of a tree: the other keys that have a reservation under this id, with the number of its parts. Only the
   * root's names them; in the others the list is empty. Default: no tree.
   */
  readonly others?: readonly { readonly key: string; readonly count: number }[];
}

export interface ReservedCharge extends OpenPart {
  readonly cost: number;
  readonly spentAtMs: number;
  /** `spentAtMs`, or the instant of the last renewal: concurrency slots are held from then on. */
  readonly heldAtMs: number;
  /** The children whose parts of the policy's limits the units are. Default: none. */
  readonly children?: readonly ChildPart[];
}

/** A child that has a share of a limit: see bounds.ts. */
export interface ChildPart {
  readonly key: string;
  readonly policy: string;
  /** The index of the parent's limit. */
  readonly index: number;
  readonly guaranteed: Guarantee;
}

/** Marks a charge whose policy was forgotten. The charge stays, because `settle` lists its costs in the order of charges. */
const forgottenLimits: readonly Limit[] = [];
export const isForgotten = ({ limits }: ReservedCharge): boolean => limits.length === 0;

/** All reservations and slices of a key are stored in its row. */
const mostReservationBytes = 1_000_000;
const mostSlices = 1_000;
const mostSliceBytes = 400_000;

/** Estimates without limits and names: stored bytes of entries and of their parts, and memory, in bytes. */
const storedBytesOfReservation = 100;
const storedBytesOfCharge = 100;
const storedBytesOfSlice = 30;
const storedBytesOfSlicePart = 25;
const memoryOfReservation = 500;
const memoryPerStoredByte = 5;

/**
 * The open reservations of a key: the cost each spent, by which limits, and until when `settle` may correct it. They do not
 * free slots of `concurrency`: the meter frees these at the ttl.
 */
export class Reservations extends OpenEntries<Reservation> {
  /** The lists of limits in use, each counted once, with the length of its JSON. */
  readonly #lists = new Map<readonly Limit[], { uses: number; readonly sizeBytes: number }>();
  #listBytes = 0;
  #chargeCount = 0;

  get sizeBytes(): number {
    return this.entries.size * memoryOfReservation + this.#listBytes * memoryPerStoredByte;
  }

  /**
   * Milliseconds until a reservation with these charges can be opened; 0 when it can be opened now. If an enforced
   * policy needs room, it ends reservations of dry runs, which then count as spent.
   */
  fullForMs(charges: readonly Charge[], isDryRun: boolean, nowMs: number): number {
    const isFull = (): boolean =>
      this.entries.size >= mostReserved || this.#storedBytesWith(charges) > mostReservationBytes;
    if (!isFull()) return 0;
    this.#dropExpired(nowMs);
    for (const each of this.entries.values()) {
      if (isDryRun || !isFull()) break;
      if (each.isDryRun) this.take(each.id);
    }
    return isFull() ? Math.max(1, this.earliestEndMs - nowMs) : 0;
  }

  /**
   * Extends a reservation by its ttl from now.
   * @param renewSlots renews a charge's slots and returns the instant from which they are held
   * @returns false when the reservation is not open any more
   */
  renew(id: string, nowMs: number, renewSlots: (charge: ReservedCharge, ttlMs: number) => number): boolean {
    const reservation = this.get(id);
    if (reservation === null || reservation.expiresAtMs <= nowMs) return false;
    const { ttlMs } = reservation;
    const parts = reservation.parts.map((charge) =>
      isForgotten(charge) ? charge : { ...charge, heldAtMs: renewSlots(charge, ttlMs) },
    );
    const latestMs = Math.max(nowMs, ...parts.map(({ heldAtMs }) => heldAtMs));
    this.entries.set(id, { ...reservation, expiresAtMs: latestMs + ttlMs, parts });
    return true;
  }

  #dropExpired(nowMs: number): void {
    this.earliestEndMs = Number.POSITIVE_INFINITY;
    for (const reservation of this.entries.values()) {
      const { id, ttlMs } = reservation;
      // After a mis-set clock, a reservation lasts no longer than its ttl from now.
      const expiresAtMs = Math.min(reservation.expiresAtMs, nowMs + ttlMs);
      if (expiresAtMs <= nowMs) this.take(id);
      else {
        this.entries.set(id, { ...reservation, expiresAtMs });
        this.earliestEndMs = Math.min(this.earliestEndMs, expiresAtMs);
      }
    }
  }

  /** The open reservations of a policy. */
  openOf(policy: string, nowMs: number): OpenUnits {
    let [count, units, firstEndMs] = [0, 0, Number.POSITIVE_INFINITY];
    for (const { parts, expiresAtMs } of this.entries.values()) {
      const part = parts.find((each) => each.policy === policy && !isForgotten(each));
      if (part === undefined || expiresAtMs <= nowMs) continue;
      count++;
      units += part.cost;
      firstEndMs = Math.min(firstEndMs, expiresAtMs);
    }
    return { count, units, nextEndAtMs: count === 0 ? null : firstEndMs };
  }

  hasPolicy(policy: string): boolean {
    for (const { parts } of this.entries.values()) {
      if (parts.some((part) => part.policy === policy)) return true;
    }
    return false;
  }

  /** A later `settle` does not correct this policy any more. */
  forget(policy: string): void {
    this.#replaceCharges((charge) => (charge.policy === policy ? { ...charge, limits: forgottenLimits } : charge));
  }

  /** Moves what a policy spent after `nowMs` to `nowMs`, because the clock was ahead when it was spent. */
  rebook(policy: string, nowMs: number): void {
    this.#replaceCharges((charge) => {
      if (charge.policy !== policy) return charge;
      const spentAtMs = Math.min(charge.spentAtMs, nowMs);
      return { ...charge, spentAtMs, heldAtMs: Math.min(charge.heldAtMs, nowMs) };
    }, nowMs);
  }

  /**
   * Removes a reservation when all of its policies are forgotten.
   * @param clockMs no reservation lasts longer than its ttl from here
   */
  #replaceCharges(change: (charge: ReservedCharge) => ReservedCharge, clockMs = Number.POSITIVE_INFINITY): void {
    this.replace((reservation) => {
      const parts = reservation.parts.map(change);
      // In a tree, `settle` must find how many charges each key had.
      if (reservation.others === undefined && parts.every(isForgotten)) return null;
      const expiresAtMs = Math.min(reservation.expiresAtMs, clockMs + reservation.ttlMs);
      return { ...reservation, parts, expiresAtMs };
    });
  }

  #storedBytesWith(charges: readonly Charge[]): number {
    const stored =
      this.entries.size * storedBytesOfReservation +
      (this.#chargeCount + charges.length) * storedBytesOfCharge +
      this.#listBytes;
    // Measuring the new charges takes time, and matters only near the bound.
    return stored > mostReservationBytes / 2 ? stored + JSON.stringify(charges).length : stored;
  }

  /** When the last reservation expires; 0 if none is open. */
  idleAtMs(): number {
    let latestMs = 0;
    for (const { expiresAtMs } of this.entries.values()) latestMs = Math.max(latestMs, expiresAtMs);
    return latestMs;
  }

  protected override endOf({ expiresAtMs }: Reservation): number {
    return expiresAtMs;
  }

  protected override count({ parts }: Reservation, sign: 1 | -1): void {
    for (const { limits, children = [] } of parts) {
      this.#chargeCount += sign * (1 + children.length);
      const list = this.#lists.get(limits) ?? { uses: 0, sizeBytes: JSON.stringify(limits).length };
      if (list.uses === 0) this.#listBytes += list.sizeBytes;
      list.uses += sign;
      this.#lists.set(limits, list);
      if (list.uses > 0) continue;
      this.#lists.delete(limits);
      this.#listBytes -= list.sizeBytes;
    }
  }
}

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

interface LentUnits {
  readonly byLimits: ReadonlyMap<readonly Limit[], number>;
  readonly endsAtMs: number;
}

const storedBytesOf = ({ id, parts }: OpenSlice): number =>
  parts.reduce((sum, { policy }) => sum + policy.length + storedBytesOfSlicePart, id.length + storedBytesOfSlice);

const longestWindowMs = (limits: readonly Limit[]): number =>
  limits.reduce((longestMs, { windowMs }) => Math.max(longestMs, windowMs), 0);

/**
 * The open slices of a key: units lent to isolates, which may spend them at any time until the slice ends. Until a slice is
 * settled, its units count as spent at the instant of every decision.
 */
export class Slices extends OpenEntries<OpenSlice> {
  readonly #unitsOf = new Map<string, number>();
  /** Caches `lentBy` until a slice of the policy changes. */
  readonly #lentBy = new Map<string, LentUnits>();
  #storedBytes = 0;
  /**
   * A clock before this instant is more than the longest window behind the time at which a slice was lent: that time
   * came from a mis-set clock.
   */
  #trustedFromMs = 0;

  get isFull(): boolean {
    return this.entries.size >= mostSlices || this.#storedBytes >= mostSliceBytes;
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
}
