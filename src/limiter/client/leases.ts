/**
 * Slices of keys' quotas that an isolate has borrowed, and spends by itself: for keys that it is asked for often, and not
 * for long. What it does not spend goes back; what it does is told with the next call.
 */
import { type Clock, sleep } from "../clock.ts";
import { askedOf, callOf, isOf, type Spent, timeoutOf } from "./key-group.ts";
import {
  costOf,
  demanded,
  dropOld,
  heldMs,
  instantOf,
  isAsking,
  isLow,
  isReturnable,
  type Lease,
  leastUnits,
  retire,
  returned,
  type Slice,
  sliceMs,
  sliceOf,
  spareOf,
  spentFrom,
  telling,
  undecidedMs,
  unreturned,
  wantedUnits,
} from "./lease.ts";
import type { WaitUntil, ObjectCaller } from "./object-caller.ts";
import type { Outcome, Spend } from "./outcome.ts";
import { objectLocation } from "./object-location.ts";
import type {
  CheckCall,
  LeaseReply,
  ReturnReply,
  SliceReturned,
  SliceWanted,
  CheckReply,
} from "../protocol.ts";
import { BoundedMap } from "../bounded-map.ts";

/** Bound the memory of an isolate. What a lease that has to go has left of its slices goes back at once. */
const mostKeys = 1_024;
const mostOfKey = 16;
const mostBytes = 4_000_000;
/** About what a lease takes, and what each limit adds to it with its decision. */
const bytesOfLease = 1_000;
const bytesOfLimit = 400;

const returnTimeoutMs = 1_000;

/** What was spent from a slice. */
export interface Borrowed {
  readonly outcomes: readonly Outcome[];
  /** Ends the provisional time of the spend, if it has one. */
  readonly confirm: () => void;
  /** Gives it back, as far as the object has not booked it. @returns what it has, and to which instants */
  readonly giveBack: () => Promise<readonly Spent[]>;
}

const bytesOf = (leases: readonly Lease[]): number =>
  leases.reduce(
    (sum, { asked }) =>
      asked.reduce((bytes, { limits }) => bytes + limits.length * bytesOfLimit, sum + bytesOfLease),
    0,
  );

export class Leases {
  readonly #calls: ObjectCaller;
  readonly #clock: Clock;
  /** The leases of a key, the one used last first. */
  readonly #ofKeys = new BoundedMap<readonly Lease[]>(mostKeys, { mostBytes, bytesOf });

  constructor(calls: ObjectCaller, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  /**
   * Spends from what is borrowed; null when the object has to be asked.
   * @param isProvisional whether a later object may still deny the request
   */
  spend(group: readonly Spend[], waitUntil: WaitUntil, isProvisional = false): Borrowed | null {
    const lease = this.#leaseOf(group, waitUntil);
    const cost = costOf(group);
    const nowMs = this.#clock.now();
    demanded(lease.demand, cost, nowMs);
    retire(lease, nowMs);
    const slice = lease.slices.find(({ units, used }) => units - used >= cost);
    if (slice === undefined) return null;
    slice.used += cost;
    let provisional = isProvisional ? cost : 0;
    slice.provisional += provisional;
    const endProvisional = (): void => {
      slice.provisional -= provisional;
      provisional = 0;
    };
    if (isLow(lease, nowMs) && !isAsking(lease, group, nowMs)) {
      waitUntil(this.#refill(lease, group, waitUntil));
    }
    const { told, toldAtMs } = lease;
    const spareUnits = spareOf(lease);
    const outcomes = group.flatMap(({ policy }, index): Outcome[] => {
      const decision = told[index];
      if (decision === undefined) return [];
      const spent = spentFrom(decision, cost, spareUnits, nowMs - toldAtMs);
      return [{ kind: "decided", policy, decision: spent }];
    });
    return {
      outcomes,
      confirm: () => {
        endProvisional();
        const isLeftOver = lease.ended.includes(slice) && slice.used < slice.units;
        if (isLeftOver) waitUntil(this.#returnEnded(lease));
      },
      giveBack: () => {
        endProvisional();
        return this.#giveBack(lease, slice, group);
      },
    };
  }

  async #giveBack(lease: Lease, slice: Slice, group: readonly Spend[]): Promise<readonly Spent[]> {
    const isKnown = slice.told !== null;
    if (!isKnown) {
      slice.used -= costOf(group);
      // Nobody else may come to return it.
      if (!lease.slices.includes(slice)) await this.#returnEnded(lease);
      // Where it is returned too late the object has booked all of it.
      await slice.returned.promise;
    }
    const settled = await slice.told;
    if (settled === null || slice.isUnsure) return [];
    return group.flatMap((spend): Spent[] => {
      const bookedAtMs = instantOf(settled, spend);
      if (bookedAtMs !== null && !isKnown) return [];
      const spentAtMs = bookedAtMs ?? instantOf(slice.ends, spend);
      return spentAtMs === null ? [] : [{ spend, spentAtMs }];
    });
  }

  forget(partitionKey: string): void {
    this.#ofKeys.delete(partitionKey);
  }

  /**
   * Asks the object to decide, and for a slice if that is worth it; nothing is borrowed twice at once.
   * @param provisionalMs for how long what it spends may be given back by law 10; 0 when it is spent for good
   * @param settle what is to be done about what it spends too late to be waited for
   * @returns what it decided; null where it gave no answer in time
   */
  async ask(
    group: readonly Spend[],
    waitUntil: WaitUntil,
    provisionalMs = 0,
    settle: (reply: CheckReply) => unknown = () => undefined,
  ): Promise<LeaseReply | null> {
    const lease = this.#leaseOf(group, waitUntil);
    const nowMs = this.#clock.now();
    const units = isAsking(lease, group, nowMs) ? 0 : wantedUnits(lease.demand);
    const wanted = units < leastUnits ? null : sliceOf(units);
    return this.#call(lease, callOf(group, provisionalMs), group, wanted, waitUntil, settle);
  }

  async #refill(lease: Lease, group: readonly Spend[], waitUntil: WaitUntil): Promise<void> {
    const looks = group.map((spend) => ({ ...spend, cost: 0 }));
    const units = Math.max(leastUnits, wantedUnits(lease.demand));
    await this.#call(lease, callOf(looks), looks, sliceOf(units), waitUntil, () => undefined);
  }

  async #call(
    lease: Lease,
    check: CheckCall,
    group: readonly Spend[],
    wanted: SliceWanted | null,
    waitUntil: WaitUntil,
    settle: (reply: CheckReply) => unknown,
  ): Promise<LeaseReply | null> {
    const askedAtMs = this.#clock.now();
    dropOld(lease, askedAtMs);
    const ended = lease.ended.filter((slice) => isReturnable(slice, askedAtMs));
    if (wanted !== null) lease.askedAtMs = askedAtMs;
    const call = { ...check, wanted, returned: ended.map(returned) };
    const answer = await this.#calls.call<LeaseReply>({
      name: "lease",
      location: lease.location,
      policies: group.map(({ policy }) => policy.name),
      timeoutMs: timeoutOf(group),
      ask: (stub) => telling(ended, stub.lease(call)),
      late: {
        waitUntil,
        // The slice's time is running while the rest is put right.
        settle: (reply) => {
          const unused = wanted === null ? [] : [{ id: wanted.id, used: 0 }];
          return Promise.all([settle(reply), this.#return(lease, unused, [])]);
        },
      },
    });
    if (wanted !== null && lease.askedAtMs === askedAtMs) lease.askedAtMs = null;
    if (answer === null) return null;
    lease.ended = lease.ended.filter((slice) => !ended.includes(slice));
    if (wanted !== null && answer.lentUnits > 0) {
      lease.told = answer.decisions;
      lease.toldAtMs = this.#clock.now();
      const endsAtMs = askedAtMs + sliceMs;
      const ends = group.map(({ policy }, index) => ({
        policy: policy.name,
        atMs: (answer.spentAtMs[index] ?? 0) + heldMs,
      }));
      const { id } = wanted;
      lease.slices.push({ id, units: answer.lentUnits, used: 0, endsAtMs, ends, ...unreturned() });
      waitUntil(this.#returnAt(lease, endsAtMs));
    }
    return answer;
  }

  /** What is left when the time is up goes back at once; what is all spent can wait for the next call. */
  async #returnAt(lease: Lease, endsAtMs: number): Promise<void> {
    await sleep(this.#clock, Math.max(0, endsAtMs - this.#clock.now()));
    retire(lease, this.#clock.now());
    if (lease.ended.some(({ provisional }) => provisional > 0)) {
      await sleep(this.#clock, undecidedMs);
    }
    const hasMore = lease.ended.some(({ told, units, used }) => told === null && used < units);
    if (hasMore) await this.#returnEnded(lease);
  }

  async #returnEnded(lease: Lease): Promise<void> {
    dropOld(lease, this.#clock.now());
    const ended = lease.ended.filter((slice) => isReturnable(slice, this.#clock.now()));
    lease.ended = lease.ended.filter((slice) => !ended.includes(slice));
    await this.#return(lease, ended.map(returned), ended);
  }

  /** @param told the slices that are returned, as far as they are known */
  async #return(
    lease: Lease,
    slices: readonly SliceReturned[],
    told: readonly Slice[],
  ): Promise<void> {
    if (slices.length === 0) return;
    await this.#calls.call<ReturnReply>({
      name: "return",
      location: lease.location,
      policies: lease.asked.map(({ policy }) => policy),
      timeoutMs: returnTimeoutMs,
      isRepeatable: true,
      ask: (stub) => telling(told, stub.giveBackSlices({ key: lease.key, returned: slices })),
    });
  }

  #leaseOf(group: readonly Spend[], waitUntil: WaitUntil): Lease {
    const [first] = group;
    if (first === undefined) throw new RangeError("nothing is to be spent");
    const { partitionKey, policy } = first;
    const leases = this.#ofKeys.get(partitionKey) ?? [];
    const known = leases.find(({ asked }) => isOf(asked, group));
    if (known !== undefined && known === leases[0]) {
      this.#ofKeys.set(partitionKey, leases);
      return known;
    }
    const lease = known ?? {
      key: partitionKey,
      location: objectLocation(policy.objects, partitionKey),
      asked: group.map(askedOf),
      told: [],
      toldAtMs: 0,
      slices: [],
      ended: [],
      askedAtMs: null,
      seenMs: 0,
      demand: { beganAtMs: this.#clock.now(), before: 0, units: 0 },
    };
    const all = [lease, ...leases.filter((each) => each !== lease)];
    const gone = this.#ofKeys.set(partitionKey, all.slice(0, mostOfKey)).flat();
    for (const each of [...all.slice(mostOfKey), ...gone]) this.#end(each, waitUntil);
    return lease;
  }

  /** Spends no more from a lease that has to go. */
  #end(lease: Lease, waitUntil: WaitUntil): void {
    lease.ended.push(...lease.slices);
    lease.slices = [];
    if (lease.ended.length > 0) waitUntil(this.#returnEnded(lease));
  }
}
