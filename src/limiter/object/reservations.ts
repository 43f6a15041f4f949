/**
 * The open reservations of a key: the cost each spent, by which limits, and until when `settle` may correct it. They do not
 * free slots of `concurrency`: the meter frees these at the ttl.
 */
import { isCount, type Limit, mostReserved } from "../../strategies/index.ts";
import type { Charge, OpenUnits } from "../protocol.ts";
import { OpenEntries, type OpenEntry, type OpenPart } from "./open-entries.ts";

export interface Reservation extends OpenEntry {
  readonly ttlMs: number;
  readonly expiresAtMs: number;
  readonly isConfirmed: boolean;
  /** Whether only dry-run policies have something to correct. Such a reservation makes room for others. */
  readonly isDryRun: boolean;
  readonly parts: readonly ReservedCharge[];
}

export interface ReservedCharge extends OpenPart {
  readonly cost: number;
  readonly spentAtMs: number;
  /** `spentAtMs`, or the instant of the last renewal: concurrency slots are held from then on. */
  readonly heldAtMs: number;
}

/** Marks a charge whose policy was forgotten. The charge stays, because `settle` lists its costs in the order of charges. */
const forgottenLimits: readonly Limit[] = [];
export const isForgotten = ({ limits }: ReservedCharge): boolean => limits.length === 0;

/** All reservations of a key are stored in its row. */
const mostStoredBytes = 1_000_000;

/** Estimates without limits: stored bytes of a reservation and of a charge, memory of a reservation. */
const storedBytesEach = 100;
const storedBytesOfCharge = 100;
const memoryBytesEach = 500;
const memoryPerStoredByte = 5;

export class Reservations extends OpenEntries<Reservation> {
  /** The lists of limits in use, each counted once, with the length of its JSON. */
  readonly #lists = new Map<readonly Limit[], { uses: number; readonly sizeBytes: number }>();
  #listBytes = 0;
  #chargeCount = 0;

  get sizeBytes(): number {
    return this.entries.size * memoryBytesEach + this.#listBytes * memoryPerStoredByte;
  }

  /**
   * How long no reservation with these charges can be opened, in milliseconds; 0 when one can. Where an enforced
   * policy needs room, reservations of dry runs end and count as spent.
   */
  fullForMs(charges: readonly Charge[], isDryRun: boolean, nowMs: number): number {
    const isFull = (): boolean => this.entries.size >= mostReserved || this.#storedBytesWith(charges) > mostStoredBytes;
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
      if (parts.every(isForgotten)) return null;
      const expiresAtMs = Math.min(reservation.expiresAtMs, clockMs + reservation.ttlMs);
      return { ...reservation, parts, expiresAtMs };
    });
  }

  #storedBytesWith(charges: readonly Charge[]): number {
    const stored =
      this.entries.size * storedBytesEach +
      (this.#chargeCount + charges.length) * storedBytesOfCharge +
      this.#listBytes;
    // Measuring the new charges takes time, and matters only near the bound.
    return stored > mostStoredBytes / 2 ? stored + JSON.stringify(charges).length : stored;
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
    this.#chargeCount += sign * parts.length;
    for (const { limits } of parts) {
      const list = this.#lists.get(limits) ?? { uses: 0, sizeBytes: JSON.stringify(limits).length };
      if (list.uses === 0) this.#listBytes += list.sizeBytes;
      list.uses += sign;
      this.#lists.set(limits, list);
      if (list.uses > 0) continue;
      this.#lists.delete(limits);
      this.#listBytes -= list.sizeBytes;
    }
  }

  protected override readonly fieldCount = 3;

  protected override fieldsOf(reservation: Reservation): unknown[] {
    const { ttlMs, expiresAtMs, isConfirmed, isDryRun } = reservation;
    return [ttlMs, expiresAtMs, (isConfirmed ? 1 : 0) + (isDryRun ? 2 : 0)];
  }

  protected override partFieldsOf({ cost, spentAtMs, heldAtMs }: ReservedCharge): unknown[] {
    return [cost, spentAtMs, ...(heldAtMs === spentAtMs ? [] : [heldAtMs])];
  }

  protected override entryFrom(
    id: string,
    [ttlMs, expiresAtMs, flags]: readonly unknown[],
    parts: readonly ReservedCharge[],
  ): Reservation | null {
    if (!isCount(ttlMs) || !isCount(expiresAtMs)) return null;
    const isConfirmed = flags === 1 || flags === 3;
    return { id, ttlMs, expiresAtMs, isConfirmed, isDryRun: flags === 2 || flags === 3, parts };
  }

  protected override partFrom(
    part: OpenPart,
    [cost, spentAtMs, heldAtMs = spentAtMs]: readonly unknown[],
  ): ReservedCharge | null {
    return isCount(cost) && isCount(spentAtMs) && isCount(heldAtMs) ? { ...part, cost, spentAtMs, heldAtMs } : null;
  }
}
