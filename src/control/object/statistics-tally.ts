/** Sums of the counts of isolates: of one minute, of one hour, or since the control plane was created. */
import { isRecord } from "../../validation/problems.ts";
import { outcomeNames, type PolicyCounts, type StatisticsBatch } from "../protocol.ts";

/** The counts of one policy that can be added up, without its top lists. */
export type Counts = Pick<PolicyCounts, "outcomes" | "nearLimit" | "latency" | "latencySumMs">;

interface Sums {
  readonly outcomes: Map<string, number>;
  nearLimit: number;
  /** By bucket. */
  readonly latency: Map<number, number>;
  latencySumMs: number;
}

type TallySource = Pick<StatisticsBatch, "originFailures"> & {
  readonly policies: Readonly<Record<string, Counts>>;
};

const noSums = (): Sums => ({
  outcomes: new Map(),
  nearLimit: 0,
  latency: new Map(),
  latencySumMs: 0,
});

const addTo = <Key>(sums: Map<Key, number>, key: Key, count: number): void =>
  void sums.set(key, (sums.get(key) ?? 0) + count);

export class Tally {
  readonly #policies = new Map<string, Sums>();
  originFailures = 0;

  /** Adds a batch, or the value of another tally's `toJSON`. */
  add({ policies, originFailures }: TallySource): void {
    this.originFailures += originFailures;
    for (const [policy, counts] of Object.entries(policies)) {
      const sums = this.#policies.get(policy) ?? noSums();
      this.#policies.set(policy, sums);
      for (const [outcome, count] of Object.entries(counts.outcomes)) {
        addTo(sums.outcomes, outcome, count);
      }
      sums.nearLimit += counts.nearLimit;
      for (const [bucket, count] of counts.latency) addTo(sums.latency, bucket, count);
      sums.latencySumMs += counts.latencySumMs;
    }
  }

  get policies(): string[] {
    return [...this.#policies.keys()];
  }

  /** The counts of a policy; zeros for one without any. */
  of(policy: string): Counts {
    const { outcomes, latency, nearLimit, latencySumMs } = this.#policies.get(policy) ?? noSums();
    return {
      outcomes: Object.fromEntries(outcomes),
      nearLimit,
      latency: [...latency].toSorted(([one], [other]) => one - other),
      latencySumMs,
    };
  }

  toJSON(): TallySource {
    const policies = this.policies.map((policy) => [policy, this.of(policy)] as const);
    return { policies: Object.fromEntries(policies), originFailures: this.originFailures };
  }

  /** Reads the JSON of a tally. Skips parts in an unknown form. */
  static revived(stored: unknown): Tally {
    const tally = new Tally();
    if (isRecord(stored) && isRecord(stored["policies"])) {
      const policies = Object.entries(stored["policies"]).flatMap(([policy, counts]) => {
        const read = countsIn(counts);
        return read === null ? [] : [[policy, read] as const];
      });
      const originFailures = numberIn(stored["originFailures"]);
      tally.add({ policies: Object.fromEntries(policies), originFailures });
    }
    return tally;
  }
}

const numberIn = (value: unknown): number => (typeof value === "number" && Number.isFinite(value) ? value : 0);

function countsIn(stored: unknown): Counts | null {
  if (!isRecord(stored) || !isRecord(stored["outcomes"])) return null;
  const { outcomes, nearLimit, latency, latencySumMs } = stored;
  const buckets: unknown[] = Array.isArray(latency) ? latency : [];
  return {
    outcomes: Object.fromEntries(Object.entries(outcomes).map(([outcome, count]) => [outcome, numberIn(count)])),
    nearLimit: numberIn(nearLimit),
    latency: buckets.flatMap((pair) => (Array.isArray(pair) ? [[numberIn(pair[0]), numberIn(pair[1])] as const] : [])),
    latencySumMs: numberIn(latencySumMs),
  };
}

/** The number of decisions of all outcomes. */
export const decisionsIn = ({ outcomes }: Counts): number =>
  outcomeNames.reduce((sum, outcome) => sum + (outcomes[outcome] ?? 0), 0);

/** The number of decisions by limits, or in their place: those that samples of traffic have. */
export const limitedIn = (counts: Counts): number =>
  decisionsIn(counts) - (counts.outcomes.exempt ?? 0) - (counts.outcomes.blocked ?? 0);

/** The number of denied requests: by a limit, a ban or a block. Dry runs and decisions by `onError` are no part of it. */
export const denialsIn = ({ outcomes: { denied = 0, banned = 0, blocked = 0 } }: Counts): number =>
  denied + banned + blocked;

/** The number of decisions without the object's answer. */
export const fallbacksIn = ({ outcomes }: Counts): number =>
  (outcomes["fallback-local"] ?? 0) + (outcomes["fallback-open"] ?? 0) + (outcomes["fallback-closed"] ?? 0);
