/**
 * The object's half of every call, without the platform. rate-limiter.ts passes the calls on, and decide.ts decides the
 * charges of one key.
 *
 * A call on a key is one turn: read the clock, load the key's state from memory or storage, end its slices, act, write what
 * changed, keep the state in memory. A turn never waits, so that concurrent requests are decided one after the other.
 */
import type { Durability, RulesVersion } from "../../config/index.ts";
import { errorText, report } from "../../observability/events.ts";
import { KeyState } from "./key-state.ts";
import type { Clock } from "../clock.ts";
import { decide, type KeyTurn, lookAt, type TtlOf, withSliceWaits } from "./decide.ts";
import { KeyCache } from "./key-cache.ts";
import { type IsolateBudget, isolateBudget } from "./isolate-budget.ts";
import { KeyStorage, type RowStorage } from "./key-storage.ts";
import {
  type BatchCall,
  type Charge,
  type CheckCall,
  type CheckReply,
  type ForgetCall,
  type KeyCall,
  type KeyRule,
  type KeySync,
  type LeaseCall,
  type LeaseReply,
  mostKeyRules,
  provisionalTtlMs,
  type RefundCall,
  type RenewCall,
  type RenewReply,
  type ReserveCall,
  type ReserveReply,
  type ReturnCall,
  type ReturnReply,
  type SettleCall,
  type SetRulesReply,
  type SettleReply,
  type SliceWanted,
  type SyncCall,
  type SyncReply,
} from "../protocol.ts";
import { isForgotten } from "./reservations.ts";
import { WriteBehind } from "./write-behind.ts";

/** The parts of the platform that the limiter needs. */
export interface Platform extends Clock {
  readonly storage: RowStorage;
  /** Shared by all objects of an isolate. Default: that of this isolate. */
  readonly isolate?: IsolateBudget;
}

interface Turn extends KeyTurn {
  /** The turn may set `confirmed`: the platform then holds the reply until the write is confirmed. */
  durability: Durability | undefined;
}

/** The platform limits the reply of a call to 32 MiB. */
const mostReplyBytes = 8 * 2 ** 20;

/** A slice gets at most this part of what remains. Near the limit nothing is lent, and every request calls the object. */
const lentPart = 8;

export class Limiter {
  readonly #now: () => number;
  readonly #storage: KeyStorage;
  readonly #cache: KeyCache;
  readonly #writeBehind: WriteBehind;

  constructor({ storage, now, after, isolate = isolateBudget }: Platform) {
    this.#now = now;
    this.#cache = new KeyCache(isolate);
    this.#storage = new KeyStorage(storage);
    this.#writeBehind = new WriteBehind(now, after, (keys, nowMs) => {
      this.#storage.write(keys, nowMs, "unconfirmed");
    });
  }

  /** An estimate of the memory that the keys take, in bytes. */
  get cachedBytes(): number {
    return this.#cache.sizeBytes;
  }

  /** Spends every charge if all enforced policies allow theirs; otherwise none. */
  check(call: CheckCall): CheckReply {
    return this.#turn(call, (turn) => {
      const reply = decide(turn, call.charges, provisionalTtlOf(call));
      noteProvisional(turn, call, reply);
      return replyOf(turn, call, reply);
    });
  }

  /** Checks, and lends units of what remains. A slice is confirmed in storage before it is handed out. */
  lease(call: LeaseCall): LeaseReply {
    const { charges, wanted, returned = [] } = call;
    return this.#turn(call, (turn) => {
      const settled = returned.map((each) => turn.keyState.settleSlice(each, turn.nowMs));
      const reply = hasCost(charges)
        ? decide(turn, charges, provisionalTtlOf(call))
        : lookAt(turn, charges);
      noteProvisional(turn, call, reply);
      const lentUnits = wanted === null ? 0 : lend(turn, charges, reply, wanted);
      if (lentUnits > 0) turn.durability = "confirmed";
      return { ...replyOf(turn, call, reply), lentUnits, settled };
    });
  }

  /** Settles slices that the isolate does not spend from any more. */
  giveBackSlices({ key, returned }: ReturnCall): ReturnReply {
    return this.#turn({ key }, ({ keyState, nowMs }) => ({
      settled: returned.map((each) => keyState.settleSlice(each, nowMs)),
    }));
  }

  batch({ calls }: BatchCall): CheckReply[] {
    return calls.map((call) => (hasCost(call.charges) ? this.check(call) : this.look(call)));
  }

  /** Returns what `check` would decide for each charge alone. Changes nothing. */
  look({ key, charges }: CheckCall): CheckReply {
    const turn = this.#begin(key);
    const reply = withSliceWaits(turn, charges, lookAt(turn, charges));
    this.#remember(turn);
    return reply;
  }

  /** Gives back what a `check` spent, because another object denied the same request. */
  refund({ key, charges, durability, provisionalMs = 0 }: RefundCall): void {
    this.#turn({ key, durability }, ({ keyState, nowMs }) => {
      for (const charge of charges) {
        const { cost, spentAtMs, limits } = charge;
        const meter = keyState.meterOf(charge);
        if (provisionalMs === 0) meter.refund(cost, spentAtMs, nowMs);
        else {
          const ttlMs = provisionalTtlMs(limits, provisionalMs);
          meter.settle({ cost, actualCost: 0, spentAtMs, ttlMs }, nowMs);
        }
      }
    });
  }

  /** Spends as `check` does, and opens a reservation so that `settle` can correct the cost. */
  reserve(call: ReserveCall): ReserveReply {
    const { charges, id, ttlMs, isDryRun = false } = call;
    return this.#turn(call, (turn) => {
      const { keyState, nowMs } = turn;
      const fullForMs = keyState.fullForMs(charges, isDryRun, nowMs);
      if (fullForMs > 0) {
        const reply = withSliceWaits(turn, charges, lookAt(turn, charges));
        return { ...reply, isOpen: false, fullForMs };
      }
      const reply = decide(turn, charges, () => ttlMs);
      const { decisions } = reply;
      const isSpent = isAdmitted(charges, reply);
      const parts = charges.flatMap(({ policy, cost }, index) => {
        if (!isSpent || decisions[index]?.allowed !== true) return [];
        const spentAtMs = reply.spentAtMs[index] ?? nowMs;
        const limits = keyState.limitsOf(policy);
        return { policy, limits, cost, spentAtMs, heldAtMs: spentAtMs };
      });
      const isOpen = parts.length > 0;
      if (isOpen) {
        const expiresAtMs = Math.max(nowMs, ...reply.spentAtMs) + ttlMs;
        const isConfirmed = turn.durability === "confirmed";
        keyState.openReservation({ id, ttlMs, expiresAtMs, isConfirmed, isDryRun, parts });
      }
      return { ...replyOf(turn, call, reply), isOpen, fullForMs: 0 };
    });
  }

  /**
   * Books what an isolate spent by itself, and returns snapshots of the meters. Stops before the reply is too large, and
   * before a key that throws: the isolate sends the remaining keys again, beginning with that one.
   */
  sync({ isolate, others = [], ...first }: SyncCall): SyncReply {
    const reply = this.#syncKey(isolate, first);
    const otherReplies: SyncReply[] = [];
    let replyBytes = bytesOf(reply);
    for (const each of others) {
      if (replyBytes > mostReplyBytes) break;
      try {
        const next = this.#syncKey(isolate, each);
        replyBytes += bytesOf(next);
        otherReplies.push(next);
      } catch {
        break;
      }
    }
    return { ...reply, others: otherReplies };
  }

  #syncKey(isolate: string, { key, batch, charges, durability }: KeySync): SyncReply {
    return this.#turn({ key, durability }, ({ keyState, nowMs }) => {
      const isNew = batch > 0 && keyState.noteBatch(isolate, batch, nowMs);
      const snapshots = charges.map((charge) => {
        const meter = keyState.meterOf(charge);
        for (const [agoMs, units] of isNew ? charge.spends : []) {
          meter.book(units, Math.max(0, nowMs - agoMs), nowMs);
        }
        return JSON.stringify(meter.snapshot());
      });
      return { snapshots, atMs: nowMs };
    });
  }

  /** Keeps a reservation open, and its slots held, for its ttl from now. */
  renew({ key, id }: RenewCall): RenewReply {
    return this.#turn({ key }, ({ keyState, nowMs }) => ({
      isOpen: keyState.renewReservation(id, nowMs),
    }));
  }

  /** Ends a reservation and corrects it to its actual cost. */
  settle({ key, id, cost, costs }: SettleCall): SettleReply {
    return this.#turn({ key }, (turn) => {
      const { keyState, nowMs } = turn;
      const reservation = keyState.takeReservation(id, nowMs);
      if (reservation === null) return { settled: false };
      const { ttlMs, isConfirmed, parts } = reservation;
      for (const [index, charge] of parts.entries()) {
        if (isForgotten(charge)) continue;
        const actualCost = costs?.[index] ?? cost;
        keyState.meterOf(charge).settle({ ...charge, actualCost, ttlMs }, nowMs);
      }
      if (isConfirmed) turn.durability = "confirmed";
      return { settled: true };
    });
  }

  forget({ key, policy }: ForgetCall): void {
    this.#turn({ key, durability: "confirmed" }, ({ keyState }) => keyState.forget(policy));
  }

  /**
   * Replaces the key rules of a policy, the newest first, unless the key has newer ones.
   * @throws RangeError for more than `mostKeyRules`
   */
  setRules(
    key: string,
    policy: string,
    rules: readonly KeyRule[],
    version: RulesVersion,
  ): SetRulesReply {
    if (rules.length > mostKeyRules) {
      throw new RangeError(
        `a key has at most ${mostKeyRules} rules of a policy, not ${rules.length}`,
      );
    }
    return this.#turn({ key, durability: "confirmed" }, ({ keyState, nowMs }) => {
      keyState.setRules(policy, rules, version, nowMs);
      return { version: keyState.rulesVersionOf(policy) ?? version };
    });
  }

  /** Deletes the rows of all idle keys. Safe to call early, late or twice. */
  async alarm(): Promise<void> {
    const nowMs = this.#now();
    try {
      // The sweep judges keys by their rows, so changes that are not written yet must be written first.
      this.#writeBehind.flush(nowMs);
      const swept = new Set(this.#storage.sweep(nowMs));
      for (const keyState of this.#cache.keys()) {
        if (keyState.idleAtMs(nowMs) <= nowMs) this.#cache.drop(keyState.key);
        else if (swept.has(keyState.key)) keyState.stored = null;
      }
    } catch (error) {
      // The platform retries a failed alarm at most six times, and then never calls it again.
      report({ event: "sweep-failed", error: errorText(error) });
      await this.#storage.postpone(nowMs);
    }
  }

  #turn<Reply>({ key, durability }: KeyCall, act: (turn: Turn) => Reply): Reply {
    const turn: Turn = { ...this.#begin(key), durability };
    const { changes } = turn.keyState;
    const reply = act(turn);
    turn.keyState.followClock();
    // A denial changes nothing, and so writes no row.
    if (turn.keyState.changes !== changes) this.#write(turn);
    this.#remember(turn);
    return reply;
  }

  /** Reads the clock, loads the state of a key, and ends its slices. */
  #begin(key: string): KeyTurn {
    const nowMs = this.#now();
    const keyState = this.#cache.get(key) ?? this.#storage.read(key) ?? new KeyState(key, nowMs);
    keyState.endSlices(nowMs);
    keyState.endRules(nowMs);
    return { keyState, nowMs };
  }

  #write({ keyState, nowMs, durability }: Turn): void {
    if (durability === "confirmed") {
      this.#writeBehind.drop(keyState);
      this.#storage.write([keyState], nowMs, "confirmed");
    } else if (keyState.outlastsMemory(nowMs)) {
      this.#writeBehind.note(keyState, nowMs);
    }
  }

  /** Keeps the state in memory. States that are evicted for it are written, unless they are idle or already written. */
  #remember({ keyState, nowMs }: KeyTurn): void {
    // Reads of unknown keys must not evict cached ones.
    if (keyState.stored === null && keyState.idleAtMs(nowMs) <= nowMs) {
      this.#writeBehind.drop(keyState);
      this.#cache.drop(keyState.key);
      return;
    }
    const evicted = this.#cache.keep(keyState, nowMs);
    if (evicted.length === 0) return;
    for (const each of evicted) this.#writeBehind.drop(each);
    const unwritten = evicted.filter((each) => each.isUnwritten);
    if (unwritten.length > 0) this.#storage.write(unwritten, nowMs, "unconfirmed");
  }
}

const bytesOf = ({ snapshots }: SyncReply): number =>
  snapshots.reduce((sum, { length }) => sum + length, 0);

const hasCost = (charges: readonly Charge[]): boolean => charges.some(({ cost }) => cost > 0);

const isAdmitted = (charges: readonly Charge[], { decisions }: CheckReply): boolean =>
  decisions.every(({ allowed }, index) => allowed || charges[index]?.isDryRun === true);

/** A provisional spend keeps the data of a reservation, so that `refund` can undo it by law 10. */
const provisionalTtlOf = ({ provisionalMs = 0 }: CheckCall): TtlOf =>
  provisionalMs === 0 ? () => null : ({ limits }) => provisionalTtlMs(limits, provisionalMs);

function noteProvisional(
  { keyState, nowMs }: KeyTurn,
  { charges, provisionalMs = 0 }: CheckCall,
  reply: CheckReply,
): void {
  if (isAdmitted(charges, reply)) keyState.noteProvisional(nowMs, provisionalMs);
}

/** The reply of a turn that is over except for its write: waits include the open slices. */
function replyOf(turn: KeyTurn, { charges }: CheckCall, reply: CheckReply): CheckReply {
  turn.keyState.followClock();
  return withSliceWaits(turn, charges, reply);
}

/** Opens a slice. Returns the units that each policy lends; 0 when no slice is opened. */
function lend(
  { keyState, nowMs }: KeyTurn,
  charges: readonly Charge[],
  { decisions, spentAtMs }: CheckReply,
  { id, units: wantedUnits, leastUnits = 1, ttlMs }: SliceWanted,
): number {
  const isEnforced = charges.every(({ isDryRun }) => isDryRun !== true);
  if (!isEnforced || !decisions.every(({ allowed }) => allowed)) return 0;
  const remaining = decisions.flatMap(({ limits }) => limits.map((limit) => limit.remaining));
  const units = Math.min(wantedUnits, Math.floor(Math.min(...remaining) / lentPart));
  if (units < leastUnits) return 0;
  const parts = charges.map(({ policy }, index) => ({
    policy,
    limits: keyState.limitsOf(policy),
    endsAtMs: Math.max(nowMs, spentAtMs[index] ?? nowMs) + ttlMs,
  }));
  return keyState.lend({ id, units, ttlMs, parts });
}
