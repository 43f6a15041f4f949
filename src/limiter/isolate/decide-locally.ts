/**
 * Decides spends when the object gives no answer: by each policy's failure mode, `onError`. The isolate's own meters count the
 * spends that objects admit through this isolate too, so that an outage does not start with a full quota. Spends of other
 * isolates are unknown.
 */
import { BoundedMap } from "../../policy/caches.ts";
import {
  type Decision,
  type LimitsMeter,
  meterUnder,
  mostStoredBytesOf,
  provisionalTtlMs,
} from "../../strategies/index.ts";
import type { Clock } from "../clock.ts";
import { isLive, type KeyRule } from "../protocol.ts";
import { reportDryRuns } from "./key-group.ts";
import {
  admits,
  allows,
  type CostOf,
  type KeyCheck,
  type Outcome,
  policyKey,
  ruledOutcome,
  ruledSpend,
  ruleSizeBytes,
  type Spend,
} from "./outcome.ts";

/** Bound the memory of an isolate. The meters and rules least recently used are evicted first. */
const maximumMeters = 1_024;
const maximumBytes = 6_000_000;
const maximumRules = 4_096;
const maximumRuleBytes = 2_000_000;
/**
 * Spends under limits whose state can grow larger, such as long logs, are not counted, so an outage begins with their
 * full quota.
 */
const maximumMeterBytes = 16_000;
/** Approximate memory of an entry without its meter. */
const entryBytes = 400;

/** Keeps slots for their whole window, because the isolate renews nothing. */
const wholeWindowMs = Number.MAX_SAFE_INTEGER;

/** A spend with the limits in effect, and the key rule that the isolate knows for it. */
interface RuledSpend {
  readonly spend: Spend;
  readonly rule: KeyRule | null;
}

export class LocalDecider {
  readonly #now: Clock["now"];
  readonly #meters = new BoundedMap<LimitsMeter>(maximumMeters, {
    mostBytes: maximumBytes,
    bytesOf: (meter) => entryBytes + meter.sizeBytes(),
  });
  /** The last key rules that objects have reported to this isolate. */
  readonly #rules = new BoundedMap<KeyRule>(maximumRules, { mostBytes: maximumRuleBytes, bytesOf: ruleSizeBytes });

  constructor({ now }: Clock) {
    this.#now = now;
  }

  /** Charges one key under all policies that the isolate's own meters decide, or under none. Dry runs deny nothing. */
  decide({ group, result, provisionalMs, isLook }: Omit<KeyCheck, "scope">): readonly Outcome[] {
    const nowMs = this.#now();
    const ruled = group.map((spend) => this.#ruled(spend, nowMs));
    const look = (): Outcome[] => ruled.map((each) => this.#look(each, nowMs));
    if (isLook) return look();
    if (!look().every(admits)) {
      // If one policy denies the request, it counts as denied under all of them. That extends elastic windows.
      for (const { spend } of ruled.filter(isMetered)) this.#meterOf(spend).deny(nowMs);
      return look();
    }
    const openForMs = group.reduce((ms, { ttlMs = 0 }) => Math.max(ms, ttlMs), provisionalMs);
    const outcomes = ruled.map((each) =>
      isMetered(each)
        ? failureOutcome(each, nowMs, () => this.#spend(each.spend, openForMs, nowMs))
        : this.#look(each, nowMs),
    );
    const spent = ruled.flatMap((each, index) => {
      const outcome = outcomes[index];
      const isAllowed = outcome?.kind === "local" && allows(outcome);
      return isAllowed && isMetered(each) ? each.spend : [];
    });
    if (spent.length > 0) {
      const settle = async (costOf: CostOf): Promise<void> => {
        for (const spend of spent) this.#settle(spend, costOf(spend), nowMs, openForMs);
      };
      void result.add({ giveBack: () => settle(() => 0), settle });
    }
    reportDryRuns(group, outcomes);
    return outcomes;
  }

  look(spend: Spend): Outcome {
    const nowMs = this.#now();
    return this.#look(this.#ruled(spend, nowMs), nowMs);
  }

  /**
   * Counts spends that an object has admitted for a check, once they are final. Corrects the count when the request
   * gives them back or settles them. Skips policies that would not use the count.
   */
  count({ group, result, provisionalMs }: Omit<KeyCheck, "scope">, admitted: readonly Spend[]): void {
    const spends = admitted.filter(isUseful);
    if (spends.length === 0) return;
    let bookedAtMs: number | null = null;
    const book = (): void => {
      if (bookedAtMs !== null) return;
      bookedAtMs = this.#now();
      for (const spend of spends) this.#meterOf(spend).book(spend.cost, bookedAtMs, bookedAtMs);
    };
    const settle = async (costOf: CostOf): Promise<void> => {
      if (bookedAtMs === null) return;
      for (const spend of spends) this.#settle(spend, costOf(spend), bookedAtMs, 0);
    };
    if (provisionalMs === 0) book();
    const isReserved = group.some(({ ttlMs }) => ttlMs !== undefined);
    void result.add({ finalize: book, giveBack: () => settle(() => 0), ...(isReserved && { settle }) });
  }

  forget(spend: Spend): void {
    this.#meters.delete(policyKey(spend));
  }

  /** Notes the key rules of an object's reply, and drops those that it no longer reports. */
  noteRules(group: readonly Spend[], rules: readonly (KeyRule | null)[] | undefined): void {
    if (rules === undefined && this.#rules.size === 0) return;
    for (const [index, spend] of group.entries()) {
      const rule = rules?.[index] ?? null;
      if (rule === null) this.#rules.delete(policyKey(spend));
      else this.#rules.set(policyKey(spend), rule);
    }
  }

  #look(each: RuledSpend, nowMs: number): Outcome {
    return failureOutcome(each, nowMs, () => this.#meterOf(each.spend).look(each.spend.cost, nowMs));
  }

  /** A rule has no effect after it has expired by the isolate's clock. */
  #ruled(spend: Spend, nowMs: number): RuledSpend {
    const known = this.#rules.get(policyKey(spend));
    const rule = known !== undefined && isLive(known, nowMs) ? known : null;
    return { rule, spend: ruledSpend(spend, rule) };
  }

  /** @param openForMs for how long the spend can be settled exactly; 0 for a final spend */
  #spend(spend: Spend, openForMs: number, nowMs: number): Decision {
    const meter = this.#meterOf(spend);
    const { cost, policy } = spend;
    if (openForMs === 0) return meter.consume(cost, nowMs);
    return meter.reserve({ cost, ttlMs: provisionalTtlMs(policy.limits, openForMs) }, nowMs);
  }

  /** Settles what `#spend` has spent. Takes the same `openForMs`. */
  #settle(spend: Spend, actualCost: number, spentAtMs: number, openForMs: number): void {
    const { policy, cost } = spend;
    const ttlMs = openForMs === 0 ? wholeWindowMs : provisionalTtlMs(policy.limits, openForMs);
    this.#meterOf(spend).settle({ cost, actualCost, spentAtMs, ttlMs }, this.#now());
  }

  #meterOf(spend: Spend): LimitsMeter {
    const name = policyKey(spend);
    const meter = meterUnder(spend.policy.limits, this.#meters.get(name));
    this.#meters.set(name, meter);
    return meter;
  }
}

/** Whether the isolate's own meters decide. */
const isMetered = ({ spend: { policy }, rule }: RuledSpend): boolean =>
  policy.onError === "local" && (rule === null || rule.kind === "limits");

function failureOutcome({ spend: { policy }, rule }: RuledSpend, decidedAtMs: number, decide: () => Decision): Outcome {
  return policy.onError === "local"
    ? ruledOutcome({ kind: "local", policy, decision: decide(), decidedAtMs }, rule)
    : { kind: policy.onError, policy, decidedAtMs, decision: null };
}

const isUseful = ({ policy }: Spend): boolean =>
  policy.onError === "local" && policy.limits.every((limit) => mostStoredBytesOf(limit) <= maximumMeterBytes);
