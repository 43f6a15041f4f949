/**
 * What an isolate knows of a key under eventual consistency: how the key's object has last told that it stands, and what
 * the isolate has spent since. Spends are exchanged, and not verdicts: each batch of them counts once, and is kept until
 * the object has said that it is counted.
 */
import type { Policy } from "../../config/index.ts";
import { createMeter, type Decision, type Limit, type Meter } from "../../strategies/index.ts";
import type { Spent } from "./key-group.ts";
import { internedMeter, internedLimits } from "../interned-limits.ts";
import { admits, allows, type Outcome, type Spend } from "./outcome.ts";
import { objectId, type ObjectLocation } from "./object-location.ts";
import type { KeySync, SyncReply } from "../protocol.ts";

/** Of more instants the oldest are told as one, the later of them: what is spent counts for longer, never for less. */
const mostInstants = 100;

/** The platform lets work go on for 30 s after an answer; a decision takes less. */
const longestRequestMs = 60_000;

/** About what takes how much memory. */
const bytesOfReplica = 600;
const bytesOfCounted = 500;
const bytesOfSpend = 80;

/** What is counted for one policy. */
interface Counted {
  policy: Policy;
  meter: Meter;
  /** What is not on its way, for each list of limits that it was spent under: overrides and deploys change them. */
  unsent: Unsent[];
  /** The same of requests that an object may still deny: it is sent once they are admitted. */
  readonly provisional: Unsent[];
  /** Whether the object has told how it stands. */
  isTold: boolean;
}

interface Unsent {
  /** A list of `sharedLimits`. */
  readonly limits: readonly Limit[];
  /** Units by when they were spent. */
  readonly spends: Map<number, number>;
}

/** A batch that is on its way, or will be again. */
interface Batch {
  readonly number: number;
  charges: readonly {
    readonly policy: string;
    readonly limits: readonly Limit[];
    readonly spends: readonly (readonly [atMs: number, units: number])[];
  }[];
}

/** What tells a key from all others of an isolate. */
export const nameOf = (location: ObjectLocation, partitionKey: string): string =>
  `${objectId(location)} ${partitionKey}`;

/** What is sent of a key, and which of its policies the answer tells of. */
export interface Sending {
  readonly replica: Replica;
  readonly call: KeySync;
  readonly batch: Batch;
  readonly asked: readonly Counted[];
}

export class Replica {
  readonly partitionKey: string;
  readonly location: ObjectLocation;
  readonly name: string;
  /** When it is to be sent again; null before it was sent. */
  dueAtMs: number | null = null;
  /** While it is on its way: when no answer will come any more. */
  lostAtMs: number | null = null;
  /** Whether it was asked for since it was last sent. */
  isAsked = false;
  readonly #counted = new Map<string, Counted>();
  /** How far the object's clock is ahead of the isolate's. */
  #aheadMs = 0;
  #kept: Batch | null = null;

  constructor(partitionKey: string, location: ObjectLocation) {
    this.partitionKey = partitionKey;
    this.location = location;
    this.name = nameOf(location, partitionKey);
  }

  /** How often it is sent: as the most impatient of its policies says. */
  get syncEveryMs(): number {
    const all = [...this.#counted.values()].map(({ policy: { consistency } }) =>
      consistency.kind === "eventual" ? consistency.syncEveryMs : Number.MAX_SAFE_INTEGER,
    );
    return Math.min(...all);
  }

  /** About how much memory it takes. */
  get sizeBytes(): number {
    let sizeBytes = bytesOfReplica;
    for (const { meter, unsent, provisional } of this.#counted.values()) {
      sizeBytes += bytesOfCounted + meter.sizeBytes();
      for (const { spends } of [...unsent, ...provisional]) sizeBytes += spends.size * bytesOfSpend;
    }
    for (const { spends } of this.#kept?.charges ?? []) sizeBytes += spends.length * bytesOfSpend;
    return sizeBytes;
  }

  get policies(): readonly Policy[] {
    return [...this.#counted.values()].map(({ policy }) => policy);
  }

  /**
   * Spends all or nothing.
   * @param localMs by the isolate's clock
   * @param isProvisional whether an object may still deny the request: then `confirm` or `giveBack` follows
   */
  decide(group: readonly Spend[], localMs: number, isProvisional: boolean): readonly Outcome[] {
    const nowMs = localMs + this.#aheadMs;
    const asked = group.map((spend) => ({ spend, counted: this.#countedOf(spend.policy) }));
    const looked = asked.map(({ spend, counted }) =>
      outcomeOf(counted, counted.meter.look(spend.cost, nowMs)),
    );
    if (!looked.every(admits)) return looked;
    return asked.map(({ spend, counted }) => {
      const { meter } = counted;
      const outcome = outcomeOf(
        counted,
        isProvisional
          ? meter.reserve({ cost: spend.cost, ttlMs: longestRequestMs }, nowMs)
          : meter.consume(spend.cost, nowMs),
      );
      if (!allows(outcome)) return outcome;
      if (isProvisional) add(spendsOf(counted.provisional, counted.policy), localMs, spend.cost);
      else note(spendsOf(counted.unsent, counted.policy), localMs, spend.cost);
      return outcome;
    });
  }

  /** What was spent provisionally at `spentAtMs` is to be sent, as spent at `localMs`. */
  confirm(group: readonly Spend[], spentAtMs: number, localMs: number): void {
    for (const { policy, cost } of group) {
      const counted = this.#countedOf(policy);
      const nowMs = localMs + this.#aheadMs;
      if (takeFrom(spendsOf(counted.provisional, policy), spentAtMs, cost)) {
        settle(counted.meter, cost, cost, spentAtMs + this.#aheadMs, nowMs);
      } else {
        // Another replica has taken the place of the one that it was spent in.
        counted.meter.book(cost, nowMs, nowMs);
      }
      note(spendsOf(counted.unsent, policy), localMs, cost);
    }
  }

  /**
   * Gives back what was spent, as far as it is still to be sent by itself.
   * @returns what the object is or will be told of, and when that was spent by its clock
   */
  giveBack(group: readonly Spend[], spentAtMs: number, localMs: number): readonly Spent[] {
    return group.flatMap((spend) => {
      const { policy, cost } = spend;
      const counted = this.#countedOf(policy);
      const atMs = spentAtMs + this.#aheadMs;
      const nowMs = localMs + this.#aheadMs;
      if (takeFrom(spendsOf(counted.provisional, policy), spentAtMs, cost)) {
        settle(counted.meter, cost, 0, atMs, nowMs);
        return [];
      }
      counted.meter.refund(cost, atMs, nowMs);
      const isUnsent = takeFrom(spendsOf(counted.unsent, policy), spentAtMs, cost);
      return isUnsent ? [] : [{ spend, spentAtMs: atMs }];
    });
  }

  /** What is on its way is not to bring it back. */
  forget(policy: string): void {
    this.#counted.delete(policy);
    const kept = this.#kept;
    if (kept !== null) kept.charges = kept.charges.filter((each) => each.policy !== policy);
  }

  /**
   * What is to be sent: what was sent before until it is known to be counted.
   * @param nextNumber of a batch
   * @param lostAtMs when no answer will come any more
   * @returns null when there is nothing to ask about
   */
  sending(nextNumber: () => number, localMs: number, lostAtMs: number): Sending | null {
    const asked = [...this.#counted.values()];
    if (asked.length === 0) return null;
    const batch = (this.#kept ??= this.#batch(nextNumber));
    this.dueAtMs = localMs + this.syncEveryMs;
    this.lostAtMs = lostAtMs;
    this.isAsked = false;
    return { replica: this, call: this.#callOf(batch, localMs), batch, asked };
  }

  /** Takes what is to be sent; 0 is the number of a batch of nothing. */
  #batch(nextNumber: () => number): Batch {
    const charges = [...this.#counted.values()].flatMap((counted) => {
      const { policy, unsent } = counted;
      counted.unsent = [];
      return unsent.flatMap(({ limits, spends }) => {
        const spent = [...spends].filter(([, units]) => units > 0);
        return spent.length === 0 ? [] : { policy: policy.name, limits, spends: spent };
      });
    });
    return { number: charges.length === 0 ? 0 : nextNumber(), charges };
  }

  /** What was spent first, and then each policy with the limits of now, whose answers have all of it. */
  #callOf({ number, charges }: Batch, localMs: number): KeySync {
    const spent = charges.map((charge) => ({
      ...charge,
      spends: charge.spends.map(([atMs, units]): [number, number] => [
        Math.max(0, localMs - atMs),
        units,
      ]),
    }));
    const asked = this.policies.map(({ name, limits }) => ({ policy: name, limits, spends: [] }));
    const isConfirmed = this.policies.some(({ durability }) => durability === "confirmed");
    return {
      key: this.partitionKey,
      batch: number,
      charges: [...spent, ...asked],
      durability: isConfirmed ? "confirmed" : "relaxed",
    };
  }

  /** Whether not all that was spent is known to be counted. */
  get hasUnsent(): boolean {
    return (
      (this.#kept?.number ?? 0) > 0 ||
      [...this.#counted.values()].some(({ unsent }) => unsent.some(({ spends }) => spends.size > 0))
    );
  }

  /** @param synced null when there was no answer */
  answered(sending: Sending, synced: SyncReply | null, localMs: number): void {
    // One that was given up may come back after another has been sent.
    if (this.#kept !== sending.batch) return;
    this.lostAtMs = null;
    if (synced !== null || sending.batch.number === 0) this.#kept = null;
    if (synced === null) return;
    this.#takeOver(sending, synced, localMs);
  }

  /** The object's count stands for what was sent; what has been spent since comes on top. */
  #takeOver({ asked }: Sending, { snapshots, atMs: objectMs }: SyncReply, localMs: number): void {
    // Its clock was read before the answer was on its way: by this one nothing is free too early.
    this.#aheadMs = objectMs - localMs;
    for (const [index, snapshot] of snapshots.slice(-asked.length).entries()) {
      const counted = asked[index];
      // Of what was forgotten meanwhile nothing is to come back.
      if (counted === undefined || this.#counted.get(counted.policy.name) !== counted) continue;
      let meter = createMeter([], JSON.parse(snapshot));
      if (meter.refused !== null) continue;
      for (const { spends } of counted.provisional) dropLost(spends, localMs);
      for (const { limits, spends } of [...counted.unsent, ...counted.provisional]) {
        meter = meter.withLimits(limits);
        for (const [atMs, units] of spends) meter.book(units, atMs + this.#aheadMs, objectMs);
      }
      counted.meter = meter.withLimits(internedLimits(counted.policy.limits));
      counted.isTold = true;
    }
  }

  /** With the limits of this request: overrides and deploys change them. */
  #countedOf(policy: Policy): Counted {
    const before = this.#counted.get(policy.name);
    if (before === undefined) {
      const { meter } = internedMeter(policy.limits, undefined);
      const counted: Counted = { policy, meter, unsent: [], provisional: [], isTold: false };
      this.#counted.set(policy.name, counted);
      return counted;
    }
    if (before.policy.limits !== policy.limits) {
      before.meter = before.meter.withLimits(internedLimits(policy.limits));
    }
    before.policy = policy;
    return before;
  }
}

/** Before the object has told anything a decision is the isolate's own. */
const outcomeOf = ({ policy, isTold }: Counted, decision: Decision): Outcome => ({
  kind: isTold ? "decided" : "local",
  policy,
  decision,
});

/** Ends the provisional time of a spend: it has cost all of it, or nothing. */
function settle(
  meter: Meter,
  cost: number,
  actualCost: number,
  spentAtMs: number,
  nowMs: number,
): void {
  meter.settle({ cost, actualCost, spentAtMs, ttlMs: longestRequestMs }, nowMs);
}

/** The spends under the limits that hold now. */
function spendsOf(lists: Unsent[], policy: Policy): Map<number, number> {
  const limits = internedLimits(policy.limits);
  const known = lists.find((each) => each.limits === limits);
  if (known !== undefined) return known.spends;
  const spends = new Map<number, number>();
  lists.push({ limits, spends });
  return spends;
}

/** Drops the spends of requests that were cut off before they were decided. */
function dropLost(spends: Map<number, number>, nowMs: number): void {
  for (const atMs of spends.keys()) if (nowMs - atMs > longestRequestMs) spends.delete(atMs);
}

/** Takes units out that were spent at an instant. @returns false where there are not so many */
function takeFrom(spends: Map<number, number>, atMs: number, units: number): boolean {
  const left = (spends.get(atMs) ?? 0) - units;
  if (left < 0) return false;
  if (left === 0) spends.delete(atMs);
  else spends.set(atMs, left);
  return true;
}

function add(spends: Map<number, number>, atMs: number, units: number): void {
  if (units > 0) spends.set(atMs, (spends.get(atMs) ?? 0) + units);
}

function note(unsent: Map<number, number>, atMs: number, units: number): void {
  add(unsent, atMs, units);
  if (unsent.size <= mostInstants) return;
  const [oldest, next] = unsent.keys();
  if (oldest === undefined || next === undefined) return;
  unsent.set(next, (unsent.get(next) ?? 0) + (unsent.get(oldest) ?? 0));
  unsent.delete(oldest);
}
