/**
 * A replica: the isolate's copy of one key's state under eventual consistency. It decides by the object's last snapshot and
 * the isolate's own spends since then.
 *
 * 1. `decide` spends from the replica. A spend is unsent until a batch takes it. A spend that a later object may still deny
 *    is provisional, and becomes unsent with `finalize`.
 * 2. `startSync` puts all unsent spends in a batch with a number. The object counts each number of an isolate once, so a
 *    batch without an answer is sent again, unchanged.
 * 3. `finishSync` takes the snapshots of the reply, which include the batch. It adds the spends that are still unsent or
 *    provisional.
 *
 * Each reply also has the key rule of each policy, which applies until it expires by the object's clock.
 */
import type { Policy } from "../../policy/policy.ts";
import { type Decision, type Limit, LimitsMeter, internedLimits, meterUnder } from "../../strategies/index.ts";
import type { BookedSpend } from "./key-group.ts";
import {
  type Outcome,
  type Spend,
  admits,
  allows,
  ruleSizeBytes,
  ruledLimits,
  ruledOutcome,
  ruledSpend,
} from "./outcome.ts";
import { isLive, type KeyRule, type KeySync, type SyncReply, type ObjectLocation, objectId } from "../protocol.ts";

/**
 * The most instants of unsent spends under a policy. Beyond that, the two oldest are merged into the later one, so
 * that merged spends count for longer.
 */
const maximumInstants = 100;

/** Longer than the decision of any request takes: the platform ends background work 30 s after the response. */
const longestRequestMs = 60_000;

/** Approximate memory of a replica, and of each of its policies and instants, in bytes. */
const replicaBytes = 400;
const policyBytes = 500;
const instantBytes = 80;

interface PolicyReplica {
  policy: Policy;
  /** The key rule in effect; null without one. */
  keyRule: KeyRule | null;
  /** Under the limits that are in effect for the key. */
  meter: LimitsMeter;
  unsent: LimitSpends[];
  readonly provisional: LimitSpends[];
  /** Whether the meter includes a snapshot of the object. */
  hasSnapshot: boolean;
}

/** Spends under one list of limits. Overrides and deployments change a policy's limits. */
interface LimitSpends {
  /** A list from `internedLimits`, comparable by identity. */
  readonly limits: readonly Limit[];
  /** Units by the instant at which they were spent, by the isolate's clock. */
  readonly units: Map<number, number>;
}

interface SpendBatch {
  /** 0 for a batch without spends. */
  readonly number: number;
  charges: readonly {
    readonly policy: string;
    readonly limits: readonly Limit[];
    readonly spends: readonly (readonly [atMs: number, units: number])[];
  }[];
}

/** A sync of one key, from `startSync` to `finishSync`. */
export interface PendingSync {
  readonly replica: Replica;
  readonly call: KeySync;
  readonly batch: SpendBatch;
  /** The reply ends with one snapshot for each of these. */
  readonly policies: readonly PolicyReplica[];
}

/** Identifies a key among all keys of the isolate. */
export const replicaName = (location: ObjectLocation, partitionKey: string): string =>
  `${objectId(location)} ${partitionKey}`;

export class Replica {
  readonly partitionKey: string;
  readonly location: ObjectLocation;
  readonly objectId: string;
  readonly name: string;
  /** When the next sync is due; null before the first sync. */
  dueAtMs: number | null = null;
  /** When the pending sync counts as lost; null when no sync is pending. */
  lostAtMs: number | null = null;
  /** Whether the replica was used since its last sync started. */
  isUsed = false;
  readonly #byPolicy = new Map<string, PolicyReplica>();
  /** The object's clock minus the isolate's. */
  #clockOffsetMs = 0;
  /** The batch that is not known to be counted. */
  #batch: SpendBatch | null = null;

  constructor(partitionKey: string, location: ObjectLocation) {
    this.partitionKey = partitionKey;
    this.location = location;
    this.objectId = objectId(location);
    this.name = replicaName(location, partitionKey);
  }

  /** The shortest `syncEvery` of the policies, in milliseconds. */
  get syncEveryMs(): number {
    let shortestMs = Number.MAX_SAFE_INTEGER;
    for (const { policy } of this.#byPolicy.values()) {
      const { consistency } = policy;
      if (consistency.kind === "eventual") {
        shortestMs = Math.min(shortestMs, consistency.syncEveryMs);
      }
    }
    return shortestMs;
  }

  get sizeBytes(): number {
    let sizeBytes = replicaBytes;
    for (const { meter, keyRule, unsent, provisional } of this.#byPolicy.values()) {
      sizeBytes += policyBytes + meter.sizeBytes();
      if (keyRule !== null) sizeBytes += ruleSizeBytes(keyRule);
      for (const { units } of [...unsent, ...provisional]) sizeBytes += units.size * instantBytes;
    }
    for (const { spends } of this.#batch?.charges ?? []) sizeBytes += spends.length * instantBytes;
    return sizeBytes;
  }

  get policies(): readonly Policy[] {
    return [...this.#byPolicy.values()].map(({ policy }) => policy);
  }

  /**
   * Spends all or nothing.
   * @param localMs the time by the isolate's clock
   * @param provisionalMs 0 for a final spend; otherwise `finalize` or `giveBack` follows
   */
  decide(group: readonly Spend[], localMs: number, provisionalMs: number): readonly Outcome[] {
    const nowMs = localMs + this.#clockOffsetMs;
    const charges = group.map(({ policy, cost }) => ({ each: this.#policyReplica(policy, nowMs), cost }));
    const looks = charges.map(({ each, cost }) => outcomeOf(each, each.meter.look(cost, nowMs), localMs));
    if (!looks.every(admits)) return looks;
    return charges.map(({ each, cost }) => {
      const { meter, policy, keyRule } = each;
      if (keyRule !== null && keyRule.kind !== "limits") {
        return outcomeOf(each, meter.look(cost, nowMs), localMs);
      }
      const isFinal = provisionalMs === 0;
      const decision = isFinal ? meter.consume(cost, nowMs) : meter.reserve({ cost, ttlMs: longestRequestMs }, nowMs);
      const outcome = outcomeOf(each, decision, localMs);
      if (!allows(outcome)) return outcome;
      if (isFinal) addUnsent(each, localMs, cost);
      else addUnits(unitsUnder(each.provisional, policy), localMs, cost);
      return outcome;
    });
  }

  /** Makes provisional spends of `spentAtMs` final. They are sent as spent at `localMs`. */
  finalize(group: readonly Spend[], spentAtMs: number, localMs: number): void {
    const nowMs = localMs + this.#clockOffsetMs;
    const objectSpentAtMs = spentAtMs + this.#clockOffsetMs;
    for (const { policy, cost } of group) {
      const each = this.#policyReplica(policy, nowMs);
      if (takeUnits(unitsUnder(each.provisional, policy), spentAtMs, cost)) {
        const settled = { cost, actualCost: cost, spentAtMs: objectSpentAtMs };
        each.meter.settle({ ...settled, ttlMs: longestRequestMs }, nowMs);
      } else {
        // The replica that decided the spend was evicted or forgotten.
        each.meter.book(cost, nowMs, nowMs);
      }
      addUnsent(each, localMs, cost);
    }
  }

  /**
   * Gives back spends of `spentAtMs`.
   * @returns the spends that a batch has taken, with instants by the object's clock: the object must refund them
   */
  giveBack(group: readonly Spend[], spentAtMs: number, localMs: number): readonly BookedSpend[] {
    const nowMs = localMs + this.#clockOffsetMs;
    const objectSpentAtMs = spentAtMs + this.#clockOffsetMs;
    return group.flatMap((spend) => {
      const { policy, cost } = spend;
      const each = this.#policyReplica(policy, nowMs);
      if (takeUnits(unitsUnder(each.provisional, policy), spentAtMs, cost)) {
        const settled = { cost, actualCost: 0, spentAtMs: objectSpentAtMs };
        each.meter.settle({ ...settled, ttlMs: longestRequestMs }, nowMs);
        return [];
      }
      each.meter.refund(cost, objectSpentAtMs, nowMs);
      const isUnsent = takeUnits(unitsUnder(each.unsent, policy), spentAtMs, cost);
      if (isUnsent) return [];
      return [{ ...ruledSpend(spend, each.keyRule), spentAtMs: objectSpentAtMs }];
    });
  }

  /** Deletes a policy's state, also from the batch so that a repeated sync does not restore it. Its key rule stays. */
  forget(policy: string): void {
    const known = this.#byPolicy.get(policy);
    this.#byPolicy.delete(policy);
    if (known !== undefined && known.keyRule !== null) {
      const { keyRule } = known;
      this.#byPolicy.set(policy, { ...newPolicyReplica(known.policy), keyRule });
    }
    const batch = this.#batch;
    if (batch !== null) batch.charges = batch.charges.filter((each) => each.policy !== policy);
  }

  /** Whether there are spends that are not known to be counted by the object. */
  get hasUnsent(): boolean {
    return (
      (this.#batch?.number ?? 0) > 0 ||
      [...this.#byPolicy.values()].some(({ unsent }) => unsent.some(({ units }) => units.size > 0))
    );
  }

  /**
   * Starts a sync. An uncounted batch is sent again; new spends wait for the next sync.
   * @param nextNumber the number of a new batch
   * @param lostAtMs when the sync counts as lost
   * @returns null when the replica has no policies
   */
  startSync(nextNumber: () => number, localMs: number, lostAtMs: number): PendingSync | null {
    const policies = [...this.#byPolicy.values()];
    if (policies.length === 0) return null;
    const batch = (this.#batch ??= this.#takeBatch(nextNumber));
    this.dueAtMs = localMs + this.syncEveryMs;
    this.lostAtMs = lostAtMs;
    this.isUsed = false;
    return { replica: this, call: this.#callOf(batch, localMs), batch, policies };
  }

  #takeBatch(nextNumber: () => number): SpendBatch {
    const charges = [...this.#byPolicy.values()].flatMap((each) => {
      const { policy, unsent } = each;
      each.unsent = [];
      return unsent.flatMap(({ limits, units }) => {
        const spends = [...units].filter(([, count]) => count > 0);
        return spends.length === 0 ? [] : { policy: policy.name, limits, spends };
      });
    });
    return { number: charges.length === 0 ? 0 : nextNumber(), charges };
  }

  /** The spends come first. One charge without spends follows for each policy; its snapshot includes all spends. */
  #callOf({ number, charges }: SpendBatch, localMs: number): KeySync {
    const sent = charges.map((charge) => ({
      ...charge,
      spends: charge.spends.map(([atMs, units]): [number, number] => [Math.max(0, localMs - atMs), units]),
    }));
    const current = this.policies.map(({ name, limits }) => ({ policy: name, limits, spends: [] }));
    const isConfirmed = this.policies.some(({ durability }) => durability === "confirmed");
    return {
      key: this.partitionKey,
      batch: number,
      charges: [...sent, ...current],
      durability: isConfirmed ? "confirmed" : "relaxed",
    };
  }

  /** Ends a sync. @param reply null when there was none: the batch is sent again */
  finishSync(sync: PendingSync, reply: SyncReply | null, localMs: number): void {
    // The reply to a lost sync may arrive after the next sync has started.
    if (this.#batch !== sync.batch) return;
    this.lostAtMs = null;
    if (reply !== null || sync.batch.number === 0) this.#batch = null;
    if (reply !== null) this.#takeSnapshots(sync, reply, localMs);
  }

  /** Replaces the meters by the object's snapshots, and adds the spends that the snapshots do not include. */
  #takeSnapshots({ policies }: PendingSync, reply: SyncReply, localMs: number): void {
    // The object read its clock before the reply travelled, so the estimate of its clock is behind, and no unit is
    // freed too early.
    this.#clockOffsetMs = reply.atMs - localMs;
    const keyRules = reply.keyRules?.slice(-policies.length) ?? [];
    for (const [index, snapshot] of reply.snapshots.slice(-policies.length).entries()) {
      const each = policies[index];
      // A policy that was forgotten during the sync must not come back.
      if (each === undefined || this.#byPolicy.get(each.policy.name) !== each) continue;
      let meter = LimitsMeter.from([], JSON.parse(snapshot));
      if (meter.refused !== null) continue;
      for (const { units } of each.provisional) dropLost(units, localMs);
      this.#applyRule(each, keyRules[index] ?? null, reply.atMs);
      const { keyRule } = each;
      for (const { limits, units } of [...each.unsent, ...each.provisional]) {
        meter = meter.withLimits(keyRule?.kind === "limits" ? each.meter.limits : limits);
        for (const [atMs, count] of units) {
          meter.book(count, atMs + this.#clockOffsetMs, reply.atMs);
        }
      }
      each.meter = meter.withLimits(each.meter.limits);
      each.hasSnapshot = true;
    }
  }

  /** The policy's state, with the limits that are in effect for the key. */
  #policyReplica(policy: Policy, nowMs: number): PolicyReplica {
    const known = this.#byPolicy.get(policy.name);
    if (known === undefined) {
      const each = newPolicyReplica(policy);
      this.#byPolicy.set(policy.name, each);
      return each;
    }
    const isUnchanged = known.keyRule === null && known.policy.limits === policy.limits;
    known.policy = policy;
    if (!isUnchanged) this.#applyRule(known, known.keyRule, nowMs);
    return known;
  }

  /** Puts the limits of a rule in effect, or those of the policy when the rule has none or has expired. */
  #applyRule(each: PolicyReplica, rule: KeyRule | null, nowMs: number): void {
    each.keyRule = rule !== null && isLive(rule, nowMs) ? rule : null;
    each.meter = meterUnder(ruledLimits(each.policy, each.keyRule), each.meter);
  }
}

const newPolicyReplica = (policy: Policy): PolicyReplica => ({
  policy,
  keyRule: null,
  meter: meterUnder(policy.limits, undefined),
  unsent: [],
  provisional: [],
  hasSnapshot: false,
});

/** Without a snapshot the decision is the isolate's own. */
const outcomeOf = ({ policy, hasSnapshot, keyRule }: PolicyReplica, decision: Decision, decidedAtMs: number): Outcome =>
  ruledOutcome({ kind: hasSnapshot ? "decided" : "local", policy, decision, decidedAtMs }, keyRule);

function unitsUnder(lists: LimitSpends[], policy: Policy): Map<number, number> {
  const limits = internedLimits(policy.limits);
  const known = lists.find((each) => each.limits === limits);
  if (known !== undefined) return known.units;
  const units = new Map<number, number>();
  lists.push({ limits, units });
  return units;
}

/** Drops provisional spends of requests that were cut off before their decision. */
function dropLost(units: Map<number, number>, nowMs: number): void {
  for (const atMs of units.keys()) if (nowMs - atMs > longestRequestMs) units.delete(atMs);
}

/** Takes out units of one instant. @returns false when there are not enough, and takes out none */
function takeUnits(units: Map<number, number>, atMs: number, cost: number): boolean {
  const left = (units.get(atMs) ?? 0) - cost;
  if (left < 0) return false;
  if (left === 0) units.delete(atMs);
  else units.set(atMs, left);
  return true;
}

function addUnits(units: Map<number, number>, atMs: number, cost: number): void {
  if (cost > 0) units.set(atMs, (units.get(atMs) ?? 0) + cost);
}

function addUnsent({ unsent, policy }: PolicyReplica, atMs: number, cost: number): void {
  const units = unitsUnder(unsent, policy);
  addUnits(units, atMs, cost);
  if (units.size <= maximumInstants) return;
  const [oldest, next] = units.keys();
  if (oldest === undefined || next === undefined) return;
  units.set(next, (units.get(next) ?? 0) + (units.get(oldest) ?? 0));
  units.delete(oldest);
}
