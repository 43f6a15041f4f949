/** Decides spends when the object gives no answer: by each policy's failure mode, `onError`. */
import type { Decision } from "../../strategies/index.ts";
import { type CostOf, type DecisionContext, localSpend } from "./admission.ts";
import type { Clock } from "../clock.ts";
import { reportDryRuns } from "./key-group.ts";
import type { LocalMeters } from "./local-meters.ts";
import { admits, type Outcome, type Spend } from "./outcome.ts";

export class LocalDecider {
  readonly #meters: LocalMeters;
  readonly #now: Clock["now"];

  constructor(meters: LocalMeters, { now }: Clock) {
    this.#meters = meters;
    this.#now = now;
  }

  /** Spends on one key: by all policies with local limits, or by none. Dry runs deny nothing. */
  decide(
    group: readonly Spend[],
    { admission, provisionalMs }: Pick<DecisionContext, "admission" | "provisionalMs">,
  ): readonly Outcome[] {
    const nowMs = this.#now();
    const look = (): Outcome[] =>
      group.map((spend) => failureOutcome(spend, () => this.#meters.look(spend, nowMs)));
    if (!look().every(admits)) {
      // If one policy denies the request, it counts as denied under all of them.
      for (const spend of group.filter(isLocal)) this.#meters.deny(spend, nowMs);
      return look();
    }
    const openForMs = group.reduce((ms, { ttlMs = 0 }) => Math.max(ms, ttlMs), provisionalMs);
    const outcomes = group.map((spend) =>
      failureOutcome(spend, () => this.#meters.spend(spend, openForMs, nowMs)),
    );
    const spent = group.filter((_, index) => {
      const outcome = outcomes[index];
      return outcome?.kind === "local" && outcome.decision.allowed;
    });
    if (spent.length > 0) {
      const settle = async (costOf: CostOf): Promise<void> => {
        for (const spend of spent) this.#meters.settle(spend, costOf(spend), nowMs, openForMs);
      };
      void admission.add(localSpend({ giveBack: () => settle(() => 0), settle }));
    }
    reportDryRuns(group, outcomes);
    return outcomes;
  }

  look(spend: Spend): Outcome {
    return failureOutcome(spend, () => this.#meters.look(spend, this.#now()));
  }
}

const isLocal = ({ policy }: Spend): boolean => policy.onError === "local";

function failureOutcome(spend: Spend, decide: () => Decision): Outcome {
  const { policy } = spend;
  return policy.onError === "local"
    ? { kind: "local", policy, decision: decide() }
    : { kind: policy.onError, policy };
}
