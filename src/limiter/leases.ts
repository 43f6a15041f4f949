/**
 * Slices of keys' quotas that an isolate has borrowed, and spends by itself: for keys that it is asked for often, and not
 * for long. What it does not spend goes back; what it does is told with the next call.
 */
import type { Decision } from "../strategies/index.ts";
import { type Clock, passed } from "./clock.ts";
import { type Asked, askedOf, callOf, isOf, type Spent, timeoutOf } from "./group.ts";
import type { Later, ObjectCalls } from "./object-calls.ts";
import { aged, type Outcome, type Spend } from "./outcome.ts";
import { type Place, placeOf } from "./place.ts";
import type {
  Leased,
  Returned,
  Settlement,
  SliceReturned,
  SliceWanted,
  Verdict,
} from "./protocol.ts";
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
  /** When its time is up by the object's clock, by policy. */
  readonly ends: Settlement;
  /** What the object makes of it, from when it is told; resolves to null where there is no answer. */
  told: Promise<Settlement | null> | null;
  /** Whether it may have been booked by a call that had no answer: nobody knows to which instant. */
  isUnsure: boolean;
}

/** What was spent from a slice. */
export interface Borrowed {
  readonly outcomes: readonly Outcome[];
  /** Gives it back, as far as the object has not booked it. @returns what it has, and to which instants */
  readonly giveBack: () => Promise<readonly Spent[]>;
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
  spend(group: readonly Spend[], later: Later): Borrowed | null {
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
    const outcomes = group.flatMap(({ policy }, index): Outcome[] => {
      const decision = told[index];
      if (decision === undefined) return [];
      const spent = spentFrom(decision, cost, spareUnits, nowMs - toldAtMs);
      return [{ kind: "decided", policy, decision: spent }];
    });
    return { outcomes, giveBack: () => this.#giveBack(lease, slice, group) };
  }

  async #giveBack(lease: Lease, slice: Slice, group: readonly Spend[]): Promise<readonly Spent[]> {
    const isKnown = slice.told !== null;
    if (!isKnown) {
      slice.used -= costOf(group);
      if (lease.slices.includes(slice)) return [];
      // Nobody else may come to tell it.
      await this.#returnEnded(lease, group[0]?.partitionKey ?? "");
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
    const wanted = units < leastUnits ? null : sliceOf(units);
    return this.#call(lease, group, wanted, later, settle);
  }

  async #refill(lease: Lease, group: readonly Spend[], later: Later): Promise<void> {
    const looks = group.map((spend) => ({ ...spend, cost: 0 }));
    const units = Math.max(leastUnits, wantedUnits(lease.demand));
    await this.#call(lease, looks, sliceOf(units), later, () => undefined);
  }

  async #call(
    lease: Lease,
    group: readonly Spend[],
    wanted: SliceWanted | null,
    later: Later,
    settle: (verdict: Verdict) => unknown,
  ): Promise<Leased | null> {
    const askedAtMs = this.#clock.now();
    dropOld(lease, askedAtMs);
    const ended = lease.ended.filter(isUntold);
    if (wanted !== null) lease.askedAtMs = askedAtMs;
    const call = { ...callOf(group), wanted, returned: ended.map(returned) };
    const answer = await this.#calls.make<Leased>({
      name: "lease",
      place: lease.place,
      policies: group.map(({ policy }) => policy.name),
      timeoutMs: timeoutOf(group),
      ask: (stub) => telling(ended, stub.lease(call)),
      late: {
        later,
        // The slice's time is running while the rest is put right.
        settle: (verdict) => {
          const unused = wanted === null ? [] : [{ id: wanted.id, used: 0 }];
          return Promise.all([settle(verdict), this.#return(lease, call.key, unused, [])]);
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
      lease.slices.push({ id, units: answer.lentUnits, used: 0, endsAtMs, ends, ...untold });
      later(this.#returnAt(lease, call.key, endsAtMs));
    }
    return answer;
  }

  /** What is left when the time is up goes back at once; what is all spent can wait for the next call. */
  async #returnAt(lease: Lease, key: string, endsAtMs: number): Promise<void> {
    await passed(this.#clock, Math.max(0, endsAtMs - this.#clock.now()));
    retire(lease, this.#clock.now());
    const hasMore = lease.ended.some((slice) => isUntold(slice) && slice.used < slice.units);
    if (hasMore) await this.#returnEnded(lease, key);
  }

  async #returnEnded(lease: Lease, key: string): Promise<void> {
    dropOld(lease, this.#clock.now());
    const ended = lease.ended.filter(isUntold);
    lease.ended = lease.ended.filter((slice) => !isUntold(slice));
    await this.#return(lease, key, ended.map(returned), ended);
  }

  /** @param told the slices that are returned, as far as they are known */
  async #return(
    lease: Lease,
    key: string,
    slices: readonly SliceReturned[],
    told: readonly Slice[],
  ): Promise<void> {
    if (slices.length === 0) return;
    await this.#calls.make<Returned>({
      name: "return",
      place: lease.place,
      policies: lease.asked.map(({ policy }) => policy),
      timeoutMs: returnTimeoutMs,
      isRepeatable: true,
      ask: (stub) => telling(told, stub.giveBackSlices({ key, returned: slices })),
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

const untold = { told: null, isUnsure: false } as const;

const isUntold = ({ told }: Slice): boolean => told === null;

/** Each slice is told by one call at a time: of two, the first to arrive would settle it, and the other's answer be taken. */
function telling<Answer extends Returned>(
  slices: readonly Slice[],
  answer: Promise<Answer>,
): Promise<Answer> {
  for (const [index, slice] of slices.entries()) {
    slice.told = answer.then(
      // Objects of an older version do not say.
      (answered) => answered?.settled?.[index] ?? null,
      () => {
        slice.told = null;
        slice.isUnsure = true;
        return null;
      },
    );
  }
  return answer;
}

/** What the object has booked whole by now. */
function dropOld(lease: Lease, nowMs: number): void {
  const isOld = ({ endsAtMs }: Slice): boolean => endsAtMs + heldMs <= nowMs;
  for (const slice of lease.ended.filter(isOld)) slice.told ??= Promise.resolve([]);
  lease.ended = lease.ended.filter((slice) => !isOld(slice));
}

const instantOf = (settled: Settlement, { policy }: Spend): number | null =>
  settled.find((each) => each.policy === policy.name)?.atMs ?? null;

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

const sliceOf = (units: number): SliceWanted => ({
  id: crypto.randomUUID(),
  units,
  ttlMs: heldMs,
  leastUnits,
});

/** Ends slices whose time is up or whose units are used, and all of them when the clock has stepped back. */
function retire(lease: Lease, nowMs: number): void {
  const hasSteppedBack = nowMs < lease.seenMs;
  const isOver = ({ units, used, endsAtMs }: Slice): boolean =>
    nowMs >= endsAtMs || hasSteppedBack || used === units;
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
