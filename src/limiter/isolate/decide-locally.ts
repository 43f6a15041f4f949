/**
 * Decides spends when the object gives no answer: by each policy's failure mode, `onError`. The isolate's own meters count the
 * spends that objects admit through this isolate too, so that an outage does not start with a full quota. Spends of other
 * isolates are unknown.
 */
import { type Decision, type Meter, mostStoredBytesOf, provisionalTtlMs } from "../../strategies/index.ts";
import { type CostOf, type KeyCheck, localSpend } from "./charge-result.ts";
import type { Clock } from "../clock.ts";
import { reportDryRuns } from "./key-group.ts";
import { type Outcome, type Spend, admits, policyKey, ruleSizeBytes, ruledOutcome, ruledSpend } from "./outcome.ts";
import { type KeyRule, isLive } from "../protocol.ts";
import { BoundedMap } from "../../policy/bounded-map.ts";
import { type InternedMeter, internedMeter } from "../interned.ts";

/** A spend with the limits in effect, and the key rule that the isolate knows for it. */
interface RuledSpend {
  readonly spend: Spend;
  readonly rule: KeyRule | null;
}

/** Decides by the failure mode of each policy. */
export class LocalDecider {
  readonly #meters: LocalMeters;
  readonly #seenKeyRules: SeenKeyRules;
  readonly #now: Clock["now"];

  constructor(meters: LocalMeters, { now }: Clock, seenKeyRules = new SeenKeyRules()) {
    this.#meters = meters;
    this.#seenKeyRules = seenKeyRules;
    this.#now = now;
  }

  /** Spends on one key: by all policies with local limits, or by none. Dry runs deny nothing. */
  decide({ group, result, provisionalMs, isLook }: Omit<KeyCheck, "scope">): readonly Outcome[] {
    const nowMs = this.#now();
    const ruled = group.map((spend) => this.#ruled(spend, nowMs));
    const look = (): Outcome[] => ruled.map((each) => this.#look(each, nowMs));
    if (isLook) return look();
    if (!look().every(admits)) {
      // If one policy denies the request, it counts as denied under all of them.
      for (const { spend } of ruled.filter(isMetered)) this.#meters.deny(spend, nowMs);
      return look();
    }
    const openForMs = group.reduce((ms, { ttlMs = 0 }) => Math.max(ms, ttlMs), provisionalMs);
    const outcomes = ruled.map((each) =>
      isMetered(each)
        ? failureOutcome(each, nowMs, () => this.#meters.spend(each.spend, openForMs, nowMs))
        : this.#look(each, nowMs),
    );
    const spent = ruled.flatMap((each, index) => {
      const outcome = outcomes[index];
      const isAllowed = outcome?.kind === "local" && outcome.decision.allowed;
      return isAllowed && isMetered(each) ? each.spend : [];
    });
    if (spent.length > 0) {
      const settle = async (costOf: CostOf): Promise<void> => {
        for (const spend of spent) this.#meters.settle(spend, costOf(spend), nowMs, openForMs);
      };
      void result.add(localSpend({ giveBack: () => settle(() => 0), settle }));
    }
    reportDryRuns(group, outcomes);
    return outcomes;
  }

  look(spend: Spend): Outcome {
    const nowMs = this.#now();
    return this.#look(this.#ruled(spend, nowMs), nowMs);
  }

  #look(each: RuledSpend, nowMs: number): Outcome {
    return failureOutcome(each, nowMs, () => this.#meters.look(each.spend, nowMs));
  }

  #ruled(spend: Spend, nowMs: number): RuledSpend {
    const rule = this.#seenKeyRules.ruleOf(spend, nowMs);
    return { rule, spend: ruledSpend(spend, rule) };
  }
}

/** Whether the isolate's own meters decide. */
const isMetered = ({ spend: { policy }, rule }: RuledSpend): boolean =>
  policy.onError === "local" && (rule === null || rule.kind === "limits");

function failureOutcome({ spend: { policy }, rule }: RuledSpend, decidedAtMs: number, decide: () => Decision): Outcome {
  return policy.onError === "local"
    ? ruledOutcome({ kind: "local", policy, decision: decide(), decidedAtMs }, rule)
    : { kind: policy.onError, policy, decidedAtMs };
}

/** Bound the memory of an isolate. The meters least recently used are evicted first. */
const maximumMeters = 1_024;
const maximumBytes = 6_000_000;
/**
 * Spends under limits whose state can grow larger, such as long logs, are not counted, so an outage begins with their
 * full quota.
 */
const maximumMeterBytes = 16_000;
/** Approximate memory of an entry without its meter. */
const entryBytes = 400;

/** Keeps slots for their whole window, because the isolate renews nothing. */
const wholeWindowMs = Number.MAX_SAFE_INTEGER;

/** Spends that an object has admitted and that the isolate's meters count too. */
export interface LocalCount {
  /** Counts the spends now. Later calls change nothing. */
  readonly book: () => void;
  /** Corrects the counted spends to their actual costs and frees their slots. */
  readonly settle: (costOf: CostOf) => void;
}

/** For a reply after the deadline: the isolate's meters have counted the request already. */
export const uncounted: LocalCount = { book: () => undefined, settle: () => undefined };

/** The isolate's own meters. */
export class LocalMeters {
  readonly #now: Clock["now"];
  readonly #meters = new BoundedMap<InternedMeter>(maximumMeters, {
    mostBytes: maximumBytes,
    bytesOf: ({ meter }) => entryBytes + meter.sizeBytes(),
  });

  constructor({ now }: Clock) {
    this.#now = now;
  }

  look(spend: Spend, nowMs: number): Decision {
    return this.#meterOf(spend).look(spend.cost, nowMs);
  }

  /** Counts a denial, which extends elastic windows. */
  deny(spend: Spend, nowMs: number): void {
    this.#meterOf(spend).deny(nowMs);
  }

  /** @param openForMs for how long the spend can be settled exactly; 0 for a final spend */
  spend(spend: Spend, openForMs: number, nowMs: number): Decision {
    const meter = this.#meterOf(spend);
    const { cost, policy } = spend;
    if (openForMs === 0) return meter.consume(cost, nowMs);
    return meter.reserve({ cost, ttlMs: provisionalTtlMs(policy.limits, openForMs) }, nowMs);
  }

  /** Settles what `spend` has spent. Takes the same `openForMs`. */
  settle(spend: Spend, actualCost: number, spentAtMs: number, openForMs: number): void {
    const { policy, cost } = spend;
    const ttlMs = openForMs === 0 ? wholeWindowMs : provisionalTtlMs(policy.limits, openForMs);
    this.#meterOf(spend).settle({ cost, actualCost, spentAtMs, ttlMs }, this.#now());
  }

  /** Spends that an object has admitted, not yet counted. Skips policies that would not use the count. */
  count(spends: readonly Spend[]): LocalCount {
    const useful = spends.filter(isUseful);
    let bookedAtMs: number | null = null;
    return {
      book: () => {
        if (bookedAtMs !== null) return;
        bookedAtMs = this.#now();
        for (const spend of useful) {
          this.#meterOf(spend).book(spend.cost, bookedAtMs, bookedAtMs);
        }
      },
      settle: (costOf) => {
        if (bookedAtMs === null) return;
        for (const spend of useful) this.settle(spend, costOf(spend), bookedAtMs, 0);
      },
    };
  }

  forget(spend: Spend): void {
    this.#meters.delete(policyKey(spend));
  }

  #meterOf(spend: Spend): Meter {
    const name = policyKey(spend);
    const interned = internedMeter(spend.policy.limits, this.#meters.get(name));
    this.#meters.set(name, interned);
    return interned.meter;
  }
}

const isUseful = ({ policy }: Spend): boolean =>
  policy.onError === "local" && policy.limits.every((limit) => mostStoredBytesOf(limit) <= maximumMeterBytes);

/** Bound the memory of an isolate. */
const maximumRules = 4_096;
const maximumRuleBytes = 2_000_000;

/** The last key rules that objects have reported to this isolate. */
export class SeenKeyRules {
  readonly #byKey = new BoundedMap<KeyRule>(maximumRules, {
    mostBytes: maximumRuleBytes,
    bytesOf: ruleSizeBytes,
  });

  /** Notes the rules of a reply, and drops those that it no longer reports. */
  note(group: readonly Spend[], rules: readonly (KeyRule | null)[] | undefined): void {
    if (rules === undefined && this.#byKey.size === 0) return;
    for (const [index, spend] of group.entries()) {
      const rule = rules?.[index] ?? null;
      if (rule === null) this.#byKey.delete(policyKey(spend));
      else this.#byKey.set(policyKey(spend), rule);
    }
  }

  /** The rule of a key; null without one, and after it has expired by the isolate's clock. */
  ruleOf(spend: Spend, nowMs: number): KeyRule | null {
    if (this.#byKey.size === 0) return null;
    const rule = this.#byKey.get(policyKey(spend));
    return rule !== undefined && isLive(rule, nowMs) ? rule : null;
  }
}
