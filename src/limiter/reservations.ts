/**
 * The open reservations of a key: what was spent for each, by which limits, and until when it may be corrected. Slots of
 * `concurrency` need no end of theirs here: they were spent so that they are free again at the ttl.
 */
import { isRecord, type Limit, strategies } from "../strategies/index.ts";
import type { Charge } from "./protocol.ts";

export interface Reservation {
  readonly id: string;
  readonly ttlMs: number;
  readonly expiresAtMs: number;
  readonly isConfirmed: boolean;
  readonly charges: readonly (Charge & { readonly spentAtMs: number })[];
}

/** A day. One that expires later than that was made by a clock that was ahead: it would never end. */
export const longestTtlMs = 86_400_000;
export const shortestTtlMs = 1_000;

const mostOpen = 1_000;

/** About what an open one takes in memory. */
const bytesEach = 500;

export class Reservations {
  readonly #open = new Map<string, Reservation>();
  /** Until then none expires: a decision need not go through them all. */
  #earliestMs = Number.POSITIVE_INFINITY;

  get sizeBytes(): number {
    return this.#open.size * bytesEach;
  }

  get isEmpty(): boolean {
    return this.#open.size === 0;
  }

  /** For how long no more can be opened; 0 when one can. */
  fullForMs(nowMs: number): number {
    if (this.#open.size >= mostOpen) this.#sweep(nowMs);
    return this.#open.size < mostOpen ? 0 : this.#earliestMs - nowMs;
  }

  open(reservation: Reservation): void {
    this.#open.set(reservation.id, reservation);
    this.#earliestMs = Math.min(this.#earliestMs, reservation.expiresAtMs);
  }

  /** The reservation, which is open no longer; null if there is none. */
  take(id: string): Reservation | null {
    const taken = this.#open.get(id) ?? null;
    this.#open.delete(id);
    return taken;
  }

  /** What has expired stands as spent. */
  expire(nowMs: number): void {
    if (nowMs >= this.#earliestMs) this.#sweep(nowMs);
  }

  #sweep(nowMs: number): void {
    this.#earliestMs = Number.POSITIVE_INFINITY;
    for (const { id, expiresAtMs } of this.#open.values()) {
      if (expiresAtMs <= nowMs || expiresAtMs - nowMs > longestTtlMs) this.#open.delete(id);
      else this.#earliestMs = Math.min(this.#earliestMs, expiresAtMs);
    }
  }

  /** Of what a policy has spent nothing is to be corrected any more. */
  forget(policy: string): void {
    for (const reservation of this.#open.values()) {
      const charges = reservation.charges.filter((charge) => charge.policy !== policy);
      if (charges.length === 0) this.#open.delete(reservation.id);
      else this.#open.set(reservation.id, { ...reservation, charges });
    }
  }

  /** When none is open any more; 0 if none is. */
  idleAtMs(nowMs: number): number {
    let latestMs = 0;
    for (const { expiresAtMs } of this.#open.values()) latestMs = Math.max(latestMs, expiresAtMs);
    return Math.min(latestMs, nowMs + longestTtlMs);
  }

  /** `[lists of limits, …reservations]`: most reservations of a key are by the same limits. */
  snapshot(): unknown[] {
    const lists: (readonly Limit[])[] = [];
    const indexes = new Map<readonly Limit[], number>();
    const indexOf = (limits: readonly Limit[]): number => {
      const index = indexes.get(limits) ?? lists.push(limits) - 1;
      indexes.set(limits, index);
      return index;
    };
    const written = [...this.#open.values()].map(
      ({ id, ttlMs, expiresAtMs, isConfirmed, charges }) => [
        id,
        ttlMs,
        expiresAtMs,
        isConfirmed ? 1 : 0,
        ...charges.map(({ policy, limits, cost, spentAtMs }) => [
          policy,
          indexOf(limits),
          cost,
          spentAtMs,
        ]),
      ],
    );
    return [lists, ...written];
  }

  /** What `snapshot` wrote; null for anything else. */
  static revived(stored: unknown): Reservations | null {
    if (!Array.isArray(stored)) return null;
    const [lists, ...written]: unknown[] = stored;
    if (!Array.isArray(lists) || !lists.every(isLimits)) return null;
    const revived = new Reservations();
    for (const each of written) {
      const reservation = readReservation(each, lists);
      if (reservation === null) return null;
      revived.open(reservation);
    }
    return revived;
  }
}

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0;

const isLimits = (value: unknown): value is readonly Limit[] =>
  Array.isArray(value) &&
  value.every(
    (limit) =>
      isRecord(limit) &&
      typeof limit["strategy"] === "string" &&
      strategies.has(limit["strategy"]) &&
      isCount(limit["limit"]) &&
      isCount(limit["windowMs"]),
  );

function readReservation(
  stored: unknown,
  lists: readonly (readonly Limit[])[],
): Reservation | null {
  if (!Array.isArray(stored)) return null;
  const [id, ttlMs, expiresAtMs, confirmed, ...written]: unknown[] = stored;
  if (typeof id !== "string" || !isCount(ttlMs) || !isCount(expiresAtMs)) return null;
  const charges = written
    .map((charge) => readCharge(charge, lists))
    .filter((each) => each !== null);
  if (charges.length !== written.length) return null;
  return { id, ttlMs, expiresAtMs, isConfirmed: confirmed === 1, charges };
}

function readCharge(
  stored: unknown,
  lists: readonly (readonly Limit[])[],
): Reservation["charges"][number] | null {
  if (!Array.isArray(stored)) return null;
  const [policy, index, cost, spentAtMs]: unknown[] = stored;
  const limits = isCount(index) ? lists[index] : undefined;
  if (typeof policy !== "string" || limits === undefined) return null;
  return isCount(cost) && isCount(spentAtMs) ? { policy, limits, cost, spentAtMs } : null;
}
