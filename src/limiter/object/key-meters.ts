/** The meters of one key: one for each policy that charges it, and two more for a policy with a ban. */
import { createMeter, type Limit, type Meter } from "../../strategies/index.ts";
import type { Ban } from "../../policy/denials.ts";
import { type InternedMeter, internedMeter } from "../interned.ts";

/** An object without an event loses its memory after 10 s (Cloudflare, lifecycle of a Durable Object). */
const idleMemoryMs = 10_000;

/** Estimate of the memory of a meter's place in a key. */
const bytesOfMeter = 400;

/** A policy with a ban has two more meters. Their names contain a space character, which no policy's name does. */
const strikesOf = (policy: string): string => `${policy} strikes`;
const banOf = (policy: string): string => `${policy} ban`;
const namesOf = (policy: string): string[] => [policy, strikesOf(policy), banOf(policy)];
const isOfBan = (name: string): boolean => name.includes(" ");

interface KeyMeter extends InternedMeter {
  writtenChanges: number;
  /** The meter's `seenMs` at the end of the last turn. It goes back only when the meter finds a mis-set clock. */
  seenMs: number;
}

export class KeyMeters {
  readonly #meters = new Map<string, KeyMeter>();
  /** Changes by meters that were dropped. */
  #droppedChanges = 0;
  #writtenDroppedChanges = 0;
  /** Why stored state of the key was refused; null when none was refused. The caller sets null when it has reported it. */
  refused: string | null = null;

  /** The meter of this name under these limits. */
  named(name: string, limits: readonly Limit[]): Meter {
    const before = this.#meters.get(name);
    const { meter, limits: interned } = internedMeter(limits, before);
    if (meter === before?.meter) return meter;
    this.refused ??= meter.refused;
    const writtenChanges = before?.writtenChanges ?? 0;
    const seenMs = before?.seenMs ?? meter.seenMs;
    this.#meters.set(name, { meter, limits: interned, writtenChanges, seenMs });
    return meter;
  }

  /** The meter of this name under the limits that it has; undefined when there is none. */
  get(name: string): Meter | undefined {
    return this.#meters.get(name)?.meter;
  }

  limitsOf(name: string): readonly Limit[] {
    return this.#meters.get(name)?.limits ?? [];
  }

  /** Adds a stored meter. Without limits it keeps each state until a call brings its limit, or the state is idle. */
  revive(name: string, snapshot: unknown): void {
    const meter = createMeter([], snapshot);
    this.refused ??= meter.refused;
    const { changes: writtenChanges, seenMs } = meter;
    this.#meters.set(name, { meter, limits: [], writtenChanges, seenMs });
  }

  /** Grows with every change that must be written. */
  get changes(): number {
    let changes = this.#droppedChanges;
    for (const { meter } of this.#meters.values()) changes += meter.changes;
    return changes;
  }

  /** Calls `rebook` for each meter that found a mis-set clock and booked its spends again. */
  followClock(rebook: (name: string, seenMs: number) => void): void {
    for (const [name, each] of this.#meters) {
      const { seenMs } = each.meter;
      if (seenMs < each.seenMs) rebook(name, seenMs);
      each.seenMs = seenMs;
    }
  }

  /** How long a ban still denies the key under a policy, in milliseconds; 0 without a ban. */
  bannedForMs(policy: string, { term }: Ban, nowMs: number): number {
    // Most keys have never been banned: do not create a meter for them.
    if (!this.#meters.has(banOf(policy))) return 0;
    return this.named(banOf(policy), term).look(1, nowMs).retryAfterMs ?? 0;
  }

  /** Counts a denial. Returns the duration of the ban that it brings, in milliseconds; 0 when it brings none. */
  strike(policy: string, ban: Ban, nowMs: number): number {
    const strikeMeter = this.named(strikesOf(policy), ban.strikes);
    if (strikeMeter.consume(1, nowMs).limits[0]?.remaining !== 0) return 0;
    this.#drop(strikesOf(policy));
    this.named(banOf(policy), ban.term).consume(1, nowMs);
    return this.bannedForMs(policy, ban, nowMs);
  }

  forget(policy: string): void {
    for (const name of namesOf(policy)) this.#drop(name);
  }

  #drop(name: string): void {
    this.#droppedChanges += 1 + (this.#meters.get(name)?.meter.changes ?? 0);
    this.#meters.delete(name);
  }

  /** Whether a meter of the policy, or of its ban, has state that affects decisions. */
  isLive(policy: string, nowMs: number): boolean {
    return namesOf(policy).some((name) => (this.get(name)?.idleAtMs() ?? 0) > nowMs);
  }

  get isUnwritten(): boolean {
    if (this.#droppedChanges !== this.#writtenDroppedChanges) return true;
    for (const { meter, writtenChanges } of this.#meters.values()) {
      if (meter.changes !== writtenChanges) return true;
    }
    return false;
  }

  /** Whether unwritten changes affect decisions for longer than an idle object stays in memory. */
  outlastsMemory(nowMs: number): boolean {
    if (this.#droppedChanges !== this.#writtenDroppedChanges) return true;
    return [...this.#meters].some(
      ([name, { meter, writtenChanges }]) =>
        meter.changes !== writtenChanges &&
        (isOfBan(name) || meter.retentionMs > idleMemoryMs || meter.idleAtMs() - nowMs > idleMemoryMs),
    );
  }

  markWritten(): void {
    this.#writtenDroppedChanges = this.#droppedChanges;
    for (const each of this.#meters.values()) each.writtenChanges = each.meter.changes;
  }

  idleAtMs(): number {
    let idleAtMs = 0;
    for (const { meter } of this.#meters.values()) idleAtMs = Math.max(idleAtMs, meter.idleAtMs());
    return idleAtMs;
  }

  sizeBytes(): number {
    let sizeBytes = 0;
    for (const { meter } of this.#meters.values()) sizeBytes += bytesOfMeter + meter.sizeBytes();
    return sizeBytes;
  }

  /** The snapshots of the meters that are not idle. */
  snapshots(nowMs: number): [name: string, snapshot: unknown][] {
    const snapshots: [string, unknown][] = [];
    for (const [name, { meter }] of this.#meters) {
      if (meter.idleAtMs() > nowMs) snapshots.push([name, meter.snapshot()]);
    }
    return snapshots;
  }
}
