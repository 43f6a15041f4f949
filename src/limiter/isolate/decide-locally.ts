/** Decides spends when the object gives no answer: by each policy's failure mode, `onError`. */
import type { Decision } from "../../strategies/index.ts";
import { type CostOf, type KeyCheck, localSpend } from "./charge-result.ts";
import type { Clock } from "../clock.ts";
import { reportDryRuns } from "./key-group.ts";
import type { LocalMeters } from "./local-meters.ts";
import { admits, type Outcome, type Spend } from "./outcome.ts";
import type { KeyRule } from "../protocol.ts";
import { ruledOutcome, ruledSpend } from "./ruled-outcome.ts";
import { SeenKeyRules } from "./seen-key-rules.ts";

/** A spend with the limits in effect, and the key rule that the isolate knows for it. */
interface RuledSpend {
  readonly spend: Spend;
  readonly rule: KeyRule | null;
}

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
