/**
 * The state of one key in memory: a meter for each policy that charges it, its open reservations and slices, the last sync
 * batch of each isolate, and its runtime rules. It knows which changes are not in storage yet. key-row.ts describes the row
 * it is stored as.
 */
import { report } from "../../observability/events.ts";
import type { Ban } from "../../policy/denials.ts";
import { compareVersions, type PolicyRules, type RulesVersion } from "../../policy/runtime-rules.ts";
import { type Limit, LimitsMeter, meterUnder } from "../../strategies/index.ts";
import type { Charge, KeyRule, Settlement, SliceReturned } from "../protocol.ts";
import { type OpenSlice, type Reservation, Reservations, type ReservedCharge, Slices } from "./open-entries.ts";
import { KeyRuleSets } from "./runtime-key-rules.ts";
import type { SharedParts } from "./shared-limits.ts";

/** Estimates of the memory of a key without its parts, and of each of its parts, in bytes. The keys share policy rules. */
const bytesOfKey = 400;
const bytesOfMeter = 400;
const bytesOfPart = 300;
const bytesOfBatch = 120;
const bytesOfPolicyRules = 200;

/** An object without an event loses its memory after 10 s (Cloudflare, lifecycle of a Durable Object). */
const idleMemoryMs = 10_000;

/** Isolates retry every few seconds. A batch sent again after this counts twice, which never admits too much. */
const rememberedMs = 60_000;
const mostIsolates = 1_000;

/** A policy with a ban has two more meters. Their names contain a space character, which no policy's name does. */
const strikesOf = (policy: string): string => `${policy} strikes`;
const banOf = (policy: string): string => `${policy} ban`;
const namesOf = (policy: string): string[] => [policy, strikesOf(policy), banOf(policy)];

const noRules: readonly KeyRule[] = [];
const noLimits: readonly Limit[] = [];
const noReservations = new Reservations();
/** The version of an isolate before its first beat. */
const noVersion = { epoch: 0, version: 0 };

interface KeyMeter {
  meter: LimitsMeter;
  writtenChanges: number;
  /** The meter's `seenMs` at the end of the last turn. It goes back only when the meter finds a mis-set clock. */
  seenMs: number;
}

/** The last sync batch of an isolate, which sends its next batch only when it knows that this one is counted. */
interface LastBatch {
  readonly batch: number;
  readonly atMs: number;
}

/** The rows `s <key> <number>` of a key in storage. */
export interface StoredRows {
  readonly texts: ReadonlyMap<string, number>;
  readonly nextNumber: number;
}

export class KeyState {
  readonly key: string;
  /** When the key's row was first written. */
  readonly bornAtMs: number;
  readonly meters = new Map<string, KeyMeter>();
  /**
   * Null without reservations, as for most keys: empty maps would be a third of a key's memory. The same holds for the
   * maps below.
   */
  reservations: Reservations | null = null;
  slices: Slices | null = null;
  /** By isolate, in the order of `atMs`. */
  batches: Map<string, LastBatch> | null = null;
  rules: KeyRuleSets | null = null;
  /** The policy rules that the key was charged under. */
  policyRules: Map<string, PolicyRules> | null = null;
  /** The key's parts in shared limits of its parents. */
  parts: SharedParts | null = null;
  /** Bytes of the snapshots stored in separate rows. `stored` keeps them in memory. */
  apartBytes = 0;
  /** Null when no row of the key is in storage. */
  stored: StoredRows | null = null;
  /** Whether an event has reported that the meters do not fit in one row. */
  isOversizeReported = false;
  /** Why stored state of the key was refused; null when none was refused, or when it was reported. */
  refused: string | null = null;
  #provisionalAtMs = 0;
  #provisionalMs = 0;
  /** Counts changes outside the meters, and changes of dropped meters. */
  #ownChanges = 0;
  #writtenOwnChanges = 0;

  constructor(key: string, nowMs: number) {
    this.key = key;
    this.bornAtMs = nowMs;
  }

  /** The meter of a policy under these limits. Reports stored state that was refused. */
  meterOf({ policy, limits }: Pick<Charge, "policy" | "limits">): LimitsMeter {
    const meter = this.#named(policy, limits);
    if (this.refused !== null) {
      report({ event: "state-refused", policy, reason: this.refused });
      this.refused = null;
    }
    return meter;
  }

  #named(name: string, limits: readonly Limit[]): LimitsMeter {
    const known = this.meters.get(name);
    const meter = meterUnder(limits, known?.meter);
    if (meter === known?.meter) return meter;
    this.refused ??= meter.refused;
    if (known === undefined) this.meters.set(name, { meter, writtenChanges: 0, seenMs: meter.seenMs });
    else known.meter = meter;
    return meter;
  }

  #dropMeter(name: string): void {
    this.#ownChanges += 1 + (this.meters.get(name)?.meter.changes ?? 0);
    this.meters.delete(name);
  }

  /** The limits that a policy's meter has. */
  limitsOf(policy: string): readonly Limit[] {
    return this.meters.get(policy)?.meter.limits ?? noLimits;
  }

  /** How long a ban still denies the key under a policy, in milliseconds; 0 without a ban. */
  bannedForMs(policy: string, { term }: Ban, nowMs: number): number {
    // Most keys have never been banned: do not create a meter for them.
    if (!this.meters.has(banOf(policy))) return 0;
    return this.#named(banOf(policy), term).look(1, nowMs).retryAfterMs ?? 0;
  }

  /** Counts a denial. Returns the duration of the ban that it brings, in milliseconds; 0 when it brings none. */
  strike(policy: string, ban: Ban, nowMs: number): number {
    const strikeMeter = this.#named(strikesOf(policy), ban.strikes);
    if (strikeMeter.consume(1, nowMs).limits[0]?.remaining !== 0) return 0;
    this.#dropMeter(strikesOf(policy));
    this.#named(banOf(policy), ban.term).consume(1, nowMs);
    return this.bannedForMs(policy, ban, nowMs);
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

  /** Grows with every change that must be written. */
  get changes(): number {
    let changes = this.#ownChanges + (this.parts?.changes ?? 0);
    for (const { meter } of this.meters.values()) changes += meter.changes;
    return changes;
  }

  /**
   * When a meter has found a mis-set clock and booked its spends again, moves the reservations and slices of its policy
   * too.
   */
  followClock(): void {
    for (const [name, each] of this.meters) {
      const { seenMs } = each.meter;
      if (seenMs < each.seenMs) {
        this.reservations?.rebook(name, seenMs);
        this.slices?.rebook(name, seenMs);
      }
      each.seenMs = seenMs;
    }
  }

  /** The live key rules of a policy, the newest first. */
  rulesOf(policy: string): readonly KeyRule[] {
    return this.rules?.of(policy) ?? noRules;
  }

  /** The version of a policy's key rules; null when none is known. */
  rulesVersionOf(policy: string): RulesVersion | null {
    return this.rules?.versionOf(policy) ?? null;
  }

  /** Replaces the key rules of a policy, unless it has newer ones. */
  setRules(policy: string, rules: readonly KeyRule[], version: RulesVersion, nowMs: number): void {
    this.rules ??= new KeyRuleSets();
    if (this.rules.set(policy, rules, version, nowMs)) this.#ownChanges++;
  }

  /**
   * Notes the policy rules of a charge.
   * @returns whether they must be stored at once, because the key's row has state of the policy and older rules
   */
  notePolicyRules(policy: string, rules: PolicyRules, nowMs: number): boolean {
    if (compareVersions(rules, this.policyRules?.get(policy) ?? noVersion) <= 0) return false;
    this.policyRules ??= new Map();
    this.policyRules.set(policy, rules);
    if (this.stored === null || !this.stores(policy, nowMs)) return false;
    this.#ownChanges++;
    return true;
  }

  /** Whether the key's row has anything of a policy. */
  stores(policy: string, nowMs: number): boolean {
    return (
      namesOf(policy).some((name) => (this.meters.get(name)?.meter.idleAtMs() ?? 0) > nowMs) ||
      this.rulesVersionOf(policy) !== null ||
      this.heldUnits(policy) > 0 ||
      this.parts?.has(policy) === true ||
      this.reservations?.hasPolicy(policy) === true
    );
  }

  /** Whether no reservation and no slice is open, so that nothing is given back early. */
  isSettled(nowMs: number): boolean {
    return (this.reservations?.idleAtMs() ?? 0) <= nowMs && this.slices === null;
  }

  /** Units that a policy has lent. They count as spent at the instant of every decision. */
  heldUnits(policy: string): number {
    return this.slices?.unitsOf(policy) ?? 0;
  }

  /** Removes expired key rules, and books expired slices in full. Call it before every decision. */
  endOver(nowMs: number): void {
    this.rules?.end(nowMs);
    if (this.slices === null) return;
    for (const { policy, limits, units, endsAtMs } of this.slices.takeEnded(nowMs)) {
      const meter = this.#named(policy, limits);
      // Book at the slice's end: the window in which the slice counts may be over by now.
      meter.book(units, endsAtMs, Math.min(nowMs, Math.max(endsAtMs, meter.seenMs)));
      this.#ownChanges++;
    }
    this.#dropSlices();
  }

  /** Opens a slice. Returns its units; 0 when the key has no room for more slices. */
  lend(slice: OpenSlice): number {
    // The platform may repeat a call whose answer was lost: lend once.
    const known = this.slices?.get(slice.id) ?? null;
    if (known !== null) return known.units;
    if (this.slices?.isFull === true) return 0;
    this.slices ??= new Slices();
    this.slices.open(slice);
    this.#ownChanges++;
    return slice.units;
  }

  /** Ends a slice and books the units that were used. No-op for a slice that is not open. */
  settleSlice({ id, used }: SliceReturned, nowMs: number): Settlement {
    const slice = this.slices?.take(id) ?? null;
    if (slice === null) return [];
    const settled = slice.parts.map(({ policy, limits }) => {
      const meter = this.#named(policy, limits);
      meter.book(Math.min(used, slice.units), nowMs, nowMs);
      return { policy, atMs: Math.max(nowMs, meter.seenMs) };
    });
    this.#ownChanges++;
    this.#dropSlices();
    return settled;
  }

  #dropSlices(): void {
    if (this.slices?.isEmpty === true) this.slices = null;
  }

  /**
   * A copy of a policy's meter at the end of its last slice, with all lent units spent at that instant. However the
   * slices are settled, the units never count for longer than in this copy. Spending each slice at its own end could
   * give waits that are too short: if the first slice is returned unused, a later one opens a later window.
   */
  meterAfterSlices(policy: string): { meter: LimitsMeter; endsAtMs: number } {
    let meter = this.meters.get(policy)?.meter ?? LimitsMeter.from([]);
    const lent = this.slices?.lentBy(policy);
    if (lent === undefined) return { meter, endsAtMs: 0 };
    const { byLimits, endsAtMs } = lent;
    for (const [limits, units] of byLimits) {
      meter = meter.withLimits(limits);
      meter.book(units, endsAtMs, endsAtMs);
    }
    return { meter, endsAtMs };
  }

  /** See `Reservations.fullForMs`. */
  fullForMs(charges: readonly Charge[], isDryRun: boolean, nowMs: number): number {
    return (this.reservations ?? noReservations).fullForMs(charges, isDryRun, nowMs);
  }

  openReservation(reservation: Reservation): void {
    this.reservations ??= new Reservations();
    this.reservations.open(reservation);
    this.#ownChanges++;
  }

  /** Ends a reservation and returns it; null if it is not open. */
  takeReservation(id: string, nowMs: number): Reservation | null {
    const reservation = this.reservations?.take(id) ?? null;
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
    const isOpen = this.reservations?.renew(id, nowMs, renewSlots) === true;
    if (isOpen) this.#ownChanges++;
    return isOpen;
  }

  /** Notes a sync batch of an isolate. Returns false when it was counted before: its answer was lost. */
  noteBatch(isolate: string, batch: number, nowMs: number): boolean {
    // Not a change of its own: a batch is written with its spends. If both are lost, the isolate sends both again.
    this.batches ??= new Map();
    const before = this.batches.get(isolate)?.batch ?? 0;
    this.batches.delete(isolate);
    this.batches.set(isolate, { batch: Math.max(batch, before), atMs: nowMs });
    for (const [oldest, { atMs }] of this.batches) {
      if (this.batches.size <= mostIsolates && nowMs - atMs < rememberedMs) break;
      this.batches.delete(oldest);
    }
    return batch > before;
  }

  forget(policy: string): void {
    this.parts?.forgetShares(policy, this.meters.get(policy)?.meter.idleAtMs() ?? 0);
    this.reservations?.forget(policy);
    this.slices?.forget(policy);
    this.#dropSlices();
    for (const name of namesOf(policy)) this.#dropMeter(name);
  }

  get isUnwritten(): boolean {
    if (this.#ownChanges !== this.#writtenOwnChanges || this.parts?.isUnwritten === true) return true;
    for (const { meter, writtenChanges } of this.meters.values()) if (meter.changes !== writtenChanges) return true;
    return false;
  }

  /** Whether unwritten changes affect decisions for longer than an idle object stays in memory. */
  outlastsMemory(nowMs: number): boolean {
    if (this.#ownChanges !== this.#writtenOwnChanges) return true;
    if (this.reservations?.isEmpty === false || this.slices !== null) return true;
    if (this.parts?.outlasts(idleMemoryMs, nowMs) === true) return true;
    return [...this.meters].some(([name, { meter, writtenChanges }]) => {
      if (meter.changes === writtenChanges) return false;
      const isOfBan = name.includes(" ");
      return isOfBan || meter.retentionMs > idleMemoryMs || meter.idleAtMs() - nowMs > idleMemoryMs;
    });
  }

  /**
   * The instant from which the state may be forgotten without changing a decision. For key rules without expiry, an instant
   * in 30 days.
   */
  idleAtMs(nowMs: number): number {
    let idleAtMs = Math.max(this.reservations?.idleAtMs() ?? 0, this.parts?.idleAtMs() ?? 0);
    for (const { meter } of this.meters.values()) idleAtMs = Math.max(idleAtMs, meter.idleAtMs());
    if (this.rules !== null) idleAtMs = Math.max(idleAtMs, this.rules.idleAtMs(nowMs));
    for (const policy of this.slices?.policies ?? []) {
      idleAtMs = Math.max(idleAtMs, this.meterAfterSlices(policy).meter.idleAtMs());
    }
    return idleAtMs;
  }

  sizeBytes(): number {
    let sizeBytes = bytesOfKey + this.apartBytes;
    for (const { meter } of this.meters.values()) sizeBytes += bytesOfMeter + meter.sizeBytes();
    if (this.reservations !== null) sizeBytes += bytesOfPart + this.reservations.sizeBytes;
    if (this.slices !== null) sizeBytes += bytesOfPart + this.slices.sizeBytes;
    if (this.batches !== null) sizeBytes += bytesOfPart + this.batches.size * bytesOfBatch;
    return (
      sizeBytes +
      (this.parts?.sizeBytes ?? 0) +
      (this.rules?.sizeBytes ?? 0) +
      (this.policyRules?.size ?? 0) * bytesOfPolicyRules
    );
  }

  markWritten(stored: StoredRows | null): void {
    this.stored = stored;
    this.#writtenOwnChanges = this.#ownChanges;
    for (const each of this.meters.values()) each.writtenChanges = each.meter.changes;
    this.parts?.markWritten();
  }

  /** After a failed write, the next change writes all rows again. */
  markLost(): void {
    this.stored = null;
    this.#ownChanges++;
  }
}
