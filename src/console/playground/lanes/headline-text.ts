/** The result in sentences with its numbers: why a strategy lets more than its limit through, and which one does not. */
import { waitText } from "../../../strategies/index.ts";
import { limitText, numberText, windowText } from "../../parts/text.ts";
import { writtenLane } from "../model/lanes.ts";
import type { LaneLimit, LaneRun, WorstBurst } from "../model/scenario.ts";
import { boundText, burstMs } from "./lane-text.ts";
import { laneText } from "./strategy-texts.ts";

interface LaneBurst {
  readonly run: LaneRun;
  readonly limit: LaneLimit;
  readonly burst: WorstBurst;
}

/** The bursts of the first limit of each lane. Slots are counted at one instant, so they have no burst over a window. */
function burstsOf(runs: readonly LaneRun[]): LaneBurst[] {
  return runs.flatMap((run) => {
    const [limit] = run.limits;
    const [burst = null] = run.summary.worstBursts;
    if (limit === undefined || burst === null || limit.holdsSlots) return [];
    return [{ run, limit, burst }];
  });
}

const isOver = ({ limit, burst }: LaneBurst): boolean => burst.units > limit.limit;

/** Null without a burst. */
export function headlineOf(runs: readonly LaneRun[]): string | null {
  const bursts = burstsOf(runs).toSorted((a, b) => b.burst.units - a.burst.units);
  const written = bursts.find(({ run }) => run.lane === writtenLane);
  if (written !== undefined && hidesBound(written.run))
    return `${mostText(written)} Its ${boundText(written.limit)}, which this traffic does not reach.`;
  const subject = written !== undefined && isOver(written) ? written : bursts[0];
  const fewest = bursts.filter(({ burst }) => burst.units === bursts.at(-1)?.burst.units);
  // The exact strategy is the one to compare with.
  const least = fewest.find(({ run }) => run.lane === "sliding-log") ?? fewest[0];
  if (subject === undefined || least === undefined) return null;
  if (least.burst.units < subject.burst.units)
    return `${isOver(subject) ? excessText(subject) : mostText(subject)} ${mostText(least)}`;
  if (isOver(subject)) return excessText(subject);
  return bursts.length > 1 ? mostText(subject, "Every strategy") : mostText(subject);
}

const mostText = ({ run, limit, burst }: LaneBurst, title: string = laneText(run).title): string =>
  `${title}: at most ${numberText(burst.units)} in any ${windowText(limit.windowMs)}.`;

/** Whether a fixed window could let more than its limit through than in this run. */
export const hidesBound = ({ limits: [limit], summary: { worstBursts } }: LaneRun): boolean =>
  limit?.strategy === "fixed-window" &&
  limit.mostPerWindow > limit.limit &&
  (worstBursts[0]?.units ?? 0) <= limit.limit;

function excessText({ run, limit, burst }: LaneBurst): string {
  const { requests, unitsByWindow } = burst;
  const what = requests === burst.units ? "requests" : "units";
  const lengthMs = burstMs(run, burst);
  const span = lengthMs === 0 ? "at one instant" : `within ${waitText(lengthMs)}`;
  const per = `the limit of ${limitText(limit)}`;
  const excess =
    burst.units === 2 * limit.limit
      ? `twice ${per}`
      : `${numberText(burst.units - limit.limit)} above ${per}`;
  const [before, after, ...others] = unitsByWindow.map(numberText);
  const parts =
    after === undefined || others.length > 0
      ? ""
      : `: ${before} at the end of one window and ${after} at the start of the next`;
  const bound = `Its ${boundText(limit)}.`;
  return `${laneText(run).title}: ${numberText(burst.units)} ${what} passed ${span}, ${excess}${parts}. ${bound}`;
}
