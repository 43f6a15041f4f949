/** The first requests of a scenario, in order of time. Retries depend on decisions, so each lane adds its own. */
import { seededRandom } from "../../../advisor/replay/clients.ts";
import type { Columns } from "./columns.ts";
import type { Scenario, TimedRequests } from "./scenario.ts";

/** Columns of equal length, one row for each request. */
export interface Arrivals extends Pick<Columns, "atMs" | "key" | "cost"> {
  readonly startMs: number;
  readonly keys: readonly string[];
}

/** The first requests of a scenario; none for a log, whose text is not part of the scenario. */
export function arrivalsOf(scenario: Scenario): Arrivals {
  const { startMs, keys } = scenario;
  const requests = requestsOf(scenario);
  const length = requests.reduce((sum, { count }) => sum + count, 0);
  const columns = { atMs: new Float64Array(length), key: new Uint32Array(length), cost: new Float64Array(length) };
  const nextKey = keyPicker(scenario);
  let row = 0;
  for (const { atMs, count, cost } of requests) {
    for (const end = row + count; row < end; row++) {
      columns.atMs[row] = atMs;
      columns.key[row] = nextKey();
      columns.cost[row] = cost ?? scenario.cost;
    }
  }
  return { startMs, ...columns, keys: Array.from({ length: keys }, (_, index) => `client-${index + 1}`) };
}

function requestsOf(scenario: Scenario): readonly TimedRequests[] {
  const { traffic } = scenario;
  switch (traffic) {
    case "steady":
      return steady(scenario);
    case "poisson":
      return poisson(scenario);
    case "bursts":
      return bursts(scenario);
    case "times":
      return scenario.times.toSorted((a, b) => a.atMs - b.atMs);
    case "log":
      return [];
    default:
      return traffic satisfies never;
  }
}

const requestAt = (atMs: number): TimedRequests => ({ atMs: Math.floor(atMs), count: 1, cost: null });

function steady({ rate: { count, windowMs }, lengthMs }: Scenario): TimedRequests[] {
  const requests = Math.ceil((count * lengthMs) / windowMs);
  return Array.from({ length: requests }, (_, index) => requestAt((index * windowMs) / count));
}

function poisson({ rate: { count, windowMs }, lengthMs, seed }: Scenario): TimedRequests[] {
  const random = seededRandom(seed);
  const requests: TimedRequests[] = [];
  const gapMs = (): number => (-Math.log(1 - random()) * windowMs) / count;
  for (let atMs = gapMs(); atMs < lengthMs; atMs += gapMs()) requests.push(requestAt(atMs));
  return requests;
}

function bursts({ size, withinMs, firstMs, everyMs, lengthMs }: Scenario): TimedRequests[] {
  const requests: TimedRequests[] = [];
  for (let fromMs = firstMs; fromMs < lengthMs; fromMs += everyMs) {
    for (let index = 0; index < size; index++) requests.push(requestAt(fromMs + (index * withinMs) / size));
  }
  // Bursts overlap if one lasts longer than the time to the next.
  return withinMs > everyMs ? requests.toSorted((a, b) => a.atMs - b.atMs) : requests;
}

/** Picks client `n` (from 1) with a probability in proportion to `1 / n ** skew`. */
function keyPicker({ keys, skew, seed }: Scenario): () => number {
  if (keys === 1) return () => 0;
  let sum = 0;
  const sums = Float64Array.from({ length: keys }, (_, index) => (sum += (index + 1) ** -skew));
  // A seed of its own, so that the choice of clients does not depend on the random times of requests.
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
