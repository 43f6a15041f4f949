/** Splits the worst burst of a fixed window by its windows, which is why more than the limit can pass. */
import { type LaneLimit, type LaneRun, outcome, type WorstBurst } from "./scenario.ts";

type BurstRows = Pick<LaneRun, "key" | "cost" | "outcome" | "remaining">;
type BurstParts = Pick<WorstBurst, "requests" | "unitsByWindow">;

export function burstParts(
  rows: BurstRows,
  [limit, ...others]: readonly LaneLimit[],
  { key, firstRow, lastRow }: Pick<WorstBurst, "key" | "firstRow" | "lastRow">,
): BurstParts {
  const hasWindows = limit?.strategy === "fixed-window" && others.length === 0;
  const unitsByWindow: number[] = [];
  let [requests, remaining] = [0, NaN];
  for (let row = firstRow; row <= lastRow; row++) {
    if (rows.key[row] !== key || rows.outcome[row] === outcome.denied) continue;
    const [cost = 0, left = 0] = [rows.cost[row], rows.remaining[row]];
    // Within a window, each allowed request leaves less by its cost.
    if (left !== remaining - cost) unitsByWindow.push(0);
    unitsByWindow.push((unitsByWindow.pop() ?? 0) + cost);
    remaining = left;
    requests++;
  }
  return { requests, unitsByWindow: hasWindows ? unitsByWindow : [] };
}
