/**
 * The compact form of sampled traffic, in which isolates send it and the control plane stores it.
 *
 * The first byte is the version, followed by the earliest time. Each key has its 32 bytes, the number of its events, and
 * its events in order of time. In version 2, which is written only for keys within others, the number of the key's levels
 * comes first, and each level has 32 bytes. An event begins with the milliseconds since the event before it, doubled. The sum is odd when the
 * event has flags and further fields; without them it is an allowed arrival with cost 1. Integers have seven bits in
 * each byte, the lowest first; all bytes but the last have the highest bit set.
 */
import { mostKeyParts } from "../policy/key.ts";
import { fromBase64Url, toBase64Url } from "./base64url.ts";
import type { OutcomeName } from "./protocol.ts";

/** The outcomes that samples can have. In the compact form, an outcome is its index in this list. */
export const sampledOutcomes = [
  "allowed",
  "denied",
  "banned",
  "dry-run-denied",
  "fallback-local",
  "fallback-open",
  "fallback-closed",
] as const satisfies readonly OutcomeName[];
export type SampledOutcome = (typeof sampledOutcomes)[number];

/** A decision about a sampled key. All numbers of events are integers from 0 to 2^51. */
export interface SampledArrival {
  readonly kind: "arrival";
  readonly atMs: number;
  readonly cost: number;
  readonly outcome: SampledOutcome;
  /** The longest time until the reservation is settled; 0 for an arrival without reservation. */
  readonly ttlMs: number;
  /** Whether the limits of an override or of a key rule decided, and not the policy's. */
  readonly hasOtherLimits: boolean;
}

/** The end of a reservation. */
export interface SampledSettlement {
  readonly kind: "settlement";
  readonly atMs: number;
  /** The time and the cost of the arrival that made the reservation. */
  readonly spentAtMs: number;
  readonly cost: number;
  readonly actualCost: number;
}

export type SampledEvent = SampledArrival | SampledSettlement;

/** The events of each partition key. */
export type SampledKeys = ReadonlyMap<string, readonly SampledEvent[]>;

const version = 1;
const versionWithLevels = 2;
const separator = ".";
const keyBytes = 32;
const settlementNumber = 7;
const numberMask = 7;
/** Flags of an event. A cost of 1 is left out, and so is an actual cost that equals the cost. */
const hasOtherLimitsFlag = 8;
const hasCostFlag = 16;
const hasTtlFlag = 32;
const hasActualCostFlag = 64;
const mostFlags = 127;
const flagsOfArrival = hasOtherLimitsFlag | hasCostFlag | hasTtlFlag;
const flagsOfSettlement = hasCostFlag | hasActualCostFlag;

/** Orders the events of each key by time. Events of one millisecond keep their order. */
export function encodeSamples(keys: SampledKeys): Uint8Array<ArrayBuffer> {
  const writer = new Writer();
  const ordered = [...keys].map(([key, events]) => [key, inOrder(events)] as const);
  const firstMs = ordered.reduce(
    (earliestMs, [, [first]]) => Math.min(earliestMs, first?.atMs ?? earliestMs),
    Number.MAX_SAFE_INTEGER,
  );
  const hasLevels = ordered.some(([key]) => key.includes(separator));
  writer.integer(hasLevels ? versionWithLevels : version);
  writer.integer(firstMs);
  for (const [key, events] of ordered) {
    const levels = key.split(separator);
    if (hasLevels) writer.integer(levels.length);
    for (const level of levels) writer.key(level);
    writer.integer(events.length);
    let previousMs = firstMs;
    for (const event of events) {
      writer.event(event, event.atMs - previousMs);
      previousMs = event.atMs;
    }
  }
  return writer.bytes();
}

/** @throws RangeError when the bytes are damaged, or have a version that this code does not know */
export function decodeSamples(bytes: Uint8Array): Map<string, SampledEvent[]> {
  const reader = new Reader(bytes);
  const found = reader.integer();
  if (found !== version && found !== versionWithLevels) {
    throw new RangeError(`the samples have version ${found}, expected ${version} or ${versionWithLevels}`);
  }
  const firstMs = reader.integer();
  const keys = new Map<string, SampledEvent[]>();
  while (!reader.isAtEnd) {
    const levels = found === versionWithLevels ? reader.integer() : 1;
    if (levels < 1 || levels > mostKeyParts) throw damaged("a key has no level, or too many");
    const key = Array.from({ length: levels }, () => reader.key()).join(separator);
    if (keys.has(key)) throw damaged("a key is repeated");
    const count = reader.integer();
    const events: SampledEvent[] = [];
    let atMs = firstMs;
    for (let index = 0; index < count; index++) {
      const event = reader.event(atMs);
      events.push(event);
      ({ atMs } = event);
    }
    keys.set(key, events);
  }
  return keys;
}

/** Merges the events of all parts by key. */
export function mergeSamples(parts: readonly SampledKeys[]): SampledKeys {
  const merged = new Map<string, SampledEvent[]>();
  for (const keys of parts) {
    for (const [key, events] of keys) {
      const others = merged.get(key);
      if (others === undefined) merged.set(key, [...events]);
      else for (const event of events) others.push(event);
    }
  }
  return merged;
}

/** The events of all readable batches. `onDamage` receives the error of each unreadable one. */
export function decodeBatches(
  batches: readonly string[],
  onDamage: (error: unknown) => void = () => undefined,
): SampledKeys {
  return mergeSamples(
    batches.flatMap((events) => {
      try {
        return [decodeSamples(fromBase64Url(events) ?? new Uint8Array())];
      } catch (error) {
        onDamage(error);
        return [];
      }
    }),
  );
}

export const countArrivals = (keys: SampledKeys): number =>
  [...keys.values()].flat().filter(({ kind }) => kind === "arrival").length;

const damaged = (reason: string): RangeError => new RangeError(`the samples are damaged: ${reason}`);

function inOrder(events: readonly SampledEvent[]): readonly SampledEvent[] {
  const isOrdered = events.every(({ atMs }, index) => index === 0 || (events[index - 1]?.atMs ?? 0) <= atMs);
  return isOrdered ? events : events.toSorted((one, other) => one.atMs - other.atMs);
}

class Writer {
  #bytes = new Uint8Array(1_024);
  #length = 0;

  bytes(): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(0, this.#length);
  }

  integer(integer: number): void {
    this.#reserve(8);
    let rest = integer;
    while (rest >= 128) {
      this.#bytes[this.#length++] = 128 + (rest % 128);
      rest = Math.floor(rest / 128);
    }
    this.#bytes[this.#length++] = rest;
  }

  key(key: string): void {
    const bytes = fromBase64Url(key);
    if (bytes?.length !== keyBytes) {
      throw new RangeError(`expected a partition key of 43 base64url characters, got "${key}"`);
    }
    this.#reserve(keyBytes);
    this.#bytes.set(bytes, this.#length);
    this.#length += keyBytes;
  }

  event(event: SampledEvent, sinceMs: number): void {
    const flags = flagsOf(event);
    // A multiplication, because bitwise operators work on 32 bits only.
    this.integer(sinceMs * 2 + (flags === 0 ? 0 : 1));
    if (flags === 0) return;
    this.integer(flags);
    if ((flags & hasCostFlag) !== 0) this.integer(event.cost);
    if (event.kind === "arrival") {
      if ((flags & hasTtlFlag) !== 0) this.integer(event.ttlMs);
      return;
    }
    // The isolates' clocks differ, so a settlement may appear to precede its arrival.
    const heldMs = event.atMs - event.spentAtMs;
    this.integer(heldMs >= 0 ? 2 * heldMs : -2 * heldMs - 1);
    if ((flags & hasActualCostFlag) !== 0) this.integer(event.actualCost);
  }

  #reserve(count: number): void {
    if (this.#length + count <= this.#bytes.length) return;
    const larger = new Uint8Array(2 * this.#bytes.length);
    larger.set(this.#bytes);
    this.#bytes = larger;
  }
}

/** 0 for an allowed arrival with cost 1 and no further fields. */
function flagsOf(event: SampledEvent): number {
  const cost = event.cost === 1 ? 0 : hasCostFlag;
  if (event.kind === "settlement") {
    return settlementNumber | cost | (event.actualCost === event.cost ? 0 : hasActualCostFlag);
  }
  return (
    sampledOutcomes.indexOf(event.outcome) |
    cost |
    (event.ttlMs === 0 ? 0 : hasTtlFlag) |
    (event.hasOtherLimits ? hasOtherLimitsFlag : 0)
  );
}

class Reader {
  readonly #bytes: Uint8Array;
  #at = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  get isAtEnd(): boolean {
    return this.#at === this.#bytes.length;
  }

  integer(): number {
    let integer = 0;
    let place = 1;
    for (;;) {
      const byte = this.#bytes[this.#at++];
      if (byte === undefined) throw damaged("they end within an integer");
      integer += (byte % 128) * place;
      if (!Number.isSafeInteger(integer)) throw damaged("an integer is too large");
      if (byte < 128) return integer;
      place *= 128;
    }
  }

  key(): string {
    const end = this.#at + keyBytes;
    if (end > this.#bytes.length) throw damaged("they end within a key");
    const key = toBase64Url(this.#bytes.subarray(this.#at, end));
    this.#at = end;
    return key;
  }

  event(previousMs: number): SampledEvent {
    const head = this.integer();
    const atMs = previousMs + Math.floor(head / 2);
    if (!Number.isSafeInteger(atMs)) throw damaged("a time is too large");
    const flags = head % 2 === 0 ? 0 : this.integer();
    const number = flags & numberMask;
    const known = number === settlementNumber ? flagsOfSettlement : flagsOfArrival;
    const hasUnknown = flags > mostFlags || (flags & ~(known | numberMask)) !== 0;
    if (hasUnknown || (head % 2 === 1 && flags === 0)) {
      throw damaged("an event has unknown flags");
    }
    const cost = (flags & hasCostFlag) === 0 ? 1 : this.integer();
    if (number === settlementNumber) return this.#settlement(flags, atMs, cost);
    return {
      kind: "arrival",
      atMs,
      cost,
      outcome: sampledOutcomes[number] ?? "allowed",
      ttlMs: (flags & hasTtlFlag) === 0 ? 0 : this.integer(),
      hasOtherLimits: (flags & hasOtherLimitsFlag) !== 0,
    };
  }

  #settlement(flags: number, atMs: number, cost: number): SampledSettlement {
    const held = this.integer();
    const spentAtMs = atMs - (held % 2 === 0 ? held / 2 : -(held + 1) / 2);
    if (spentAtMs < 0) throw damaged("a time is below 0");
    const actualCost = (flags & hasActualCostFlag) === 0 ? cost : this.integer();
    return { kind: "settlement", atMs, spentAtMs, cost, actualCost };
  }
}
