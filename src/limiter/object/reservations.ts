/**
 * The open reservations of a key: what was spent for each, by which limits, and until when it may be corrected. Slots of
 * `concurrency` need no end of theirs here: they were spent so that they are free again at the ttl.
 */
import { isCount, type Limit } from "../../strategies/index.ts";
import { mostReserved } from "../../config/index.ts";
import type { Charge } from "../protocol.ts";
import { limitsAt, LimitTable } from "./limit-table.ts";

export interface Reservation {
  readonly id: string;
  readonly ttlMs: number;
  readonly expiresAtMs: number;
  readonly isConfirmed: boolean;
  /** Whether only dry runs have something to correct: what it stands for counts for less than another. */
  readonly isDryRun: boolean;
  readonly charges: readonly ReservedCharge[];
}

export interface ReservedCharge extends Pick<Charge, "policy" | "limits" | "cost"> {
  readonly spentAtMs: number;
  /** Since when slots are held by it: later where it was renewed. */
  readonly heldAtMs: number;
}

/** What is left of a charge whose policy was forgotten: its place, for settled costs come in the order of charges. */
const nothing: readonly Limit[] = [];
export const isForgotten = ({ limits }: ReservedCharge): boolean => limits.length === 0;

/** They are in one row with all else of the key. */
const mostStoredBytes = 1_000_000;

/** About what an open one takes in storage and in memory, beside its limits, and how much more those take there. */
const storedBytesEach = 100;
const storedBytesOfCharge = 100;
const heldBytesEach = 500;
const heldBytesPerStored = 5;

export class Reservations {
  readonly #open = new Map<string, Reservation>();
  /** Until then none expires: a decision need not go through them all. */
  #earliestMs = Number.POSITIVE_INFINITY;
  /** The lists of limits that are reserved by, each once; their bytes as text. */
  readonly #lists = new Map<readonly Limit[], { uses: number; readonly sizeBytes: number }>();
  #listBytes = 0;
  #chargeCount = 0;
  /** How many of those stored were not such as this version writes. */
  refused = 0;

  get sizeBytes(): number {
    return this.#open.size * heldBytesEach + this.#listBytes * heldBytesPerStored;
  }

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /**
   * For how long no more with such charges can be opened; 0 when one can. What dry runs have reserved stands as spent
   * where another needs the room.
   */
  fullForMs(charges: readonly Charge[], isDryRun: boolean, nowMs: number): number {
    const isFull = (): boolean =>
      this.#open.size >= mostReserved || this.#storedBytesWith(charges) > mostStoredBytes;
    if (!isFull()) return 0;
    this.#sweep(nowMs);
    for (const { id, isDryRun: isLesser } of this.#open.values()) {
      if (isDryRun || !isFull()) break;
      if (isLesser) this.take(id);
    }
    return isFull() ? Math.max(1, this.#earliestMs - nowMs) : 0;
  }

  open(reservation: Reservation): void {
    this.#open.set(reservation.id, reservation);
    this.#earliestMs = Math.min(this.#earliestMs, reservation.expiresAtMs);
    for (const { limits } of reservation.charges) this.#use(limits);
  }

  /** The reservation, which is open no longer; null if there is none. It may have expired. */
  take(id: string): Reservation | null {
    const taken = this.#open.get(id);
    if (taken === undefined) return null;
    this.#open.delete(id);
    for (const { limits } of taken.charges) this.#release(limits);
    return taken;
  }

  /**
   * Opens it for its ttl from now, unless it is over.
   * @param heldAtMs since when a charge's slots are held from then on
   */
  renew(
    id: string,
    nowMs: number,
    heldAtMs: (charge: ReservedCharge, ttlMs: number) => number,
  ): boolean {
    const reservation = this.#open.get(id);
    if (reservation === undefined || reservation.expiresAtMs <= nowMs) return false;
    const { ttlMs } = reservation;
    const charges = reservation.charges.map((charge) =>
      isForgotten(charge) ? charge : { ...charge, heldAtMs: heldAtMs(charge, ttlMs) },
    );
    const latestMs = Math.max(nowMs, ...charges.map((charge) => charge.heldAtMs));
    this.#open.set(id, { ...reservation, expiresAtMs: latestMs + ttlMs, charges });
    return true;
  }

  /** What has expired stands as spent. */
  #sweep(nowMs: number): void {
    this.#earliestMs = Number.POSITIVE_INFINITY;
    for (const reservation of this.#open.values()) {
      const { id, ttlMs } = reservation;
      // No more than its ttl is left of any: where it is, the clock was ahead.
      const expiresAtMs = Math.min(reservation.expiresAtMs, nowMs + ttlMs);
      if (expiresAtMs <= nowMs) this.take(id);
      else {
        this.#open.set(id, { ...reservation, expiresAtMs });
        this.#earliestMs = Math.min(this.#earliestMs, expiresAtMs);
      }
    }
  }

  /** Of what a policy has spent nothing is to be corrected any more. */
  forget(policy: string): void {
    this.#replace((reservation) => ({
      ...reservation,
      charges: reservation.charges.map((charge) =>
        charge.policy === policy ? { ...charge, limits: nothing } : charge,
      ),
    }));
  }

  /** What a policy has spent at a later time than this counts as spent at it: the clock was ahead. */
  rebook(policy: string, nowMs: number): void {
    this.#replace((reservation) => ({
      ...reservation,
      expiresAtMs: Math.min(reservation.expiresAtMs, nowMs + reservation.ttlMs),
      charges: reservation.charges.map((charge) =>
        charge.policy === policy
          ? {
              ...charge,
              spentAtMs: Math.min(charge.spentAtMs, nowMs),
              heldAtMs: Math.min(charge.heldAtMs, nowMs),
            }
          : charge,
      ),
    }));
  }

  #replace(change: (reservation: Reservation) => Reservation): void {
    const before = [...this.#open.values()];
    for (const { id } of before) this.take(id);
    this.#earliestMs = Number.POSITIVE_INFINITY;
    for (const reservation of before.map(change)) {
      if (!reservation.charges.every(isForgotten)) this.open(reservation);
    }
  }

  #use(limits: readonly Limit[]): void {
    const used = this.#lists.get(limits) ?? {
      uses: 0,
      sizeBytes: JSON.stringify(limits).length,
    };
    if (used.uses === 0) this.#listBytes += used.sizeBytes;
    used.uses++;
    this.#chargeCount++;
    this.#lists.set(limits, used);
  }

  #release(limits: readonly Limit[]): void {
    const used = this.#lists.get(limits);
    if (used === undefined) return;
    used.uses--;
    this.#chargeCount--;
    if (used.uses > 0) return;
    this.#lists.delete(limits);
    this.#listBytes -= used.sizeBytes;
  }

  #storedBytesWith(charges: readonly Charge[]): number {
    const stored =
      this.#open.size * storedBytesEach +
      (this.#chargeCount + charges.length) * storedBytesOfCharge +
      this.#listBytes;
    // Only near the bound it matters how large those are that come in addition.
    return stored > mostStoredBytes / 2 ? stored + JSON.stringify(charges).length : stored;
  }

  /** When none is open any more; 0 if none is. */
  idleAtMs(): number {
    let latestMs = 0;
    for (const { expiresAtMs } of this.#open.values()) latestMs = Math.max(latestMs, expiresAtMs);
    return latestMs;
  }

  /** `[lists of limits, …reservations]` */
  snapshot(): unknown[] {
    const lists = new LimitTable();
    const written = [...this.#open.values()].map(
      ({ id, ttlMs, expiresAtMs, isConfirmed, isDryRun, charges }) => [
        id,
        ttlMs,
        expiresAtMs,
        (isConfirmed ? 1 : 0) + (isDryRun ? 2 : 0),
        ...charges.map(({ policy, limits, cost, spentAtMs, heldAtMs }) => [
          policy,
          lists.indexOf(limits),
          cost,
          spentAtMs,
          ...(heldAtMs === spentAtMs ? [] : [heldAtMs]),
        ]),
      ],
    );
    return [lists.lists, ...written];
  }

  /** What `snapshot` wrote, but for what it cannot have written. */
  static revived(stored: unknown): Reservations {
    const revived = new Reservations();
    const [lists, ...written]: unknown[] = Array.isArray(stored) ? stored : [null, stored];
    for (const each of written) {
      const reservation = readReservation(each, lists);
      if (reservation === null) revived.refused++;
      else revived.open(reservation);
    }
    return revived;
  }
}

function readReservation(stored: unknown, lists: unknown): Reservation | null {
  if (!Array.isArray(stored)) return null;
  const [id, ttlMs, expiresAtMs, flags, ...written]: unknown[] = stored;
  if (typeof id !== "string" || !isCount(ttlMs) || !isCount(expiresAtMs)) return null;
  const charges = written
    .map((charge) => readCharge(charge, lists))
    .filter((each) => each !== null);
  if (charges.length !== written.length) return null;
  const isConfirmed = flags === 1 || flags === 3;
  return { id, ttlMs, expiresAtMs, isConfirmed, isDryRun: flags === 2 || flags === 3, charges };
}

function readCharge(stored: unknown, lists: unknown): ReservedCharge | null {
  if (!Array.isArray(stored)) return null;
  const [policy, index, cost, spentAtMs, heldAtMs = spentAtMs]: unknown[] = stored;
  const limits = limitsAt(lists, index);
  if (typeof policy !== "string" || limits === null) return null;
  return isCount(cost) && isCount(spentAtMs) && isCount(heldAtMs)
    ? { policy, limits, cost, spentAtMs, heldAtMs }
    : null;
}
