/** The first requests of a scenario's traffic, in order of time. Retries depend on decisions, so each lane adds its own. */
import { seededRandom } from "../../../advisor/replay/clients.ts";
import type { Arrivals, Rate, Scenario, TimedRequests } from "./scenario.ts";

/** @param log the requests of the pasted log, for traffic of the kind `log` */
export function arrivalsOf(scenario: Scenario, log: Arrivals | null): Arrivals {
  const { traffic, lengthMs, startMs, seed } = scenario;
  const times = (atMs: readonly number[]): Arrivals => sentAt(scenario, atMs);
  switch (traffic.kind) {
    case "steady":
      return times(steadyTimes(traffic.rate, lengthMs));
    case "poisson":
      return times(poissonTimes(traffic.rate, lengthMs, seed));
    case "bursts":
      return times(burstTimes(traffic, lengthMs));
    case "times":
      return exactArrivals(scenario, traffic.times);
    case "log":
      return (
        log ?? {
          startMs,
          ...columnsOf(
            [],
            () => 0,
            () => 1,
          ),
          keys: [],
        }
      );
    default:
      return traffic satisfies never;
  }
}

function steadyTimes({ count, windowMs }: Rate, lengthMs: number): number[] {
  const requests = Math.ceil((count * lengthMs) / windowMs);
  return Array.from({ length: requests }, (_, index) => Math.floor((index * windowMs) / count));
}

function poissonTimes({ count, windowMs }: Rate, lengthMs: number, seed: number): number[] {
  const random = seededRandom(seed);
  const times: number[] = [];
  const gapMs = (): number => (-Math.log(1 - random()) * windowMs) / count;
  for (let atMs = gapMs(); atMs < lengthMs; atMs += gapMs()) times.push(Math.floor(atMs));
  return times;
}

interface Bursts {
  readonly size: number;
  readonly withinMs: number;
  readonly firstMs: number;
  readonly everyMs: number;
}

function burstTimes({ size, withinMs, firstMs, everyMs }: Bursts, lengthMs: number): number[] {
  const times: number[] = [];
  for (let fromMs = firstMs; fromMs < lengthMs; fromMs += everyMs) {
    for (let index = 0; index < size; index++) {
      times.push(fromMs + Math.floor((index * withinMs) / size));
    }
  }
  // Bursts overlap if one lasts longer than the time to the next.
  return withinMs > everyMs ? times.toSorted((a, b) => a - b) : times;
}

function exactArrivals(scenario: Scenario, written: readonly TimedRequests[]): Arrivals {
  const times = written.toSorted((a, b) => a.atMs - b.atMs);
  const each = times.flatMap(({ atMs, count, cost }) => Array.from({ length: count }, () => ({ atMs, cost })));
  return sentAt(
    scenario,
    each.map(({ atMs }) => atMs),
    (row) => each[row]?.cost ?? scenario.cost,
  );
}

/** Requests at these times, each from a client of the scenario. */
function sentAt(
  { startMs, keys, skew, seed, cost }: Scenario,
  atMs: readonly number[],
  costOf: (row: number) => number = () => cost,
): Arrivals {
  const key = keyPicker(keys, skew, seed);
  return { startMs, ...columnsOf(atMs, key, costOf), keys: clientNames(keys) };
}

/** A loop: `Float64Array.from` with a function is slow. */
function columnsOf(times: readonly number[], keyOf: (row: number) => number, costOf: (row: number) => number) {
  const { length } = times;
  const [atMs, key, cost] = [Float64Array.from(times), new Uint32Array(length), new Float64Array(length)];
  for (let row = 0; row < length; row++) {
    key[row] = keyOf(row);
    cost[row] = costOf(row);
  }
  return { atMs, key, cost };
}

const clientNames = (keys: number): string[] => Array.from({ length: keys }, (_, index) => `client-${index + 1}`);

/** Picks client `n` (from 1) with a probability in proportion to `1 / n ** skew`. */
function keyPicker(keys: number, skew: number, seed: number): () => number {
  if (keys === 1) return () => 0;
  let sum = 0;
  const sums = Float64Array.from({ length: keys }, (_, index) => (sum += (index + 1) ** -skew));
  // Not the numbers that place Poisson requests in time.
  const random = seededRandom(seed ^ 0x5bd1e995);
  return () => {
    const point = random() * sum;
    let [low, high] = [0, keys - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((sums[middle] ?? 0) > point) high = middle;
      else low = middle + 1;
    }
    return low;
  };
}
