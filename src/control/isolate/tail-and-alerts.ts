/** Denials for the live tail, and keys that pass 80, 90 or 100 % of a limit: beats report them one by one. */
import type { PlainKey } from "../../policy/key.ts";
import { BoundedMap } from "../../policy/caches.ts";
import type { Decision, LimitDecision } from "../../strategies/index.ts";
import type { KeyAlert, TailEntry } from "../protocol.ts";

export interface SampledDenial extends Omit<TailEntry, "agoMs" | "sealed"> {
  readonly atMs: number;
  /** Null when keys are not revealed, or when the key is too long. */
  readonly plain: PlainKey | null;
}

const mostSampled = 20;

/**
 * Holds the first denials. When the sample is full, a new denial replaces a denial of the policy that has the most in
 * it: a flood of denials by one policy must not hide those of others.
 */
export class TailSample {
  #denials: SampledDenial[] = [];
  readonly #counts = new Map<string, number>();
  /** The greatest of `#counts`. */
  #most = 0;

  /**
   * Whether `add` would change the sample. If not, as for most denials of a flood, the caller need not describe the
   * denial.
   */
  wants(policy: string): boolean {
    return this.#denials.length < mostSampled || this.#most > (this.#counts.get(policy) ?? 0) + 1;
  }

  add(denial: SampledDenial): void {
    const { policy } = denial;
    if (!this.wants(policy)) return;
    if (this.#denials.length >= mostSampled) this.#dropCrowded();
    this.#denials.push(denial);
    this.#counts.set(policy, (this.#counts.get(policy) ?? 0) + 1);
    this.#most = Math.max(...this.#counts.values());
  }

  /** Removes and returns the sample. */
  drain(): readonly SampledDenial[] {
    const denials = this.#denials;
    this.#denials = [];
    this.#counts.clear();
    this.#most = 0;
    return denials;
  }

  /** Drops the last denial of the policy that has the most denials in the sample. */
  #dropCrowded(): void {
    const last = this.#denials.findLastIndex(({ policy }) => this.#counts.get(policy) === this.#most);
    const [dropped] = this.#denials.splice(last, 1);
    if (dropped !== undefined) this.#counts.set(dropped.policy, this.#most - 1);
  }
}

/** The greatest first. */
const percents = [100, 90, 80] as const;

/** Keys that are remembered for each limit. */
const mostPassed = 1_024;
const mostAlerts = 64;

interface Passed {
  readonly percent: number;
  /** When the key's usage is 0 again, in milliseconds since the Unix epoch. */
  readonly untilMs: number;
}

export class KeyAlerts {
  /** By policy and limit, then by key. */
  readonly #passed = new Map<string, BoundedMap<Passed>>();
  #alerts: KeyAlert[] = [];

  /**
   * Notes, for each limit, the greatest percentage that the key has newly passed. Each is noted once until the key's
   * usage is 0 again. Notes nothing while the next beat is full, so that a later decision of the key can note it.
   */
  note(policy: string, key: string, { limits }: Decision, nowMs: number): void {
    for (const limit of limits) {
      if (this.#alerts.length >= mostAlerts) return;
      const percent = passedPercent(limit);
      if (percent === null) continue;
      const passed = this.#passedOf(policy, limit.name);
      const known = passed.get(key);
      const isNew = known === undefined || nowMs >= known.untilMs;
      if (!isNew && known.percent >= percent) continue;
      const untilMs = isNew ? nowMs + limit.resetAfterMs : known.untilMs;
      passed.set(key, { percent, untilMs });
      this.#alerts.push({ policy, key, limit: limit.name, percent });
    }
  }

  #passedOf(policy: string, limit: string): BoundedMap<Passed> {
    const name = `${policy} ${limit}`;
    const passed = this.#passed.get(name) ?? new BoundedMap<Passed>(mostPassed);
    this.#passed.set(name, passed);
    return passed;
  }

  /** Removes and returns the alerts since the last call, at most 64. */
  drain(): readonly KeyAlert[] {
    const alerts = this.#alerts;
    this.#alerts = [];
    return alerts;
  }
}

/** In whole numbers: a share such as 0.9 is not exact in binary. */
const passedPercent = ({ capacity, remaining }: LimitDecision): KeyAlert["percent"] | null =>
  percents.find((percent) => (capacity - remaining) * 100 >= capacity * percent) ?? null;
