/**
 * The state of one key in memory: a meter for each policy that charges it, its open reservations and slices, and the last
 * sync batch of each isolate. It knows which changes are not in storage yet. key-row.ts describes the row it is stored as.
 */
import {
  attachSegments,
  createMeter,
  detachSegments,
  type Limit,
  type Meter,
} from "../../strategies/index.ts";
import type { Ban } from "../../config/index.ts";
import { report } from "../../observability/events.ts";
import { SyncDedup } from "./sync-dedup.ts";
import { internedMeter, type InternedMeter } from "../interned-limits.ts";
import type { Charge, Settlement, SliceReturned } from "../protocol.ts";
import { parsedRow, snapshotAt, type WrittenRow, writtenRow } from "./key-row.ts";
import { type Reservation, Reservations, type ReservedCharge } from "./reservations.ts";
import { type LentUnits, type OpenSlice, Slices } from "./slices.ts";

/** An object without an event loses its memory after 10 s (Cloudflare, lifecycle of a Durable Object). */
const idleMemoryMs = 10_000;

/** Estimates of the memory of a key without its meters, and of a meter's place in it. */
const bytesOfKey = 900;
const bytesOfMeter = 400;

const nothingLent: LentUnits = { byLimits: new Map(), endsAtMs: 0 };

/** A policy with a ban has two more meters. Their names contain a space character, which no policy's name does. */
const strikesOf = (policy: string): string => `${policy} strikes`;
const banOf = (policy: string): string => `${policy} ban`;
const isOfBan = (name: string): boolean => name.includes(" ");

interface KeyMeter extends InternedMeter {
  writtenChanges: number;
  /** The meter's `seenMs` at the end of the last turn. It goes back only when the meter finds a mis-set clock. */
  seenMs: number;
}

/** The rows `s <key> <number>` of a key in storage. */
export interface StoredRows {
  readonly texts: ReadonlyMap<string, number>;
  readonly nextNumber: number;
}

export class KeyState {
  readonly key: string;
  /** When the key's row was first written. */
  bornAtMs: number;
  readonly #meters = new Map<string, KeyMeter>();
  #reservations = new Reservations();
  #batches = new SyncDedup();
  /** Null when nothing is lent, as for most keys. */
  #slices: Slices | null = null;
  /** Bytes of the snapshots stored in separate rows. `stored` keeps them in memory. */
  #apartBytes = 0;
  #provisionalAtMs = 0;
  #provisionalMs = 0;
  /** Changes outside the meters. */
  #ownChanges = 0;
  #writtenOwnChanges = 0;
  /** Null when no row of the key is in storage. */
  stored: StoredRows | null = null;
  /** Whether an event has reported that the meters do not fit in one row. */
  isOversizeReported = false;
  /** Why stored state was refused; null when none was refused, or when the refusal has been reported. */
  #refused: string | null = null;

  constructor(key: string, nowMs: number) {
    this.key = key;
    this.bornAtMs = nowMs;
  }

  /** Notes a spend that may be given back within `provisionalMs`. No-op for 0. */
  noteProvisional(nowMs: number, provisionalMs: number): void {
    const leftMs = this.#provisionalAtMs + this.#provisionalMs - nowMs;
    if (provisionalMs === 0 || (this.hasProvisional(nowMs) && leftMs >= provisionalMs)) return;
    this.#provisionalAtMs = nowMs;
    this.#provisionalMs = provisionalMs;
  }

  /** Whether a spend is still provisional. Spends made before the key was read from storage are not known. */
  hasProvisional(nowMs: number): boolean {
    const sinceMs = nowMs - this.#provisionalAtMs;
    return sinceMs >= 0 && sinceMs < this.#provisionalMs;
  }

  /** The meter of a policy under these limits. Reports stored state that was refused. */
  meterOf({ policy, limits }: Pick<Charge, "policy" | "limits">): Meter {
    const meter = this.#meterNamed(policy, limits);
    if (this.#refused !== null) {
      report({ event: "state-refused", policy, reason: this.#refused });
      this.#refused = null;
    }
    return meter;
  }

  #meterNamed(name: string, limits: readonly Limit[]): Meter {
    const before = this.#meters.get(name);
    const { meter, limits: interned } = internedMeter(limits, before);
    if (meter === before?.meter) return meter;
    this.#refused ??= meter.refused;
    const writtenChanges = before?.writtenChanges ?? 0;
    const seenMs = before?.seenMs ?? meter.seenMs;
    this.#meters.set(name, { meter, limits: interned, writtenChanges, seenMs });
    return meter;
  }

  /** Grows with every change that must be written. */
  get changes(): number {
    let changes = this.#ownChanges;
    for (const { meter } of this.#meters.values()) changes += meter.changes;
    return changes;
  }

  /** Where a meter found a mis-set clock and booked its spends again, moves its reservations and slices likewise. */
  followClock(): void {
    for (const [policy, each] of this.#meters) {
      const { seenMs } = each.meter;
      if (seenMs < each.seenMs) {
        this.#reservations.rebook(policy, seenMs);
        this.#slices?.rebook(policy, seenMs);
      }
      each.seenMs = seenMs;
    }
  }

  /** See `Reservations.fullForMs`. */
  fullForMs(charges: readonly Charge[], isDryRun: boolean, nowMs: number): number {
    return this.#reservations.fullForMs(charges, isDryRun, nowMs);
  }

  /** How long a ban still denies the key under a policy, in milliseconds; 0 without a ban. */
  bannedForMs(policy: string, { term }: Ban, nowMs: number): number {
    // Most keys have never been banned: do not create a meter for them.
    if (!this.#meters.has(banOf(policy))) return 0;
    return this.#meterNamed(banOf(policy), term).look(1, nowMs).retryAfterMs ?? 0;
  }

  /** Counts a denial. Returns the duration of the ban that it brings, in milliseconds; 0 when it brings none. */
  strike(policy: string, { strikes, term }: Ban, nowMs: number): number {
    const strikeMeter = this.#meterNamed(strikesOf(policy), strikes);
    if (strikeMeter.consume(1, nowMs).limits[0]?.remaining !== 0) return 0;
    this.#drop(strikesOf(policy));
    this.#meterNamed(banOf(policy), term).consume(1, nowMs);
    return this.bannedForMs(policy, { strikes, term }, nowMs);
  }

  limitsOf(policy: string): readonly Limit[] {
    return this.#meters.get(policy)?.limits ?? [];
  }

  /** Whether no reservation and no slice is open, so that nothing is given back early. */
  isSettled(nowMs: number): boolean {
    return this.#reservations.idleAtMs() <= nowMs && this.#slices === null;
  }

  get hasSlices(): boolean {
    return this.#slices !== null;
  }

  /** Units that a policy has lent. They count as spent at the instant of every decision. */
  heldUnits(policy: string): number {
    return this.#slices?.unitsOf(policy) ?? 0;
  }

  /** Books slices whose time is up in full. Call it before every decision. */
  endSlices(nowMs: number): void {
    if (this.#slices === null) return;
    for (const { policy, limits, units, endsAtMs } of this.#slices.takeEnded(nowMs)) {
      const meter = this.#meterNamed(policy, limits);
      // Decide at the slice's end: by now, the window in which it counts may be over.
      meter.book(units, endsAtMs, Math.min(nowMs, Math.max(endsAtMs, meter.seenMs)));
      this.#ownChanges++;
    }
    this.#dropSlices();
  }

  /** Opens a slice. Returns its units; 0 when the key has no room for more slices. */
  lend(slice: OpenSlice): number {
    // The platform may repeat a call whose answer was lost: lend once.
    const known = this.#slices?.get(slice.id) ?? null;
    if (known !== null) return known.units;
    if (this.#slices?.isFull === true) return 0;
    this.#slices ??= new Slices();
    this.#slices.open(slice);
    this.#ownChanges++;
    return slice.units;
  }

  /** Ends a slice and books the units that were used. No-op for a slice that is not open. */
  settleSlice({ id, used }: SliceReturned, nowMs: number): Settlement {
    const slice = this.#slices?.take(id) ?? null;
    if (slice === null) return [];
    const settled = slice.parts.map(({ policy, limits }) => {
      const meter = this.#meterNamed(policy, limits);
      meter.book(Math.min(used, slice.units), nowMs, nowMs);
      return { policy, atMs: Math.max(nowMs, meter.seenMs) };
    });
    this.#ownChanges++;
    this.#dropSlices();
    return settled;
  }

  #dropSlices(): void {
    if (this.#slices?.isEmpty === true) this.#slices = null;
  }

  /**
   * A copy of a policy's meter at the end of its last slice, with all lent units spent at that instant. However the
   * slices are settled, the units never count for longer than in this copy. Spending each slice at its own end could
   * give waits that are too short: if the first slice is returned unused, a later one opens a later window.
   */
  meterAfterSlices(policy: string): { meter: Meter; endsAtMs: number } {
    const { byLimits, endsAtMs } = this.#slices?.lentBy(policy) ?? nothingLent;
    let meter = this.#meters.get(policy)?.meter ?? createMeter([]);
    for (const [limits, units] of byLimits) {
      meter = meter.withLimits(limits);
      meter.book(units, endsAtMs, endsAtMs);
    }
    return { meter, endsAtMs };
  }

  openReservation(reservation: Reservation): void {
    this.#reservations.open(reservation);
    this.#ownChanges++;
  }

  /** Ends a reservation and returns it; null if it is not open. */
  takeReservation(id: string, nowMs: number): Reservation | null {
    const reservation = this.#reservations.take(id);
    // Remove it even when expired, so that a clock stepping back cannot revive it.
    if (reservation !== null) this.#ownChanges++;
    return reservation !== null && reservation.expiresAtMs > nowMs ? reservation : null;
  }

  /** Extends a reservation and its slots by its ttl from now. Returns false when it is not open any more. */
  renewReservation(id: string, nowMs: number): boolean {
    const renewSlots = (charge: ReservedCharge, ttlMs: number): number => {
      const meter = this.meterOf(charge);
      meter.renew({ ...charge, ttlMs }, nowMs);
      return Math.max(nowMs, meter.seenMs);
    };
    const isOpen = this.#reservations.renew(id, nowMs, renewSlots);
    if (isOpen) this.#ownChanges++;
    return isOpen;
  }

  /** Notes a sync batch of an isolate. Returns false when it was counted before. */
  noteBatch(isolate: string, batch: number, nowMs: number): boolean {
    // Not a change of its own: a batch is written with its spends. If both are lost, the isolate sends both again.
    return this.#batches.note(isolate, batch, nowMs);
  }

  forget(policy: string): void {
    this.#reservations.forget(policy);
    this.#slices?.forget(policy);
    this.#dropSlices();
    for (const name of [policy, strikesOf(policy), banOf(policy)]) this.#drop(name);
  }

  #drop(name: string): void {
    this.#ownChanges += 1 + (this.#meters.get(name)?.meter.changes ?? 0);
    this.#meters.delete(name);
  }

  get isUnwritten(): boolean {
    if (this.#ownChanges !== this.#writtenOwnChanges) return true;
    for (const { meter, writtenChanges } of this.#meters.values()) {
      if (meter.changes !== writtenChanges) return true;
    }
    return false;
  }

  /** Whether unwritten changes affect decisions for longer than an idle object stays in memory. */
  outlastsMemory(nowMs: number): boolean {
    if (this.#ownChanges !== this.#writtenOwnChanges) return true;
    if (!this.#reservations.isEmpty || this.#slices !== null) return true;
    return [...this.#meters].some(
      ([name, { meter, writtenChanges }]) =>
        meter.changes !== writtenChanges &&
        (isOfBan(name) ||
          meter.retentionMs > idleMemoryMs ||
          meter.idleAtMs() - nowMs > idleMemoryMs),
    );
  }

  /** The instant from which the state may be forgotten without changing a decision. */
  idleAtMs(): number {
    let idleAtMs = this.#reservations.idleAtMs();
    for (const { meter } of this.#meters.values()) idleAtMs = Math.max(idleAtMs, meter.idleAtMs());
    for (const policy of this.#slices?.policies ?? []) {
      idleAtMs = Math.max(idleAtMs, this.meterAfterSlices(policy).meter.idleAtMs());
    }
    return idleAtMs;
  }

  sizeBytes(): number {
    let sizeBytes = bytesOfKey + this.#reservations.sizeBytes + this.#batches.sizeBytes;
    sizeBytes += this.#apartBytes;
    sizeBytes += this.#slices?.sizeBytes ?? 0;
    for (const { meter } of this.#meters.values()) sizeBytes += bytesOfMeter + meter.sizeBytes();
    return sizeBytes;
  }

  /** The rows to store. Leaves out idle policies. */
  rows(idleAtMs: number, nowMs: number): WrittenRow & { readonly stored: StoredRows } {
    const before = this.stored?.texts;
    const texts = new Map<string, number>();
    let nextNumber = this.stored?.nextNumber ?? 0;
    const numberOf = (text: string): number => {
      const number = texts.get(text) ?? before?.get(text) ?? nextNumber++;
      texts.set(text, number);
      return number;
    };
    const meters: [string, unknown][] = [];
    for (const [policy, { meter }] of this.#meters) {
      if (meter.idleAtMs() > nowMs)
        meters.push([policy, detachSegments(meter.snapshot(), numberOf)]);
    }
    const parts = {
      bornAtMs: this.bornAtMs,
      meters,
      reservations: this.#reservations,
      slices: this.#slices ?? new Slices(),
      batches: this.#batches,
    };
    const written = writtenRow(parts, idleAtMs, { numberOf, count: () => texts.size });
    this.#apartBytes = written.apartBytes;
    return { ...written, stored: { texts, nextNumber } };
  }

  markWritten(stored: StoredRows | null): void {
    this.stored = stored;
    this.#writtenOwnChanges = this.#ownChanges;
    for (const each of this.#meters.values()) each.writtenChanges = each.meter.changes;
  }

  /** After a failed write, the next change writes all rows again. */
  markLost(): void {
    this.stored = null;
    this.#ownChanges++;
  }

  /**
   * Reads a key's row.
   * @param textOf returns a text stored in a separate row, by its number
   * @returns null for a row that this version did not write
   */
  static revived(
    key: string,
    row: unknown,
    textOf: (number: number) => string | undefined,
  ): KeyState | null {
    const parsed = parsedRow(row);
    if (parsed === null) return null;
    const keyState = new KeyState(key, parsed.bornAtMs);
    const texts = new Map<string, number>();
    let nextNumber = 0;
    const notedTextOf = (number: number): string | undefined => {
      const text = textOf(number);
      if (text !== undefined) texts.set(text, number);
      nextNumber = Math.max(nextNumber, number + 1);
      return text;
    };
    for (const [policy, snapshot] of parsed.meters) {
      // A meter without limits keeps each state until a call brings its limit, or the state is idle.
      const stored = attachSegments(snapshotAt(snapshot, notedTextOf), notedTextOf);
      const meter = createMeter([], stored);
      keyState.#refused ??= meter.refused;
      const { changes: writtenChanges, seenMs } = meter;
      keyState.#meters.set(policy, { meter, limits: [], writtenChanges, seenMs });
    }
    const { reservations, slices, batches } = parsed;
    if (reservations.refusedCount > 0) keyState.#refused ??= "reservations are not of this version";
    if (slices.refusedCount > 0) keyState.#refused ??= "slices are not of this version";
    keyState.#reservations = reservations;
    keyState.#batches = batches;
    keyState.#slices = slices.isEmpty ? null : slices;
    keyState.stored = { texts, nextNumber };
    return keyState;
  }
}
