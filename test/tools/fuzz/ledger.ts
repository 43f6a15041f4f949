/**
 * Bounds on what each key has spent, derived from requests and responses alone. All windows outlast a run, so spent
 * units stay spent. A limiter that reports more remaining units than the upper bound has created quota. A limiter that
 * denies a request that fits has lost quota.
 */

/** The name of a limit and its units. */
export interface Quota {
  readonly name: string;
  readonly limit: number;
  /** Set for a bucket, which forgets old charges and may refund less than was charged. */
  readonly isForgetful?: boolean;
}

/** The units that a policy charges to a key for an allowed request. */
export interface ExpectedCharge {
  readonly policy: string;
  /** Identifies the key within the policy. */
  readonly key: string;
  /** The key as `/check` names it; null when `/check` cannot name it. */
  readonly named: readonly string[] | null;
  /** The limits for this request, which may come from an override. */
  readonly quotas: readonly Quota[];
  /** The limits for a look by the key alone. Default: the same limits. */
  readonly looked?: readonly Quota[];
  /** The cost that is charged before the origin is called. */
  readonly cost: number;
  /** The cost after the origin's response. */
  readonly finalCost: number;
  /** Set if the charge is refunded when a later key denies. Before the refund, more units are spent than at the end. */
  readonly isPassing?: boolean;
  /** Set for a dry run: it charges up to the limit, and never denies. */
  readonly isDryRun?: boolean;
}

/** Bounds on the units that a key has spent. They are equal for each limit of the key. */
interface KeyBounds {
  readonly charge: ExpectedCharge;
  /** The smallest number of units that can be spent, judged by the responses so far. */
  least: number;
  /** The largest number of units that can be spent: by all requests that were sent and not denied. */
  most: number;
  /** The final cost of all requests with a response. */
  final: number;
  /** The cost of requests with an unknown outcome. */
  unknown: number;
}

/** A request in progress, with the lower bounds at the time when it was sent. */
export interface SentRequest {
  readonly charges: readonly ExpectedCharge[];
  readonly leastBefore: readonly number[];
}

/** The reported remaining units by the name of the limit. */
export type RemainingByLimit = ReadonlyMap<string, number>;

/** The limits that `/check` uses to look at a key. */
export const lookQuotas = ({ quotas, looked }: ExpectedCharge): readonly Quota[] => looked ?? quotas;

const mostOf = ({ cost, finalCost }: ExpectedCharge): number => Math.max(cost, finalCost);

export class SpendRecord {
  readonly #known = new Map<string, KeyBounds>();

  send(charges: readonly ExpectedCharge[]): SentRequest {
    const known = charges.map((charge) => this.#knownOf(charge));
    for (const [index, each] of known.entries()) each.most += mostOf(charges[index] as ExpectedCharge);
    return { charges, leastBefore: known.map(({ least }) => least) };
  }

  /**
   * Records that a request was allowed.
   * @param remaining null when the response reports none
   * @returns the faults in the response
   */
  allow({ charges, leastBefore }: SentRequest, remaining: RemainingByLimit | null): string[] {
    return charges.flatMap((charge, index) => {
      const known = this.#knownOf(charge);
      const before = leastBefore[index] ?? 0;
      const faults = charge.quotas.flatMap((quota) => {
        const mostLeft = quota.limit - before - charge.cost;
        if (charge.isDryRun === true) return [];
        if (mostLeft < 0) return [`"${quota.name}" allowed more than its limit of ${quota.limit}`];
        const leastLeft = quota.limit - known.most;
        return remaining === null ? [] : outOfBounds(quota, remaining.get(quota.name), leastLeft, mostLeft);
      });
      this.#spend(known, charge);
      return faults;
    });
  }

  #spend(known: KeyBounds, charge: ExpectedCharge): void {
    const least = Math.min(...charge.quotas.map(({ limit }) => limit));
    if (charge.isDryRun === true) {
      known.final = Math.min(least, known.final + charge.finalCost);
      return;
    }
    // The final cost is settled after the response. Until then, either cost may be spent.
    known.least += Math.min(charge.cost, charge.finalCost);
    known.final += charge.finalCost;
  }

  /**
   * Records that these limits denied a request.
   * @returns the faults in the response
   */
  deny({ charges }: SentRequest, violated: readonly string[]): string[] {
    const names = charges.flatMap(({ quotas }) => quotas.map(({ name }) => name));
    const unexpected = violated.find((name) => !names.includes(name));
    const faults = unexpected === undefined ? [] : [`"${unexpected}" denied a request that it does not apply to`];
    for (const charge of charges) {
      const known = this.#knownOf(charge);
      if (charge.isPassing !== true) known.most -= mostOf(charge);
      const others = charge.isPassing === true ? known.most - mostOf(charge) : known.most;
      for (const { name, limit } of charge.quotas) {
        const fits = others + charge.cost <= limit;
        if (violated.includes(name) && fits) faults.push(`"${name}" denied a request that fits`);
      }
    }
    return faults;
  }

  /** Records that the outcome of a request is unknown. */
  lose({ charges }: SentRequest): void {
    for (const charge of charges) this.#knownOf(charge).unknown += mostOf(charge);
  }

  /** The lower bound on the units that a key has spent. Read it before a look. */
  leastOf(charge: ExpectedCharge): number {
    return this.#knownOf(charge).least;
  }

  /** @returns the faults in the response to a look */
  looked(charge: ExpectedCharge, leastBefore: number, remaining: RemainingByLimit): string[] {
    const { most } = this.#knownOf(charge);
    return lookQuotas(charge).flatMap((quota) =>
      outOfBounds(quota, remaining.get(quota.name), quota.limit - most, quota.limit - leastBefore),
    );
  }

  /** One charge of each key, for the looks at the end of the run. */
  charges(): ExpectedCharge[] {
    return [...this.#known.values()].map(({ charge }) => charge);
  }

  /** @returns the faults in a key's remaining units at the end of the run */
  settled(charge: ExpectedCharge, remaining: RemainingByLimit): string[] {
    const { final, unknown, most } = this.#knownOf(charge);
    return lookQuotas(charge).flatMap((quota) => {
      const spentAtMost = quota.isForgetful === true ? most : final + unknown;
      const left = quota.limit - final;
      return outOfBounds(quota, remaining.get(quota.name), quota.limit - spentAtMost, left);
    });
  }

  #knownOf(charge: ExpectedCharge): KeyBounds {
    const name = `${charge.policy} ${charge.key}`;
    const known = this.#known.get(name) ?? { charge, least: 0, most: 0, final: 0, unknown: 0 };
    this.#known.set(name, known);
    return known;
  }
}

/** A debt is reported as 0 remaining. */
function outOfBounds({ name, limit }: Quota, remaining: number | undefined, least: number, most: number): string[] {
  const [from, to] = [Math.max(0, least), Math.max(0, most)];
  if (remaining === undefined) return [`the response does not report "${name}"`];
  if (remaining >= from && remaining <= to) return [];
  const expected = from === to ? `${from}` : `${from} to ${to}`;
  return [`"${name}": expected ${expected} of ${limit} remaining, got ${remaining}`];
}
