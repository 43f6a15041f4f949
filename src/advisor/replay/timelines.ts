/**
 * Timelines: the arrivals of each key with their costs and outcomes, in columns. They come from the samples of a deployment
 * or from an access log.
 */
import { isCount, isInstant } from "../../strategies/integers.ts";

/** The outcome of an arrival. `unknown`: a log does not state it. The number of an outcome is its index here. */
export const arrivalOutcomes = [
  "unknown",
  "allowed",
  "denied",
  "banned",
  "dry-run-denied",
  "fallback-local",
  "fallback-open",
  "fallback-closed",
] as const;
export type ArrivalOutcome = (typeof arrivalOutcomes)[number];

/** An arrival that was reserved, and settled when its actual cost was known. */
export interface ArrivalReservation {
  readonly ttlMs: number;
  /** Null while it is not settled. */
  readonly settledAtMs: number | null;
  /** The actual cost; the cost of the arrival while it is not settled. */
  readonly settledCost: number;
}

/** One arrival of a key. Times are integer milliseconds since the Unix epoch. */
export interface Arrival {
  readonly atMs: number;
  readonly cost: number;
  readonly outcome: ArrivalOutcome;
  readonly reservation?: ArrivalReservation;
}

/** The traffic that the timelines are a part of, so that every result can state how much of the traffic it is based on. */
export interface TimelinesSource {
  /** The period that the timelines cover. */
  readonly fromMs: number;
  readonly toMs: number;
  /** One key in this many is in the timelines. 1: all keys. */
  readonly oneKeyIn: number;
  /** All requests of the period, of keys in the timelines or not; null when unknown. */
  readonly requests: number | null;
  /** Arrivals of the keys that were not recorded, because a beat had no room. */
  readonly lostArrivals: number;
  /** Arrivals left out because limits other than the policy's decided them: overrides and key rules. */
  readonly otherLimitsArrivals: number;
  /** How long the source keeps arrivals. Default: for ever, as a log does. */
  readonly keptMs?: number;
  /** Whether only the second of each arrival is known, and its instant within the second is random. */
  readonly hasWholeSeconds?: boolean;
}

export interface Timelines {
  /** Partition keys; for a log, the keys as written. */
  readonly keys: readonly string[];
  /** The arrivals of key `k` are the rows from `firstRow[k]` to `firstRow[k + 1]` (exclusive), in order of time. */
  readonly firstRow: Uint32Array;
  readonly atMs: Float64Array;
  readonly cost: Float64Array;
  /** Index in `arrivalOutcomes`. */
  readonly outcome: Uint8Array;
  /** The reservation of each row. Empty when no arrival has a reservation. */
  readonly reservations: ReadonlyMap<number, ArrivalReservation>;
  readonly source: TimelinesSource;
}

/** The number of requests of each key. */
export const requestCounts = ({ keys, firstRow }: Timelines): Uint32Array =>
  Uint32Array.from(keys, (_, key) => (firstRow[key + 1] ?? 0) - (firstRow[key] ?? 0));

const firstCapacity = 1_024;
const deniedOutcomes: ReadonlySet<ArrivalOutcome> = new Set(["denied", "banned", "dry-run-denied", "fallback-closed"]);

/** Whether the outcome spends nothing. */
export const isDeniedOutcome = (outcome: ArrivalOutcome): boolean => deniedOutcomes.has(outcome);

/** Collects arrivals in any order of keys and times. */
export class TimelinesBuilder {
  /** The number of arrivals that were added. */
  arrivals = 0;
  readonly #indexes = new Map<string, number>();
  readonly #reservations = new Map<number, ArrivalReservation>();
  #key = new Uint32Array(firstCapacity);
  #atMs = new Float64Array(firstCapacity);
  #cost = new Float64Array(firstCapacity);
  #outcome = new Uint8Array(firstCapacity);

  /**
   * Returns the number of the arrival, from 0 in the order of the calls.
   * @throws RangeError if a number of the arrival is no integer of at least 0
   */
  add(key: string, { atMs, cost, outcome, reservation }: Arrival): number {
    if (!isInstant(atMs) || !isCount(cost)) {
      const found = isInstant(atMs) ? `cost ${String(cost)}` : `atMs ${String(atMs)}`;
      throw new RangeError(`an arrival needs integers of at least 0, got ${found}`);
    }
    const row = this.arrivals++;
    if (row === this.#key.length) this.#grow();
    let index = this.#indexes.get(key);
    if (index === undefined) {
      index = this.#indexes.size;
      // A copy, because a slice of a longer text would keep all of that text in memory.
      this.#indexes.set(detached(key), index);
    }
    this.#key[row] = index;
    this.#atMs[row] = atMs;
    this.#cost[row] = cost;
    this.#outcome[row] = arrivalOutcomes.indexOf(outcome);
    if (reservation !== undefined) this.#reservations.set(row, reservation);
    return row;
  }

  /** Adds the arrivals of one key of other timelines, up to `untilMs` (exclusive). */
  addKey({ keys, firstRow, atMs, cost, outcome, reservations }: Timelines, index: number, untilMs = Infinity): void {
    for (let row = firstRow[index] ?? 0; row < (firstRow[index + 1] ?? 0); row++) {
      const at = atMs[row] ?? 0;
      if (at >= untilMs) return;
      const reservation = reservations.get(row);
      this.add(keys[index] ?? "", {
        atMs: at,
        cost: cost[row] ?? 0,
        outcome: arrivalOutcomes[outcome[row] ?? 0] ?? "unknown",
        ...(reservation && { reservation }),
      });
    }
  }

  /** Changes the reservation of an arrival, for example to a settled one. `retain` changes the numbers of arrivals. */
  setReservation(arrival: number, reservation: ArrivalReservation): void {
    this.#reservations.set(arrival, reservation);
  }

  /** The number of keys. */
  get keys(): number {
    return this.#indexes.size;
  }

  /** Removes the arrivals of all other keys, to bound memory. */
  retain(isRetained: (key: string) => boolean): void {
    const indexOf = new Map<number, number>();
    const retained = [...this.#indexes].filter(([key]) => isRetained(key));
    this.#indexes.clear();
    for (const [key, index] of retained) {
      indexOf.set(index, this.#indexes.size);
      this.#indexes.set(key, this.#indexes.size);
    }
    const reservations = new Map(this.#reservations);
    this.#reservations.clear();
    let count = 0;
    for (let row = 0; row < this.arrivals; row++) {
      const index = indexOf.get(this.#key[row] ?? 0);
      if (index === undefined) continue;
      this.#key[count] = index;
      this.#atMs[count] = this.#atMs[row] ?? 0;
      this.#cost[count] = this.#cost[row] ?? 0;
      this.#outcome[count] = this.#outcome[row] ?? 0;
      const reservation = reservations.get(row);
      if (reservation !== undefined) this.#reservations.set(count, reservation);
      count++;
    }
    this.arrivals = count;
  }

  finish(source: TimelinesSource): Timelines {
    const keys = [...this.#indexes.keys()];
    const columns = { key: this.#key, atMs: this.#atMs, outcome: this.#outcome };
    const { rows, firstRow } = orderedRows(columns, keys.length, this.arrivals);
    const reservations = new Map<number, ArrivalReservation>();
    if (this.#reservations.size > 0) {
      for (const [row, added] of rows.entries()) {
        const reservation = this.#reservations.get(added);
        if (reservation !== undefined) reservations.set(row, reservation);
      }
    }
    return {
      keys,
      firstRow,
      atMs: gathered(this.#atMs, rows, new Float64Array(rows.length)),
      cost: gathered(this.#cost, rows, new Float64Array(rows.length)),
      outcome: gathered(this.#outcome, rows, new Uint8Array(rows.length)),
      reservations,
      source,
    };
  }

  #grow(): void {
    const bytes = 2 * this.#key.byteLength;
    this.#key = new Uint32Array(this.#key.buffer.transfer(bytes));
    this.#atMs = new Float64Array(this.#atMs.buffer.transfer(2 * bytes));
    this.#cost = new Float64Array(this.#cost.buffer.transfer(2 * bytes));
    this.#outcome = new Uint8Array(this.#outcome.buffer.transfer(bytes / 4));
  }
}

/** The values of the rows. A loop is ten times as fast as `from` of a typed array. */
function gathered<Column extends Float64Array | Uint8Array>(column: Column, rows: Uint32Array, values: Column): Column {
  for (let place = 0; place < rows.length; place++) values[place] = column[rows[place] ?? 0] ?? 0;
  return values;
}

const detached = (text: string): string => String(JSON.parse(JSON.stringify(text)));

interface Columns extends Pick<Timelines, "atMs" | "outcome"> {
  readonly key: Uint32Array;
}

/** The rows by key, and the rows of each key in order of time. */
function orderedRows(
  { key, atMs, outcome }: Columns,
  keys: number,
  count: number,
): { readonly rows: Uint32Array; readonly firstRow: Uint32Array } {
  const firstRow = new Uint32Array(keys + 1);
  for (let row = 0; row < count; row++) {
    const next = (key[row] ?? 0) + 1;
    firstRow[next] = (firstRow[next] ?? 0) + 1;
  }
  for (let index = 0; index < keys; index++) {
    firstRow[index + 1] = (firstRow[index + 1] ?? 0) + (firstRow[index] ?? 0);
  }
  const free = firstRow.slice();
  const rows = new Uint32Array(count);
  for (let row = 0; row < count; row++) {
    const index = key[row] ?? 0;
    const place = free[index] ?? 0;
    rows[place] = row;
    free[index] = place + 1;
  }
  const isDenied = arrivalOutcomes.map(isDeniedOutcome);
  // The order of decisions within a millisecond is not recorded. A denial spends nothing, so decisions in which the allowed
  // arrivals come first are equal to those in any other order.
  const compare = (a: number, b: number): number =>
    (atMs[a] ?? 0) - (atMs[b] ?? 0) || Number(isDenied[outcome[a] ?? 0]) - Number(isDenied[outcome[b] ?? 0]) || a - b;
  for (let index = 0; index < keys; index++) {
    const own = rows.subarray(firstRow[index], firstRow[index + 1]);
    if (!isOrdered(own, compare)) own.sort(compare);
  }
  return { rows, firstRow };
}

function isOrdered(rows: Uint32Array, compare: (a: number, b: number) => number): boolean {
  for (let place = 1; place < rows.length; place++) {
    if (compare(rows[place - 1] ?? 0, rows[place] ?? 0) > 0) return false;
  }
  return true;
}

/** How many spans keep their result for each timelines. A search for a limit asks for the same few spans repeatedly. */
const mostKept = 64;
const known = new WeakMap<Timelines, Map<number, Float64Array>>();

/**
 * The most units of each key within any span of `windowMs`, by the costs of its arrivals, allowed or not. Two arrivals exactly
 * one window apart are never in the same span. The result is kept as long as the timelines are.
 */
export function peaks(timelines: Timelines, windowMs: number): Float64Array {
  const kept = known.get(timelines) ?? new Map<number, Float64Array>();
  known.set(timelines, kept);
  const found = kept.get(windowMs);
  if (found !== undefined) return found;
  const { firstRow, atMs, cost } = timelines;
  const most = new Float64Array(timelines.keys.length);
  for (let key = 0; key < most.length; key++) {
    const [from = 0, to = 0] = [firstRow[key], firstRow[key + 1]];
    most[key] = mostWithin(atMs, cost, { from, to, windowMs, isIncluded: null });
  }
  const [oldest] = kept.keys();
  if (kept.size === mostKept && oldest !== undefined) kept.delete(oldest);
  kept.set(windowMs, most);
  return most;
}

/** The greatest value; 0 without values. A loop, because the number of arguments of `Math.max` is limited. */
export function greatest(values: Float64Array): number {
  let most = 0;
  for (const value of values) if (value > most) most = value;
  return most;
}

interface Rows {
  readonly from: number;
  /** Exclusive. */
  readonly to: number;
  readonly windowMs: number;
  /** Nonzero for each row that counts. Null: all rows count. */
  readonly isIncluded: Uint8Array | null;
}

/** The most units of rows in order of time within any span of a window. */
export function mostWithin(atMs: Float64Array, units: Float64Array, { from, to, windowMs, isIncluded }: Rows): number {
  let [most, sum, oldest] = [0, 0, from];
  for (let row = from; row < to; row++) {
    if (isIncluded?.[row] === 0) continue;
    const endedMs = (atMs[row] ?? 0) - windowMs;
    for (; oldest < row && (atMs[oldest] ?? 0) <= endedMs; oldest++) {
      if (isIncluded?.[oldest] !== 0) sum -= units[oldest] ?? 0;
    }
    sum += units[row] ?? 0;
    if (sum > most) most = sum;
  }
  return most;
}

/** States that the replay of a policy within another one leaves out its ancestors: a sample has the requests of one policy. */
export const levelNote = (policy: string, parent: string): string =>
  `This replays ${policy} alone. Requests that only ${parent} or a policy above it denied are not in its traffic, and the limits of those policies are not replayed.`;
