/** Notes when keys of the policies in `ALERT_KEYS` pass 80, 90 or 100 % of a limit. */
import { BoundedMap } from "../../limiter/bounded-map.ts";
import type { Decision, LimitDecision } from "../../strategies/index.ts";
import type { KeyAlert } from "../protocol.ts";

/** The greatest first. */
const percents = [100, 90, 80] as const;

const mostPassed = 1_024;
const mostAlerts = 64;

interface Passed {
  readonly percent: number;
  /** When all usage has gone, in milliseconds since the Unix epoch. */
  readonly untilMs: number;
}

export class KeyAlerts {
  readonly #policies: ReadonlySet<string>;
  /** By policy, key and limit. */
  readonly #passed = new BoundedMap<Passed>(mostPassed);
  #alerts: KeyAlert[] = [];

  constructor(policies: ReadonlySet<string>) {
    this.#policies = policies;
  }

  isAlerted(policy: string): boolean {
    return this.#policies.has(policy);
  }

  /** Notes the greatest percentage that a key has newly passed of each limit: once until its usage has gone. */
  note(policy: string, key: string, { limits }: Decision, nowMs: number): void {
    for (const limit of limits) {
      const percent = passedPercent(limit);
      if (percent === null) continue;
      const name = `${policy} ${key} ${limit.name}`;
      const known = this.#passed.get(name);
      const isNew = known === undefined || nowMs >= known.untilMs;
      if (!isNew && known.percent >= percent) continue;
      const untilMs = isNew ? nowMs + limit.resetAfterMs : known.untilMs;
      this.#passed.set(name, { percent, untilMs });
      if (this.#alerts.length < mostAlerts) {
        this.#alerts.push({ policy, key, limit: limit.name, percent });
      }
    }
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
