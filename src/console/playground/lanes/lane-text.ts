/** A lane in words. */
import { durationText, numberText, windowText } from "../../parts/text.ts";
import { type LaneLimit, type LaneRun, outcome, type WorstBurst } from "../model/scenario.ts";
import { laneText } from "./strategy-texts.ts";

/** "200 per minute", "4 at once". */
export const burstText = ({ windowMs, holdsSlots }: LaneLimit, units: number): string =>
  holdsSlots ? `${numberText(units)} at once` : `${numberText(units)} per ${windowText(windowMs)}`;

/** How long the requests of a burst took, which is at most its window. */
export function burstMs(run: LaneRun, { firstRow, lastRow }: WorstBurst): number {
  return (run.atMs[lastRow] ?? 0) - (run.atMs[firstRow] ?? 0);
}

/** The plot of a lane for people who cannot see it. */
export function summaryText(run: LaneRun): string {
  const { title } = laneText(run);
  const { summary, limits } = run;
  const { allowed, denied, delayed, deniedKeys, worstBursts } = summary;
  const bursts = limits.flatMap((limit, index) => {
    const burst = worstBursts[index];
    if (burst === undefined || burst === null) return [];
    const bound = burstText(limit, limit.mostPerWindow);
    return [`worst burst ${burstText(limit, burst.units)}, documented bound ${bound}`];
  });
  const wait = longestWait(run);
  return [
    `${title}: ${numberText(allowed)} requests allowed, ${numberText(denied)} denied`,
    ...(delayed > 0 ? [`${numberText(delayed)} waited, the longest ${durationText(wait)}`] : []),
    ...(deniedKeys > 1 ? [`${numberText(deniedKeys)} clients were denied`] : []),
    ...bursts,
  ].join("; ");
}

const longestWait = ({ waitMs, outcome: outcomes }: LaneRun): number =>
  waitMs.reduce(
    (most, each, row) => (outcomes[row] === outcome.delayed ? Math.max(most, each) : most),
    0,
  );
