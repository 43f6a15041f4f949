/** The result in sentences with its numbers: why a strategy lets more than its limit through, and which one does not. */
import { waitText } from "../../../strategies/index.ts";
import { limitText, numberText, windowText } from "../../app/parts/text.ts";
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

/** Whether the burst was accepted by a queue, which does not let it pass at once. */
const isQueued = ({ run }: LaneBurst): boolean => run.summary.delayed > 0;

/** The limits as written come first, then a strategy that differs. Null without a burst. */
export function headlineOf(runs: readonly LaneRun[]): string | null {
  const bursts = burstsOf(runs).toSorted((a, b) => b.burst.units - a.burst.units);
  const written = bursts.find(({ run }) => run.lane === writtenLane);
  if (written !== undefined && hidesBound(written.run))
    return `${mostText(written)} Its ${boundText(written.limit)}, which this traffic does not reach.`;
  const passed = bursts.filter((each) => !isQueued(each));
  const subject = written ?? passed[0];
  if (subject === undefined) return null;
  const fewest = passed.filter(({ burst }) => burst.units === passed.at(-1)?.burst.units);
  // The exact strategy is the one to compare with.
  const least = fewest.find(({ run }) => run.lane === "sliding-log") ?? fewest[0] ?? subject;
  const { units } = subject.burst;
  const most = passed.find(({ burst }) => burst.units > units);
  if (most !== undefined && !isOver(subject) && !isQueued(subject))
    return `${burstSentence(subject)} ${burstSentence(most)}`;
  if (least.burst.units < units) return `${burstSentence(subject)} ${burstSentence(least)}`;
  if (isOver(subject) || isQueued(subject) || passed.length === 1) return burstSentence(subject);
  const isSame = bursts.every(({ burst }) => burst.units === units);
  return mostText(subject, isSame ? "Every strategy" : "Every strategy without a queue");
}

function burstSentence(lane: LaneBurst): string {
  if (isQueued(lane)) return queueText(lane);
  return isOver(lane) ? excessText(lane) : mostText(lane);
}

function queueText({ run, limit, burst }: LaneBurst): string {
  const { delayed, longestWaitMs } = run.summary;
  const what = delayed === 1 ? "request" : "requests";
  const { title } = laneText(run);
  return `${title}: at most ${numberText(burst.units)} accepted in any ${windowText(limit.windowMs)}. ${numberText(delayed)} ${what} waited in its queue, for up to ${waitText(longestWaitMs)}.`;
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
    burst.units === 2 * limit.limit ? `twice ${per}` : `${numberText(burst.units - limit.limit)} above ${per}`;
  const [before, after, ...others] = unitsByWindow.map(numberText);
  const parts =
    after === undefined || others.length > 0
      ? ""
      : `: ${before} at the end of one window and ${after} at the start of the next`;
  const bound = `Its ${boundText(limit)}.`;
  return `${laneText(run).title}: ${numberText(burst.units)} ${what} passed ${span}, ${excess}${parts}. ${bound}`;
}
