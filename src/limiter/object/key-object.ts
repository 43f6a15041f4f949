/**
 * The object's half of every call, without the platform. durable-object.ts passes the calls on, and decide.ts decides the
 * charges of one key.
 *
 * A call on a key is one turn: read the clock, load the key's state from memory or storage, end its slices, act, write what
 * changed, keep the state in memory. A turn never waits, so that concurrent requests are decided one after the other.
 */
import type { Durability } from "../../policy/policy.ts";
import type { RulesVersion } from "../../policy/runtime-rules.ts";
import { errorText, report } from "../../observability/events.ts";
import { provisionalTtlMs } from "../../strategies/index.ts";
import { KeyState } from "./key-state.ts";
import type { Clock } from "../clock.ts";
import {
  type KeyTurn,
  type RuledCharge,
  type TtlOf,
  decide,
  isAdmitted,
  lend,
  lookAt,
  reserve,
  ruledCharges,
  withSliceWaits,
} from "./decide.ts";
import { type FlatList, answerChecks } from "../flat-calls.ts";
import { internedCharge } from "../interned.ts";
import { decidingRule, limitsUnder } from "./runtime-key-rules.ts";
import { SeenPolicyRules } from "./seen-policy-rules.ts";
import { type IsolateBudget, KeyCache, WriteBehind, isolateBudget } from "./key-cache.ts";
import { KeyStorage, type RowStorage } from "./key-storage.ts";
import {
  type Charge,
  type CheckCall,
  type CheckReply,
  type ExplainReply,
  type ExplainedCharge,
  type ForgetCall,
  type KeyCall,
  type KeyRule,
  type KeySync,
  type LeaseCall,
  type LeaseReply,
  type RefundCall,
  type RenewCall,
  type RenewReply,
  type ReserveCall,
  type ReserveReply,
  type ReturnCall,
  type ReturnReply,
  type SetRulesReply,
  type SettleCall,
  type SettleReply,
  type SettledCharge,
  type SyncCall,
  type SyncReply,
  mostKeyRules,
} from "../protocol.ts";
import { isForgotten } from "./reservations.ts";

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

export class KeyObject {
  readonly #now: () => number;
  readonly #storage: KeyStorage;
  readonly #cache: KeyCache;
  readonly #writeBehind: WriteBehind;
  readonly #seenRules = new SeenPolicyRules();

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
      const stale = this.#staleReply(turn, call.charges);
      if (stale !== null) return stale;
      const reply = decide(turn, call.charges, provisionalTtlOf(call));
      noteProvisional(turn, call, reply);
      return withSliceWaits(turn, call.charges, reply);
    });
  }

  /** Checks, and lends units of what remains. A slice is confirmed in storage before it is handed out. */
  lease(call: LeaseCall): LeaseReply {
    const { charges, wanted, returned = [] } = call;
    return this.#turn(call, (turn) => {
      const settled = returned.map((each) => turn.keyState.settleSlice(each, turn.nowMs));
      const stale = this.#staleReply(turn, charges);
      if (stale !== null) return { ...stale, lentUnits: 0, settled };
      const reply = hasCost(charges) ? decide(turn, charges, provisionalTtlOf(call)) : lookAt(turn, charges);
      noteProvisional(turn, call, reply);
      const lentUnits = wanted === null ? 0 : lend(turn, charges, reply, wanted);
      if (lentUnits > 0) turn.durability = "confirmed";
      return { ...withSliceWaits(turn, charges, reply), lentUnits, settled };
    });
  }

  /** Settles slices that the isolate does not spend from any more. */
  giveBackSlices({ key, returned }: ReturnCall): ReturnReply {
    return this.#turn({ key }, ({ keyState, nowMs }) => ({
      settled: returned.map((each) => keyState.settleSlice(each, nowMs)),
    }));
  }

  /**
   * Decides independent checks in their order. Checks and replies have the flat form of flat-calls.ts.
   * @returns one reply for each check
   */
  decide(texts: readonly string[], checks: FlatList): FlatList {
    return answerChecks({ texts, checks }, internedCharge, (call, isLook) =>
      isLook ? this.look(call) : this.check(call),
    );
  }

  /** Returns what `check` would decide for each charge alone. Spends nothing. */
  look({ key, charges }: CheckCall): CheckReply {
    const turn: Turn = { ...this.#begin(key), durability: undefined };
    const reply = this.#staleReply(turn, charges) ?? withSliceWaits(turn, charges, lookAt(turn, charges));
    // Only newer policy rules make a look write.
    if (turn.durability === "confirmed") this.#write(turn);
    this.#remember(turn);
    return reply;
  }

  /** Returns everything that decides a call on the key. Changes nothing. */
  explain({ key, charges }: CheckCall): ExplainReply {
    const turn = this.#begin(key);
    const stale = this.#seenRules.staleOf(charges);
    const reply =
      stale.length > 0 ? { decisions: [], spentAtMs: [], stale } : withSliceWaits(turn, charges, lookAt(turn, charges));
    this.#remember(turn);
    const all = ruledCharges(turn, charges);
    return { atMs: turn.nowMs, reply, charges: all.map((each) => explained(turn, each)) };
  }

  /** Gives back what a `check` spent, because another object denied the same request. */
  refund(call: RefundCall): void {
    const { charges, provisionalMs = 0, hasLimitsInEffect = false } = call;
    this.#turn(call, ({ keyState, nowMs }) => {
      for (const charge of charges) {
        const { policy, cost, spentAtMs } = charge;
        // A key rule allowed the charge, which spent nothing.
        if (spentAtMs === 0) continue;
        const rules = hasLimitsInEffect ? [] : keyState.rulesOf(policy);
        const limits = limitsUnder(rules, charge.limits);
        const meter = keyState.meterOf({ policy, limits });
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
    return this.#turn(call, (turn) => {
      const stale = this.#staleReply(turn, call.charges);
      return stale === null ? reserve(turn, call) : { ...stale, isOpen: false, fullForMs: 0 };
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
      const snapshots = charges.map(({ policy, ...charge }) => {
        const limits = limitsUnder(keyState.rulesOf(policy), charge.limits);
        const meter = keyState.meterOf({ policy, limits });
        for (const [agoMs, units] of isNew ? charge.spends : []) {
          meter.book(units, Math.max(0, nowMs - agoMs), nowMs);
        }
        return JSON.stringify(meter.snapshot());
      });
      const keyRules = charges.map(({ policy }) => decidingRule(keyState.rulesOf(policy), false));
      const hasRules = keyRules.some((rule) => rule !== null);
      return { snapshots, atMs: nowMs, ...(hasRules && { keyRules }) };
    });
  }

  /** Keeps a reservation open, and its slots held, for its ttl from now. */
  renew({ key, id }: RenewCall): RenewReply {
    return this.#turn({ key }, ({ keyState, nowMs }) => ({
      isOpen: keyState.renewReservation(id, nowMs),
    }));
  }

  /** Ends a reservation and corrects it to its actual cost. */
  settle({ key, id, cost, costs, wantsCharges = false }: SettleCall): SettleReply {
    return this.#turn({ key }, (turn) => {
      const { keyState, nowMs } = turn;
      const reservation = keyState.takeReservation(id, nowMs);
      if (reservation === null) return { settled: false };
      const { ttlMs, isConfirmed, parts } = reservation;
      const charges: SettledCharge[] = [];
      for (const [index, charge] of parts.entries()) {
        if (isForgotten(charge)) continue;
        const actualCost = costs?.[index] ?? cost;
        const meter = keyState.meterOf(charge);
        meter.settle({ ...charge, actualCost, ttlMs }, nowMs);
        const { policy, spentAtMs } = charge;
        const settledAtMs = Math.max(nowMs, meter.seenMs);
        charges.push({ policy, cost: charge.cost, actualCost, spentAtMs, settledAtMs });
      }
      if (isConfirmed) turn.durability = "confirmed";
      return wantsCharges ? { settled: true, charges } : { settled: true };
    });
  }

  forget({ key, policy }: ForgetCall): void {
    this.#turn({ key, durability: "confirmed" }, ({ keyState }) => keyState.forget(policy));
  }

  /**
   * Replaces the key rules of a policy, the newest first, unless the key has newer ones.
   * @throws RangeError for more than `mostKeyRules`
   */
  setRules(key: string, policy: string, rules: readonly KeyRule[], version: RulesVersion): SetRulesReply {
    if (rules.length > mostKeyRules) {
      throw new RangeError(`a key has at most ${mostKeyRules} rules of a policy, not ${rules.length}`);
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
    const keyState = this.#cache.get(key) ?? this.#read(key) ?? new KeyState(key, nowMs);
    keyState.endSlices(nowMs);
    keyState.endRules(nowMs);
    return { keyState, nowMs };
  }

  #read(key: string): KeyState | null {
    const keyState = this.#storage.read(key);
    for (const [policy, rules] of keyState?.policyRules ?? []) this.#seenRules.note(policy, rules);
    return keyState;
  }

  /**
   * Compares the policy rules of the charges with the newest that are known, and notes newer ones.
   * @returns the reply to a call under older rules, which is not decided; null for other calls
   */
  #staleReply(turn: Turn, charges: readonly Charge[]): CheckReply | null {
    const stale = this.#seenRules.staleOf(charges);
    if (stale.length > 0) return { decisions: [], spentAtMs: [], stale };
    for (const { policy, rules } of charges) {
      if (rules === undefined) continue;
      const newest = this.#seenRules.note(policy, rules);
      // Without a confirmed write, a restarted object would decide calls under the older rules of its row.
      if (turn.keyState.notePolicyRules(policy, newest, turn.nowMs)) turn.durability = "confirmed";
    }
    return null;
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

const bytesOf = ({ snapshots }: SyncReply): number => snapshots.reduce((sum, { length }) => sum + length, 0);

const hasCost = (charges: readonly Charge[]): boolean => charges.some(({ cost }) => cost > 0);

/** A provisional spend keeps the data of a reservation, so that `refund` can undo it by law 10. */
const provisionalTtlOf = ({ provisionalMs = 0 }: CheckCall): TtlOf =>
  provisionalMs === 0 ? () => null : (limits) => provisionalTtlMs(limits, provisionalMs);

function noteProvisional(
  { keyState, nowMs }: KeyTurn,
  { charges, provisionalMs = 0 }: CheckCall,
  reply: CheckReply,
): void {
  if (isAdmitted(charges, reply)) keyState.noteProvisional(nowMs, provisionalMs);
}

function explained(
  { keyState, nowMs }: KeyTurn,
  { charge: { policy }, limits, meter, heldUnits, bannedForMs, rules }: RuledCharge,
): ExplainedCharge {
  const policyRules = keyState.policyRules.get(policy);
  return {
    policy,
    limits,
    accounts: meter.account(nowMs, heldUnits),
    bannedForMs,
    keyRules: rules,
    keyRulesVersion: keyState.rulesVersionOf(policy),
    policyRulesVersion: policyRules === undefined ? null : { epoch: policyRules.epoch, version: policyRules.version },
    slices: keyState.slicesOf(policy),
    reservations: keyState.reservationsOf(policy, nowMs),
  };
}
