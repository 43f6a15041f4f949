/**
 * What the object does, apart from the platform: it holds the accounts of one or many keys, decides on their meters, and
 * sees to it that they are in storage in time.
 *
 * Every method runs to its end without waiting, so nothing comes between reading a meter and changing it: concurrent
 * requests are decided one after the other. The clock is read once for each decision.
 */
import type { Meter } from "../../strategies/index.ts";
import { errorText, report } from "../../observability/events.ts";
import { KeyState } from "./key-state.ts";
import type { Clock } from "../clock.ts";
import { decide, lookAt, type Spending, withSlices } from "./decide.ts";
import { KeyCache } from "./key-cache.ts";
import { type IsolateBudget, isolateBudget } from "./isolate-budget.ts";
import { KeyStorage, type RowStorage } from "./key-storage.ts";
import type {
  BatchCall,
  Charge,
  CheckCall,
  ForgetCall,
  KeySync,
  LeaseCall,
  LeaseReply,
  RefundCall,
  RenewCall,
  RenewReply,
  ReserveReply,
  ReserveCall,
  ReturnCall,
  ReturnReply,
  SettleReply,
  SettleCall,
  SliceWanted,
  SyncCall,
  SyncReply,
  CheckReply,
} from "../protocol.ts";
import { provisionalTtlMs } from "../provisional-ttl.ts";
import { isForgotten } from "./reservations.ts";
import { WriteBehind } from "./write-behind.ts";

/** What it needs of the platform. */
export interface Platform extends Clock {
  readonly storage: RowStorage;
  /** Shared with all objects of the isolate; the one of this isolate when left out. */
  readonly isolate?: IsolateBudget;
}

const spendNow: Spending = (meter, { cost }, nowMs, heldUnits) =>
  meter.consume(cost, nowMs, heldUnits);

/** How a check spends: so that it can be given back by law 10 for so long, where it is provisional. */
const spendingFor = (provisionalMs: number): Spending =>
  provisionalMs === 0
    ? spendNow
    : (meter, { cost, limits }, nowMs, heldUnits) =>
        meter.reserve({ cost, ttlMs: provisionalTtlMs(limits, provisionalMs) }, nowMs, heldUnits);

/** A call of the platform's takes 32 MiB. */
const mostAnsweredBytes = 8 * 2 ** 20;

/** So much of what is left is lent at once: near the limit nothing is, and every request asks. */
const lentPart = 8;

export class Limiter {
  readonly #now: () => number;
  readonly #ledger: KeyStorage;
  readonly #held: KeyCache;
  readonly #writeBehind: WriteBehind;

  constructor({ storage, now, after, isolate = isolateBudget }: Platform) {
    this.#now = now;
    this.#held = new KeyCache(isolate);
    this.#ledger = new KeyStorage(storage);
    this.#writeBehind = new WriteBehind(now, after, (accounts, nowMs) => {
      this.#ledger.write(accounts, nowMs, "unconfirmed");
    });
  }

  /** About how much memory the accounts take. */
  get heldBytes(): number {
    return this.#held.sizeBytes;
  }

  /** Spends every charge if all of them are allowed, but for dry runs; otherwise none. */
  check({ key, charges, durability, provisionalMs = 0 }: CheckCall): CheckReply {
    const nowMs = this.#now();
    const keyState = this.#accountOf(key, nowMs);
    const { changes } = keyState;
    const reply = decide(keyState, charges, nowMs, meterOf, spendingFor(provisionalMs));
    if (isAdmittedBy(charges, reply)) keyState.noteProvisional(nowMs, provisionalMs);
    this.#keep(keyState, changes, nowMs, durability === "confirmed");
    return withSlices(keyState, charges, reply, nowMs);
  }

  /** Checks; and lends units of what is left then, which count as spent until they are settled or their time is up. */
  lease(call: LeaseCall): LeaseReply {
    const { key, charges, durability, wanted, returned = [], provisionalMs = 0 } = call;
    const nowMs = this.#now();
    const keyState = this.#accountOf(key, nowMs);
    const { changes } = keyState;
    const settled = returned.map((each) => keyState.settleSlice(each, nowMs));
    const reply = charges.some(({ cost }) => cost > 0)
      ? decide(keyState, charges, nowMs, meterOf, spendingFor(provisionalMs))
      : lookAt(keyState, charges, nowMs, meterOf);
    if (isAdmittedBy(charges, reply)) keyState.noteProvisional(nowMs, provisionalMs);
    const lentUnits = wanted === null ? 0 : lend(keyState, charges, reply, wanted, nowMs);
    this.#keep(keyState, changes, nowMs, lentUnits > 0 || durability === "confirmed");
    return { ...withSlices(keyState, charges, reply, nowMs), lentUnits, settled };
  }

  /** Settles slices of which no more is to be used. */
  giveBackSlices({ key, returned }: ReturnCall): ReturnReply {
    const nowMs = this.#now();
    const keyState = this.#accountOf(key, nowMs);
    const { changes } = keyState;
    const settled = returned.map((each) => keyState.settleSlice(each, nowMs));
    this.#keep(keyState, changes, nowMs, false);
    return { settled };
  }

  /** A verdict for each call. */
  batch({ calls }: BatchCall): CheckReply[] {
    return calls.map((call) =>
      call.charges.some(({ cost }) => cost > 0) ? this.check(call) : this.look(call),
    );
  }

  /** What `check` would answer to each charge by itself; changes nothing. */
  look({ key, charges }: CheckCall): CheckReply {
    const nowMs = this.#now();
    const keyState = this.#accountOf(key, nowMs);
    const reply = lookAt(keyState, charges, nowMs, meterOf);
    this.#hold(keyState, nowMs);
    return withSlices(keyState, charges, reply, nowMs);
  }

  /** Gives back what a `check` spent, because another object denied the same request. */
  refund({ key, charges, durability, provisionalMs = 0 }: RefundCall): void {
    const nowMs = this.#now();
    const keyState = this.#accountOf(key, nowMs);
    const { changes } = keyState;
    for (const charge of charges) {
      const { cost, spentAtMs } = charge;
      const meter = meterOf(keyState, charge);
      if (provisionalMs === 0) meter.refund(cost, spentAtMs, nowMs);
      else {
        const ttlMs = provisionalTtlMs(charge.limits, provisionalMs);
        meter.settle({ cost, actualCost: 0, spentAtMs, ttlMs }, nowMs);
      }
    }
    this.#keep(keyState, changes, nowMs, durability === "confirmed");
  }

  /** Spends as `check` does, for a cost that `settle` corrects. */
  reserve({ key, charges, id, ttlMs, durability, isDryRun = false }: ReserveCall): ReserveReply {
    const nowMs = this.#now();
    const keyState = this.#accountOf(key, nowMs);
    const { changes } = keyState;
    const fullForMs = keyState.fullForMs(charges, isDryRun, nowMs);
    if (fullForMs > 0) return { ...this.look({ key, charges }), isOpen: false, fullForMs };
    const reserveNow: Spending = (meter, { cost }, _, heldUnits) =>
      meter.reserve({ cost, ttlMs }, nowMs, heldUnits);
    const reply = decide(keyState, charges, nowMs, meterOf, reserveNow);
    const isConfirmed = durability === "confirmed";
    const isAdmitted = isAdmittedBy(charges, reply);
    const spent = charges.flatMap(({ policy, cost }, index) => {
      if (!isAdmitted || reply.decisions[index]?.allowed !== true) return [];
      const spentAtMs = reply.spentAtMs[index] ?? nowMs;
      return { policy, limits: keyState.limitsOf(policy), cost, spentAtMs, heldAtMs: spentAtMs };
    });
    const isOpen = spent.length > 0;
    if (isOpen) {
      const expiresAtMs = Math.max(nowMs, ...reply.spentAtMs) + ttlMs;
      keyState.open({ id, ttlMs, expiresAtMs, isConfirmed, isDryRun, charges: spent });
    }
    this.#keep(keyState, changes, nowMs, isConfirmed);
    return { ...withSlices(keyState, charges, reply, nowMs), isOpen, fullForMs: 0 };
  }

  /**
   * Books what an isolate has spent by itself, and tells how things stand then: of as many keys as there is room for in an
   * answer, and up to one that throws. The others are sent again, and that one as the first.
   */
  sync({ isolate, others = [], ...first }: SyncCall): SyncReply {
    const answer = this.#syncKey(isolate, first);
    const answers: SyncReply[] = [];
    let answeredBytes = bytesOf(answer);
    for (const each of others) {
      if (answeredBytes > mostAnsweredBytes) break;
      try {
        const next = this.#syncKey(isolate, each);
        answeredBytes += bytesOf(next);
        answers.push(next);
      } catch {
        break;
      }
    }
    return { ...answer, others: answers };
  }

  #syncKey(isolate: string, { key, batch, charges, durability }: KeySync): SyncReply {
    const nowMs = this.#now();
    const keyState = this.#accountOf(key, nowMs);
    const { changes } = keyState;
    const isNew = batch > 0 && keyState.noteBatch(isolate, batch, nowMs);
    const snapshots = charges.map((charge) => {
      const meter = meterOf(keyState, charge);
      for (const [agoMs, units] of isNew ? charge.spends : []) {
        meter.book(units, Math.max(0, nowMs - agoMs), nowMs);
      }
      return JSON.stringify(meter.snapshot());
    });
    this.#keep(keyState, changes, nowMs, durability === "confirmed");
    return { snapshots, atMs: nowMs };
  }

  /** Keeps a reservation open, and its slots held, for its ttl from now. */
  renew({ key, id }: RenewCall): RenewReply {
    const nowMs = this.#now();
    const keyState = this.#accountOf(key, nowMs);
    const { changes } = keyState;
    const isOpen = keyState.renew(id, nowMs, (charge, ttlMs) => {
      const meter = meterOf(keyState, charge);
      meter.renew({ ...charge, ttlMs }, nowMs);
      return Math.max(nowMs, meter.seenMs);
    });
    this.#keep(keyState, changes, nowMs, false);
    return { isOpen };
  }

  /** Corrects a reservation to its actual cost, and ends it. */
  settle({ key, id, cost, costs }: SettleCall): SettleReply {
    const nowMs = this.#now();
    const keyState = this.#accountOf(key, nowMs);
    const { changes } = keyState;
    const reservation = keyState.take(id, nowMs);
    for (const [index, charge] of reservation?.charges.entries() ?? []) {
      if (isForgotten(charge)) continue;
      const actualCost = costs?.[index] ?? cost;
      const ttlMs = reservation?.ttlMs ?? 0;
      const meter = meterOf(keyState, charge);
      meter.settle({ ...charge, actualCost, ttlMs }, nowMs);
    }
    this.#keep(keyState, changes, nowMs, reservation?.isConfirmed === true);
    return { settled: reservation !== null };
  }

  /** Forgets what a policy has counted for a key; whoever is told so may rely on it. */
  forget({ key, policy }: ForgetCall): void {
    const nowMs = this.#now();
    const keyState = this.#accountOf(key, nowMs);
    const { changes } = keyState;
    keyState.forget(policy);
    this.#keep(keyState, changes, nowMs, true);
  }

  /** Forgets every key that is idle; safe to call early, late or twice. */
  async alarm(): Promise<void> {
    const nowMs = this.#now();
    try {
      // What is waiting may be more than its row tells; from here on rows alone say what is left.
      this.#writeBehind.flush(nowMs);
      const swept = new Set(this.#ledger.sweep(nowMs));
      for (const keyState of this.#held.accounts()) {
        if (keyState.idleAtMs() <= nowMs) this.#held.drop(keyState.key);
        else if (swept.has(keyState.key)) keyState.stored = null;
      }
    } catch (error) {
      // The platform would try six times, and then never again.
      report({ event: "sweep-failed", error: errorText(error) });
      await this.#ledger.postpone(nowMs);
    }
  }

  #accountOf(key: string, nowMs: number): KeyState {
    const keyState = this.#held.get(key) ?? this.#ledger.read(key) ?? new KeyState(key, nowMs);
    keyState.endSlices(nowMs);
    return keyState;
  }

  /**
   * Sees to it that what has changed is written. A denial changes nothing, and costs no row.
   * @param changes of the account before it was asked
   */
  #keep(keyState: KeyState, changes: number, nowMs: number, isConfirmed: boolean): void {
    keyState.followClock();
    if (keyState.changes !== changes) {
      if (isConfirmed) {
        this.#writeBehind.drop(keyState);
        this.#ledger.write([keyState], nowMs, "confirmed");
      } else if (keyState.outlastsMemory(nowMs)) {
        this.#writeBehind.note(keyState, nowMs);
      }
    }
    this.#hold(keyState, nowMs);
  }

  /** Accounts that have to go for it are written, unless they are idle or written already. */
  #hold(keyState: KeyState, nowMs: number): void {
    // Who only looks at keys that are not there is not to push out those that are.
    if (keyState.stored === null && keyState.idleAtMs() <= nowMs) {
      this.#writeBehind.drop(keyState);
      this.#held.drop(keyState.key);
      return;
    }
    const gone = this.#held.keep(keyState, nowMs);
    if (gone.length === 0) return;
    for (const each of gone) this.#writeBehind.drop(each);
    const unwritten = gone.filter((each) => each.isUnwritten);
    if (unwritten.length > 0) this.#ledger.write(unwritten, nowMs, "unconfirmed");
  }
}

const bytesOf = ({ snapshots }: SyncReply): number =>
  snapshots.reduce((sum, { length }) => sum + length, 0);

/** Whether no charge but those of dry runs is denied. */
const isAdmittedBy = (charges: readonly Charge[], { decisions }: CheckReply): boolean =>
  decisions.every(({ allowed }, index) => allowed || charges[index]?.isDryRun === true);

/** @returns the units that are lent of each policy; 0 where no slice is opened */
function lend(
  keyState: KeyState,
  charges: readonly Charge[],
  { decisions, spentAtMs }: CheckReply,
  { id, units: wantedUnits, leastUnits = 1, ttlMs }: SliceWanted,
  nowMs: number,
): number {
  const isLent =
    decisions.every(({ allowed }) => allowed) && charges.every(({ isDryRun }) => isDryRun !== true);
  if (!isLent) return 0;
  const left = decisions.flatMap(({ limits }) => limits.map(({ remaining }) => remaining));
  const units = Math.min(wantedUnits, Math.floor(Math.min(...left) / lentPart));
  if (units < leastUnits) return 0;
  const parts = charges.map(({ policy }, index) => ({
    policy,
    limits: keyState.limitsOf(policy),
    endsAtMs: Math.max(nowMs, spentAtMs[index] ?? nowMs) + ttlMs,
  }));
  return keyState.lend({ id, units, ttlMs, parts });
}

/** The meter of a policy; what was stored and is not trusted is told. */
function meterOf(keyState: KeyState, { policy, limits }: Pick<Charge, "policy" | "limits">): Meter {
  const meter = keyState.meterOf(policy, limits);
  if (keyState.refused !== null) {
    report({ event: "state-refused", policy, reason: keyState.refused });
    keyState.refused = null;
  }
  return meter;
}
