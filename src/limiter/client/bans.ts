/** Whether keys are banned, for requests that spend nothing of the policies that ban them. */
import type { Policy } from "../../config/index.ts";
import { Admission } from "./admission.ts";
import type { LimiterClient } from "./client.ts";
import { type Clock, platformClock } from "../clock.ts";
import { aged, type Outcome, type Spend } from "./outcome.ts";
import { BoundedMap } from "../bounded-map.ts";

/** As long as the deny cache remembers a denial at most. */
const longestMs = 1_000;
const mostKeys = 4_096;

type Decided = Extract<Outcome, { readonly decision: unknown }>;

/** Spends that are refused, and how. */
export interface Refusal {
  readonly spends: readonly Spend[];
  readonly admission: Admission;
}

interface KnownBan {
  readonly outcome: Decided;
  readonly askedAtMs: number;
  /** The waits count down from then on. */
  readonly answeredAtMs: number;
  readonly lastsMs: number;
}

export class Bans {
  readonly #limiter: Pick<LimiterClient, "look">;
  readonly #clock: Pick<Clock, "now">;
  /** So that a flood from a banned client does not ask its objects for each request. */
  readonly #known = new BoundedMap<KnownBan>(mostKeys);

  constructor(limiter: Pick<LimiterClient, "look">, clock: Pick<Clock, "now"> = platformClock) {
    this.#limiter = limiter;
    this.#clock = clock;
  }

  /** The refusal by bans that the isolate remembers, without asking an object; null without one. */
  known(spends: readonly Spend[]): Refusal | null {
    return this.#refusalOf(
      spends,
      spends.map((spend) => this.#recall(spend)),
    );
  }

  /** The refusal by bans, and by policies that are closed because their object gives no answer; null without one. */
  async find(spends: readonly Spend[]): Promise<Refusal | null> {
    return this.#refusalOf(spends, await Promise.all(spends.map((spend) => this.#look(spend))));
  }

  /** For when all that a policy has counted for a key is forgotten. */
  forget(policy: Policy, partitionKey: string): void {
    this.#known.delete(nameOf({ policy, partitionKey }));
  }

  #refusalOf(spends: readonly Spend[], outcomes: readonly (Outcome | null)[]): Refusal | null {
    const admission = new Admission();
    admission.isRefused = true;
    admission.decidedAtMs = this.#clock.now();
    const refusing = spends.filter((_, index) => {
      const outcome = outcomes[index] ?? null;
      const refuses = outcome !== null && (isBan(outcome) || outcome.kind === "closed");
      if (refuses) admission.outcomes.push(outcome);
      return refuses;
    });
    return refusing.length > 0 ? { spends: refusing, admission } : null;
  }

  #recall(spend: Spend): Outcome | null {
    const ban = this.#known.get(nameOf(spend));
    if (ban === undefined) return null;
    const nowMs = this.#clock.now();
    const sinceAskedMs = nowMs - ban.askedAtMs;
    // A negative age comes from a clock that has stepped back.
    if (sinceAskedMs < 0 || sinceAskedMs >= ban.lastsMs) return null;
    const sinceMs = Math.max(0, nowMs - ban.answeredAtMs);
    return { ...ban.outcome, decision: aged(ban.outcome.decision, sinceMs) };
  }

  async #look(spend: Spend): Promise<Outcome> {
    const askedAtMs = this.#clock.now();
    const outcome = await this.#limiter.look({ ...spend, cost: 0 });
    if (isBan(outcome) && spend.policy.isDenyCached) {
      const lastsMs = Math.min(longestMs, outcome.decision.bannedForMs);
      const answeredAtMs = this.#clock.now();
      this.#known.set(nameOf(spend), { outcome, askedAtMs, answeredAtMs, lastsMs });
    }
    return outcome;
  }
}

const isBan = (outcome: Outcome): outcome is Decided =>
  "decision" in outcome && outcome.decision.bannedForMs > 0;

const nameOf = ({ policy, partitionKey }: Pick<Spend, "policy" | "partitionKey">): string =>
  `${policy.name} ${partitionKey}`;
