/**
 * The state of one key in memory: a meter for each policy that charges it, its open reservations and slices, the last sync
 * batch of each isolate, and its runtime rules. It knows which changes are not in storage yet. key-row.ts describes the row
 * it is stored as.
 */
import { attachSegments, createMeter, detachSegments, type Meter } from "../../strategies/index.ts";
import type { PolicyRules, RulesVersion } from "../../policy/runtime-rules.ts";
import { report } from "../../observability/events.ts";
import { SyncDedup, type WrittenRow, parsedRow, snapshotAt, writtenRow } from "./key-row.ts";
import type { Charge, KeyRule, OpenUnits, Settlement, SliceReturned } from "../protocol.ts";
import { KeyMeters } from "./key-meters.ts";
import { KeyRuleSets } from "./runtime-key-rules.ts";
import { type Reservation, Reservations, type ReservedCharge } from "./reservations.ts";
import { KeyPolicyRules, type RulesByPolicy, sharedText } from "./seen-policy-rules.ts";
import { type LentUnits, type OpenSlice, Slices } from "./slices.ts";

/** Estimate of the memory of a key without its meters. */
const bytesOfKey = 400;
/** Approximate memory of a key's reservations, batches or slices without their entries, in bytes. */
const bytesOfPart = 300;

const nothingLent: LentUnits = { byLimits: new Map(), endsAtMs: 0 };
const nothingOpen: OpenUnits = { count: 0, units: 0, nextEndAtMs: null };
const noRules: readonly KeyRule[] = [];
const noPolicyRules: RulesByPolicy = new Map();
const noReservations = new Reservations();
const noSlices = new Slices();
const noBatches = new SyncDedup();
const noTexts: ReadonlyMap<string, number> = new Map();

/** The rows `s <key> <number>` of a key in storage. */
export interface StoredRows {
  readonly texts: ReadonlyMap<string, number>;
  readonly nextNumber: number;
}

export class KeyState {
  readonly key: string;
  /** When the key's row was first written. */
  bornAtMs: number;
  readonly meters = new KeyMeters();
  /** Null without reservations, as for most keys: empty maps would be a third of a key's memory. Also for the next two. */
  #reservations: Reservations | null = null;
  #batches: SyncDedup | null = null;
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
  /** Null when the key has no rules, as for most keys. The same holds for `#policyRules`. */
  #rules: KeyRuleSets | null = null;
  #policyRules: KeyPolicyRules | null = null;

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
    const meter = this.meters.named(policy, limits);
    const { refused } = this.meters;
    if (refused !== null) {
      report({ event: "state-refused", policy, reason: refused });
      this.meters.refused = null;
    }
    return meter;
  }

  /** Grows with every change that must be written. */
  get changes(): number {
    return this.#ownChanges + this.meters.changes;
  }

  /** Where a meter found a mis-set clock and booked its spends again, moves its reservations and slices likewise. */
  followClock(): void {
    this.meters.followClock((policy, seenMs) => {
      this.#reservations?.rebook(policy, seenMs);
      this.#slices?.rebook(policy, seenMs);
    });
  }

  /** See `Reservations.fullForMs`. */
  fullForMs(charges: readonly Charge[], isDryRun: boolean, nowMs: number): number {
    return (this.#reservations ?? noReservations).fullForMs(charges, isDryRun, nowMs);
  }

  /** The live key rules of a policy, the newest first. */
  rulesOf(policy: string): readonly KeyRule[] {
    return this.#rules?.of(policy) ?? noRules;
  }

  /** The version of a policy's key rules; null when none is known. */
  rulesVersionOf(policy: string): RulesVersion | null {
    return this.#rules?.versionOf(policy) ?? null;
  }

  /** Replaces the key rules of a policy, unless it has newer ones. */
  setRules(policy: string, rules: readonly KeyRule[], version: RulesVersion, nowMs: number): void {
    this.#rules ??= new KeyRuleSets();
    if (this.#rules.set(policy, rules, version, nowMs)) this.#ownChanges++;
  }

  /** Ends the key rules whose time is up. Call it before every decision. */
  endRules(nowMs: number): void {
    this.#rules?.end(nowMs);
  }

  /** The policy rules that the key was charged under. */
  get policyRules(): RulesByPolicy {
    return this.#policyRules?.all ?? noPolicyRules;
  }

  /**
   * Notes the policy rules of a charge.
   * @returns whether they must be stored at once, because the key's row has state of the policy and older rules
   */
  notePolicyRules(policy: string, rules: PolicyRules, nowMs: number): boolean {
    this.#policyRules ??= new KeyPolicyRules();
    if (!this.#policyRules.note(policy, rules)) return false;
    if (this.stored === null || !this.#stores(policy, nowMs)) return false;
    this.#ownChanges++;
    return true;
  }

  /** Whether the key's row has anything of a policy. */
  #stores(policy: string, nowMs: number): boolean {
    return (
      this.meters.isLive(policy, nowMs) ||
      this.rulesVersionOf(policy) !== null ||
      this.heldUnits(policy) > 0 ||
      this.#reservations?.hasPolicy(policy) === true
    );
  }

  /** Whether no reservation and no slice is open, so that nothing is given back early. */
  isSettled(nowMs: number): boolean {
    return (this.#reservations?.idleAtMs() ?? 0) <= nowMs && this.#slices === null;
  }

  get hasSlices(): boolean {
    return this.#slices !== null;
  }

  slicesOf(policy: string): OpenUnits {
    return this.#slices?.openOf(policy) ?? nothingOpen;
  }

  reservationsOf(policy: string, nowMs: number): OpenUnits {
    return this.#reservations?.openOf(policy, nowMs) ?? nothingOpen;
  }

  /** Units that a policy has lent. They count as spent at the instant of every decision. */
  heldUnits(policy: string): number {
    return this.#slices?.unitsOf(policy) ?? 0;
  }

  /** Books slices whose time is up in full. Call it before every decision. */
  endSlices(nowMs: number): void {
    if (this.#slices === null) return;
    for (const { policy, limits, units, endsAtMs } of this.#slices.takeEnded(nowMs)) {
      const meter = this.meters.named(policy, limits);
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
      const meter = this.meters.named(policy, limits);
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
    let meter = this.meters.get(policy) ?? createMeter([]);
    for (const [limits, units] of byLimits) {
      meter = meter.withLimits(limits);
      meter.book(units, endsAtMs, endsAtMs);
    }
    return { meter, endsAtMs };
  }

  openReservation(reservation: Reservation): void {
    this.#reservations ??= new Reservations();
    this.#reservations.open(reservation);
    this.#ownChanges++;
  }

  /** Ends a reservation and returns it; null if it is not open. */
  takeReservation(id: string, nowMs: number): Reservation | null {
    const reservation = this.#reservations?.take(id) ?? null;
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
    const isOpen = this.#reservations?.renew(id, nowMs, renewSlots) === true;
    if (isOpen) this.#ownChanges++;
    return isOpen;
  }

  /** Notes a sync batch of an isolate. Returns false when it was counted before. */
  noteBatch(isolate: string, batch: number, nowMs: number): boolean {
    // Not a change of its own: a batch is written with its spends. If both are lost, the isolate sends both again.
    this.#batches ??= new SyncDedup();
    return this.#batches.note(isolate, batch, nowMs);
  }

  forget(policy: string): void {
    this.#reservations?.forget(policy);
    this.#slices?.forget(policy);
    this.#dropSlices();
    this.meters.forget(policy);
  }

  get isUnwritten(): boolean {
    return this.#ownChanges !== this.#writtenOwnChanges || this.meters.isUnwritten;
  }

  /** Whether unwritten changes affect decisions for longer than an idle object stays in memory. */
  outlastsMemory(nowMs: number): boolean {
    if (this.#ownChanges !== this.#writtenOwnChanges) return true;
    if (this.#reservations?.isEmpty === false || this.#slices !== null) return true;
    return this.meters.outlastsMemory(nowMs);
  }

  /**
   * The instant from which the state may be forgotten without changing a decision. For key rules without expiry, an instant
   * in 30 days.
   */
  idleAtMs(nowMs: number): number {
    let idleAtMs = Math.max(this.#reservations?.idleAtMs() ?? 0, this.meters.idleAtMs());
    if (this.#rules !== null) idleAtMs = Math.max(idleAtMs, this.#rules.idleAtMs(nowMs));
    for (const policy of this.#slices?.policies ?? []) {
      idleAtMs = Math.max(idleAtMs, this.meterAfterSlices(policy).meter.idleAtMs());
    }
    return idleAtMs;
  }

  sizeBytes(): number {
    let sizeBytes = bytesOfKey + this.#apartBytes;
    for (const part of [this.#reservations, this.#batches, this.#slices]) {
      sizeBytes += part === null ? 0 : bytesOfPart + part.sizeBytes;
    }
    sizeBytes += (this.#rules?.sizeBytes ?? 0) + (this.#policyRules?.sizeBytes ?? 0);
    return sizeBytes + this.meters.sizeBytes();
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
    const meters = this.meters
      .snapshots(nowMs)
      .map(([name, snapshot]) => [name, detachSegments(snapshot, numberOf)] as const);
    const parts = {
      bornAtMs: this.bornAtMs,
      meters,
      reservations: this.#reservations ?? noReservations,
      slices: this.#slices ?? noSlices,
      batches: this.#batches ?? noBatches,
      rules: this.#rules?.snapshot(nowMs) ?? [],
      policyRules: this.#policyRules?.snapshot((policy) => this.#stores(policy, nowMs), numberOf) ?? [],
    };
    const written = writtenRow(parts, idleAtMs, { numberOf, count: () => texts.size });
    this.#apartBytes = written.apartBytes;
    return { ...written, stored: storedRows(texts, nextNumber) };
  }

  markWritten(stored: StoredRows | null): void {
    this.stored = stored;
    this.#writtenOwnChanges = this.#ownChanges;
    this.meters.markWritten();
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
  static revived(key: string, row: unknown, textOf: (number: number) => string | undefined): KeyState | null {
    const parsed = parsedRow(row);
    if (parsed === null) return null;
    const keyState = new KeyState(key, parsed.bornAtMs);
    const texts = new Map<string, number>();
    let nextNumber = 0;
    const notedTextOf = (number: number, share = (text: string) => text): string | undefined => {
      const read = textOf(number);
      const text = read === undefined ? undefined : share(read);
      if (text !== undefined) texts.set(text, number);
      nextNumber = Math.max(nextNumber, number + 1);
      return text;
    };
    for (const [policy, snapshot] of parsed.meters) {
      const stored = attachSegments(snapshotAt(snapshot, notedTextOf), notedTextOf);
      keyState.meters.revive(policy, stored);
    }
    const { reservations, slices, batches } = parsed;
    const rules = KeyRuleSets.revived(parsed.rules);
    const policyRules = KeyPolicyRules.revived(parsed.policyRules, (number) => notedTextOf(number, sharedText));
    if (reservations.refusedCount > 0) keyState.meters.refused ??= "reservations are not of this version";
    if (slices.refusedCount > 0) keyState.meters.refused ??= "slices are not of this version";
    keyState.#reservations = reservations.isEmpty ? null : reservations;
    keyState.#batches = batches.isEmpty ? null : batches;
    keyState.#slices = slices.isEmpty ? null : slices;
    keyState.#rules = rules.isEmpty ? null : rules;
    keyState.#policyRules = policyRules.all.size === 0 ? null : policyRules;
    keyState.stored = storedRows(texts, nextNumber);
    return keyState;
  }
}

/** Most keys have no such rows, and share one empty map. */
const storedRows = (texts: ReadonlyMap<string, number>, nextNumber: number): StoredRows => ({
  texts: texts.size === 0 ? noTexts : texts,
  nextNumber,
});
