/** Notes when keys of the policies in `ALERT_KEYS` pass 80, 90 or 100 % of a limit. */
import { BoundedMap } from "../../policy/bounded-map.ts";
import type { Decision, LimitDecision } from "../../strategies/index.ts";
import type { KeyAlert } from "../protocol.ts";

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
  readonly #policies: ReadonlySet<string>;
  /** By policy and limit, then by key. One map would need a text of all three, built for each decision. */
  readonly #passed = new Map<string, Map<string, BoundedMap<Passed>>>();
  #alerts: KeyAlert[] = [];

  constructor(policies: ReadonlySet<string>) {
    this.#policies = policies;
  }

  isAlerted(policy: string): boolean {
    return this.#policies.has(policy);
  }

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
    const limits = this.#passed.get(policy) ?? new Map<string, BoundedMap<Passed>>();
    const passed = limits.get(limit) ?? new BoundedMap<Passed>(mostPassed);
    if (limits.size === 0) this.#passed.set(policy, limits);
    if (!limits.has(limit)) limits.set(limit, passed);
    return passed;
  }

  /** Removes and returns the alerts since the last call, at most 64. */
  drain(): readonly KeyAlert[] {
    const alerts = this.#alerts;
    this.#alerts = [];
    return alerts;
  }
}

function passedPercent({ capacity, remaining }: LimitDecision): KeyAlert["percent"] | null {
  const used = capacity - remaining;
  for (const percent of percents) {
    // In whole numbers: a share such as 0.9 is not exact in binary.
    if (used * 100 >= capacity * percent) return percent;
  }
  return null;
}
