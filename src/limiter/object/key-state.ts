/**
 * All that is held for one key: a meter for each policy that charges it, its open reservations and its open slices. It
 * knows what of it is not in storage yet, and writes and reads itself as one row and a row for each long log's sealed
 * segment.
 */
import {
  attachSegments,
  createMeter,
  detachSegments,
  type Limit,
  type Meter,
} from "../../strategies/index.ts";
import type { Ban } from "../../config/index.ts";
import { SyncDedup } from "./sync-dedup.ts";
import { internedMeter, type InternedMeter } from "../interned-limits.ts";
import type { Charge, Settlement, SliceReturned } from "../protocol.ts";
import { parsedRow, snapshotAt, type WrittenRow, writtenRow } from "./key-row.ts";
import { type Reservation, Reservations, type ReservedCharge } from "./reservations.ts";
import { type Lent, type Slice, Slices } from "./slices.ts";

/** An object without an event loses its memory after so long (Cloudflare, durable object lifecycle). */
const idleMemoryMs = 10_000;

/** About what an account takes beside its meters, and a meter's place in it. */
const bytesOfAccount = 900;
const bytesOfMeter = 400;

const nothingLent: Lent = { units: new Map(), endsAtMs: 0 };

/** Beside a policy's meter stand those of its denials and its ban. No policy's name has a space. */
const strikesOf = (policy: string): string => `${policy} strikes`;
const banOf = (policy: string): string => `${policy} ban`;
const isOfBan = (name: string): boolean => name.includes(" ");

interface Held extends InternedMeter {
  writtenChanges: number;
  /** The latest time it had seen when last looked at: less is seen only after a clock was found to be mis-set. */
  seenMs: number;
}

/** What of an account is in storage. */
export interface StoredRows {
  /** Numbers of the rows of segments, by their texts. */
  readonly segments: ReadonlyMap<string, number>;
  readonly nextSegment: number;
}

export class KeyState {
  readonly key: string;
  /** When its row was first written. */
  bornAtMs: number;
  readonly #held = new Map<string, Held>();
  #reservations = new Reservations();
  #batches = new SyncDedup();
  /** Null where nothing is lent: of most keys nothing ever is. */
  #slices: Slices | null = null;
  /** Texts of meters that are stored apart, which `stored` keeps. */
  #apartBytes = 0;
  #provisionalAtMs = 0;
  #provisionalMs = 0;
  /** Changes that no meter tells. */
  #ownChanges = 0;
  #writtenOwnChanges = 0;
  /** Null when nothing is. */
  stored: StoredRows | null = null;
  /** Whether it was reported that the meters take more than a row holds. */
  isOversizeReported = false;
  /** What was not trusted when a meter was last asked for. */
  refused: string | null = null;

  constructor(key: string, nowMs: number) {
    this.key = key;
    this.bornAtMs = nowMs;
  }

  /** Notes that something was spent that may be given back for so long; no-op for 0. */
  noteProvisional(nowMs: number, provisionalMs: number): void {
    const leftMs = this.#provisionalAtMs + this.#provisionalMs - nowMs;
    if (provisionalMs === 0 || (this.hasProvisional(nowMs) && leftMs >= provisionalMs)) return;
    this.#provisionalAtMs = nowMs;
    this.#provisionalMs = provisionalMs;
  }

  /** Whether something that was spent is still provisional; not known of spends before the key was read from storage. */
  hasProvisional(nowMs: number): boolean {
    const sinceMs = nowMs - this.#provisionalAtMs;
    return sinceMs >= 0 && sinceMs < this.#provisionalMs;
  }

  /** The meter of a policy, for a call with these limits. */
  meterOf(policy: string, limits: readonly Limit[]): Meter {
    const before = this.#held.get(policy);
    const { meter, limits: shared } = internedMeter(limits, before);
    if (meter === before?.meter) return meter;
    this.refused ??= meter.refused;
    const writtenChanges = before?.writtenChanges ?? 0;
    const seenMs = before?.seenMs ?? meter.seenMs;
    this.#held.set(policy, { meter, limits: shared, writtenChanges, seenMs });
    return meter;
  }

  /** Grows with everything that is to be written. */
  get changes(): number {
    let changes = this.#ownChanges;
    for (const { meter } of this.#held.values()) changes += meter.changes;
    return changes;
  }

  /**
   * After its meters were asked: what one of them has booked again, because of a clock that was ahead, its reservations
   * have spent at that instant, and its slices were lent at it.
   */
  followClock(): void {
    for (const [policy, held] of this.#held) {
      const { seenMs } = held.meter;
      if (seenMs < held.seenMs) {
        this.#reservations.rebook(policy, seenMs);
        this.#slices?.rebook(policy, seenMs);
      }
      held.seenMs = seenMs;
    }
  }

  /** For how long no more can be reserved with such charges; 0 when it can, be it in the place of a dry run's. */
  fullForMs(charges: readonly Charge[], isDryRun: boolean, nowMs: number): number {
    return this.#reservations.fullForMs(charges, isDryRun, nowMs);
  }

  /** For how long a ban still refuses the key to a policy; 0 when none does. */
  bannedForMs(policy: string, { term }: Ban, nowMs: number): number {
    // Most keys have never been denied, and need no meter for it.
    if (!this.#held.has(banOf(policy))) return 0;
    return this.meterOf(banOf(policy), term).look(1, nowMs).retryAfterMs ?? 0;
  }

  /** Counts a denial. @returns for how long the ban lasts that it brings; 0 when it brings none */
  strike(policy: string, { strikes, term }: Ban, nowMs: number): number {
    const left = this.meterOf(strikesOf(policy), strikes).consume(1, nowMs).limits[0]?.remaining;
    if (left !== 0) return 0;
    this.#drop(strikesOf(policy));
    this.meterOf(banOf(policy), term).consume(1, nowMs);
    return this.bannedForMs(policy, { strikes, term }, nowMs);
  }

  /** The list of limits that the meter of a policy has. */
  limitsOf(policy: string): readonly Limit[] {
    return this.#held.get(policy)?.limits ?? [];
  }

  /** Whether nothing of what is spent or lent may be given back before its time. */
  isSettled(nowMs: number): boolean {
    return this.#reservations.idleAtMs() <= nowMs && this.#slices === null;
  }

  get hasSlices(): boolean {
    return this.#slices !== null;
  }

  /** Units that a policy has lent: at every instant that is decided they count as spent. */
  heldUnits(policy: string): number {
    return this.#slices?.unitsOf(policy) ?? 0;
  }

  /** Before anything is decided: slices that nobody has settled stand as spent at their end. */
  endSlices(nowMs: number): void {
    if (this.#slices === null) return;
    for (const { policy, limits, units, endsAtMs } of this.#slices.takeEnded(nowMs)) {
      const meter = this.meterOf(policy, limits);
      // As of its end, not of now: by now the window may be over that it counts in.
      meter.book(units, endsAtMs, Math.min(nowMs, Math.max(endsAtMs, meter.seenMs)));
      this.#ownChanges++;
    }
    this.#dropSlices();
  }

  /** @returns the units that are lent with this id; 0 where there is no room for more slices */
  lend(slice: Slice): number {
    // A call that the platform has made twice lends once: nobody has heard of the first answer.
    const known = this.#slices?.get(slice.id) ?? null;
    if (known !== null) return known.units;
    if (this.#slices?.isFull === true) return 0;
    this.#slices ??= new Slices();
    this.#slices.open(slice);
    this.#ownChanges++;
    return slice.units;
  }

  /** What of a slice was used is spent now; the rest was never spent. */
  settleSlice({ id, used }: SliceReturned, nowMs: number): Settlement {
    const slice = this.#slices?.take(id) ?? null;
    if (slice === null) return [];
    const settled = slice.parts.map(({ policy, limits }) => {
      const meter = this.meterOf(policy, limits);
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
   * The meter of a policy as it would stand at the end of its last slice, were all that is lent spent at that instant:
   * nothing that comes of them counts for longer. Not all at their own ends: one that is given back unused opens no
   * window, and a later one then opens a later window.
   */
  whenAllSpent(policy: string): { meter: Meter; endsAtMs: number } {
    const { units, endsAtMs } = this.#slices?.lentBy(policy) ?? nothingLent;
    let meter = this.#held.get(policy)?.meter ?? createMeter([]);
    for (const [limits, lentUnits] of units) {
      meter = meter.withLimits(limits);
      meter.book(lentUnits, endsAtMs, endsAtMs);
    }
    return { meter, endsAtMs };
  }

  open(reservation: Reservation): void {
    this.#reservations.open(reservation);
    this.#ownChanges++;
  }

  /** The reservation, which is over by this; null if there is none, or no longer. */
  take(id: string, nowMs: number): Reservation | null {
    const reservation = this.#reservations.take(id);
    // Whoever is told that it has expired is not told otherwise later, by a clock that stepped back.
    if (reservation !== null) this.#ownChanges++;
    return reservation !== null && reservation.expiresAtMs > nowMs ? reservation : null;
  }

  /** The work goes on: see `Reservations.renew`. */
  renew(
    id: string,
    nowMs: number,
    heldAtMs: (charge: ReservedCharge, ttlMs: number) => number,
  ): boolean {
    const isOpen = this.#reservations.renew(id, nowMs, heldAtMs);
    if (isOpen) this.#ownChanges++;
    return isOpen;
  }

  /** Notes a batch of an isolate. @returns whether it has not been counted before */
  noteBatch(isolate: string, batch: number, nowMs: number): boolean {
    // To be written with what it spends: lost together they are sent again together.
    return this.#batches.note(isolate, batch, nowMs);
  }

  forget(policy: string): void {
    this.#reservations.forget(policy);
    this.#slices?.forget(policy);
    this.#dropSlices();
    for (const name of [policy, strikesOf(policy), banOf(policy)]) this.#drop(name);
  }

  #drop(name: string): void {
    this.#ownChanges += 1 + (this.#held.get(name)?.meter.changes ?? 0);
    this.#held.delete(name);
  }

  get isUnwritten(): boolean {
    if (this.#ownChanges !== this.#writtenOwnChanges) return true;
    for (const { meter, writtenChanges } of this.#held.values()) {
      if (meter.changes !== writtenChanges) return true;
    }
    return false;
  }

  /** Whether what is unwritten would outlast the memory of an idle object. */
  outlastsMemory(nowMs: number): boolean {
    if (this.#ownChanges !== this.#writtenOwnChanges) return true;
    if (!this.#reservations.isEmpty || this.#slices !== null) return true;
    return [...this.#held].some(
      ([name, { meter, writtenChanges }]) =>
        meter.changes !== writtenChanges &&
        (isOfBan(name) ||
          meter.retentionMs > idleMemoryMs ||
          meter.idleAtMs() - nowMs > idleMemoryMs),
    );
  }

  /** When it may be forgotten without changing any decision. */
  idleAtMs(): number {
    let idleAtMs = this.#reservations.idleAtMs();
    for (const { meter } of this.#held.values()) idleAtMs = Math.max(idleAtMs, meter.idleAtMs());
    for (const policy of this.#slices?.policies ?? []) {
      idleAtMs = Math.max(idleAtMs, this.whenAllSpent(policy).meter.idleAtMs());
    }
    return idleAtMs;
  }

  /** About how much memory it takes. */
  sizeBytes(): number {
    let sizeBytes = bytesOfAccount + this.#reservations.sizeBytes + this.#batches.sizeBytes;
    sizeBytes += this.#apartBytes;
    sizeBytes += this.#slices?.sizeBytes ?? 0;
    for (const { meter } of this.#held.values()) sizeBytes += bytesOfMeter + meter.sizeBytes();
    return sizeBytes;
  }

  /** What its rows are to say. Policies that are idle are left out. */
  rows(idleAtMs: number, nowMs: number): WrittenRow & { readonly stored: StoredRows } {
    const before = this.stored?.segments;
    const segments = new Map<string, number>();
    let nextSegment = this.stored?.nextSegment ?? 0;
    const numberOf = (text: string): number => {
      const number = segments.get(text) ?? before?.get(text) ?? nextSegment++;
      segments.set(text, number);
      return number;
    };
    const meters: [string, unknown][] = [];
    for (const [policy, { meter }] of this.#held) {
      if (meter.idleAtMs() > nowMs)
        meters.push([policy, detachSegments(meter.snapshot(), numberOf)]);
    }
    const { bornAtMs } = this;
    const parts = { idleAtMs, bornAtMs, meters, rest: this.#restOfRow() };
    const written = writtenRow(parts, numberOf, () => segments.size);
    this.#apartBytes = written.apartBytes;
    return { ...written, stored: { segments, nextSegment } };
  }

  #restOfRow(): unknown[] {
    const rest: unknown[] = [];
    if (this.#slices !== null || !this.#batches.isEmpty || !this.#reservations.isEmpty) {
      rest.push(this.#reservations.snapshot());
    }
    if (this.#slices !== null || !this.#batches.isEmpty) {
      rest.push((this.#slices ?? new Slices()).snapshot());
    }
    if (!this.#batches.isEmpty) rest.push(this.#batches.snapshot());
    return rest;
  }

  markWritten(stored: StoredRows | null): void {
    this.stored = stored;
    this.#writtenOwnChanges = this.#ownChanges;
    for (const held of this.#held.values()) held.writtenChanges = held.meter.changes;
  }

  /** Its rows could not be written: the next change writes all of them. */
  markLost(): void {
    this.stored = null;
    this.#ownChanges++;
  }

  /**
   * The account of a row.
   * @param textOf the text of a segment by its number
   * @returns null for what no account of this version wrote
   */
  static revived(
    key: string,
    row: unknown,
    textOf: (number: number) => string | undefined,
  ): KeyState | null {
    const parsed = parsedRow(row);
    if (parsed === null) return null;
    const keyState = new KeyState(key, parsed.bornAtMs);
    const segments = new Map<string, number>();
    let nextSegment = 0;
    const noted = (number: number): string | undefined => {
      const text = textOf(number);
      if (text !== undefined) segments.set(text, number);
      nextSegment = Math.max(nextSegment, number + 1);
      return text;
    };
    for (const [policy, snapshot] of parsed.meters) {
      // Without limits it keeps every state until it is asked for by one, or idle.
      const meter = createMeter([], attachSegments(snapshotAt(snapshot, noted), noted));
      keyState.refused ??= meter.refused;
      const { changes: writtenChanges, seenMs } = meter;
      keyState.#held.set(policy, { meter, limits: [], writtenChanges, seenMs });
    }
    const { reservations, slices } = parsed;
    if (reservations.refused > 0) keyState.refused ??= "reservations are not of this version";
    if (slices.refused > 0) keyState.refused ??= "slices are not of this version";
    keyState.#reservations = reservations;
    keyState.#batches = parsed.batches;
    keyState.#slices = slices.isEmpty ? null : slices;
    keyState.stored = { segments, nextSegment };
    return keyState;
  }
}
