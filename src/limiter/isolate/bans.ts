/** Finds out whether keys that a request does not charge are banned, or blocked by a key rule. */
import type { Policy } from "../../policy/policy.ts";
import { compareVersions } from "../../policy/runtime-rules.ts";
import { BoundedMap } from "../../policy/caches.ts";
import type { Decision } from "../../strategies/index.ts";
import type { LimiterClient } from "./client.ts";
import { type Clock, platformClock } from "../clock.ts";
import { cachedForMs, longestCacheMs, type ReplyTimes } from "./deny-cache.ts";
import type { RequestScope } from "./newer-rules-retry.ts";
import { aged, ChargeResult, isByKeyRule, type Outcome, policyKey, type Spend } from "./outcome.ts";

const maximumKeys = 4_096;

/** The spends that cause the denial of a request, and their outcomes. */
export interface Refusal {
  readonly spends: readonly Spend[];
  readonly admission: ChargeResult;
}

interface CachedBan {
  readonly outcome: Outcome;
  readonly decision: Decision;
  readonly times: ReplyTimes;
  readonly validMs: number;
}

export class Bans {
  readonly #limiter: Pick<LimiterClient, "look">;
  readonly #clock: Pick<Clock, "now">;
  /** A flood from a banned client must not call the objects for each request. */
  readonly #cache = new BoundedMap<CachedBan>(maximumKeys);

  constructor(limiter: Pick<LimiterClient, "look">, clock: Pick<Clock, "now"> = platformClock) {
    this.#limiter = limiter;
    this.#clock = clock;
  }

  /** The refusal by cached bans, without a call of an object; null when no cached ban applies. */
  cached(spends: readonly Spend[]): Refusal | null {
    const outcomes = spends.map((spend) => this.#recall(spend));
    return this.#refusalOf(spends, outcomes);
  }

  /**
   * The refusal by bans and by rules that block a key. Looks at the object of each key. `onError = "closed"` refuses
   * when the object does not answer.
   * @returns null when no key is banned or blocked
   */
  async find(spends: readonly Spend[], scope: RequestScope): Promise<Refusal | null> {
    const outcomes = await Promise.all(spends.map((spend) => this.#look(spend, scope)));
    return this.#refusalOf(spends, outcomes);
  }

  /** Drops the cached ban when the key's state for the policy is deleted. */
  forget(policy: Policy, partitionKey: string): void {
    this.#cache.delete(policyKey({ policy, partitionKey }));
  }

  #refusalOf(spends: readonly Spend[], outcomes: readonly (Outcome | null)[]): Refusal | null {
    const admission = new ChargeResult();
    admission.isRefused = true;
    admission.decidedAtMs = this.#clock.now();
    const refused: Spend[] = [];
    for (const [index, spend] of spends.entries()) {
      const outcome = outcomes[index] ?? null;
      if (outcome === null || !(isBarred(outcome) || outcome.kind === "closed")) continue;
      // A policy counts as denying once, however many of the request's keys are banned or blocked.
      if (refused.some(({ policy }) => policy.name === spend.policy.name)) continue;
      refused.push(spend);
      admission.addOutcomes([outcome]);
    }
    return refused.length > 0 ? { spends: refused, admission } : null;
  }

  #recall(spend: Spend): Outcome | null {
    const ban = this.#cache.get(policyKey(spend));
    if (ban === undefined || !haveSameRules(ban.outcome.policy, spend.policy)) return null;
    const decidedAtMs = this.#clock.now();
    const ageMs = cachedForMs(ban.times, ban.validMs, decidedAtMs);
    if (ageMs === null) return null;
    return { ...ban.outcome, decision: aged(ban.decision, ageMs), decidedAtMs };
  }

  async #look(spend: Spend, scope: RequestScope): Promise<Outcome> {
    const calledAtMs = this.#clock.now();
    const outcome = await this.#limiter.look({ ...spend, cost: 0 }, scope);
    const { decision } = outcome;
    if (decision !== null && isBarred(outcome) && spend.policy.isDenyCached) {
      const { bannedForMs } = decision;
      const validMs = Math.min(longestCacheMs, bannedForMs > 0 ? bannedForMs : longestCacheMs);
      const times = { calledAtMs, answeredAtMs: this.#clock.now() };
      this.#cache.set(policyKey(spend), { outcome, decision, times, validMs });
    }
    return outcome;
  }
}

/** Whether an outcome is a ban or a block. */
const isBarred = (outcome: Outcome): boolean =>
  (outcome.decision?.bannedForMs ?? 0) > 0 || isByKeyRule(outcome, "block");

/** Whether the policies have runtime rules of the same version. */
const haveSameRules = ({ rules: one }: Policy, { rules: other }: Policy): boolean =>
  one === other || (one !== null && other !== null && compareVersions(one, other) === 0);
