/**
 * The object's half of every call, without the platform. durable-object.ts passes the calls on, and decide.ts decides the
 * charges of one key.
 *
 * A call on a key is one turn: read the clock, load the key's state from memory or storage, end its slices, act, write what
 * changed, keep the state in memory. A turn never waits, so that concurrent requests are decided one after the other.
 */
import { compareVersions, type PolicyRules, type RulesVersion } from "../../policy/runtime-rules.ts";
import { errorText, report } from "../../observability/events.ts";
import { provisionalTtlMs } from "../../strategies/index.ts";
import { KeyState } from "./key-state.ts";
import type { Clock } from "../clock.ts";
import { decide, lend, lookAt, noteProvisional, ruledCharges, withSliceWaits } from "./decide.ts";
import { type KeyTurn, stateOf, statesOf } from "./key-turn.ts";
import { childPartsOf, refundParts } from "./bounds.ts";
import { explained } from "./explain.ts";
import { SharedLimits } from "./shared-limits.ts";
import type { ExplainReply } from "../explanation.ts";
import { type FlatList, answerChecks } from "../flat-calls.ts";
import { decidingRule, limitsUnder } from "./runtime-key-rules.ts";
import { type IsolateBudget, KeyCache, WriteBehind, isolateBudget } from "./key-cache.ts";
import { KeyStorage, type RowStorage } from "./key-storage.ts";
import { renew, reserve, settle } from "./reservations.ts";
import type * as calls from "../protocol.ts";
import { type Charge, type CheckReply, type KeyRule, mostKeyRules, type StaleRules } from "../protocol.ts";

/** The parts of the platform that the limiter needs. */
export interface Platform extends Clock {
  readonly storage: RowStorage;
  /** Shared by all objects of an isolate. Default: that of this isolate. */
  readonly isolate?: IsolateBudget;
}

/** The platform limits the reply of a call to 32 MiB. */
const mostReplyBytes = 8 * 2 ** 20;

export class KeyObject {
  readonly #now: () => number;
  readonly #storage: KeyStorage;
  readonly #cache: KeyCache;
  readonly #writeBehind: WriteBehind;
  /**
   * The newest policy rules that the object has seen. Not bounded: policies are named by the configuration, never by a
   * request. A key's row has the rules of each policy of which it stores state.
   */
  readonly #seenRules = new Map<string, PolicyRules>();
  readonly #sharedLimits = new SharedLimits();
  /** Whether states of several keys have been changed in one turn. */
  #hasTrees = false;

  constructor({ storage, isolate = isolateBudget, ...clock }: Platform) {
    this.#now = clock.now;
    this.#cache = new KeyCache(isolate);
    this.#storage = new KeyStorage(storage);
    this.#writeBehind = new WriteBehind(clock, (keys, nowMs) => {
      this.#storage.write(keys, nowMs, "unconfirmed");
    });
  }

  /** An estimate of the memory that the keys take, in bytes. */
  get cachedBytes(): number {
    return this.#cache.sizeBytes;
  }

  /** Spends every charge if all enforced policies allow theirs; otherwise none. */
  check(call: calls.CheckCall): CheckReply {
    return this.#turn(call, (turn) => {
      const stale = this.#staleReply(turn, call.charges);
      if (stale !== null) return stale;
      const reply = decide(turn, call);
      noteProvisional(turn, call, reply);
      return withSliceWaits(turn, call.charges, reply);
    });
  }

  /** Checks, and lends units of what remains. A slice is confirmed in storage before it is handed out. */
  lease(call: calls.LeaseCall): calls.LeaseReply {
    const { charges, wanted, returned = [] } = call;
    return this.#turn(call, (turn) => {
      const settled = returned.map((each) => turn.keyState.settleSlice(each, turn.nowMs));
      const stale = this.#staleReply(turn, charges);
      if (stale !== null) return { ...stale, lentUnits: 0, settled };
      const reply = hasCost(charges) ? decide(turn, call) : lookAt(turn, charges);
      noteProvisional(turn, call, reply);
      const lentUnits = wanted === null ? 0 : lend(turn, charges, reply, wanted);
      if (lentUnits > 0) turn.durability = "confirmed";
      return { ...withSliceWaits(turn, charges, reply), lentUnits, settled };
    });
  }

  /** Settles slices that the isolate does not spend from any more. */
  giveBackSlices({ key, returned }: calls.ReturnCall): calls.ReturnReply {
    return this.#turn({ key }, ({ keyState, nowMs }) => ({
      settled: returned.map((each) => keyState.settleSlice(each, nowMs)),
    }));
  }

  /**
   * Decides independent checks in their order. Checks and replies have the flat form of flat-calls.ts.
   * @returns one reply for each check
   */
  decide(texts: readonly string[], checks: FlatList): FlatList {
    return answerChecks(texts, checks, this.#decideOne);
  }

  /** The same for checks of which some charge several keys. An older object lacks this method and those below. */
  decideTree(texts: readonly string[], keys: readonly string[], checks: FlatList): FlatList {
    return answerChecks(texts, checks, this.#decideOne, keys);
  }

  readonly #decideOne = (call: calls.CheckCall, isLook: boolean): CheckReply =>
    isLook ? this.look(call) : this.check(call);

  reserveTree(call: calls.ReserveCall): calls.ReserveReply {
    return this.reserve(call);
  }

  refundTree(call: calls.RefundCall): void {
    this.refund(call);
  }

  explainTree(call: calls.CheckCall): ExplainReply {
    return this.explain(call);
  }

  /** Returns what `check` would decide for each charge alone. Spends nothing. */
  look({ key, charges }: calls.CheckCall): CheckReply {
    const turn = this.#begin({ key });
    const reply = this.#staleReply(turn, charges) ?? withSliceWaits(turn, charges, lookAt(turn, charges));
    // Only newer policy rules make a look write.
    if (turn.durability === "confirmed") this.#write(turn, statesOf(turn));
    this.#remember(turn);
    return reply;
  }

  /** Returns everything that decides a call on the key. Changes nothing. */
  explain({ key, charges }: calls.CheckCall): ExplainReply {
    const turn = this.#begin({ key });
    const stale = this.#newerRules(turn, charges);
    const reply =
      stale.length > 0 ? { decisions: [], spentAtMs: [], stale } : withSliceWaits(turn, charges, lookAt(turn, charges));
    this.#remember(turn);
    const all = ruledCharges(turn, charges);
    return { atMs: turn.nowMs, reply, charges: all.map((each) => explained(turn, each, all)) };
  }

  /** Gives back what a `check` spent, because another object denied the same request. */
  refund(call: calls.RefundCall): void {
    const { charges, provisionalMs = 0, hasLimitsInEffect = false } = call;
    this.#turn(call, (turn) => {
      const { nowMs } = turn;
      for (const charge of charges) {
        const { policy, cost, spentAtMs, key } = charge;
        // A key rule had allowed the charge, so nothing was spent.
        if (spentAtMs === 0) continue;
        const keyState = stateOf(turn, key);
        const rules = hasLimitsInEffect ? [] : keyState.rulesOf(policy);
        const limits = limitsUnder(rules, charge.limits);
        const meter = keyState.meterOf({ policy, limits });
        const ttlMs = provisionalMs === 0 ? null : provisionalTtlMs(limits, provisionalMs);
        if (ttlMs === null) meter.refund(cost, spentAtMs, nowMs);
        else meter.settle({ cost, actualCost: 0, spentAtMs, ttlMs }, nowMs);
        const spent = { ...charge, limits: meter.limits, heldAtMs: spentAtMs, keyState, meter };
        refundParts(turn, { ...spent, children: childPartsOf(turn, charges, charge, limits) }, cost, ttlMs);
      }
    });
  }

  /** Spends as `check` does, and opens a reservation so that `settle` can correct the cost. */
  reserve(call: calls.ReserveCall): calls.ReserveReply {
    return this.#turn(call, (turn) => {
      const stale = this.#staleReply(turn, call.charges);
      return stale === null ? reserve(turn, call) : { ...stale, isOpen: false, fullForMs: 0 };
    });
  }

  /**
   * Books what an isolate spent by itself, and returns snapshots of the meters. Stops before the reply is too large, and
   * before a key that throws: the isolate sends the remaining keys again, beginning with that one.
   */
  sync({ isolate, others = [], ...first }: calls.SyncCall): calls.SyncReply {
    const reply = this.#syncKey(isolate, first);
    const otherReplies: calls.SyncReply[] = [];
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

  #syncKey(isolate: string, { key, batch, charges, durability }: calls.KeySync): calls.SyncReply {
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
  renew({ key, id }: calls.RenewCall): calls.RenewReply {
    return this.#turn({ key }, (turn) => ({ isOpen: renew(turn, id) }));
  }

  /** Ends a reservation and corrects it to its actual cost. */
  settle(call: calls.SettleCall): calls.SettleReply {
    return this.#turn({ key: call.key }, (turn) => settle(turn, call));
  }

  forget({ key, policy }: calls.ForgetCall): void {
    this.#turn({ key, durability: "confirmed" }, ({ keyState }) => {
      keyState.forget(policy);
      this.#sharedLimits.forget(key, policy);
    });
  }

  /**
   * Replaces the key rules of a policy, the newest first, unless the key has newer ones.
   * @throws RangeError for more than `mostKeyRules`
   */
  setRules(key: string, policy: string, rules: readonly KeyRule[], version: RulesVersion): calls.SetRulesReply {
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
        if (keyState.idleAtMs(nowMs) <= nowMs) this.#drop(keyState);
        else if (swept.has(keyState.key)) keyState.stored = null;
      }
    } catch (error) {
      // The platform retries a failed alarm at most six times, and then never calls it again.
      report({ event: "sweep-failed", error: errorText(error) });
      await this.#storage.postpone(nowMs);
    }
  }

  #turn<Reply>(call: Pick<calls.CheckCall, "key" | "durability">, act: (turn: KeyTurn) => Reply): Reply {
    const turn = this.#begin(call);
    const { keyState } = turn;
    const { changes } = keyState;
    const reply = act(turn);
    keyState.followClock();
    // A denial changes nothing, and so writes no row.
    const changed = keyState.changes === changes ? [] : [keyState];
    if (turn.others !== null) changed.push(...changedOthers(turn.others));
    if (changed.length > 0) this.#write(turn, changed);
    this.#remember(turn);
    return reply;
  }

  /** Reads the clock, loads the state of a key, and ends its slices and rules. */
  #begin({ key, durability }: Pick<calls.CheckCall, "key" | "durability">): KeyTurn {
    const nowMs = this.#now();
    return {
      keyState: this.#load(key, nowMs),
      nowMs,
      durability,
      others: null,
      load: this.#load,
      sharedLimits: this.#sharedLimits,
    };
  }

  readonly #load = (key: string, nowMs: number): KeyState => {
    const keyState = this.#cache.get(key) ?? this.#read(key) ?? new KeyState(key, nowMs);
    keyState.endOver(nowMs);
    return keyState;
  };

  #read(key: string): KeyState | null {
    const keyState = this.#storage.read(key);
    for (const [policy, rules] of keyState?.policyRules ?? []) this.#noteRules(policy, rules);
    return keyState;
  }

  /** Notes the rules of a policy. Returns the newest that are known. */
  #noteRules(policy: string, rules: PolicyRules): PolicyRules {
    const known = this.#seenRules.get(policy);
    if (known !== undefined && compareVersions(rules, known) <= 0) return known;
    this.#seenRules.set(policy, rules);
    return rules;
  }

  /** Notes the rules of all charges. Returns the newer rules of those that are older than known rules. */
  #newerRules(turn: KeyTurn, charges: readonly Charge[]): readonly StaleRules[] {
    const stale: StaleRules[] = [];
    for (const { policy, key, rules } of charges) {
      if (rules === undefined) continue;
      // The row of the key may have newer rules than any call has brought since the object was started.
      stateOf(turn, key);
      const newest = this.#noteRules(policy, rules);
      // Rules with the same text decide alike, so the call is not stale. The next beat brings the newer version.
      if (compareVersions(rules, newest) >= 0 || rules.text === newest.text) continue;
      const { epoch, version, text } = newest;
      stale.push({ policy, epoch, version, text });
    }
    return stale;
  }

  /**
   * Compares the policy rules of the charges with the newest that are known, and notes newer ones.
   * @returns the reply to a call under older rules, which is not decided; null for other calls
   */
  #staleReply(turn: KeyTurn, charges: readonly Charge[]): CheckReply | null {
    const stale = this.#newerRules(turn, charges);
    if (stale.length > 0) return { decisions: [], spentAtMs: [], stale };
    for (const { policy, key, rules } of charges) {
      if (rules === undefined) continue;
      const newest = this.#noteRules(policy, rules);
      // Without a confirmed write, a restarted object would decide calls under the older rules of its row.
      if (stateOf(turn, key).notePolicyRules(policy, newest, turn.nowMs)) turn.durability = "confirmed";
    }
    return null;
  }

  /** Writes the changed states of a turn together: no level of a tree is stored as charged without the others. */
  #write({ nowMs, durability, others }: KeyTurn, changed: readonly KeyState[]): void {
    this.#hasTrees ||= others !== null;
    if (durability === "confirmed") {
      for (const each of changed) this.#writeBehind.drop(each);
      this.#storage.write(changed, nowMs, "confirmed");
      // A state in `changed` may share unwritten turns with other states of its tree.
      if (this.#hasTrees) this.#writeBehind.flush(nowMs);
      return;
    }
    const lasting = changed.filter((each) => each.outlastsMemory(nowMs));
    if (lasting.length > 0) this.#writeBehind.note(lasting, nowMs);
  }

  /** Keeps the states in memory. Those that are evicted for them are written, unless they are idle or already written. */
  #remember(turn: KeyTurn): void {
    this.#keep(turn.keyState, turn.nowMs);
    if (turn.others === null) return;
    for (const other of turn.others.values()) this.#keep(other.keyState, turn.nowMs);
    if (!this.#sharedLimits.isEmpty) this.#sharedLimits.sweep(turn.nowMs);
  }

  #keep(keyState: KeyState, nowMs: number): void {
    // Reads of unknown keys must not evict cached ones.
    if (keyState.stored === null && keyState.idleAtMs(nowMs) <= nowMs) {
      this.#writeBehind.drop(keyState);
      this.#drop(keyState);
      return;
    }
    const evicted = this.#cache.keep(keyState, nowMs);
    if (evicted.length === 0) return;
    for (const each of evicted) {
      this.#writeBehind.drop(each);
      each.parts?.release();
    }
    const unwritten = evicted.filter((each) => each.isUnwritten);
    if (unwritten.length === 0) return;
    this.#storage.write(unwritten, nowMs, "unconfirmed");
    if (this.#hasTrees) this.#writeBehind.flush(nowMs);
  }

  #drop(keyState: KeyState): void {
    this.#cache.drop(keyState.key);
    keyState.parts?.release();
  }
}

const bytesOf = ({ snapshots }: calls.SyncReply): number => snapshots.reduce((sum, { length }) => sum + length, 0);

/** The other states that the turn has changed, after they have followed the clock. */
const changedOthers = (others: NonNullable<KeyTurn["others"]>): KeyState[] =>
  [...others.values()].flatMap(({ keyState, changes }) => {
    keyState.followClock();
    return keyState.changes === changes ? [] : keyState;
  });

const hasCost = (charges: readonly Charge[]): boolean => charges.some(({ cost }) => cost > 0);
