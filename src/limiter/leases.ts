/**
 * Slices of keys' quotas that an isolate has borrowed, and spends by itself: for keys that it is asked for often, and not
 * for long. What it does not spend goes back; what it does is told with the next call.
 */
import type { Decision } from "../strategies/index.ts";
import { type Clock, passed } from "./clock.ts";
import { type Asked, askedOf, callOf, isOf, timeoutOf } from "./group.ts";
import type { Later, ObjectCalls } from "./object-calls.ts";
import { aged, type Outcome, type Spend } from "./outcome.ts";
import { type Place, placeOf } from "./place.ts";
import type { Leased, SliceReturned, SliceWanted, Verdict } from "./protocol.ts";
import { Recent } from "./recent.ts";

/** How long a slice is spent from, counted from when it was asked for. */
const sliceMs = 1_000;
/** For so long the object holds it: what is left has time to go back. */
const heldMs = 2 * sliceMs;
/** Lending is a call and a row: a slice of fewer units costs more than to ask for each. */
const leastUnits = 8;
/** More is asked for before all is spent, and before its time is up. */
const refilledPart = 4;
const refilledMs = 200;

/** Bounds the memory of an isolate; what one that has to go has borrowed goes back when its time is up. */
const mostLeases = 1_024;
const returnTimeoutMs = 1_000;
/** A call that takes so much longer than it may has lost whoever asked. */
const lostAfterMs = 2_000;

interface Slice {
  readonly id: string;
  readonly units: number;
  used: number;
  readonly endsAtMs: number;
}

/** What is borrowed for a set of policies on a key. */
interface Lease {
  readonly place: Place;
  readonly asked: readonly Asked[];
  /** What the object told with the last of the slices, and when the answer was there: its waits suffice. */
  told: readonly Decision[];
  toldAtMs: number;
  slices: Slice[];
  /** Of which nothing more is spent, and the object has not been told what was. */
  ended: Slice[];
  /** When more was asked for, of which there is no answer yet; null when it is not. */
  askedAtMs: number | null;
  seenMs: number;
  readonly demand: Demand;
}

/** Units asked for within the length of a slice: of the last whole one, and of the one that goes on. */
interface Demand {
  beganAtMs: number;
  before: number;
  units: number;
}

export class Leases {
  readonly #calls: ObjectCalls;
  readonly #clock: Clock;
  readonly #ofKeys = new Recent<Lease[]>(mostLeases);

  constructor(calls: ObjectCalls, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  /** Spends from what is borrowed; null when the object has to be asked. */
  spend(group: readonly Spend[], later: Later): Outcome[] | null {
    const lease = this.#leaseOf(group);
    const cost = costOf(group);
    const nowMs = this.#clock.now();
    demanded(lease.demand, cost, nowMs);
    retire(lease, nowMs);
    const slice = lease.slices.find(({ units, used }) => units - used >= cost);
    if (slice === undefined) return null;
    slice.used += cost;
    if (isLow(lease, nowMs) && !isAsking(lease, group, nowMs)) {
      later(this.#refill(lease, group, later));
    }
    const { told, toldAtMs } = lease;
    const spareUnits = spareOf(lease);
    return group.flatMap(({ policy }, index) => {
      const decision = told[index];
      if (decision === undefined) return [];
      return {
        kind: "decided",
        policy,
        decision: spentFrom(decision, cost, spareUnits, nowMs - toldAtMs),
      };
    });
  }

  /** Gives back what was spent, as far as its slice is still at hand. */
  giveBack(group: readonly Spend[]): void {
    const lease = this.#leaseOf(group);
    const cost = costOf(group);
    const slice = [...lease.slices, ...lease.ended].find(({ used }) => used >= cost);
    if (slice === undefined) return;
    slice.used -= cost;
  }

  forget(partitionKey: string): void {
    this.#ofKeys.delete(partitionKey);
  }

  /**
   * Asks the object to decide, and for a slice if that is worth it; nothing is borrowed twice at once.
   * @param settle what is to be done about what it spends too late to be waited for
   * @returns what it decided; null where it gave no answer in time
   */
  async ask(
    group: readonly Spend[],
    later: Later,
    settle: (verdict: Verdict) => unknown = () => undefined,
  ): Promise<Leased | null> {
    const lease = this.#leaseOf(group);
    const nowMs = this.#clock.now();
    const units = isAsking(lease, group, nowMs) ? 0 : wantedUnits(lease.demand);
    const wanted =
      units < leastUnits ? null : { id: crypto.randomUUID(), units, ttlMs: heldMs, leastUnits };
    return this.#call(lease, group, wanted, later, settle);
  }

  async #refill(lease: Lease, group: readonly Spend[], later: Later): Promise<void> {
    const looks = group.map((spend) => ({ ...spend, cost: 0 }));
    const units = Math.max(leastUnits, wantedUnits(lease.demand));
    const wanted = { id: crypto.randomUUID(), units, ttlMs: heldMs, leastUnits };
    await this.#call(lease, looks, wanted, later, () => undefined);
  }

  async #call(
    lease: Lease,
    group: readonly Spend[],
    wanted: SliceWanted | null,
    later: Later,
    settle: (verdict: Verdict) => unknown,
  ): Promise<Leased | null> {
    const askedAtMs = this.#clock.now();
    const ended = lease.ended.filter(({ endsAtMs }) => endsAtMs + heldMs > askedAtMs);
    if (wanted !== null) lease.askedAtMs = askedAtMs;
    const call = { ...callOf(group), wanted, returned: ended.map(returned) };
    const answer = await this.#calls.make<Leased>({
      name: "lease",
      place: lease.place,
      policies: group.map(({ policy }) => policy.name),
      timeoutMs: timeoutOf(group),
      ask: (stub) => stub.lease(call),
      late: {
        later,
        settle: async (verdict) => {
          await settle(verdict);
          if (wanted !== null) await this.#return(lease, call.key, [{ id: wanted.id, used: 0 }]);
        },
      },
    });
    if (wanted !== null && lease.askedAtMs === askedAtMs) lease.askedAtMs = null;
    if (answer === null) return null;
    // What is older has been booked whole.
    lease.ended = lease.ended.filter(
      (slice) => !ended.includes(slice) && slice.endsAtMs + heldMs > askedAtMs,
    );
    if (wanted !== null && answer.lentUnits > 0) {
      lease.told = answer.decisions;
      lease.toldAtMs = this.#clock.now();
      const endsAtMs = askedAtMs + sliceMs;
      lease.slices.push({ id: wanted.id, units: answer.lentUnits, used: 0, endsAtMs });
      later(this.#returnAt(lease, call.key, endsAtMs));
    }
    return answer;
  }

  /** What is left when the time is up goes back at once; what is all spent can wait for the next call. */
  async #returnAt(lease: Lease, key: string, endsAtMs: number): Promise<void> {
    await passed(this.#clock, Math.max(0, endsAtMs - this.#clock.now()));
    retire(lease, this.#clock.now());
    const { ended } = lease;
    if (!ended.some(({ units, used }) => used < units)) return;
    lease.ended = [];
    await this.#return(lease, key, ended.map(returned));
  }

  async #return(lease: Lease, key: string, slices: readonly SliceReturned[]): Promise<void> {
    await this.#calls.make({
      name: "return",
      place: lease.place,
      policies: lease.asked.map(({ policy }) => policy),
      timeoutMs: returnTimeoutMs,
      isRepeatable: true,
      ask: async (stub) => {
        await stub.giveBackSlices({ key, returned: slices });
        return true;
      },
    });
  }

  #leaseOf(group: readonly Spend[]): Lease {
    const [first] = group;
    if (first === undefined) throw new RangeError("nothing is to be spent");
    const { partitionKey, policy } = first;
    const leases = this.#ofKeys.get(partitionKey) ?? [];
    const known = leases.find(({ asked }) => isOf(asked, group));
    if (known !== undefined) {
      this.#ofKeys.set(partitionKey, leases);
      return known;
    }
    const lease: Lease = {
      place: placeOf(policy.objects, partitionKey),
      asked: group.map(askedOf),
      told: [],
      toldAtMs: 0,
      slices: [],
      ended: [],
      askedAtMs: null,
      seenMs: 0,
      demand: { beganAtMs: this.#clock.now(), before: 0, units: 0 },
    };
    this.#ofKeys.set(partitionKey, [lease, ...leases]);
    return lease;
  }
}

/** All have the same: see `isLeased`. */
const costOf = ([first]: readonly Spend[]): number => first?.cost ?? 0;

const isAsking = ({ askedAtMs }: Lease, group: readonly Spend[], nowMs: number): boolean =>
  askedAtMs !== null && nowMs >= askedAtMs && nowMs - askedAtMs < timeoutOf(group) + lostAfterMs;

const returned = ({ id, used }: Slice): SliceReturned => ({ id, used });

function demanded(demand: Demand, units: number, nowMs: number): void {
  const sinceMs = nowMs - demand.beganAtMs;
  if (sinceMs >= sliceMs || sinceMs < 0) {
    demand.before = sinceMs < 2 * sliceMs && sinceMs >= 0 ? demand.units : 0;
    demand.units = 0;
    demand.beganAtMs = nowMs;
  }
  demand.units += units;
}

/** As many as are asked for in the time of a slice, and a quarter more. */
const wantedUnits = ({ before, units }: Demand): number =>
  Math.ceil(1.25 * Math.max(before, units));

/** Nothing is spent from what is over, nor by a clock that has stepped back. */
function retire(lease: Lease, nowMs: number): void {
  const isOver = ({ units, used, endsAtMs }: Slice): boolean =>
    nowMs >= endsAtMs || nowMs < lease.seenMs || used === units;
  lease.seenMs = nowMs;
  if (!lease.slices.some(isOver)) return;
  lease.ended.push(...lease.slices.filter(isOver));
  lease.slices = lease.slices.filter((slice) => !isOver(slice));
}

function isLow({ slices }: Lease, nowMs: number): boolean {
  const borrowed = slices.reduce((sum, { units }) => sum + units, 0);
  const left = slices.reduce((sum, { units, used }) => sum + units - used, 0);
  const endsAtMs = Math.max(...slices.map((slice) => slice.endsAtMs));
  return left * refilledPart <= borrowed || nowMs >= endsAtMs - refilledMs;
}

/**
 * How many more units there are than the object has told: it held all that was lent before, and of the last slice nothing
 * was spent yet.
 */
function spareOf({ slices }: Lease): number {
  const last = slices.at(-1);
  const others = slices.slice(0, -1).reduce((sum, { units, used }) => sum + units - used, 0);
  return others - (last?.used ?? 0);
}

/** As if the slice were booked whole at its end, which the waits that were told are for. */
function spentFrom(told: Decision, cost: number, spareUnits: number, sinceMs: number): Decision {
  const decision = aged({ ...told, cost, allowed: true, retryAfterMs: 0 }, Math.max(0, sinceMs));
  return {
    ...decision,
    limits: decision.limits.map((limit) => ({
      ...limit,
      allowed: true,
      retryAfterMs: 0,
      remaining: Math.min(limit.capacity, Math.max(0, limit.remaining + spareUnits)),
    })),
  };
}
