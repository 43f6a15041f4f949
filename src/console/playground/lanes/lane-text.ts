/** A lane in words. */
import { waitText } from "../../../strategies/index.ts";
import { limitText, numberText, windowText } from "../../app/parts/text.ts";
import type { LaneLimit, LaneRun, WorstBurst } from "../model/scenario.ts";
import { laneText } from "./strategy-texts.ts";

/** "200 per minute", "4 at once". */
export const burstText = ({ windowMs, holdsSlots }: LaneLimit, units: number): string =>
  holdsSlots ? `${numberText(units)} at once` : `${numberText(units)} per ${windowText(windowMs)}`;

/** "100 per minute" for each limit, with its name if another limit has the same text. */
export function limitLabels(limits: readonly LaneLimit[]): readonly string[] {
  const texts = limits.map(limitText);
  return texts.map((text, index) =>
    texts.indexOf(text) === texts.lastIndexOf(text) ? text : `${text} (${limits[index]?.name})`,
  );
}

/** "bound is 2L = 200"; L is the limit. The bound of a bucket of another size is its burst and the limit. */
export function boundText({ limit, capacity, mostPerWindow }: LaneLimit): string {
  if (capacity !== limit && mostPerWindow === capacity + limit)
    return `bound is burst + L = ${numberText(mostPerWindow)}`;
  const times = mostPerWindow / limit;
  const formula = Number.isInteger(times) ? `${times === 1 ? "" : times}L = ` : "";
  return `bound is ${formula}${numberText(mostPerWindow)}`;
}

/** How long the requests of a burst took, which is at most its window. */
export function burstMs(run: LaneRun, { firstRow, lastRow }: WorstBurst): number {
  return (run.atMs[lastRow] ?? 0) - (run.atMs[firstRow] ?? 0);
}

/** The plot of a lane for people who cannot see it. */
export function summaryText(run: LaneRun): string {
  const { title } = laneText(run);
  const { summary, limits } = run;
  const { allowed, denied, delayed, longestWaitMs, deniedKeys, worstBursts } = summary;
  const bursts = limits.flatMap((limit, index) => {
    const burst = worstBursts[index];
    if (burst === undefined || burst === null) return [];
    const bound = burstText(limit, limit.mostPerWindow);
    return [`worst burst ${burstText(limit, burst.units)}, documented bound ${bound}`];
  });
  return [
    `${title}: ${numberText(allowed)} requests allowed, ${numberText(denied)} denied`,
    ...(delayed > 0 ? [`${numberText(delayed)} waited, the longest ${waitText(longestWaitMs)}`] : []),
    ...(deniedKeys > 1 ? [`${numberText(deniedKeys)} clients were denied`] : []),
    ...bursts,
  ].join("; ");
}
