/** The requests of a log as the arrivals of a scenario. */
import type { LoggedRequest } from "../../../advisor/log/line-reader.ts";
import type { Arrivals } from "./scenario.ts";

/** The requests in order of time. Those of the same time keep their order. */
export function arrivalsOfLog(requests: readonly LoggedRequest[]): Arrivals {
  const isSorted = requests.every(({ atMs }, index) => index === 0 || (requests[index - 1]?.atMs ?? 0) <= atMs);
  const sorted = isSorted ? requests : requests.toSorted((a, b) => a.atMs - b.atMs);
  const startMs = sorted[0]?.atMs ?? 0;
  const indexes = new Map<string, number>();
  const indexOf = (key: string): number => {
    const known = indexes.get(key) ?? indexes.size;
    indexes.set(key, known);
    return known;
  };
  return {
    startMs,
    atMs: Float64Array.from(sorted, ({ atMs }) => atMs - startMs),
    key: Uint32Array.from(sorted, ({ key }) => indexOf(key)),
    cost: Float64Array.from(sorted, ({ cost }) => cost),
    keys: [...indexes.keys()],
  };
}
