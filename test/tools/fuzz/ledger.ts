/**
 * What is known of each key from without: what it has spent at least, and at most. All windows outlast a run, so what is
 * spent stays spent: a limiter that lets in or tells more than this allows has made quota out of nothing, and one that
 * refuses what would have fitted has lost some.
 */

/** A limit by its name, and how many units it holds. */
export interface Quota {
  readonly name: string;
  readonly limit: number;
  /** A bucket, which does not remember all spends, may give back less than it could. */
  readonly isForgetful?: boolean;
}

/** What one policy takes of one key for a request that is let in. */
export interface ExpectedCharge {
  readonly policy: string;
  /** Tells the policy's keys apart. */
  readonly key: string;
  /** The key as `/check` names it; null when it cannot. */
  readonly named: readonly string[] | null;
  /** Those that hold for this request: an override has others. */
  readonly quotas: readonly Quota[];
  /** Those that hold where only the key is known; the same when left out. */
  readonly looked?: readonly Quota[];
  /** What is spent before the origin is asked. */
  readonly cost: number;
  /** What it has cost once the origin has answered. */
  readonly finalCost: number;
  /** Given back when another key denies, so that for a moment more is spent than there will be. */
  readonly isPassing?: boolean;
  /** Spends as far as it fits, and has no say. */
  readonly isDryRun?: boolean;
}

/** What is known of a key. Units are of each limit alike. */
interface KeyBounds {
  readonly charge: ExpectedCharge;
  /** Spent at least, by what has been answered. */
  least: number;
  /** Spent at most, by all that was sent and not refused. */
  most: number;
  /** What stays spent of all that was answered. */
  final: number;
  /** Of what nobody knows what has come. */
  unknown: number;
}

/** A request that is under way, with what was known for certain when it was sent. */
export interface SentRequest {
  readonly charges: readonly ExpectedCharge[];
  readonly leastBefore: readonly number[];
}

/** What remains of limits, by their names, as told. */
export type RemainingByLimit = ReadonlyMap<string, number>;

/** The limits by which `/check` looks at a key. */
export const lookQuotas = ({ quotas, looked }: ExpectedCharge): readonly Quota[] =>
  looked ?? quotas;

const mostOf = ({ cost, finalCost }: ExpectedCharge): number => Math.max(cost, finalCost);

export class SpendRecord {
  readonly #known = new Map<string, KeyBounds>();

  send(charges: readonly ExpectedCharge[]): SentRequest {
    const known = charges.map((charge) => this.#knownOf(charge));
    for (const [index, each] of known.entries())
      each.most += mostOf(charges[index] as ExpectedCharge);
    return { charges, leastBefore: known.map(({ least }) => least) };
  }

  /**
   * It was let in.
   * @param told null where nothing is told
   * @returns what is wrong with that, or with what it was told to remain
   */
  letIn({ charges, leastBefore }: SentRequest, told: RemainingByLimit | null): string[] {
    return charges.flatMap((charge, index) => {
      const known = this.#knownOf(charge);
      const before = leastBefore[index] ?? 0;
      const faults = charge.quotas.flatMap((quota) => {
        const mostLeft = quota.limit - before - charge.cost;
        if (charge.isDryRun === true) return [];
        if (mostLeft < 0) return [`"${quota.name}" let in more than its ${quota.limit}`];
        const leastLeft = quota.limit - known.most;
        return told === null ? [] : outOfBounds(quota, told.get(quota.name), leastLeft, mostLeft);
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
    // What it comes to is booked after the answer: until then it may be the one or the other.
    known.least += Math.min(charge.cost, charge.finalCost);
    known.final += charge.finalCost;
  }

  /** It was refused by these limits. @returns what is wrong with that */
  refuse({ charges }: SentRequest, violated: readonly string[]): string[] {
    const names = charges.flatMap(({ quotas }) => quotas.map(({ name }) => name));
    const stranger = violated.find((name) => !names.includes(name));
    const faults = stranger === undefined ? [] : [`"${stranger}" refused what it is not for`];
    for (const charge of charges) {
      const known = this.#knownOf(charge);
      if (charge.isPassing !== true) known.most -= mostOf(charge);
      const others = charge.isPassing === true ? known.most - mostOf(charge) : known.most;
      for (const { name, limit } of charge.quotas) {
        const fits = others + charge.cost <= limit;
        if (violated.includes(name) && fits)
          faults.push(`"${name}" refused what would have fitted`);
      }
    }
    return faults;
  }

  /** Nobody knows what came of it. */
  lose({ charges }: SentRequest): void {
    for (const charge of charges) this.#knownOf(charge).unknown += mostOf(charge);
  }

  /** What a key has spent at least, for a look that is about to be made. */
  leastOf(charge: ExpectedCharge): number {
    return this.#knownOf(charge).least;
  }

  /** After a look. @returns what is wrong with what it was told */
  looked(charge: ExpectedCharge, leastBefore: number, told: RemainingByLimit): string[] {
    const { most } = this.#knownOf(charge);
    return lookQuotas(charge).flatMap((quota) =>
      outOfBounds(quota, told.get(quota.name), quota.limit - most, quota.limit - leastBefore),
    );
  }

  /** All keys, to be looked at when nothing is under way any more. */
  charges(): ExpectedCharge[] {
    return [...this.#known.values()].map(({ charge }) => charge);
  }

  /** @returns what is wrong with what a key says to remain when all is over */
  settled(charge: ExpectedCharge, told: RemainingByLimit): string[] {
    const { final, unknown, most } = this.#knownOf(charge);
    return lookQuotas(charge).flatMap((quota) => {
      const spentAtMost = quota.isForgetful === true ? most : final + unknown;
      const left = quota.limit - final;
      return outOfBounds(quota, told.get(quota.name), quota.limit - spentAtMost, left);
    });
  }

  #knownOf(charge: ExpectedCharge): KeyBounds {
    const name = `${charge.policy} ${charge.key}`;
    const known = this.#known.get(name) ?? { charge, least: 0, most: 0, final: 0, unknown: 0 };
    this.#known.set(name, known);
    return known;
  }
}

/** Of a debt nothing is told but that nothing remains. */
function outOfBounds(
  { name, limit }: Quota,
  told: number | undefined,
  least: number,
  most: number,
): string[] {
  const [from, to] = [Math.max(0, least), Math.max(0, most)];
  if (told === undefined) return [`nothing is told of "${name}"`];
  if (told >= from && told <= to) return [];
  const expected = from === to ? `${from}` : `${from} to ${to}`;
  return [`"${name}" tells that ${told} of ${limit} remain, where it is ${expected}`];
}
