/** How much longer to record until there are enough keys for a recommendation. */
import type { Traffic } from "./trial.ts";

const longestLogMs = 90 * 86_400_000;
/** Keys that hardly grow in number never suffice. */
const leastGrowth = 0.05;

/**
 * How much longer to record until there are `factor` times as many keys; null if that cannot be estimated, or takes longer than
 * is recorded. The number of keys is taken to grow by the power of time with which it grew from the first half of the
 * period to the whole.
 */
export function waitMs({ timelines, recordedFromMs }: Traffic, factor: number): number | null {
  const { keys, firstRow, atMs, source } = timelines;
  const { toMs, keptMs = longestLogMs } = source;
  const periodMs = toMs - recordedFromMs;
  const middleMs = recordedFromMs + periodMs / 2;
  let early = 0;
  for (let key = 0; key < keys.length; key++) {
    if ((atMs[firstRow[key] ?? 0] ?? 0) < middleMs) early++;
  }
  const growth = early === 0 ? 1 : Math.min(1, Math.log2(keys.length / early));
  if (growth < leastGrowth || factor <= 1) return null;
  const neededMs = periodMs * factor ** (1 / growth);
  return neededMs > keptMs ? null : Math.ceil((neededMs - periodMs) / 60_000) * 60_000;
}
